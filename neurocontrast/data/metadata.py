"""Columns of a cohort as the tensors that a loss takes: numbers, codes of categories, vectors."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn

from neurocontrast.cells import level_of, spelling_of, text_of
from neurocontrast.data.cohort import Cohort, Kind
from neurocontrast.data.columns import matching_columns, no_column, values_of
from neurocontrast.data.listing import read_parquet, read_text_table
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.data.unmarked import REMEDY, unmarked_missing
from neurocontrast.exceptions import DataError, one_of, suggestion
from neurocontrast.kernels import ColumnKernel

Vectors = Mapping[str, pd.DataFrame]
"""Vectors that kernels compare, by name: tables (n, p) of float32 with NaN where missing."""

_NOT_VALUES = ("participant_id", "subject_id", "session", "path")


def encode_metadata(
    table: pd.DataFrame,
    columns: Mapping[str, Kind],
    *,
    vectors: Vectors | None = None,
    place: str = "the table",
) -> tuple[dict[str, torch.Tensor], dict[str, list[str]]]:
    """Return the columns a loss needs as tensors, and the sorted categories behind the codes.

    A tensor is (n,): float32 with NaN where missing, or int64 codes with -1 where missing; of a
    vector (n, p). Errors call the table `place`.
    """
    metadata: dict[str, torch.Tensor] = {}
    found: dict[str, list[str]] = {}
    for column, kind in columns.items():
        if vectors and column not in table:
            if column not in vectors:
                others = [*vectors, *(str(name) for name in table.columns if name != "path")]
                raise DataError(
                    f"{place} has no column '{column}', and there is no vector of that name."
                    f"{suggestion(column, others)} There are: {one_of(others[:30])}."
                )
            if kind == "categorical":
                raise DataError(
                    f"'{column}' is a vector and is used as categorical; use it as continuous."
                )
            metadata[column] = torch.from_numpy(np.ascontiguousarray(vectors[column].to_numpy()))
            continue
        if column not in table or column == "path":
            raise DataError(no_column(place, column, table.columns))
        values = table[column]
        _refuse_codes(column, values, place)
        if kind == "categorical":
            texts = values.map(lambda value: spelling_of(text_of(value)))
            codes, known = pd.factorize(texts.mask(texts == "").astype(object), sort=True)
            metadata[column] = torch.from_numpy(codes)
            found[column] = known.tolist()
        elif pd.api.types.is_numeric_dtype(values) or values.isna().all():
            numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
            metadata[column] = torch.from_numpy(numbers.astype(np.float32))
        else:
            raise DataError(
                f"{place}: column '{column}' holds text ({shown(values.dropna().iloc[0])}, …) and is used as "
                "continuous; use it as categorical, or name another column."
            )
    return metadata, found


def _refuse_codes(column: str, values: pd.Series, place: str) -> None:
    """Refuse codes such as -9 or 999 that a kernel would compare as numbers, or as a category."""
    codes = unmarked_missing(column, map(level_of, values))
    if codes:
        seem = f"{one_of(sorted(codes))} seem to mean that the value is not known"
        raise DataError(f"{place}: column '{column}': {seem}. {REMEDY}")


def read_vectors(spec: Mapping[str, Sequence[str] | str | Path], cohort: Cohort) -> Vectors:
    """Return each named vector for every row of a cohort, a table (n, p) of float32 with NaN where missing.

    `spec` names columns of the table (``attr_*`` takes all that match), or a ``.parquet``, ``.tsv``
    or ``.csv`` file with ``participant_id`` and columns of numbers, whose relative path starts from
    the folder of the table. A scan without a row in the file is missing. What is wrong with any of
    the vectors is one error.
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
    if isinstance(what, str | Path):
        values = _of_file(what, cohort)
    else:
        known = [str(column) for column in cohort.table.columns if column not in _NOT_VALUES]
        values = cohort.table[matching_columns(what, known)]
    filled = values.dropna(axis="columns", how="all")
    texts = [str(column) for column in filled if not pd.api.types.is_numeric_dtype(filled[column])]
    if texts or not len(values.columns):
        raise DataError(
            f"must hold columns of numbers. Found {f'text in {one_of(texts[:30])}' if texts else 'none'}."
        )
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float32)
    n_infinite = int(np.isinf(numbers).any(axis=1).sum())
    if n_infinite:
        raise DataError(f"{n_infinite} rows hold numbers that are infinite or beyond float32.")
    return numbers


def _of_file(file: str | Path, cohort: Cohort) -> pd.DataFrame:
    path = cohort.source.parent / Path(file).expanduser()
    if not path.is_file():
        raise DataError(
            f"there is no file {shown(path, 200)} (a relative path starts from the table's folder)."
        )
    table = read_parquet(path) if path.suffix == ".parquet" else read_text_table(path)
    if "participant_id" not in table:
        near = suggestion("participant_id", table.columns)
        raise DataError(f"{path.name} needs a column 'participant_id'.{near}")
    if "session" in table:
        raise DataError(
            f"{path.name}: rows are of participants alone, and it has a column 'session'; take that out."
        )
    table.index = pd.Index(table.pop("participant_id").astype(str))
    if path.suffix != ".parquet":
        table = table.apply(lambda cells: values_of("", cells)[0].set_axis(cells.index))
    if not table.index.is_unique:
        twice = table.index[table.index.duplicated()].unique()
        raise DataError(f"{path.name} has {one_of(twice[:N_SHOWN])} more than once.")
    ids = cohort.table["participant_id"].astype(str)
    if not ids.isin(table.index).any():
        raise DataError(
            f"{path.name} has no row for any scan: {one_of(table.index[:3])} there, {one_of(ids[:3])} here."
        )
    return table.reindex(ids).reset_index(drop=True)


def check_vectors(
    vectors: Vectors, objective: nn.Module, cohort: Cohort, training_rows: Sequence[int]
) -> None:
    """Refuse vectors that a kernel of the objective cannot compare: all rows with missing values, all constant columns.

    Kernels with ``standardise`` are fitted on `training_rows`.
    """
    problems = Problems(cohort.source.name)
    names = cohort.names()
    for kernel in objective.modules():
        if not isinstance(kernel, ColumnKernel) or kernel.column not in vectors:
            continue
        values = vectors[kernel.column]
        missing = values.isna()
        for row in np.flatnonzero(missing.any(axis=1)) if kernel.missing == "error" else ():
            columns = one_of(values.columns[missing.iloc[row]][:N_SHOWN])
            what = (
                f"any of its {len(values.columns)} columns" if missing.iloc[row].all() else columns
            )
            problems.add(
                f"{names[row]} has no value in {what}", name=f"data.vectors.{kernel.column}"
            )
            problems.hint(
                "Fill it in, leave the scans out, or use missing: marginal, which keeps them (docs/losses.md)."
            )
        known = values.iloc[list(training_rows)]
        for column in (
            known.columns[known.nunique() < 2] if getattr(kernel, "standardise", False) else ()
        ):
            problems.add(
                "does not vary over the training scans; leave it out",
                name=f"data.vectors.{kernel.column}",
                column=column,
            )
    problems.raise_if_any()
