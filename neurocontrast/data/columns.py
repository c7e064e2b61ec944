"""Cells of text as values, by one stated rule for each column; columns by name and pattern, rows by their values."""

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
AGE_COLUMNS = ("age", "age_years", "age_at_scan", "age_at_session", "age_at_visit")
"""Usual names of a column of ages in years."""
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]")
_TOP_CODED = re.compile(r"^([0-9]+(?:\.[0-9]+)?)\+$")
_BAND = re.compile(r"[0-9]+ ?[-–] ?[0-9]+")
_DECIMAL_COMMA = re.compile(r"[0-9]+,[0-9]+")
IDENTIFIERS = ("participant_id", "subject_id", "subject", "ixi_id", "src_subject_id")
"""Usual names of the column that names people; ``id`` can number the rows."""
SESSIONS = ("session_id", "session", "ses")
_TEXT: Any = pd.Series(["text"]).dtype
"""Text dtype of the installed pandas: `str` from version 3 on, object before; both hold missing values as NaN."""


def is_numeric(cells: Iterable[str]) -> bool:
    """Say whether a column holds numbers: every known cell is one and none has leading zeros (`007` is a name)."""
    known = {cell for cell in cells if not is_missing(cell)}
    return bool(known) and all(
        number_of(cell) is not None and not _LEADING_ZERO.match(cell) for cell in known
    )


def as_age(cell: str) -> float | Refusal:
    """Return an age in years; `89+` is 89, as BIDS hides higher ages."""
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
    """Return the remedy for a band of ages or a decimal comma, or ""."""
    if _BAND.fullmatch(cell):
        return "Age bands are categories: keep them in a column of another name, such as age_band."
    if _DECIMAL_COMMA.fullmatch(cell):
        return "Write numbers with a decimal point, not a comma."
    return ""


def number_in(column: str, cell: str) -> float | None:
    """Return the number of a cell by the rule of its column (an age may be ``89+``), or None."""
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
"""Columns with a fixed meaning, and how a cell becomes a value."""


def values_of(column: str, cells: pd.Series) -> tuple[pd.Series, dict[int, Refusal]]:
    """Return a column of text as values, by its rule or as numbers, and its refused positions.

    Rows are numbered from 0; missing and refused cells are NaN.
    """
    cells = cells.reset_index(drop=True)
    is_known = ~cells.map(is_missing)
    rule = RULES.get(column) or (number_of if is_numeric(cells[is_known]) else str)
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
    """Return the level of each cell of a column, by the rule for every table that meets another.

    1, 1.0 and "1.0" are one level, and so are all words for a sex. Numbers for a sex are read where
    all of the column mean one (1 and 2); beside a 0 they stay as they are, and so do words that are
    not understood, and levels that were `learned` as they are.
    """
    levels = list(map(level_of, cells))
    if not is_of_sex(column):
        return levels
    sexes = _sex_of_levels(levels)
    for level in learned:
        sexes.pop(level, None)
    return [sexes.get(level, level) for level in levels]


def is_of_sex(column: object) -> bool:
    """Say whether the column of a name holds sexes."""
    return str(column).strip().lower() == "sex"


def _sex_of_levels(levels: Iterable[str | None]) -> dict[str | None, str]:
    """Return the sex, F or M, of each level that is understood beside the others."""
    spelled = sorted(filter(None, set(levels)))
    sexes: dict[str | None, str] = {}
    for level, sex in zip(spelled, read_sexes(spelled).values, strict=True):
        if isinstance(sex, str) and sex:
            sexes[level] = sex
    return sexes


def first_of(columns: Iterable[object], names: Sequence[str]) -> str:
    """Return the first column with one of the names, in any case and without codes, or ""."""
    by_name = {base_name(column): column for column in reversed([*map(str, columns)])}
    return next((by_name[name] for name in names if name in by_name), "")


def identifier_column(
    columns: Sequence[str],
    *,
    source: str,
    id_column: str | None = None,
    names: Sequence[str] = IDENTIFIERS,
) -> str:
    """Return the column of identifiers of a table: `id_column`, or the first of `names`."""
    if id_column is not None and id_column not in columns:
        near = suggestion(id_column, columns)
        raise DataError(
            f"{source}: there is no column '{id_column}'.{near} It has: {one_of(columns)}."
        )
    found = id_column or first_of(columns, names)
    if not found:
        raise DataError(
            f"{source}: no column of identifiers such as 'participant_id'; it has: {one_of(columns)}. "
            "Name one with --id-column."
        )
    return found


def no_column(where: str, column: str, columns: Iterable[object]) -> str:
    """Return the message for a column that `where` does not have, and name those that are there."""
    others = [str(name) for name in columns if name != "path"]
    return (
        f"{where} has no column '{column}'.{suggestion(column, others)} It has: {one_of(others)}."
    )


def matching_columns(
    patterns: Sequence[str], columns: Sequence[str], *, where: str = "the table"
) -> list[str]:
    """Return the columns that patterns such as ``attr_*`` name, each once; those that match nothing are one error."""
    chosen: dict[str, None] = {}
    lacking: list[str] = []
    for pattern in patterns:
        names = (
            [pattern]
            if pattern in columns
            else [name for name in columns if fnmatch.fnmatchcase(name, pattern)]
        )
        chosen |= dict.fromkeys(names)
        lacking += [] if names else [pattern]
    if len(lacking) == 1:
        raise DataError(no_column(where, lacking[0], columns))
    if lacking:
        raise DataError(f"{where} has no columns {one_of(lacking)}. It has: {one_of(columns)}.")
    return list(chosen)


_Scalar = str | int | float


def _as_texts(values: object) -> tuple[str, ...]:
    listed = values if isinstance(values, list | tuple) else [values]
    if not listed or not all(isinstance(value, _Scalar) for value in listed):
        raise ValueError(f"must be a value, a list of values, or {{not: [...]}}, got {values!r}")
    return tuple(map(text_of, listed))


def _as_choice(given: object) -> object:
    """Return the values of a column as a tuple of text, or as ``{"not": tuple of text}``."""
    if not isinstance(given, Mapping):
        return _as_texts(given)
    if list(given) != ["not"]:
        raise ValueError(f"the only operator is not, as in {{not: [...]}}, got {dict(given)!r}")
    return {key: _as_texts(values) for key, values in given.items()}


_Choice = Annotated[
    tuple[str, ...] | dict[Literal["not"], tuple[str, ...]],
    BeforeValidator(
        _as_choice, json_schema_input_type=_Scalar | list[_Scalar] | dict[Literal["not"], Any]
    ),
]
Where = dict[str, _Choice]
"""Column → value or values to keep, or ``{not: values to leave out}``; ``n/a`` is a missing value."""


def matching_rows(
    table: pd.DataFrame, where: Mapping[str, Any], *, place: str
) -> npt.NDArray[np.bool_]:
    """Return which rows of a table, called `place` in errors, match a selection in every column.

    A selection is ``{"site": ["london", "ucla"], "participant_id": {"not": "sub-03"}}``: column →
    value, list of values, or ``{"not": value or values}``. Cells are compared as text: a whole
    number has no decimal point, and a missing cell is ``n/a``. A column or a value that is not
    there, and a selection that leaves no row, are refused.
    """
    keep = np.ones(len(table), dtype=bool)
    for column, given in where.items():
        if column not in table:
            raise DataError(no_column(place, column, table.columns))
        levels = _Levels(column, table[column])
        try:
            choice: Any = _as_choice(given)
        except ValueError as error:
            raise ConfigError(f"where.{column}: {error}.") from None
        is_excluded = isinstance(choice, Mapping)
        wanted = {levels.named(value) for value in (choice["not"] if is_excluded else choice)}
        allowed = sorted(set(levels.of_rows))
        for value in sorted(wanted.difference(allowed)):
            raise DataError(
                f"{place}: column '{column}' has no value {shown(value)}.{suggestion(value, allowed)} "
                f"It has: {one_of(allowed)}."
            )
        keep &= levels.of_rows.isin(wanted).to_numpy() != is_excluded
    if not keep.any():
        raise DataError(f"{place}: no scan is left by the selection {dict(where)}.")
    return keep


def is_selected(cells: pd.Series, choice: object, *, column: str) -> npt.NDArray[np.bool_]:
    """Tell which cells a choice of `matching_rows` keeps, in a table that may lack its values."""
    values: Any = _as_choice(choice)
    is_excluded = isinstance(values, Mapping)
    listed = values
    if is_excluded:
        listed = values["not"]
    levels = _Levels(column, cells)
    wanted = set(map(levels.named, listed))
    selected: npt.NDArray[np.bool_] = levels.of_rows.isin(wanted).to_numpy() != is_excluded
    return selected


class _Levels:
    """Levels of the rows of a column, missing ones as ``n/a``, and of values that name them."""

    def __init__(self, column: str, cells: pd.Series) -> None:
        written = cells.map(lambda cell: _written(column, cell)).reset_index(drop=True)
        self.of_rows = written.astype(object)
        self._column = column
        if is_of_sex(column):
            self.of_rows = self.of_rows.replace(_sex_of_levels(self.of_rows))

    def named(self, value: object) -> str:
        """Return the level that a value of a selection names: ``female`` is F where rows have F."""
        written = _written(self._column, value)
        if not is_of_sex(self._column) or written in set(self.of_rows):
            return written
        return _sex_of_levels([written]).get(written, written)


def _written(column: str, value: object) -> str:
    """Return a cell or a value of a selection in one spelling; missing is n/a, None a value."""
    spelled = spelling_of(text_of(value))
    if is_missing(spelled):
        return "n/a"
    if column != "age":
        return spelled
    age = as_age(spelled)
    return spelled if isinstance(age, Refusal) else text_of(age)
