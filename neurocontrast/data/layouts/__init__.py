"""Layouts of scans on a disk: a class and a line of `LAYOUTS` each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from neurocontrast.exceptions import DataError, one_of, suggestion
from neurocontrast.lazy import load

__all__ = ["LAYOUTS", "Layout", "Listing", "layout_named"]


@dataclass(frozen=True)
class Listing:
    """Scans as a layout lists them: cells of stripped text.

    Parameters
    ----------
    source : Path
        File or folder that was read; messages begin with its name.
    columns : dict of str to list of str
        Cells by column: ``participant_id``, ``path``, and any other that is known of each scan.
    lines : list of int
        Line of the source for each row, for messages.
    root : Path
        Folder that relative paths start from.
    """

    source: Path
    columns: dict[str, list[str]]
    lines: list[int]
    root: Path


class Layout(Protocol):
    """A way in which scans lie on a disk, found by its name in `LAYOUTS` and made without arguments."""

    def read(self, source: Path) -> Listing:
        """List the scans of a file or folder; one that is not of this layout is a `DataError`."""


_HERE = "neurocontrast.data.layouts"
LAYOUTS = {
    "table": f"{_HERE}.table:TableLayout",
    "bids": f"{_HERE}.bids:Bids",
    "fmriprep": f"{_HERE}.fmriprep:FMRIPrep",
    "cat12": f"{_HERE}.cat12:CAT12",
    "freesurfer": f"{_HERE}.freesurfer:FreeSurfer",
    "caps": f"{_HERE}.caps:Caps",
    "openbhb": f"{_HERE}.public:OpenBHB",
    "brainprep": f"{_HERE}.public:Brainprep",
    "ixi": f"{_HERE}.public:Ixi",
}
"""Name of a layout → import path of its class, which is imported when the layout is asked for."""


def layout_named(name: str) -> Layout:
    """Return a layout by its name in `LAYOUTS`."""
    if name not in LAYOUTS:
        raise DataError(f"layout: there is no '{name}'.{suggestion(name, LAYOUTS)} There are: {one_of(LAYOUTS)}.")
    layout: Layout = load(LAYOUTS[name])()
    return layout
