"""Warnings about cells of a cohort's table that can be read, perhaps in another way than meant."""

from __future__ import annotations

import itertools

import pandas as pd

from neurocontrast.cells import is_missing, number_of
from neurocontrast.data.checking import IDENTITY
from neurocontrast.data.columns import RULES
from neurocontrast.data.levels import spelled_alike
from neurocontrast.data.subjects import notes_on_two_sexes
from neurocontrast.exceptions import one_of

_OTHER_NAMES = {
    "session_id": "session",
    "dx": "diagnosis",
}


def warnings_about_cells(cells: pd.DataFrame, table: pd.DataFrame) -> list[str]:
    """Return warnings on cells that can be read, but perhaps not as the author of the table meant.

    Parameters
    ----------
    cells : DataFrame
        Table as text.
    table : DataFrame
        Values of the same cells.
    """
    warnings = []
    lower_case = {name.lower() for name in cells.columns}
    for column, name in _OTHER_NAMES.items():
        if name not in cells and column in lower_case:
            warnings.append(
                f"column '{column}' is kept as it is; rename it '{name}' if that is what it holds"
            )
    n_top_coded = int(cells.get("age", pd.Series(dtype=str)).str.endswith("+").sum())
    if n_top_coded:
        warnings.append(f"column 'age': {n_top_coded} ages such as '89+' are read as their number")
    warnings += _warnings_of_none(cells)
    for column in cells.columns.difference([*IDENTITY, *RULES], sort=False):
        if pd.api.types.is_numeric_dtype(table[column]):
            continue
        counts = table[column].value_counts()
        n_texts = counts[counts.index.map(number_of).isna()].sum()
        n_cells = counts.sum()
        is_number = counts.index.str.replace(",", ".").map(number_of).notna()
        if n_texts and counts[is_number].sum() > 0.5 * n_cells:
            few = f"{n_texts} of {n_cells} cells are no numbers, as 1.5 and n/a are"
            warnings.append(f"column '{column}' is read as text: {few}")
    if "sex" in cells:
        warnings += notes_on_two_sexes(table["subject_id"], cells["sex"])
    return warnings + _warnings_of_spellings(cells)


def _warnings_of_none(cells: pd.DataFrame) -> list[str]:
    """Return a warning for each column with cells "None", which are read as missing.

    The author of the table may have meant "no diagnosis".
    """
    warnings = []
    for column in cells.columns:
        n_cells = int((cells[column] == "None").sum())
        if n_cells:
            warnings.append(
                f"column '{column}': {n_cells} cells 'None' are read as missing; a value, such as "
                "no diagnosis, is written 'none'"
            )
    return warnings


def _warnings_of_spellings(cells: pd.DataFrame) -> list[str]:
    """Return a warning for each group of sites or diagnoses that differ only in spelling."""
    warnings = []
    for column in ("site", "diagnosis"):
        levels = itertools.filterfalse(is_missing, cells.get(column, ()))
        for group in spelled_alike(levels):
            warnings.append(f"column '{column}': {one_of(group)} count as different values")
    return warnings
