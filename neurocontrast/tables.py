"""Readers of tables that programs wrote: tab-separated text, Excel workbooks, Parquet.

Tables that people wrote as text are read by `neurocontrast.data.listing`, which names lines and takes more forms.
"""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Collection
from typing import Any

import pandas as pd

from neurocontrast.exceptions import DataError, NeurocontrastError, one_of, said, suggestion
from neurocontrast.reading import DAMAGE, check_place

__all__ = ["read_parquet", "read_table", "read_workbook"]

_N_WORKBOOK_BYTES = 2**28


def read_table(
    path: str | os.PathLike[str],
    *,
    needed: Collection[str] = (),
    error: type[NeurocontrastError] = DataError,
    remedy: str = "",
    **options: Any,
) -> pd.DataFrame:
    """Read a tab-separated table.

    Parameters
    ----------
    path : path
        Table in UTF-8, with a header.
    needed : collection of str
        Columns that must be there.
    error, remedy : see `neurocontrast.reading.read_json`
        What is raised for a table that cannot be used, and its last sentence.
    **options
        Of `pandas.read_csv`, in place of those here; no word is a missing value unless ``na_values`` says so.
    """
    check_place(path, error=error, remedy=remedy)
    given: dict[str, Any] = {"sep": "\t", "keep_default_na": False, "encoding": "utf-8-sig", "compression": None}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows with more cells than the header
            table = pd.read_csv(path, index_col=False, **given | options)
    except (ValueError, OSError, OverflowError, pd.errors.ParserWarning) as problem:
        raise error(f"{path}: not readable as a table ({said(problem)}). {remedy}".rstrip()) from None
    lacking = [name for name in needed if name not in table]
    if lacking:
        near = suggestion(lacking[0], table.columns)
        there = one_of(table.columns[:30])
        raise error(f"{path}: missing columns: {one_of(lacking)}; found: {there}.{near} {remedy}".rstrip())
    return table


def read_workbook(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read the first sheet of an Excel workbook (``.xlsx``) as text."""
    check_place(path)
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(part.file_size for part in archive.infolist()) > _N_WORKBOOK_BYTES:
                raise ValueError(f"its tables would take more than {_N_WORKBOOK_BYTES:,} bytes")
        cells = pd.read_excel(path, header=None, dtype=str, keep_default_na=False, engine="openpyxl")
    except ImportError as error:
        raise DataError(f"{path}: Excel files need openpyxl: pip install 'neurocontrast[excel]'.") from error
    except DAMAGE as error:  # openpyxl meets damaged parts with nearly any of them
        found = f"not readable as an Excel workbook ({said(error)})"
        raise DataError(f"{path}: {found}. Save it as .xlsx or .tsv.") from None
    header = cells.iloc[:1].to_numpy().ravel()  # which pandas, reading it as one, renames where a name comes twice
    names = [name or f"Unnamed: {position}" for position, name in enumerate(header)]
    return cells.iloc[1:].reset_index(drop=True).set_axis(names, axis="columns")


def read_parquet(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a Parquet table."""
    import pyarrow

    check_place(path)
    try:
        return pd.read_parquet(path)
    except (pyarrow.ArrowException, *DAMAGE) as error:
        raise DataError(f"{path}: not readable as Parquet ({said(error)}).") from None
