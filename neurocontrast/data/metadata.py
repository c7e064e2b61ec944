"""Columns of a cohort as the tensors that a loss takes: numbers, codes of categories, vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import nn

from neurocontrast.data.cohort import Cohort, Kind
from neurocontrast.data.columns import is_missing, is_numeric, matching_columns, no_column, number_of, text_of
from neurocontrast.data.listing import read_parquet, read_text_table
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.exceptions import DataError, one_of, suggestion
from neurocontrast.kernels import ColumnKernel

Vectors = Mapping[str, pd.DataFrame]
"""Vectors that kernels compare, by name: tables (n, p) of float32 with NaN where missing."""

_NOT_VALUES = ("participant_id", "subject_id", "session", "path")


def encode_metadata(
    table: pd.DataFrame,
    columns: Mapping[str, Kind],
    *,
    categories: Mapping[str, list[str]] | None = None,
    vectors: Vectors | None = None,
    place: str = "the table",
) -> tuple[dict[str, torch.Tensor], dict[str, list[str]]]:
    """Return the columns a loss needs as tensors, and the categories behind the codes, sorted where none are given.

    A tensor is (n,): float32 with NaN where missing, or int64 codes with -1 where missing; of a vector (n, p).
    Errors call the table `place`.
    """
    metadata: dict[str, torch.Tensor] = {}
    found: dict[str, list[str]] = {}
    for column, kind in columns.items():
        if vectors and column not in table:
            metadata[column] = _vector(table, column, kind, vectors, place)
        elif kind == "continuous":
            metadata[column] = torch.from_numpy(_numbers_of(table, column, place).astype(np.float32))
        else:
            given = None if categories is None else categories.get(column)
            codes, found[column] = _codes_of(table, column, given, place)
            metadata[column] = torch.from_numpy(codes)
    return metadata, found


def _vector(table: pd.DataFrame, column: str, kind: Kind, vectors: Vectors, place: str) -> torch.Tensor:
    if column not in vectors:
        others = [*vectors, *(str(name) for name in table.columns if name != "path")]
        raise DataError(
            f"{place} has no column '{column}', and there is no vector of that name.{suggestion(column, others)} "
            f"There are: {one_of(others[:30])}."
        )
    if kind == "categorical":
        raise DataError(f"'{column}' is a vector and is used as categorical; use it as continuous.")
    return torch.from_numpy(np.ascontiguousarray(vectors[column].to_numpy()))


def _numbers_of(table: pd.DataFrame, column: str, place: str) -> npt.NDArray[np.float64]:
    """Return a continuous column; missing values are NaN."""
    values = _column_of(table, column, place)
    if pd.api.types.is_numeric_dtype(values):
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    if not values.isna().all():
        raise DataError(
            f"{place}: column '{column}' holds text ({shown(values.dropna().iloc[0])}, …) and is used as continuous; "
            "use it as categorical, or name another column."
        )
    return np.full(len(table), np.nan)


def _codes_of(
    table: pd.DataFrame, column: str, categories: Sequence[str] | None, place: str
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return a categorical column as codes, and its categories; missing values are -1."""
    texts = _column_of(table, column, place).map(text_of).to_numpy(dtype=object)
    known = sorted(set(texts) - {""}) if categories is None else list(categories)
    code_of = {category: code for code, category in enumerate(known)} | {"": -1}
    problems = Problems(f"{place}, column '{column}'")
    for row in np.flatnonzero([text not in code_of for text in texts]):
        name = str(table["participant_id"].iloc[row]) if "participant_id" in table else f"row {row}"
        problems.add(
            f"found {shown(texts[row])}; the categories are {one_of(known)}.{suggestion(texts[row], known)}", name=name
        )
    problems.raise_if_any()
    return np.array([code_of[text] for text in texts], dtype=np.int64), known


def _column_of(table: pd.DataFrame, column: str, place: str) -> pd.Series:
    if column not in table or column == "path":
        raise DataError(no_column(place, column, table.columns))
    return table[column]


def read_vectors(spec: Mapping[str, Sequence[str] | str | Path], cohort: Cohort) -> Vectors:
    """Return each named vector for every row of a cohort, a table (n, p) of float32 with NaN where missing.

    `spec` names columns of the table (``attr_*`` takes all that match), or a ``.parquet``, ``.tsv`` or ``.csv`` file
    with ``participant_id`` and columns of numbers, whose relative path starts from the folder of the table. A scan
    without a row in the file is missing. What is wrong with any of the vectors is one error.
    """
    found: dict[str, pd.DataFrame] = {}
    problems = Problems(cohort.source.name)
    for name, what in spec.items():
        try:
            found[name] = _vector_of(name, what, cohort)
        except DataError as error:
            problems.add(str(error), name=f"data.vectors.{name}")
    problems.raise_if_any()
    return found


def _vector_of(name: str, what: Sequence[str] | str | Path, cohort: Cohort) -> pd.DataFrame:
    if name in cohort.table:
        raise DataError("the table has a column of that name; give the vector another.")
    values = _of_file(what, cohort) if isinstance(what, str | Path) else _of_columns(what, cohort)
    known = values.dropna(axis="columns", how="all")
    texts = [str(column) for column in known if not pd.api.types.is_numeric_dtype(known[column])]
    if texts or not len(values.columns):
        raise DataError(f"must hold columns of numbers. Found {f'text in {one_of(texts[:30])}' if texts else 'none'}.")
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float32)
    n_infinite = int(np.isinf(numbers).any(axis=1).sum())
    if n_infinite:
        raise DataError(f"{n_infinite} rows hold numbers that are infinite or beyond float32.")
    return numbers


def _of_columns(patterns: Sequence[str], cohort: Cohort) -> pd.DataFrame:
    known = [str(column) for column in cohort.table.columns if column not in _NOT_VALUES]
    return cohort.table[matching_columns(patterns, known)]


def _of_file(file: str | Path, cohort: Cohort) -> pd.DataFrame:
    path = cohort.source.parent / Path(file).expanduser()
    if not path.is_file():
        raise DataError(f"there is no file {shown(path, 200)} (a relative path starts from the table's folder).")
    table = _read_table(path)
    if "participant_id" not in table:
        near = suggestion("participant_id", table.columns)
        raise DataError(f"{path.name} needs a column 'participant_id'.{near}")
    table.index = pd.Index(table.pop("participant_id").astype(str))
    if not table.index.is_unique:
        twice = table.index[table.index.duplicated()].unique()
        raise DataError(f"{path.name} has {one_of(twice[:N_SHOWN])} more than once.")
    ids = cohort.table["participant_id"].astype(str)
    if not ids.isin(table.index).any():
        raise DataError(
            f"{path.name} has no row for any scan: {one_of(table.index[:3])} there, {one_of(ids[:3])} here."
        )
    return table.reindex(ids).reset_index(drop=True)


def _read_table(path: Path) -> pd.DataFrame:
    """Return a file of vectors; a column of a text file is numeric by the rule of ``participants.tsv``."""
    if path.suffix == ".parquet":
        return read_parquet(path)
    table = read_text_table(path)
    for name in table.columns.drop("participant_id", errors="ignore"):
        cells = table[name]
        table[name] = cells.map(number_of).astype(float) if is_numeric(cells) else cells.mask(cells.map(is_missing))
    return table


def check_vectors(vectors: Vectors, objective: nn.Module, cohort: Cohort, training_rows: Sequence[int]) -> None:
    """Refuse vectors that a kernel of the objective cannot compare: all rows with missing values, all constant columns.

    Kernels with ``standardise`` are fitted on `training_rows`.
    """
    problems, names = Problems(cohort.source.name), cohort.names()
    for kernel in objective.modules():
        if not isinstance(kernel, ColumnKernel) or kernel.column not in vectors:
            continue
        values = vectors[kernel.column]
        missing = values.isna()
        for row in np.flatnonzero(missing.any(axis=1)) if kernel.missing == "error" else ():
            columns = one_of(values.columns[missing.iloc[row]][:N_SHOWN])
            what = f"any of its {len(values.columns)} columns" if missing.iloc[row].all() else columns
            problems.add(f"{names[row]} has no value in {what}", name=f"data.vectors.{kernel.column}")
            problems.hint(
                "Fill it in, leave the scans out, or use missing: marginal, which keeps them (docs/losses.md)."
            )
        known = values.iloc[list(training_rows)]
        for column in known.columns[known.nunique() < 2] if getattr(kernel, "standardise", False) else ():
            problems.add(
                "does not vary over the training scans; leave it out",
                name=f"data.vectors.{kernel.column}",
                column=column,
            )
    problems.raise_if_any()
