"""Convert columns of a cohort to tensors for losses: numbers, codes of categories, and vectors."""

from collections.abc import Callable, Mapping, Sequence
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
"""Name of a vector → table (scans, components) of float32, NaN for missing values."""

_NOT_VALUES = ("participant_id", "subject_id", "session", "path")


def encode_metadata(
    table: pd.DataFrame,
    columns: Mapping[str, Kind],
    *,
    vectors: Vectors | None = None,
    place: str = "the table",
) -> tuple[dict[str, torch.Tensor], dict[str, list[str]]]:
    """Convert the columns that a loss needs to tensors, and list the categories behind codes.

    Parameters
    ----------
    table : DataFrame
        Table of scans.
    columns : dict of str to {"continuous", "categorical"}
        Kind of each column that the loss needs.
    vectors : dict of str to DataFrame, optional
        Vectors (n, p) by name.
    place : str
        Name of the table in messages.

    Returns
    -------
    metadata : dict of str to Tensor
        Numbers (n,) as float32 with NaN where missing, codes (n,) as int64 with -1 where missing,
        or vectors (n, p).
    categories : dict of str to list of str
        Sorted categories of each categorical column.
    """
    metadata: dict[str, torch.Tensor] = {}
    categories: dict[str, list[str]] = {}
    for column, kind in columns.items():
        if vectors and column not in table:
            metadata[column] = _tensor_of(column, kind, vectors, table, place)
            continue
        if column not in table or column == "path":
            raise DataError(no_column(place, column, table.columns))
        values = table[column]
        _refuse_codes(column, values, place)
        if kind == "categorical":
            texts = values.map(lambda value: spelling_of(text_of(value)))
            codes, levels = pd.factorize(texts.mask(texts == "").astype(object), sort=True)
            metadata[column] = torch.from_numpy(codes)
            categories[column] = levels.tolist()
        elif pd.api.types.is_numeric_dtype(values) or values.isna().all():
            numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
            metadata[column] = torch.from_numpy(numbers.astype(np.float32))
        else:
            raise DataError(
                f"{place}: column '{column}' holds text ({shown(values.dropna().iloc[0])}, …) and "
                "is used as continuous; use it as categorical, or name another column."
            )
    return metadata, categories


def _tensor_of(
    name: str, kind: Kind, vectors: Vectors, table: pd.DataFrame, place: str
) -> torch.Tensor:
    """Return a vector of all scans as a tensor (n, p); refuse an unknown or categorical vector.

    A vector is a group of p numeric columns; `vectors` has the known ones by name. `kind` is
    ``continuous`` or ``categorical``, as the loss uses the vector `name`; ``categorical`` is a
    `DataError`. `place` names the `table` in messages.
    """
    if name not in vectors:
        names = [*vectors, *(str(column) for column in table.columns if column != "path")]
        raise DataError(
            f"{place} has no column '{name}', and there is no vector of that name."
            f"{suggestion(name, names)} There are: {one_of(names[:30])}."
        )
    if kind == "categorical":
        raise DataError(f"'{name}' is a vector and is used as categorical; use it as continuous.")
    return torch.from_numpy(np.ascontiguousarray(vectors[name].to_numpy()))


def _refuse_codes(column: str, values: pd.Series, place: str) -> None:
    """Refuse a column with codes such as -9 or 999, which a kernel would compare as values."""
    codes = unmarked_missing(column, map(level_of, values))
    if codes:
        seem = f"{one_of(sorted(codes))} seem to mean that the value is not known"
        raise DataError(f"{place}: column '{column}': {seem}. {REMEDY}")


def read_vectors(spec: Mapping[str, Sequence[str] | str | Path], cohort: Cohort) -> Vectors:
    """Read each named vector, such as regional volumes, for every scan of a cohort.

    Parameters
    ----------
    spec : dict
        Vectors by name: columns of the table (``attr_*`` means all that match), or a
        ``.parquet``, ``.tsv`` or ``.csv`` file with ``participant_id`` and columns of numbers,
        whose relative path starts from the folder of the table.
    cohort : Cohort
        Scans; a scan without a row in a file has missing values.

    Returns
    -------
    dict of str to DataFrame
        Tables (n, p) of float32, NaN where missing.

    Raises
    ------
    DataError
        Names all that is wrong with any of the vectors.
    """
    vectors: dict[str, pd.DataFrame] = {}
    problems = Problems(cohort.source.name)
    for name, origin in spec.items():
        try:
            vectors[name] = _vector_of(name, origin, cohort)
        except DataError as error:
            problems.add(str(error), name=f"data.vectors.{name}")
    problems.raise_if_any()
    return vectors


def _vector_of(name: str, origin: Sequence[str] | str | Path, cohort: Cohort) -> pd.DataFrame:
    """Return the vector `name` of all n scans, a DataFrame (n, p) of float32, NaN where missing.

    A vector is a group of p numeric columns. `origin` is a list of columns of the cohort's table,
    or the path of a file with these columns and ``participant_id``. Rows are in the cohort's order.
    """
    if name in cohort.table:
        raise DataError("the table has a column of that name; give the vector another.")
    if isinstance(origin, str | Path):
        values = _of_file(origin, cohort)
    else:
        columns = [str(column) for column in cohort.table.columns if column not in _NOT_VALUES]
        values = cohort.table[matching_columns(origin, columns)]
    filled = values.dropna(axis="columns", how="all")
    words = [str(column) for column in filled if not pd.api.types.is_numeric_dtype(filled[column])]
    if words:
        raise DataError(f"must hold columns of numbers. Found text in {one_of(words[:30])}.")
    if not len(values.columns):
        raise DataError("must hold columns of numbers. Found none.")
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float32)
    n_infinite = int(np.isinf(numbers).any(axis=1).sum())
    if n_infinite:
        raise DataError(f"{n_infinite} rows hold numbers that are infinite or beyond float32.")
    return numbers


def _of_file(file: str | Path, cohort: Cohort) -> pd.DataFrame:
    """Read a file of vectors; return a DataFrame with one row for each scan of `cohort`, in order.

    The file has a row for each participant, which is taken for every scan of the participant. A
    scan whose participant is not in the file has NaN.
    """
    path = cohort.source.parent / Path(file).expanduser()
    if not path.is_file():
        raise DataError(
            f"there is no file {shown(path, 200)} (a relative path starts from the table's folder)."
        )
    read: Callable[[Path], pd.DataFrame] = read_text_table
    if path.suffix == ".parquet":
        read = read_parquet
    table = read(path)
    if "participant_id" not in table:
        near = suggestion("participant_id", table.columns)
        raise DataError(f"{path.name} needs a column 'participant_id'.{near}")
    if "session" in table:
        raise DataError(
            f"{path.name}: rows are of participants alone, and it has a column 'session'; take "
            "that out."
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
            f"{path.name} has no row for any scan: {one_of(table.index[:3])} there, "
            f"{one_of(ids[:3])} here."
        )
    return table.reindex(ids).reset_index(drop=True)


def check_vectors(
    vectors: Vectors, objective: nn.Module, cohort: Cohort, training_rows: Sequence[int]
) -> None:
    """Refuse vectors with values that a kernel of the objective cannot compare.

    A vector is a group of numeric columns, such as regional volumes, that a kernel compares as a
    whole. Missing values are refused if the kernel refuses missing values, and columns that are
    constant over `training_rows` if the kernel standardises. All problems are listed in one
    `DataError`.
    """
    problems = Problems(cohort.source.name)
    for kernel in objective.modules():
        if not isinstance(kernel, ColumnKernel) or kernel.column not in vectors:
            continue
        values = vectors[kernel.column]
        name = f"data.vectors.{kernel.column}"
        if kernel.missing == "error":
            _add_missing(values, cohort.names(), name, problems)
        if getattr(kernel, "standardise", False):
            n_values = values.iloc[list(training_rows)].nunique()
            for column in n_values.index[n_values < 2]:
                problems.add(
                    "does not vary over the training scans; leave it out", name=name, column=column
                )
    problems.raise_if_any()


def _add_missing(
    values: pd.DataFrame, names: Sequence[str], vector: str, problems: Problems
) -> None:
    """Add a problem to `problems` for each scan that lacks one value or more of a vector.

    A vector is a group of numeric columns, such as regional volumes, that a kernel of the loss
    compares as a whole. `values` has a row for each scan and the vector's columns. `names` are the
    scans' names, and `vector` is the setting that names the vector, such as
    ``data.vectors.volumes``.
    """
    missing = values.isna()
    for row in np.flatnonzero(missing.any(axis=1)).tolist():
        columns = one_of(values.columns[missing.iloc[row]][:N_SHOWN])
        if missing.iloc[row].all():
            columns = f"any of its {len(values.columns)} columns"
        problems.add(f"{names[row]} has no value in {columns}", name=vector)
        problems.hint(
            "Fill it in, leave the scans out, or use missing: marginal, which keeps them "
            "(docs/losses.md)."
        )
