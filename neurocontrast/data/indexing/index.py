"""Index: the table of a folder's scans, how they were chosen, and the settings of the choice."""

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
"""Columns of the table, in order; further columns that were asked for follow.

``iqr`` is CAT12's grade of the image, ``euler`` the Euler number of FreeSurfer's surfaces, and
``qc_rating`` a rating by eye.
"""
MEASURES = "measures"
"""Name of the layout of a folder that holds tables of regional measures, and no images."""
N_NAMED = 4
"""Number of scans that a note names."""


@dataclass(frozen=True)
class IndexSettings:
    """Settings of an index, as `neurocontrast.index` describes them."""

    layout: str = "auto"
    phenotypes: Sequence[Path] = ()
    id_column: str | None = None
    site_from: SiteFrom = "column"
    choose: Sequence[str] = ()
    keep: Sequence[str] = ()
    skip: bool = False


@dataclass
class Index:
    """Table of the scans of a folder, and how they were chosen."""

    table: pd.DataFrame
    """One row a scan, all cells text, with the columns `COLUMNS`."""
    layout: str
    """Name of the layout of the scans."""
    n_found: int
    """Number of scans before the choice."""
    left_out: list[tuple[str, str]] = field(default_factory=list)
    """Paths or people that are left out, with the reasons."""
    notes: list[str] = field(default_factory=list)
    """Choices that were made without being asked for."""
    tables: list[str] = field(default_factory=list)
    """Tables of people that were joined."""
    cells_not_read: list[str] = field(default_factory=list)
    """Problems with cells of tables; by ``--skip`` the scan is kept, and the cell is missing."""
    path: Path = Path()
    """File of the table, once it is written."""
    record_path: Path = Path()
    """File of the record beside the table."""
    measures_path: Path | None = None
    """File of the table of regional measures, if there are any."""
    measures: MeasuresTable | None = None
    """Regional measures of these scans and others, if the folder has tables of measures."""

    def __str__(self) -> str:
        n_people = self.table["subject_id"].nunique()
        title = f"{len(self.table):,} scans of {n_people:,} people, layout {self.layout}"
        n_left_out = f"left out: {len(self.left_out):,}"
        return "\n".join([title, n_left_out, *self.notes, str(self.path)])
