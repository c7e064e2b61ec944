"""Convert cells of tables to values, by one rule for each column, and select rows and columns."""

import fnmatch
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import BeforeValidator

from neurocontrast.cells import (
    Refusal,
    is_missing,
    level_of,
    number_of,
    spelling_of,
    text_of,
)
from neurocontrast.data.codes import base_name
from neurocontrast.data.problems import shown
from neurocontrast.data.sexes import as_sex, read_sexes
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion

AGE_LIMITS = (0.0, 120.0)
"""Lowest and highest age in years that is accepted."""
AGE_COLUMNS = ("age", "age_years", "age_at_scan", "age_at_session", "age_at_visit")
"""Usual names of a column of ages in years."""
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]")
_TOP_CODED = re.compile(r"^([0-9]+(?:\.[0-9]+)?)\+$")
_BAND = re.compile(r"[0-9]+ ?[-–] ?[0-9]+")
_DECIMAL_COMMA = re.compile(r"[0-9]+,[0-9]+")
IDENTIFIERS = ("participant_id", "subject_id", "subject", "ixi_id", "src_subject_id")
"""Usual names of the column that identifies people, without ``id``, which can number the rows."""
SESSIONS = ("session_id", "session", "ses")
_TEXT: Any = pd.Series(["text"]).dtype
"""Dtype of text in the installed pandas: `str` from version 3 on, `object` before."""


def is_numeric(cells: Iterable[str]) -> bool:
    """Tell whether all filled `cells` are numbers, none with leading zeros such as ``007``.

    False if no cell is filled.
    """
    filled = {cell for cell in cells if not is_missing(cell)}
    return bool(filled) and all(map(_is_number, filled))


def _is_number(cell: str) -> bool:
    """Tell whether a cell is a number without needless leading zeros: 0.5 is, and 007 is not."""
    return number_of(cell) is not None and not _LEADING_ZERO.match(cell)


def as_age(cell: str) -> float | Refusal:
    """Return the age in a cell in years, or a `Refusal` for any other cell.

    ``89+`` is 89, as BIDS caps ages.
    """
    low, high = AGE_LIMITS
    value = number_of(_TOP_CODED.sub(r"\1", cell))
    rule = f"an age is a number of years from {low:g} to {high:g}, or n/a"
    if value is None:
        return Refusal(rule, _hint_for_age(cell))
    if low <= value <= high:
        return value
    if value < 0 or value in (999, 9999):
        coded = "numbers that mean 'missing' are not recognised."
        return Refusal(rule, f"Write n/a where the age is not known; {coded}")
    return Refusal(rule)


def _hint_for_age(cell: str) -> str:
    """Return advice for a cell with a band of ages or a decimal comma; "" for other cells."""
    if _BAND.fullmatch(cell):
        return "Age bands are categories: keep them in a column of another name, such as age_band."
    if _DECIMAL_COMMA.fullmatch(cell):
        return "Write numbers with a decimal point, not a comma."
    return ""


def number_in(column: str, cell: str) -> float | None:
    """Return the number in a cell, or None for other text; an age may be written ``89+``.

    A cell of ages is known by the name of its `column`, ``age``.
    """
    if column != "age":
        return number_of(cell)
    age = as_age(cell)
    if isinstance(age, Refusal):
        return None
    return age


RULES: dict[str, Callable[[str], object]] = {
    "age": as_age,
    "sex": as_sex,
    "site": spelling_of,
    "diagnosis": spelling_of,
}
"""Column → function from a cell to its value, for age, sex, site and diagnosis."""


def values_of(column: str, cells: pd.Series) -> tuple[pd.Series, dict[int, Refusal]]:
    """Convert a column of text to values; return them as a Series, and refusals by row position.

    The function in `RULES` under the name `column` reads each cell: ages become numbers of years,
    sexes F or M, sites and diagnoses one spelling. Any other column is read as numbers if all its
    cells are numbers, and else stays text.

    Rows are numbered from 0; missing and refused cells are NaN.
    """
    cells = cells.reset_index(drop=True)
    is_known = ~cells.map(is_missing)
    rule: Callable[[str], object] = str
    if column in RULES:
        rule = RULES[column]
    elif is_numeric(cells[is_known]):
        rule = number_of
    if column == "sex":
        values = pd.Series(read_sexes(cells.tolist()).values, dtype=object)[is_known]
    else:
        readings = {cell: rule(cell) for cell in cells[is_known].unique()}
        values = cells[is_known].map(readings)
    refused = values[values.map(lambda value: isinstance(value, Refusal)).astype(bool)]
    values = values.drop(refused.index).reindex(cells.index)
    dtype = _TEXT
    if rule in (as_age, number_of):
        dtype = float
    return values.astype(dtype), dict(zip(refused.index.tolist(), refused, strict=True))


def levels_of(
    column: str, cells: Iterable[object], *, learned: Collection[str | None] = ()
) -> list[str | None]:
    """Return the name of the site, sex or class in each cell, in one spelling for all tables.

    A missing cell is None. 1, 1.0 and "1.0" are the same, and so are all words for a sex. The codes
    1 and 2 of a sex are read unless the column has other numbers. A word that is not understood as
    a sex is returned unchanged, and so is a value among `learned`, the values of a model's training
    table.
    """
    levels = list(map(level_of, cells))
    if not is_of_sex(column):
        return levels
    sexes = _sex_of_levels(levels)
    for level in learned:
        sexes.pop(level, None)
    return [sexes.get(level, level) for level in levels]


def is_of_sex(column: object) -> bool:
    """Tell whether a column holds sexes: its name is ``sex``."""
    return str(column).strip().lower() == "sex"


def _sex_of_levels(levels: Iterable[str | None]) -> dict[str | None, str]:
    """Return level → "F" or "M", for the levels of a column of sexes that are understood."""
    spelled = sorted(filter(None, set(levels)))
    sexes: dict[str | None, str] = {}
    for level, sex in zip(spelled, read_sexes(spelled).values, strict=True):
        if isinstance(sex, str) and sex:
            sexes[level] = sex
    return sexes


def first_of(columns: Iterable[object], names: Sequence[str]) -> str:
    """Look up the first of `names` that a table has; return the column's name as written, or "".

    `columns` are the names of the table's columns. Upper and lower case do not matter, nor do codes
    that a column's name explains: ``Sex (1=m, 2=f)`` is found as ``sex``.
    """
    by_name = {base_name(column): column for column in reversed([*map(str, columns)])}
    for name in names:
        if name in by_name:
            return by_name[name]
    return ""


def identifier_column(
    columns: Sequence[str],
    *,
    source: str,
    id_column: str | None = None,
    names: Sequence[str] = IDENTIFIERS,
) -> str:
    """Return the name of a table's column of identifiers: `id_column`, or the first of `names`.

    `names` are usual names. A table without the column is refused; `source` names the table.
    """
    if id_column is not None and id_column not in columns:
        near = suggestion(id_column, columns)
        raise DataError(
            f"{source}: there is no column '{id_column}'.{near} It has: {one_of(columns)}."
        )
    column = id_column or first_of(columns, names)
    if not column:
        raise DataError(
            f"{source}: no column of identifiers such as 'participant_id'; it has: "
            f"{one_of(columns)}. Name one with --id-column."
        )
    return column


def no_column(where: str, column: str, columns: Iterable[object]) -> str:
    """Return the message that a table has no `column`, and which `columns` the table has.

    `where` names the table in the message.
    """
    names = [str(name) for name in columns if name != "path"]
    return f"{where} has no column '{column}'.{suggestion(column, names)} It has: {one_of(names)}."


def matching_columns(
    patterns: Sequence[str], columns: Sequence[str], *, where: str = "the table"
) -> list[str]:
    """Return the names among `columns` that `patterns` such as ``attr_*`` match, each once.

    A pattern without any match is refused; `where` names the table in the message.
    """
    chosen: dict[str, None] = {}
    lacking: list[str] = []
    for pattern in patterns:
        names = [pattern]
        if pattern not in columns:
            names = [name for name in columns if fnmatch.fnmatchcase(name, pattern)]
        if not names:
            lacking.append(pattern)
        chosen |= dict.fromkeys(names)
    if len(lacking) == 1:
        raise DataError(no_column(where, lacking[0], columns))
    if lacking:
        raise DataError(f"{where} has no columns {one_of(lacking)}. It has: {one_of(columns)}.")
    return list(chosen)


_Scalar = str | int | float


def _as_texts(values: object) -> tuple[str, ...]:
    """Return the values that a user selects in ``where``, one or a list, as a tuple of text.

    An empty list is refused, and so are values other than text and numbers.
    """
    listed: Sequence[object] = [values]
    if isinstance(values, list | tuple):
        listed = values
    if not listed or not all(isinstance(value, _Scalar) for value in listed):
        raise ValueError(f"must be a value, a list of values, or {{not: [...]}}, got {values!r}")
    return tuple(map(text_of, listed))


def _as_choice(choice: object) -> object:
    """Return the selection for one column of ``where`` as a tuple of text, or in ``{"not": …}``.

    A single value becomes a tuple of one, under ``not`` as well.
    """
    if not isinstance(choice, Mapping):
        return _as_texts(choice)
    if list(choice) != ["not"]:
        raise ValueError(f"the only operator is not, as in {{not: [...]}}, got {dict(choice)!r}")
    return {"not": _as_texts(choice["not"])}


_Choice = Annotated[
    tuple[str, ...] | dict[Literal["not"], tuple[str, ...]],
    BeforeValidator(
        _as_choice, json_schema_input_type=_Scalar | list[_Scalar] | dict[Literal["not"], Any]
    ),
]
Where = dict[str, _Choice]
"""Selection of rows: column → values to keep, or ``{not: values to leave out}``. ``n/a`` selects
missing cells.
"""


def matching_rows(
    table: pd.DataFrame, where: Mapping[str, object], *, place: str
) -> npt.NDArray[np.bool_]:
    """Return a mask of a table's rows that match the selected values in every column.

    Parameters
    ----------
    table : DataFrame
        Table of scans or people.
    where : dict
        Selection, such as ``{"site": ["london", "ucla"], "participant_id": {"not": "sub-03"}}``:
        column → value, list of values, or ``{"not": value or values}``. Cells are compared as
        text: a whole number has no decimal point, and a missing cell is ``n/a``.
    place : str
        Name of the table in messages.

    Raises
    ------
    DataError
        If the table lacks a column or a value, or no row is left.
    """
    keep = np.ones(len(table), dtype=bool)
    for column, selection in where.items():
        if column not in table:
            raise DataError(no_column(place, column, table.columns))
        levels = _Levels(column, table[column])
        try:
            values, is_excluded = _values_of_choice(selection)
        except ValueError as error:
            raise ConfigError(f"where.{column}: {error}.") from None
        wanted = set(map(levels.named, values))
        allowed = sorted(set(levels.of_rows))
        for value in sorted(wanted.difference(allowed)):
            hint = suggestion(value, allowed)
            raise DataError(
                f"{place}: column '{column}' has no value {shown(value)}.{hint} It has: "
                f"{one_of(allowed)}."
            )
        keep &= levels.of_rows.isin(wanted).to_numpy() != is_excluded
    if not keep.any():
        raise DataError(f"{place}: no scan is left by the selection {dict(where)}.")
    return keep


def is_selected(cells: pd.Series, choice: object, *, column: str) -> npt.NDArray[np.bool_]:
    """Return a mask of the cells that a selection keeps; no error if a value is in no cell.

    `choice` is the selection for one column in the argument ``where`` of `matching_rows`.
    """
    values, is_excluded = _values_of_choice(choice)
    levels = _Levels(column, cells)
    wanted = set(map(levels.named, values))
    selected: npt.NDArray[np.bool_] = levels.of_rows.isin(wanted).to_numpy() != is_excluded
    return selected


def _values_of_choice(choice: object) -> tuple[tuple[str, ...], bool]:
    """Return the selected values of a column as text, and True if rows with them are dropped.

    `choice` is a value, a list of values, or ``{"not": value or values}``. False means that only
    rows with the values are kept.
    """
    values: Any = _as_choice(choice)
    if isinstance(values, Mapping):
        return values["not"], True
    return values, False


class _Levels:
    """Cells of one column in one spelling, to compare with the values that a selection names.

    `matching_rows` and `is_selected` make one. `of_rows` has the text of each cell; a missing cell
    is ``n/a``.
    """

    def __init__(self, column: str, cells: pd.Series) -> None:
        written = cells.map(lambda cell: _written(column, cell)).reset_index(drop=True)
        self.of_rows = written.astype(object)
        self._column = column
        if is_of_sex(column):
            self.of_rows = self.of_rows.replace(_sex_of_levels(self.of_rows))

    def named(self, value: object) -> str:
        """Return `value`, which the user names in ``where``, in the spelling of the column's cells.

        In a column of sexes ``female`` becomes F, for example, unless a cell keeps the spelling
        ``female``. A value that is in no cell is returned, too.
        """
        written = _written(self._column, value)
        if not is_of_sex(self._column) or written in set(self.of_rows):
            return written
        return _sex_of_levels([written]).get(written, written)


def _written(column: str, value: object) -> str:
    """Return a cell or selected value of `column` in one spelling, as text; ``n/a`` if missing.

    ``89+`` in the column age becomes ``89``.
    """
    spelled = spelling_of(text_of(value))
    if is_missing(spelled):
        return "n/a"
    if column != "age":
        return spelled
    age = as_age(spelled)
    if isinstance(age, Refusal):
        return spelled
    return text_of(age)
