"""Subject and site of each scan, as a scikit-learn splitter is given them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.table import cell_texts
from neurocontrast.exceptions import DataError

__all__ = ["subjects_and_sites"]


def subjects_and_sites(groups: Any, sites: Any, *, splitter: str) -> tuple[npt.NDArray[np.object_], list[str | None]]:
    """Return the subject of each row, and its site or None where that is missing.

    Parameters
    ----------
    groups : DataFrame or array-like of shape (n, 2), or array-like of shape (n,)
        Subject and site, in this order; a DataFrame's columns ``subject_id`` and ``site`` are found by name. With
        `sites`, the subjects alone.
    sites : array-like of shape (n,) or None
        Site of each row.
    splitter : str
        Name of the splitter, for messages.

    Raises
    ------
    DataError
        Where subjects or sites are not there, or not for every row.
    """
    if groups is None:
        raise DataError(
            f"groups: {splitter} needs the subject and the site of each row. Give groups with two columns "
            "(subject, site), or groups=subjects with sites=sites."
        )
    if sites is None:
        subject_column, site_column = _two_columns(groups, splitter)
    else:
        subject_column, site_column = np.asarray(groups, dtype=object), np.asarray(sites, dtype=object)
        if subject_column.ndim != 1 or site_column.shape != subject_column.shape:
            raise DataError(
                f"groups, sites: must each have one value a row, found shapes {subject_column.shape} and "
                f"{site_column.shape}."
            )
    subjects = cell_texts(pd.Series(subject_column, dtype=object))
    unknown = [row for row, subject in enumerate(subjects) if subject is None]
    if unknown:
        raise DataError(
            f"groups: the subject is missing in {len(unknown)} of {len(subjects)} rows (first: {unknown[:5]}). Name a "
            "subject in every row, so that nobody stands on both sides of a split."
        )
    return np.array(subjects, dtype=object), cell_texts(pd.Series(site_column, dtype=object))


def _two_columns(groups: Any, splitter: str) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.object_]]:
    if isinstance(groups, pd.DataFrame) and {"subject_id", "site"} <= set(groups.columns):
        groups = groups[["subject_id", "site"]]
    table = np.asarray(groups, dtype=object)
    if table.ndim != 2 or table.shape[1] != 2:
        raise DataError(
            f"groups: {splitter} needs two columns, subject and site, and found shape {table.shape}. Give "
            "table[['subject_id', 'site']], or the sites besides as sites=."
        )
    return table[:, 0], table[:, 1]
