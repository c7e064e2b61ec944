"""What a table or an array tells of each picture, joined to the pictures of a source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.columns import is_missing, text_of
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.data.tsv import read_text_table
from neurocontrast.exceptions import DataError, one_of, suggestion

__all__ = ["join_attributes", "read_features"]

_RESERVED = ("participant_id", "subject_id", "session", "path", "split", "label", "file", "cluster")
_SEPARATORS = frozenset("\t\r\n")
_FLAGS = {"true": "1", "false": "0"}


def join_attributes(
    files: Sequence[str],
    table: Path,
    *,
    key: str | None,
    unmatched: Literal["error", "drop"],
    taken: Sequence[str] = (),
    used_up: Sequence[str] = (),
) -> tuple[npt.NDArray[np.int64], dict[str, list[str]]]:
    """Return the pictures that have attributes, and these as cells of text, by column.

    Parameters
    ----------
    files : sequence of str
        Name of each picture in its source.
    table : Path
        ``.tsv``, ``.csv`` or ``.parquet``.
    key : str or None
        Column that holds those names: whole, or, where no whole name is found, the last part of each if these are
        unique. None joins by order.
    unmatched : {'error', 'drop'}
        Whether pictures without a row are refused or left out.
    taken : sequence of str
        Names that other columns of the result have.
    used_up : sequence of str
        Columns that become the label or the split, and may have any name.

    Returns
    -------
    kept : ndarray (n,), int64
        Pictures with a row, in their order.
    columns : dict of str to list of str
        Cells of each, "n/a" where missing; true and false as 1 and 0.

    Raises
    ------
    DataError
        For a table or key column that is absent, names that stand twice or are taken, pictures without a row;
        all such pictures together.
    """
    columns = _cells(table)
    if key is None:
        rows = _rows_by_order(files, columns, table)
    else:
        rows = _rows_by_name(files, columns, table, key=key, unmatched=unmatched)
        columns.pop(key)
    _check_names(columns, table, taken, used_up)
    kept = np.flatnonzero(rows >= 0)
    return kept, {name: [_plain(cells[row]) for row in rows[kept]] for name, cells in columns.items()}


def _cells(table: Path) -> dict[str, list[str]]:
    if table.suffix.lower() != ".parquet":
        return dict(read_text_table(table).columns)
    frame = _read_parquet(table, "attributes")
    if frame.empty:
        raise DataError(f"attributes: {table.name} has no rows or no columns.")
    return {str(name): [text_of(value) for value in frame[name].tolist()] for name in frame.columns}


def _read_parquet(path: Path, key: str) -> pd.DataFrame:
    if not path.is_file():
        raise DataError(f"{key}: there is no file {shown(path, 200)}.")
    try:
        return pd.read_parquet(path)
    except Exception as error:
        raise DataError(f"{key}: {path.name} cannot be read as a parquet table ({error}).") from None


def _rows_by_order(files: Sequence[str], columns: dict[str, list[str]], table: Path) -> npt.NDArray[np.int64]:
    n_rows = len(next(iter(columns.values())))
    if n_rows != len(files):
        raise DataError(
            f"attributes: {table.name} has {n_rows:,} rows and the source {len(files):,} pictures; joined row by "
            "row they must agree. Name the column of files by attributes_key."
        )
    return np.arange(n_rows)


def _rows_by_name(
    files: Sequence[str],
    columns: dict[str, list[str]],
    table: Path,
    *,
    key: str,
    unmatched: Literal["error", "drop"],
) -> npt.NDArray[np.int64]:
    if key not in columns:
        raise DataError(
            f"attributes_key: {table.name} has no column '{key}'.{suggestion(key, columns)} "
            f"It has: {one_of(list(columns)[:30])}."
        )
    names = [cell.replace("\\", "/").removeprefix("./") for cell in columns[key]]
    wanted = list(files)
    if not set(names) & set(wanted):
        last_names, last_files = ([name.rpartition("/")[2] for name in part] for part in (names, wanted))
        if len(set(last_files)) == len(last_files):
            names, wanted = last_names, last_files
    row_of = {name: row for row, name in enumerate(names)}
    if len(row_of) != len(names):
        twice = pd.Series(names)[pd.Series(names).duplicated()].unique()
        raise DataError(f"attributes: {table.name} has more than one row for {one_of(twice[:N_SHOWN].tolist())}.")
    rows = np.array([row_of.get(name, -1) for name in wanted], dtype=np.int64)
    problems = Problems(table.name)
    for position in np.flatnonzero(rows < 0).tolist():
        problems.add("no row tells of this picture", name=shown(files[position]))
    if len(problems.found) == len(files):
        example = f"{shown(names[0])} in the table, {shown(files[0])} in the source"
        raise DataError(f"attributes: no picture is named in column '{key}' of {table.name} ({example}).")
    if unmatched == "error":
        if problems.found:
            problems.hint("images.unmatched=drop leaves such pictures out.")
        problems.raise_if_any()
    return rows


def _check_names(columns: dict[str, list[str]], table: Path, taken: Sequence[str], used_up: Sequence[str]) -> None:
    for name, cells in columns.items():
        if any(not _SEPARATORS.isdisjoint(cell) for cell in (name, *cells)):
            raise DataError(f"attributes: {table.name}, column {shown(name)}, holds tabs or line ends; take them out.")
        clash = name.lower() in _RESERVED or name in taken or name.startswith("cluster_")
        if clash and name not in used_up:
            raise DataError(f"attributes: {table.name} has a column '{name}', a name that is used here; rename it.")


def _plain(cell: str) -> str:
    return "n/a" if is_missing(cell) else _FLAGS.get(cell.lower(), cell)


def read_features(
    path: Path, files: Sequence[str], rows: npt.NDArray[np.int64], *, key: str
) -> npt.NDArray[np.float32]:
    """Return the continuous features of the given pictures.

    Parameters
    ----------
    path : Path
        ``.npy``, (n, p) with one row for each of `files` in their order; or ``.parquet`` with columns of numbers, and
        a column ``file`` where the order is another.
    files : sequence of str
        All pictures of the source.
    rows : ndarray (m,), int64
        Those whose features are wanted.
    key : str
        What named the file, for messages.

    Returns
    -------
    ndarray (m, p), float32

    Raises
    ------
    DataError
        Where the file is absent, has another number of rows, lacks pictures, or holds anything but finite numbers.
    """
    values = _array(path, files, rows, key) if path.suffix.lower() == ".npy" else _frame(path, files, rows, key)
    n_bad = int((~np.isfinite(values)).any(axis=1).sum())
    if n_bad:
        raise DataError(f"{key}: {path.name} has numbers that are missing or infinite, of {n_bad:,} pictures.")
    return values


def _array(path: Path, files: Sequence[str], rows: npt.NDArray[np.int64], key: str) -> npt.NDArray[np.float32]:
    if not path.is_file():
        raise DataError(f"{key}: there is no file {shown(path, 200)}.")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{key}: {path.name} cannot be read as an array of numbers ({error}).") from None
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "fiub" or not array.shape[1]:
        raise DataError(f"{key}: {path.name} must hold numbers of shape (n, p). Found {getattr(array, 'shape', '?')}.")
    _check_length(path, len(array), len(files), key)
    return np.asarray(array[rows], dtype=np.float32)


def _frame(path: Path, files: Sequence[str], rows: npt.NDArray[np.int64], key: str) -> npt.NDArray[np.float32]:
    frame = _read_parquet(path, key)
    if "file" in frame:
        names = frame.pop("file").astype(str).tolist()
        row_of = {name: row for row, name in enumerate(names)}
        lacking = [files[row] for row in rows if files[row] not in row_of]
        if lacking or len(row_of) != len(names):
            what = (
                f"no row for {len(lacking)} pictures ({one_of(lacking[:5])})" if lacking else "files that stand twice"
            )
            raise DataError(f"{key}: {path.name} has {what}.")
        rows = np.array([row_of[files[row]] for row in rows], dtype=np.int64)
    else:
        _check_length(path, len(frame), len(files), key)
    texts = [str(name) for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])]
    if texts or not len(frame.columns):
        raise DataError(f"{key}: {path.name} must hold columns of numbers. Found {one_of(texts[:10]) or 'none'}.")
    return frame.to_numpy(dtype=np.float32, na_value=np.nan)[rows]


def _check_length(path: Path, n_rows: int, n_files: int, key: str) -> None:
    if n_rows != n_files:
        raise DataError(
            f"{key}: {path.name} has {n_rows:,} rows and the source {n_files:,} pictures; they must agree, in order."
        )
