"""Columns of a cohort as the tensors that a loss takes: numbers, codes of categories, vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from neurocontrast.data.cohort import Cohort, Kind
from neurocontrast.data.columns import matching_columns, no_column, text_of
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.exceptions import DataError, one_of, suggestion

_NOT_VALUES = ("participant_id", "subject_id", "session", "path")


def encode_metadata(
    table: pd.DataFrame,
    columns: Mapping[str, Kind],
    *,
    categories: Mapping[str, list[str]] | None = None,
    vectors: Mapping[str, npt.NDArray[np.float32]] | None = None,
) -> tuple[dict[str, torch.Tensor], dict[str, list[str]]]:
    """Return the columns a loss needs as tensors, and the categories behind the codes, sorted where none are given.

    A tensor is (n,): float32 with NaN where missing, or int64 codes with -1 where missing; of a vector (n, p).
    """
    metadata: dict[str, torch.Tensor] = {}
    found: dict[str, list[str]] = {}
    for column, kind in columns.items():
        if vectors and column not in table:
            metadata[column] = _vector(table, column, kind, vectors)
        elif kind == "continuous":
            metadata[column] = torch.from_numpy(_numbers_of(table, column).astype(np.float32))
        else:
            given = None if categories is None else categories.get(column)
            codes, found[column] = _codes_of(table, column, given)
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


def _numbers_of(table: pd.DataFrame, column: str) -> npt.NDArray[np.float64]:
    """Return a continuous column; missing values are NaN."""
    values = _column_of(table, column)
    if pd.api.types.is_numeric_dtype(values):
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    if not values.isna().all():
        raise DataError(
            f"column '{column}' holds text ({shown(values.dropna().iloc[0])}, …) and is used as continuous; "
            "use it as categorical, or name another column."
        )
    return np.full(len(table), np.nan)


def _codes_of(
    table: pd.DataFrame, column: str, categories: Sequence[str] | None
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return a categorical column as codes, and its categories; missing values are -1."""
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
        raise DataError(no_column("the table", column, table.columns))
    return table[column]


def read_vectors(spec: Mapping[str, Sequence[str] | str | Path], cohort: Cohort) -> dict[str, npt.NDArray[np.float32]]:
    """Return each named vector (n, p) for every row of a cohort; NaN where missing.

    `spec` names columns of the table (``attr_*`` takes all that match), or a ``.parquet`` file with ``participant_id``
    and columns of numbers, whose relative path starts from the folder of the table.
    """
    found: dict[str, npt.NDArray[np.float32]] = {}
    for name, what in spec.items():
        if name in cohort.table:
            raise DataError(f"vectors.{name}: the table has a column of that name; give the vector another.")
        try:
            values = _of_file(what, cohort) if isinstance(what, str | Path) else _of_columns(what, cohort, name)
        except DataError as error:
            raise DataError(f"vectors.{name}: {str(error).removeprefix(f'vectors.{name}: ')}") from None
        n_infinite = int(np.isinf(values).any(axis=1).sum())
        if n_infinite:
            raise DataError(f"vectors.{name}: {n_infinite} rows hold numbers that are infinite or beyond float32.")
        found[name] = values
    return found


def _of_columns(patterns: Sequence[str], cohort: Cohort, name: str) -> npt.NDArray[np.float32]:
    if not patterns:
        raise DataError("name at least one column.")
    known = [str(column) for column in cohort.table.columns if column not in _NOT_VALUES]
    columns = matching_columns(patterns, known, key=f"vectors.{name}")
    return np.stack([_numbers_of(cohort.table, column) for column in columns], axis=1).astype(np.float32)


def _of_file(file: str | Path, cohort: Cohort) -> npt.NDArray[np.float32]:
    path = cohort.source.parent / Path(file).expanduser()
    if not path.is_file():
        raise DataError(f"there is no file {shown(path, 200)} (a relative path starts from the table's folder).")
    try:
        table = pd.read_parquet(path)
    except Exception as error:
        raise DataError(f"{path.name} cannot be read as a parquet table ({error}).") from None
    if "participant_id" not in table:
        near = suggestion("participant_id", table.columns)
        raise DataError(f"{path.name} needs a column 'participant_id'.{near}")
    ids = pd.Index(table.pop("participant_id").astype(str))
    texts = [str(column) for column in table.columns if not pd.api.types.is_numeric_dtype(table[column])]
    if texts or not len(table.columns):
        found = f"text in {one_of(texts[:10])}" if texts else "no further column"
        raise DataError(f"{path.name} holds a participant_id and numbers. Found {found}.")
    if not ids.is_unique:
        raise DataError(f"{path.name} has {one_of(ids[ids.duplicated()].unique()[:N_SHOWN])} more than once.")
    wanted = cohort.table["participant_id"].astype(str)
    rows = ids.get_indexer(pd.Index(wanted))
    lacking = wanted[rows < 0].unique()
    if len(lacking):
        more = f" … and {len(lacking) - N_SHOWN} more" if len(lacking) > N_SHOWN else ""
        raise DataError(f"{path.name} has no row for {one_of(lacking[:N_SHOWN])}{more}.")
    return table.to_numpy(dtype=np.float32, na_value=np.nan)[rows]
