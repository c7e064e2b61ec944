"""Reading of evaluation.json: its format, its keys, and what they must hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from neurocontrast.exceptions import DataError, one_of
from neurocontrast.reporting.summary_new_site import misshapen_new_site

__all__ = ["FORMAT", "KINDS", "read_json", "read_summary"]

FORMAT = 1
"""The format of evaluation.json that this version reads."""

KINDS = ("binary", "multiclass", "continuous")

_REQUIRED_KEYS = ("format", "target", "kind", "splits", "n", "metrics")
_SECTION, _LIST, _WHOLE = (dict, "a section of keys"), (list, "a list"), (int, "a whole number")
_SHAPES: dict[str, tuple[type, str]] = {
    **dict.fromkeys(("n", "metrics", "baseline", "increment", "run", "objective", "environment"), _SECTION),
    **dict.fromkeys(("voxels", "voxels_increment", "voxels_about"), _SECTION),
    **dict.fromkeys(("bootstrap", "embeddings", "simulation", "permutation"), _SECTION),
    **dict.fromkeys(("probe", "threshold", "external", "confounds", "learning_curve"), _SECTION),
    **dict.fromkeys(("new_site", "outlyingness", "sensitive", "split", "images"), _SECTION),
    **dict.fromkeys(("classes", "warnings", "baseline_covariates", "software"), _LIST),
    **dict.fromkeys(("n_folds", "n_repeats", "seed", "n_overlap"), _WHOLE),
    "target": (str, "the name of a column"),
    "new_site_note": (str, "a sentence"),
}
"""What `evaluate` writes under a key, where it is not null."""


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
    summary = read_json(path)
    if summary.get("format") != FORMAT:
        raise DataError(
            f"{path}: format must be {FORMAT}, found {summary.get('format')!r}. It was written by another version of "
            "neurocontrast: evaluate again with this one, or report with that one."
        )
    missing = [key for key in _REQUIRED_KEYS if key not in summary]
    if missing:
        raise DataError(f"{path}: missing: {one_of(missing)}. Run 'neurocontrast evaluate' again.")
    if summary["kind"] not in KINDS:
        raise DataError(f"{path}: kind must be one of {one_of(KINDS)}, found {summary['kind']!r}.")
    problems = list(_misshapen(summary))
    if problems:
        raise DataError(f"{path}: {'; '.join(problems[:5])}. Run 'neurocontrast evaluate' again.")
    _check_classes(path, summary)
    return summary


def _misshapen(summary: Mapping[str, Any]) -> Iterator[str]:
    """Name every key that holds something else than `evaluate` writes there."""
    for key, (kind, word) in _SHAPES.items():
        if summary.get(key) is not None and (not isinstance(summary[key], kind) or isinstance(summary[key], bool)):
            yield f"'{key}' must be {word}, found {summary[key]!r:.60}"
    for key in ("metrics", "baseline", "increment", "voxels", "voxels_increment"):
        section = summary.get(key)
        for name, figures in section.items() if isinstance(section, dict) else ():
            if not isinstance(figures, dict):
                yield f"'{key}.{name}' must be a section of keys, found {figures!r:.60}"
                continue
            for part in ("mean", "sd", "pooled", "difference", "p_value"):
                if not _is_number(figures.get(part)):
                    yield f"'{key}.{name}.{part}' must be a number or null, found {figures[part]!r:.60}"
            if not _is_interval(figures.get("interval")):
                yield f"'{key}.{name}.interval' must be two numbers or null, found {figures['interval']!r:.50}"
    yield from _misshapen_external(summary.get("external"))
    yield from _misshapen_parts(summary)
    yield from misshapen_new_site(summary)
    yield from _misshapen_images(summary)


def _misshapen_images(summary: Mapping[str, Any]) -> Iterator[str]:
    """Name what is wrong in the sensitive variable, and in the parts of a fixed split."""
    block = summary.get("sensitive")
    block = block if isinstance(block, dict) else {}
    columns = block.get("columns") or {}
    named = columns if isinstance(columns, dict) else {"columns": columns}
    found = {"mse": block.get("mse") or {}, "r2": block.get("r2") or {}, **named}
    for name, figures in found.items():
        if not isinstance(figures, dict) or not all(_is_number(value) for value in figures.values()):
            yield f"'sensitive.{name}' must be a section of numbers, found {figures!r:.60}"
    if not _is_number(block.get("constant_mse")):
        yield f"'sensitive.constant_mse' must be a number or null, found {block['constant_mse']!r:.60}"
    split = summary.get("split")
    split = split if isinstance(split, dict) else {}
    for part in ("n", "n_pretrained", "n_duplicates"):
        counts = split.get(part) or {}
        if not isinstance(counts, dict) or not all(_is_number(count) for count in counts.values()):
            yield f"'split.{part}' must be a section of counts, found {counts!r:.60}"


def _misshapen_parts(summary: Mapping[str, Any]) -> Iterator[str]:
    """Name what is wrong in the permutation test, the threshold and the learning curve."""
    for key, part, numbers in (("permutation", "p_values", True), ("threshold", "values", False)):
        section = summary.get(key)
        found = section.get(part) if isinstance(section, dict) else None
        values = list(found.values()) if isinstance(found, dict) else found if isinstance(found, list) else []
        right = isinstance(found, dict if numbers else list)
        if found is not None and not (right and all(_is_number(value) for value in values)):
            yield f"'{key}.{part}' must hold numbers, found {found!r:.60}"
    curve = summary.get("learning_curve")
    for part in ("metrics", "baseline"):
        section = curve.get(part) if isinstance(curve, dict) else None
        for name, points in section.items() if isinstance(section, dict) else ():
            if not isinstance(points, list) or not all(_is_point(point) for point in points):
                yield f"'learning_curve.{part}.{name}' must be a list of n_train, mean and sd, found {points!r:.60}"


def _is_point(point: Any) -> bool:
    return isinstance(point, dict) and all(_is_number(point.get(key)) for key in ("n_train", "mean", "sd", "n"))


def _misshapen_external(external: Any) -> Iterator[str]:
    for part in ("metrics", "baseline"):
        section = external.get(part) if isinstance(external, dict) else None
        if section is not None and not isinstance(section, dict):
            yield f"'external.{part}' must be a section of keys, found {section!r:.60}"
            continue
        for name, figures in (section or {}).items():
            if not isinstance(figures, dict) or not _is_number(figures.get("value")):
                yield f"'external.{part}.{name}' must hold a 'value' that is a number or null, found {figures!r:.60}"
            elif not _is_interval(figures.get("interval")):
                yield f"'external.{part}.{name}.interval' must be two numbers, found {figures['interval']!r:.50}"


def _is_interval(value: Any) -> bool:
    return value is None or (isinstance(value, list) and len(value) == 2 and all(_is_number(end) for end in value))


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _check_classes(path: Path, summary: Mapping[str, Any]) -> None:
    classes = summary.get("classes") or []
    if summary["kind"] == "binary" and (len(classes) != 2 or summary.get("positive") not in classes):
        raise DataError(
            f"{path}: a binary target needs two classes, one of them the positive one; "
            f"found classes {classes!r}, positive {summary.get('positive')!r}."
        )
    if summary["kind"] == "multiclass" and len(classes) < 3:
        raise DataError(f"{path}: a multiclass target needs three classes or more, found {classes!r}.")
