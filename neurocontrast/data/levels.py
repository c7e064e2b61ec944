"""Refuse sites, sexes or classes in a new table that were not in the training table."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from neurocontrast.cells import Refusal, level_of
from neurocontrast.data.columns import is_of_sex, levels_of, number_in
from neurocontrast.data.problems import first_names
from neurocontrast.data.sexes import LETTERS, plain_word, read_sexes
from neurocontrast.exceptions import DataError, one_of, suggestion

_LEADING_ZEROS = re.compile(r"(?<![0-9.])0+(?=[0-9])")
_N_LEVELS = 5
"""Largest number of levels (distinct values of a column) that a message names."""
_N_ROWS = 3
"""Largest number of rows that a message names for each level."""
_CODES = " Tables disagree on what 0 and 1 mean for sex: write M and F."


class UnseenLevelError(DataError, ValueError):
    """A column of a new table has a level, or text among numbers, that no training row had."""


class UnclearSexError(DataError, ValueError):
    """A column of sexes has a value that may mean F or M, among others that are clear."""


@dataclass(frozen=True)
class UnseenLevels:
    """Levels (distinct values) of a column that were not in the training table, with their rows.

    Made by `unseen_levels`; false as a condition if there are no such levels. `rows` is level →
    names of rows, and `learned` has the levels of the training table.
    """

    column: str
    rows: dict[str, list[str]]
    learned: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.rows)

    def text(self) -> str:
        """Return a message with new levels and rows, training levels, and a similar spelling."""
        levels = list(self.rows)
        sentences = (
            f"column '{self.column}' has levels that were never seen in training: {self.listed()}. "
            f"Learned were {one_of(self.learned)}.{suggestion(levels[0], self.learned)}"
        )
        if is_of_sex(self.column) and "0" in {*levels, *self.learned}:
            sentences += _CODES
        return sentences

    def listed(self) -> str:
        """Return text for a message: up to five new levels, each with the names of its first rows.

        New levels are the ones that were not in the training table.
        """
        return first_names(list(map(self._with_rows, self.rows)), _N_LEVELS)

    def _with_rows(self, level: str) -> str:
        """Return text for a message: a level, the number of its rows, and up to three names."""
        names = self.rows[level]
        unit = "rows"
        if len(names) == 1:
            unit = "row"
        return f"'{level}' in {len(names)} {unit} ({_first_of(names, _N_ROWS)})"


def unseen_levels(
    column: str,
    levels: Sequence[str | None],
    learned: Collection[str | None],
    *,
    names: Sequence[object],
) -> UnseenLevels:
    """Return, as `UnseenLevels`, the levels of a new table's column that are not in `learned`.

    `levels` has the level of each row, None for a missing cell, and `names` the name of each row.
    `learned` are the levels (distinct values) of the column in the training table.
    """
    rows: dict[str, list[str]] = {}
    for level, name in zip(levels, names, strict=True):
        if level is not None and level not in learned:
            rows.setdefault(level, []).append(str(name))
    return UnseenLevels(column, rows, tuple(sorted(filter(None, learned))))


def check_sexes(column: str, cells: Iterable[object], *, names: Sequence[object]) -> None:
    """Refuse a column of sexes with unclear letters, or with F or M beside other unclear values.

    An unclear letter begins words for either sex, as ``M`` does beside ``H`` (hombre, mujer). Any
    other unclear value would be a third sex besides F and M. Words for other sexes are accepted,
    and so are codes in a column without any F or M. `names` are the names of the rows, for the
    message.
    """
    if not is_of_sex(column):
        return
    levels = list(map(level_of, cells))
    sexes = read_sexes(pd.Series(levels, dtype=object).fillna("").tolist())
    rows: dict[str, list[str]] = {}
    is_read = False
    for level, sex, name in zip(levels, sexes.values, names, strict=True):
        is_read |= sex in ("F", "M")
        if level and isinstance(sex, Refusal) and level not in sexes.others:
            rows.setdefault(level, []).append(str(name))
    unclear = UnseenLevels(column, rows, ())
    if rows and is_read:
        raise UnclearSexError(
            f"column '{column}' has F or M in some rows, and values that are not understood beside "
            f"them: {unclear.listed()}. Write F, M or n/a."
        )
    if LETTERS.intersection(map(plain_word, rows)):
        raise UnclearSexError(
            f"column '{column}' has letters that begin words for either sex: {unclear.listed()}. "
            "Write F, M or n/a."
        )


def spelled_alike(levels: Iterable[str]) -> list[list[str]]:
    """Return groups of levels that differ only in case, accents, spaces, hyphens or zeros.

    Each group has two or more of the distinct `levels`.
    """
    groups: dict[str, list[str]] = {}
    for level in sorted(set(levels)):
        letters = re.sub(r"[\s_-]+", "", plain_word(level))
        groups.setdefault(_LEADING_ZEROS.sub("", letters), []).append(level)
    return [group for group in groups.values() if len(group) > 1]


def check_spelling(levels: Iterable[str], *, place: str, unit: str) -> None:
    """Refuse a column of which two levels (distinct values) differ only in spelling.

    In the message, `unit` is the noun for the levels, as "sites", and `place` names the table.
    """
    for group in spelled_alike(levels):
        raise DataError(
            f"{place}: {one_of(group)} are spelled nearly alike, and would be different {unit}. "
            "Write them alike, or leave one out with where."
        )


def numbers_of(column: str, cells: pd.Series, *, names: Sequence[object]) -> pd.Series:
    """Return a column as floats, NaN for missing cells; refuse text, naming the rows.

    Only in a column named age, ``89+`` is read, as 89. Text in any row raises an
    `UnseenLevelError`; `names` has the rows' names for the message of the error.
    """
    if pd.api.types.is_numeric_dtype(cells):
        return pd.Series(cells.to_numpy(dtype="float64", na_value=np.nan), cells.index)
    levels = cells.astype(object).map(level_of)
    name = column.strip().lower()
    numbers = levels.map(lambda level: number_in(name, level), na_action="ignore")
    wrong: list[str] = []
    for row in np.flatnonzero(levels.notna() & numbers.isna()).tolist():
        wrong.append(f"{names[row]}: '{levels.iloc[row]}'")
    if wrong:
        raise UnseenLevelError(
            f"column '{column}' holds numbers in training, and text in {len(wrong)} rows "
            f"({_first_of(wrong, _N_LEVELS)}). Write numbers with a point."
        )
    return numbers.astype("float64")


def inferred(cells: pd.Series) -> pd.Series:
    """Convert a column of dtype object to the dtype of its values; other columns stay as they are.

    Numbers become a numeric dtype, with NaN for missing values. In a column that stays of dtype
    object, such as booleans with a missing value, missing values become None.
    """
    if cells.dtype != object:
        return cells
    return cells.where(cells.notna(), None).infer_objects()


def level_column(
    column: str, cells: pd.Series, *, learned: Collection[str | None] = ()
) -> pd.Series:
    """Return a Series of the column's levels as text, None for missing cells, as `levels_of`."""
    return pd.Series(levels_of(column, cells, learned=learned), cells.index, dtype=object)


def _first_of(names: Sequence[str], n_shown: int) -> str:
    """Return the first `n_shown` of `names` as one text, which ends in "…" if there are more."""
    more = ""
    if len(names) > n_shown:
        more = ", …"
    return ", ".join(names[:n_shown]) + more
