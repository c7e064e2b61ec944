"""Define the index of a folder's scans (`Index`), and the settings of indexing (`IndexSettings`).

An `Index` has the table of the scans, and records which scans were chosen or left out and why.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pandas as pd

from neurocontrast.data.measures.tables import MeasuresTable

SiteFrom = Literal["column", "folder", "scanner"]
COLUMNS = (
    "participant_id",
    "subject_id",
    "session",
    "run",
    "path",
    "mask_path",
    "gm",
    "wm",
    "csf",
    "space",
    "stage",
    "layout",
    "age",
    "age_source",
    "sex",
    "sex_recorded",
    "site",
    "scanner",
    "field_strength",
    "diagnosis",
    "tiv",
    "iqr",
    "euler",
    "qc_rating",
)
"""Columns of the index, in order; columns that the user asks to keep follow.

``iqr`` is CAT12's grade of the image, ``euler`` the Euler number of FreeSurfer's surfaces, and
``qc_rating`` a rating by eye.
"""
MEASURES = "measures"
"""Name of the layout of a folder with tables of regional measures, and no images."""
N_NAMED = 4
"""Largest number of scans that a note names."""


@dataclass(frozen=True)
class IndexSettings:
    """Settings for indexing a folder; `neurocontrast.index` describes each."""

    layout: str = "auto"
    phenotypes: Sequence[Path] = ()
    id_column: str | None = None
    site_from: SiteFrom = "column"
    choose: Sequence[str] = ()
    keep: Sequence[str] = ()
    skip: bool = False


@dataclass
class Index:
    """Table of a folder's scans, and the record of how the scans were found and chosen.

    Made by `index_scans`.
    """

    table: pd.DataFrame
    """One row a scan with the columns `COLUMNS`; all cells are text."""
    layout: str
    """Name of the layout of the scans."""
    n_found: int
    """Number of scans found, before any was left out."""
    left_out: list[tuple[str, str]] = field(default_factory=list)
    """Scans and people left out of the table: path or name, and the reason."""
    notes: list[str] = field(default_factory=list)
    """Notes on choices that were made without the user asking."""
    tables: list[str] = field(default_factory=list)
    """Names of the tables of people that were joined."""
    cells_not_read: list[str] = field(default_factory=list)
    """Problems with cells of tables; with ``--skip`` the scan is kept, and the cell is missing."""
    path: Path = Path()
    """Path of the written table."""
    record_path: Path = Path()
    """Path of the record ``index.json``, next to the table."""
    measures_path: Path | None = None
    """Path of the written table of regional measures; None without measures."""
    measures: MeasuresTable | None = None
    """Regional measures of all scans in tables of measures, also of scans that `table` lacks; None
    without tables of measures."""

    def __str__(self) -> str:
        n_people = self.table["subject_id"].nunique()
        title = f"{len(self.table):,} scans of {n_people:,} people, layout {self.layout}"
        n_left_out = f"left out: {len(self.left_out):,}"
        return "\n".join([title, n_left_out, *self.notes, str(self.path)])
