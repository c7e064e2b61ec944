"""Formats of tables of regional measures: a class in a file of its own and a line of `FORMATS` each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["FORMATS", "Format", "Sheet"]


@dataclass(frozen=True)
class Sheet:
    """A table as a program wrote it: identifiers and cells of text, with what the program says of all of them.

    Parameters
    ----------
    source : Path
        File that was read, or the folder of several; messages begin with its name.
    identifiers : sequence of str
        Participant of each row: ``sub-01``, ``sub-01_ses-2``, or a path that ends in one.
    cells : mapping of str to sequence of str
        Cells by column, one a row; a missing one is empty or ``n/a``.
    lines : sequence of int
        Line of the file for each row; empty if a row is a file.
    sessions : sequence of str
        Session of each row, or empty if the file has no column of sessions.
    side : {"", "lh", "rh"}
        Hemisphere of all columns.
    measure, atlas : str
        Measure and atlas of all columns, such as ``thickness`` and ``aparc.a2009s``.
    software : str
        Program and version.
    scale : float
        Factor that takes volumes to mm³ from the unit that the format fixes: 1,000 for CAT12's mL.
    files : sequence of Path
        Files that were read, if `source` is their folder.
    """

    source: Path
    identifiers: Sequence[str]
    cells: Mapping[str, Sequence[str]]
    lines: Sequence[int] = ()
    sessions: Sequence[str] = ()
    side: str = ""
    measure: str = ""
    atlas: str = ""
    software: str = ""
    scale: float = 1.0
    files: Sequence[Path] = ()


class Format(Protocol):
    """A way in which a program writes measures, found by its name in `FORMATS` and made without arguments."""

    def atlas_of(self, path: Path, head: str, /) -> str | None:
        """Return the atlas of a file ("" if it names none), or None if its format is another.

        `head` is the beginning of the file as text, "" for what is no text.
        """

    def sheets(self, paths: Sequence[Path]) -> list[Sheet]:
        """Read files of this format, all of one atlas."""


_HERE = "neurocontrast.data.measures.formats"
FORMATS = {
    "freesurfer-stats": f"{_HERE}.freesurfer_stats:FreeSurferStats",
    "freesurfer-table": f"{_HERE}.freesurfer_table:FreeSurferTable",
    "cat12": f"{_HERE}.cat12:CAT12Regions",
    "openbhb": f"{_HERE}.openbhb:OpenBHBRegions",
    "table": f"{_HERE}.table:Table",
}
"""Name of a format → import path of its class; the first that claims a file reads it."""
