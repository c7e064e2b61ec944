"""Cells of tables as text: which are missing, and which are numbers."""

import re
from dataclasses import dataclass

import numpy as np

_MISSING = frozenset({"", "n/a", "na", "nan", "null", "#n/a", "#null!", "<na>", "."})
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Refusal:
    """Reason why a cell has no value: the rule of its column, and a hint for all cells."""

    rule: str
    hint: str = ""


def is_missing(cell: str) -> bool:
    """Say whether a cell means "not known": empty, ".", n/a, na, nan, null, <NA>, #N/A, #NULL!."""
    return cell.lower() in _MISSING


def number_of(cell: str) -> float | None:
    """Return the number in a cell, with a decimal point, or None if the cell holds none."""
    if not _NUMBER.fullmatch(cell):
        return None
    value = float(cell)
    if not np.isfinite(value):
        return None
    return value
