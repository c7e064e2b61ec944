"""Levels of a category that were not learned: found where two tables meet, and refused by name."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pandas as pd

from neurocontrast.data.columns import as_age, is_of_sex, level_of, levels_of, number_of
from neurocontrast.exceptions import DataError, one_of, suggestion

_N_LEVELS = 5
_N_ROWS = 3


class UnseenLevelError(DataError, ValueError):
    """A level of a category, or a cell of a number, that says nothing to a model which never saw one."""


@dataclass(frozen=True)
class UnseenLevels:
    """Levels of one column that were not learned, with the names of their rows."""

    column: str
    rows: dict[str, list[str]]
    learned: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.rows)

    def text(self) -> str:
        """Return which levels are new and in which rows, which were learned, and a near one."""
        found = []
        for level in list(self.rows)[:_N_LEVELS]:
            names = self.rows[level]
            listed = ", ".join(names[:_N_ROWS])
            more = ", …" if len(names) > _N_ROWS else ""
            unit = "row" if len(names) == 1 else "rows"
            found.append(f"'{level}' in {len(names)} {unit} ({listed}{more})")
        if len(self.rows) > _N_LEVELS:
            found.append(f"and {len(self.rows) - _N_LEVELS} more")
        near = suggestion(next(iter(self.rows)), self.learned)
        is_coded = is_of_sex(self.column) and "0" in {*self.rows, *self.learned}
        zeros = _ZEROS if is_coded else ""
        return (
            f"column '{self.column}' has levels that were never seen in training: "
            f"{', '.join(found)}. Learned were {one_of(self.learned)}.{near}{zeros}"
        )


_ZEROS = " Tables disagree on what 0 and 1 mean for sex: write M and F."


def unseen_levels(
    column: str,
    levels: Sequence[str | None],
    learned: Collection[str | None],
    *,
    names: Sequence[object],
) -> UnseenLevels:
    """Return the levels of a column that are not among those learned; a missing cell is no level.

    `names` are those of the rows in messages.
    """
    rows: dict[str, list[str]] = {}
    for level, name in zip(levels, names, strict=True):
        if level is not None and level not in learned:
            rows.setdefault(level, []).append(str(name))
    known = sorted(level for level in learned if level is not None)
    return UnseenLevels(column, rows, tuple(known))


def numbers_of(column: str, cells: pd.Series, *, names: Sequence[object]) -> pd.Series:
    """Return a column as floats, NaN where missing; cells that hold no number are refused by name.

    An age may be ``89+``, in the column of that name.
    """
    if pd.api.types.is_numeric_dtype(cells):
        return pd.Series(cells.to_numpy(dtype="float64", na_value=float("nan")), cells.index)
    read = as_age if str(column).strip().lower() == "age" else number_of
    texts = [level_of(cell) for cell in cells]
    numbers = {text: read(text) for text in dict.fromkeys(texts) if text is not None}
    wrong = [
        f"{name}: '{text}'"
        for name, text in zip(names, texts, strict=True)
        if text is not None and not isinstance(numbers[text], float)
    ]
    if wrong:
        more = f" and {len(wrong) - _N_LEVELS} more" if len(wrong) > _N_LEVELS else ""
        raise UnseenLevelError(
            f"column '{column}' holds numbers in training, and text in {len(wrong)} rows "
            f"({', '.join(wrong[:_N_LEVELS])}{more}). Write numbers with a point."
        )
    values = [float("nan") if text is None else numbers[text] for text in texts]
    return pd.Series(values, cells.index, dtype="float64")


def inferred(cells: pd.Series) -> pd.Series:
    """Return a column of Python objects in the dtype of its values, whatever marks the missing ones."""
    if cells.dtype != object:
        return cells
    return cells.where(cells.notna(), None).infer_objects()


def level_column(
    column: str, cells: pd.Series, *, learned: Collection[str | None] = ()
) -> pd.Series:
    """Return a column as text of its levels, None where missing; see `levels_of`."""
    return pd.Series(levels_of(column, cells, learned=learned), cells.index, dtype=object)
