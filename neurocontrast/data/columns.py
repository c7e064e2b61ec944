"""How the text of a cell becomes a value: one stated rule for each column."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from neurocontrast.data.problems import Problems, shown

__all__ = [
    "AGE_LIMITS",
    "Refusal",
    "as_age",
    "as_sex",
    "as_text",
    "convert_column",
    "is_missing",
    "is_numeric",
    "number_of",
    "text_of",
]

AGE_LIMITS = (0.0, 120.0)
"""The ages, in years, that a table may hold."""

_MISSING = frozenset({"", "n/a", "na", "nan", "null", "#n/a"})
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]")
_TOP_CODED = re.compile(r"([0-9]+(?:\.[0-9]+)?)\+")
_DECIMAL_COMMA = re.compile(r"[0-9]+,[0-9]+")
_SEX = {"m": "M", "male": "M", "1": "M", "1.0": "M", "f": "F", "female": "F", "2": "F", "2.0": "F"}


@dataclass(frozen=True)
class Refusal:
    """Why a cell has no value: what is allowed, and a hint for the whole column."""

    rule: str
    hint: str = ""


def is_missing(cell: str) -> bool:
    """Say whether a cell means "not known": empty, n/a, na, nan, null or #N/A, in any case."""
    return cell.lower() in _MISSING


def number_of(cell: str) -> float | None:
    """Return the number a cell spells with a decimal point, or None where it spells none."""
    if not _NUMBER.fullmatch(cell):
        return None
    value = float(cell)
    return value if np.isfinite(value) else None


def is_numeric(cells: Sequence[str]) -> bool:
    """Say whether a column holds numbers: every known cell is one and none has leading zeros (`007` is a name)."""
    known = {cell for cell in cells if not is_missing(cell)}
    return bool(known) and all(number_of(cell) is not None and not _LEADING_ZERO.match(cell) for cell in known)


def as_age(cell: str) -> float | Refusal:
    """Return an age in years; `89+` is 89, as BIDS hides higher ages."""
    low, high = AGE_LIMITS
    top_coded = _TOP_CODED.fullmatch(cell)
    value = number_of(top_coded.group(1) if top_coded else cell)
    rule = f"an age is a number of years from {low:g} to {high:g}, or n/a"
    if value is None:
        comma = "Write numbers with a decimal point, not a comma." if _DECIMAL_COMMA.fullmatch(cell) else ""
        return Refusal(rule, comma)
    if not low <= value <= high:
        coded = "Write n/a where the age is not known; numbers that stand for 'missing' are not recognised."
        return Refusal(rule, coded if value < 0 or value in (999, 9999) else "")
    return value


def as_sex(cell: str) -> str | Refusal:
    """Return "F" or "M"."""
    value = _SEX.get(cell.lower())
    if value is not None:
        return value
    hint = ""
    if number_of(cell) == 0:
        hint = "Tables disagree on what 0 and 1 mean for sex, so 0/1 is not accepted; write M and F."
    return Refusal("sex is M, F, male, female, 1 (male), 2 (female) or n/a", hint)


def as_text(cell: str) -> str | Refusal:
    """Return the cell as it stands."""
    return cell


def convert_column(
    cells: Sequence[str],
    convert: Callable[[str], object],
    *,
    column: str,
    problems: Problems,
    lines: Sequence[int],
    names: Sequence[str],
) -> list[Any]:
    """Convert the cells of a column; missing ones become NaN and refused ones become problems."""
    by_cell: dict[str, object] = {cell: float("nan") if is_missing(cell) else convert(cell) for cell in set(cells)}
    values: list[object] = []
    for position, cell in enumerate(cells):
        value = by_cell[cell]
        if isinstance(value, Refusal):
            problems.add(
                f"found {shown(cell)}; {value.rule}", column=column, line=lines[position], name=names[position]
            )
            if value.hint:
                problems.hint(value.hint)
            value = float("nan")
        values.append(value)
    return values


def text_of(value: object) -> str:
    """Return a table value as text: missing is "", and a whole number has no decimal point."""
    if isinstance(value, float | np.floating):
        if np.isnan(value):
            return ""
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    return "" if value is None or value is pd.NA else str(value)
