"""Read cells of tables, with one rule for missing cells, numbers, and names of sites or classes."""

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import numpy as np

from neurocontrast.files import composed, trimmed

_MISSING = frozenset({"", "n/a", "na", "nan", "null", "#n/a", "#null!", "<na>", "."})
"""Texts in lower case that mark a cell as missing; a cell is compared in lower case."""
_MISSING_IN_PYTHON = frozenset({"None", "NaT"})
"""Python's marks of missing cells, in this spelling only: ``none``, as in "no diagnosis", is a
value.
"""
_MISSING_OF_PANDAS = ("NAType", "NaTType")
"""Class names of pandas' missing values; names, so that losses check cells without importing
pandas.
"""
WORDS_FOR_MISSING = frozenset(("missing", "not available", "not recorded", "no data"))
"""Words for "not known" in cells that `is_missing` does not take: columns must decode or refuse
them."""
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"([+-]?(?:0|[1-9][0-9]*))\.0+")


@dataclass(frozen=True)
class Refusal:
    """Reason why a cell cannot be read: the rule of the cell's column, and advice for the user.

    Advice does not quote the cell, so that a message shows equal advice once.
    """

    rule: str
    hint: str = ""


def is_missing(cell: str) -> bool:
    """Tell whether a cell means "not known".

    Missing are the empty cell, ".", n/a, na, nan, null, <NA>, #N/A and #NULL! in any case, and None
    and NaT as Python writes them.

    Examples
    --------
    >>> [is_missing(cell) for cell in ("n/a", "NaN", "None", "none", "unknown", "0")]
    [True, True, True, False, False, False]
    """
    return cell.lower() in _MISSING or cell in _MISSING_IN_PYTHON


def number_of(cell: str) -> float | None:
    """Return the text `cell` as a float, or None if the text is not a finite number.

    Decimals follow a point, not a comma.
    """
    if not _NUMBER.fullmatch(cell):
        return None
    value = float(cell)
    if not np.isfinite(value):
        return None
    return value


def text_of(value: object) -> str:
    """Return the `value` of a cell as text: "" if missing, "1" for 1.0, a date without 00:00:00."""
    if value is None or type(value).__name__ in _MISSING_OF_PANDAS:
        return ""
    if isinstance(value, datetime):
        return str(value).removesuffix(" 00:00:00")
    if not isinstance(value, float | np.floating):
        return str(value)
    if np.isnan(value):
        return ""
    if float(value).is_integer():
        return str(int(value))
    return repr(float(value))


@lru_cache(maxsize=65_536)
def spelling_of(text: str) -> str:
    """Return a site's or class's name in one spelling: Unicode NFC, trimmed, 1 for 1.0."""
    spelled = trimmed(composed(text))
    whole = _WHOLE.fullmatch(spelled)
    return whole.group(1) if whole else spelled


def level_of(value: object) -> str | None:
    """Return the site or class that a cell's `value` names, in one spelling; None if missing."""
    spelled = spelling_of(text_of(value))
    if is_missing(spelled):
        return None
    return spelled
