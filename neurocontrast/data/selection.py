"""Rows of a table by the values of its columns: every ``where`` of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import BeforeValidator

from neurocontrast.data.columns import Refusal, as_sex, is_missing, no_column, text_of
from neurocontrast.data.problems import shown
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion

_N_SHOWN = 30
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
    BeforeValidator(_as_choice, json_schema_input_type=_Scalar | list[_Scalar] | dict[Literal["not"], Any]),
]
Where = dict[str, _Choice]
"""Column → value or values to keep, or ``{not: values to leave out}``; ``n/a`` is a missing value."""


def matching_rows(table: pd.DataFrame, where: Mapping[str, Any], *, place: str) -> npt.NDArray[np.bool_]:
    """Return which rows of a table a selection keeps.

    Parameters
    ----------
    table : DataFrame
        Its cells are compared as text: a whole number has no decimal point, and a missing cell is ``n/a``.
    where : mapping
        Column → value, list of values, or ``{"not": value or values}``, for instance
        ``{"site": ["london", "ucla"], "participant_id": {"not": "sub-03"}}``. A row must match in every column.
    place : str
        What an error calls the table.

    Raises
    ------
    DataError
        For a column or a value that the table does not have, and where no row is left.
    ConfigError
        For an operator other than ``not``.
    """
    keep = np.ones(len(table), dtype=bool)
    for column, given in where.items():
        if column not in table:
            raise DataError(no_column(place, column, table.columns))
        texts = table[column].map(lambda value, of=column: _canonical(of, value))
        try:
            choice: Any = _as_choice(given)
        except ValueError as error:
            raise ConfigError(f"where.{column}: {error}.") from None
        is_excluded = isinstance(choice, Mapping)
        wanted = {_canonical(column, value) for value in (choice["not"] if is_excluded else choice)}
        allowed = sorted(set(texts))
        for value in sorted(wanted.difference(allowed)):
            raise DataError(
                f"{place}: column '{column}' has no value {shown(value)}.{suggestion(value, allowed)} "
                f"It has: {_listed(allowed)}."
            )
        keep &= texts.isin(wanted).to_numpy() != is_excluded
    if not keep.any():
        raise DataError(f"{place}: no scan is left by the selection {dict(where)}.")
    return keep


def _listed(values: list[str]) -> str:
    return one_of(values[:_N_SHOWN]) + (f" … and {len(values) - _N_SHOWN} more" if len(values) > _N_SHOWN else "")


def _canonical(column: str, value: object) -> str:
    """Return a cell, or a value that is compared with it, as text; ``female`` of the column sex is ``F``."""
    text = text_of(value).strip()
    if is_missing(text):
        return "n/a"
    if column == "sex":
        sex = as_sex(text)
        return text if isinstance(sex, Refusal) else sex
    return text
