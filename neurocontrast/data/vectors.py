"""Columns that are vectors: several columns of the table, or a file of features beside it."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.cohort import Cohort
from neurocontrast.data.metadata import numbers_of
from neurocontrast.data.problems import N_SHOWN, shown
from neurocontrast.exceptions import DataError, one_of, suggestion

__all__ = ["matching_columns", "read_vectors"]

VectorSpec = Mapping[str, Sequence[str] | str | Path]


def read_vectors(spec: VectorSpec, cohort: Cohort) -> dict[str, npt.NDArray[np.float32]]:
    """Return each named vector for every row of a cohort.

    Parameters
    ----------
    spec : mapping of str to sequence of str, or path
        Name → columns of the table, in their order (``attr_*`` takes all that match, in the table's order), or a
        ``.parquet`` file with ``participant_id`` and columns of numbers. A relative path starts from the folder
        of the table.
    cohort : Cohort
        Its rows are those of the vectors.

    Returns
    -------
    dict of str to ndarray (n, p), float32
        NaN where missing.

    Raises
    ------
    DataError
        For a name the table has a column of, a column or file that is absent or not of numbers, infinite
        numbers, and participants the file lacks or has twice.
    """
    found: dict[str, npt.NDArray[np.float32]] = {}
    for name, what in spec.items():
        if name in cohort.table:
            raise DataError(f"vectors.{name}: the table has a column of that name; give the vector another.")
        values = _of_file(name, what, cohort) if isinstance(what, str | Path) else _of_columns(name, what, cohort)
        n_infinite = int(np.isinf(values).any(axis=1).sum())
        if n_infinite:
            raise DataError(f"vectors.{name}: {n_infinite} rows hold numbers that are infinite or beyond float32.")
        found[name] = values
    return found


def matching_columns(patterns: Sequence[str], columns: Sequence[str], *, key: str) -> list[str]:
    """Return the columns that patterns name, each once, a pattern's own in the order of `columns`.

    Raises
    ------
    DataError
        For a pattern that names none; `key` says where it stands.
    """
    chosen: dict[str, None] = {}
    for pattern in patterns:
        names = [pattern] if pattern in columns else [name for name in columns if fnmatch.fnmatchcase(name, pattern)]
        if not names:
            raise DataError(
                f"{key}: the table has no column '{pattern}'.{suggestion(pattern, columns)} "
                f"It has: {one_of(list(columns)[:30])}."
            )
        chosen |= dict.fromkeys(names)
    return list(chosen)


def _of_columns(name: str, patterns: Sequence[str], cohort: Cohort) -> npt.NDArray[np.float32]:
    if not patterns:
        raise DataError(f"vectors.{name}: name at least one column.")
    known = [str(column) for column in cohort.table.columns if column not in _NOT_VALUES]
    columns = matching_columns(patterns, known, key=f"vectors.{name}")
    try:
        values = [numbers_of(cohort.table, column) for column in columns]
    except DataError as error:
        raise DataError(f"vectors.{name}: {error}") from None
    return np.stack(values, axis=1).astype(np.float32)


def _of_file(name: str, file: str | Path, cohort: Cohort) -> npt.NDArray[np.float32]:
    path = cohort.source.parent / Path(file).expanduser()
    table = _read_parquet(path, key=f"vectors.{name}")
    if "participant_id" not in table:
        raise DataError(
            f"vectors.{name}: {path.name} needs a column 'participant_id'.{suggestion('participant_id', table.columns)}"
        )
    ids = table.pop("participant_id").astype(str).to_numpy(dtype=object)
    texts = [str(column) for column in table.columns if not pd.api.types.is_numeric_dtype(table[column])]
    if texts or not len(table.columns):
        found = f"text in {one_of(texts[:10])}" if texts else "no further column"
        raise DataError(f"vectors.{name}: {path.name} holds a participant_id and numbers. Found {found}.")
    row_of = {participant: row for row, participant in enumerate(ids)}
    if len(row_of) != len(ids):
        twice = pd.Series(ids)[pd.Series(ids).duplicated()].unique()
        raise DataError(f"vectors.{name}: {path.name} has {one_of(twice[:N_SHOWN])} more than once.")
    wanted = cohort.table["participant_id"].astype(str).to_numpy(dtype=object)
    lacking = [participant for participant in dict.fromkeys(wanted) if participant not in row_of]
    if lacking:
        more = f" … and {len(lacking) - N_SHOWN} more" if len(lacking) > N_SHOWN else ""
        raise DataError(f"vectors.{name}: {path.name} has no row for {one_of(lacking[:N_SHOWN])}{more}.")
    values = table.to_numpy(dtype=np.float32, na_value=np.nan)
    return values[[row_of[participant] for participant in wanted]]


def _read_parquet(path: Path, *, key: str) -> pd.DataFrame:
    if not path.is_file():
        raise DataError(f"{key}: there is no file {shown(path, 200)} (a relative path starts from the table's folder).")
    try:
        return pd.read_parquet(path)
    except Exception as error:
        raise DataError(f"{key}: {path.name} cannot be read as a parquet table ({error}).") from None


_NOT_VALUES = ("participant_id", "subject_id", "session", "path")
