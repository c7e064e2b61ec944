"""Columns of a table as numbers and as codes of categories."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.columns import text_of
from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import DataError, one_of, suggestion

__all__ = ["codes_of", "numbers_of"]


def numbers_of(table: pd.DataFrame, column: str) -> npt.NDArray[np.float64]:
    """Return a continuous column; missing values are NaN.

    Raises
    ------
    DataError
        When the column is absent or holds text.
    """
    values = _column_of(table, column)
    if not pd.api.types.is_numeric_dtype(values):
        if not values.isna().all():
            raise DataError(
                f"column '{column}' holds text ({shown(values.dropna().iloc[0])}, …) and is used as continuous; "
                "use it as categorical, or name another column."
            )
        return np.full(len(table), np.nan)
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def codes_of(
    table: pd.DataFrame, column: str, *, categories: Sequence[str] | None = None
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return a categorical column as codes, and its categories; missing values are -1.

    Raises
    ------
    DataError
        When the column is absent, or holds categories that are not among those given.
    """
    texts = _column_of(table, column).map(text_of).to_numpy(dtype=object)
    known = sorted(set(texts) - {""}) if categories is None else list(categories)
    code_of = {category: code for code, category in enumerate(known)} | {"": -1}
    problems = Problems(f"column '{column}'")
    for row in np.flatnonzero([text not in code_of for text in texts]):
        name = str(table["participant_id"].iloc[row]) if "participant_id" in table else f"row {row}"
        problems.add(
            f"found {shown(texts[row])}; the categories are {one_of(known)}.{suggestion(texts[row], known)}", name=name
        )
    problems.raise_if_any()
    return np.array([code_of[text] for text in texts], dtype=np.int64), known


def _column_of(table: pd.DataFrame, column: str) -> pd.Series:
    if column not in table or column == "path":
        others = [str(name) for name in table.columns if name != "path"]
        raise DataError(
            f"the table has no column '{column}'.{suggestion(column, others)} It has: {one_of(others[:30])}."
        )
    return table[column]
