"""Columns of a cohort as the tensors that a loss takes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from neurocontrast.data.cohort import Kind
from neurocontrast.data.metadata import codes_of, numbers_of
from neurocontrast.exceptions import DataError, one_of, suggestion

__all__ = ["encode_metadata"]


def encode_metadata(
    table: pd.DataFrame,
    columns: Mapping[str, Kind],
    *,
    categories: Mapping[str, list[str]] | None = None,
    vectors: Mapping[str, npt.NDArray[np.float32]] | None = None,
) -> tuple[dict[str, torch.Tensor], dict[str, list[str]]]:
    """Return the columns a loss needs as tensors, and the categories behind the codes.

    Parameters
    ----------
    table : DataFrame
        The table of a cohort.
    columns : mapping of str to {"continuous", "categorical"}
        What each column is to the loss.
    categories : mapping of str to list of str, optional
        Categories of an earlier call, whose codes then stay the same.
    vectors : mapping of str to ndarray (n, p), optional
        Continuous columns that are vectors, by name (`neurocontrast.data.vectors.read_vectors`).

    Returns
    -------
    metadata : dict of str to Tensor
        ``(n,)`` each: float32 with NaN where missing, or int64 codes with -1 where missing; ``(n, p)``
        float32 for a vector.
    categories : dict of str to list of str
        For each categorical column its categories in the order of their codes; sorted where
        none were given.

    Raises
    ------
    DataError
        For a column the table does not have, one that is not of numbers, a vector used as categories, or a
        category that is not among those given; all such rows together.
    """
    metadata: dict[str, torch.Tensor] = {}
    found: dict[str, list[str]] = {}
    for column, kind in columns.items():
        if vectors and column not in table:
            metadata[column] = _vector(table, column, kind, vectors)
        elif kind == "continuous":
            metadata[column] = torch.from_numpy(numbers_of(table, column).astype(np.float32))
        else:
            given = None if categories is None else categories.get(column)
            codes, found[column] = codes_of(table, column, categories=given)
            metadata[column] = torch.from_numpy(codes)
    return metadata, found


def _vector(
    table: pd.DataFrame, column: str, kind: Kind, vectors: Mapping[str, npt.NDArray[np.float32]]
) -> torch.Tensor:
    if column not in vectors:
        others = [*vectors, *(str(name) for name in table.columns if name != "path")]
        raise DataError(
            f"the table has no column '{column}', and there is no vector of that name.{suggestion(column, others)} "
            f"There are: {one_of(others[:30])}."
        )
    if kind == "categorical":
        raise DataError(f"'{column}' is a vector and is used as categorical; use it as continuous.")
    return torch.from_numpy(np.ascontiguousarray(vectors[column], dtype=np.float32))
