"""Cells of tables as text: which are missing, and which are numbers."""

import re
from dataclasses import dataclass

import numpy as np

_MISSING = frozenset({"", "n/a", "na", "nan", "null", "#n/a"})
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Refusal:
    """Why a cell has no value: what is allowed, and a hint for the whole column."""

    rule: str
    hint: str = ""


def is_missing(cell: str) -> bool:
    """Say whether a cell means "not known": empty, n/a, na, nan, null or #N/A, in any case."""
    return cell.lower() in _MISSING


def number_of(cell: str) -> float | None:
    """Return the number in a cell, written with a decimal point, or None if the cell holds no number."""
    if not _NUMBER.fullmatch(cell):
        return None
    value = float(cell)
    return value if np.isfinite(value) else None
