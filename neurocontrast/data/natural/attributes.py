"""Columns of a table, joined to the pictures of a source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.columns import is_missing
from neurocontrast.data.layouts.table import read_text_table
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.exceptions import DataError, one_of, suggestion

__all__ = ["join_attributes"]

_RESERVED = ("participant_id", "subject_id", "session", "path", "split", "label", "file", "cluster")
_FLAGS = {"true": "1", "false": "0"}


def join_attributes(files: Sequence[str], table: Path, *, key: str, taken: Sequence[str] = ()) -> dict[str, list[str]]:
    """Return the attributes of every picture as text, by column: "n/a" where missing, 1 and 0 for true and false.

    The column `key` of the table holds the names in `files`: whole, or, where no whole name is found, the last part of
    each if these are unique. Names that are `taken` by other columns, and pictures without a row, are refused.
    """
    cells = pd.DataFrame(read_text_table(table).columns).map(_plain)
    if key not in cells:
        raise DataError(
            f"attributes_key: {table.name} has no column '{key}'.{suggestion(key, cells.columns)} "
            f"It has: {one_of(list(cells.columns)[:30])}."
        )
    rows = _rows_of(files, cells.pop(key), table, key)
    _check_names(cells, table, taken)
    return {str(name): column.iloc[rows].tolist() for name, column in cells.items()}


def _plain(cell: str) -> str:
    return "n/a" if is_missing(cell) else _FLAGS.get(cell.lower(), cell)


def _rows_of(files: Sequence[str], cells: pd.Series, table: Path, key: str) -> npt.NDArray[np.int64]:
    names = pd.Index(cells.str.replace("\\", "/").str.removeprefix("./"))
    wanted = pd.Index(files)
    last = wanted.str.rpartition("/").get_level_values(2)
    if not names.isin(wanted).any() and last.is_unique:
        names, wanted = names.str.rpartition("/").get_level_values(2), last
    if not names.is_unique:
        twice = names[names.duplicated()].unique()
        raise DataError(f"attributes: {table.name} has more than one row for {one_of(twice[:N_SHOWN])}.")
    rows = names.get_indexer(wanted)
    if (rows < 0).all():
        example = f"{shown(names[0])} in the table, {shown(files[0])} in the source"
        raise DataError(f"attributes: no picture is named in column '{key}' of {table.name} ({example}).")
    problems = Problems(table.name)
    for position in np.flatnonzero(rows < 0).tolist():
        problems.add("no row tells of this picture", name=shown(files[position]))
    problems.raise_if_any()
    return rows


def _check_names(cells: pd.DataFrame, table: Path, taken: Sequence[str]) -> None:
    for name, column in cells.items():
        if any(set(cell) & set("\t\r\n") for cell in (str(name), *column)):
            raise DataError(f"attributes: {table.name}, column {shown(name)}, holds tabs or line ends; take them out.")
        if str(name).lower() in _RESERVED or name in taken or str(name).startswith("cluster_"):
            raise DataError(f"attributes: {table.name} has a column '{name}', a name that is used here; rename it.")
