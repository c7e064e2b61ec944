"""Reading of JSON files of an evaluation folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from neurocontrast.evaluation.schema import FORMAT, read_evaluation
from neurocontrast.exceptions import DataError

__all__ = ["FORMAT", "KINDS", "read_json", "read_summary"]

KINDS = ("binary", "multiclass", "continuous")


def read_json(path: Path, *, remedy: str = "Run 'neurocontrast evaluate' again.") -> dict[str, Any]:
    """Return the object that a JSON file holds; a file that holds none is named, with what to do."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path}: not readable as JSON ({error}). {remedy}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: must be a JSON object, found {type(content).__name__}. {remedy}")
    return content


def read_summary(path: Path) -> dict[str, Any]:
    """Return evaluation.json, checked: every key that holds something else than it should is named."""
    read_evaluation(path)
    return read_json(path)
