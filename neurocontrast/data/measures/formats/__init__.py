"""Formats of tables of regional measures: a module with `sheets_of` and a line of `FORMATS` each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FORMATS", "Sheet"]


@dataclass(frozen=True)
class Sheet:
    """A table as a program wrote it: identifiers and cells of text, with what the program says of all of them.

    Parameters
    ----------
    source : Path
        File that was read; messages begin with its name.
    identifiers : sequence of str
        Participant of each row: ``sub-01``, ``sub-01_ses-2``, or a path that ends in one.
    cells : mapping of str to sequence of str
        Cells by column, one a row; a missing one is empty or ``n/a``.
    lines : sequence of int
        Line of the file for each row.
    sessions : sequence of str
        Session of each row, or empty if the file has no column of sessions.
    side : {"", "lh", "rh"}
        Hemisphere of all columns.
    measure, atlas : str
        Measure and atlas of all columns, such as ``thickness`` and ``aparc.a2009s``.
    software : str
        Program and version.
    scale : float
        Factor that takes volumes to mm³, where the format fixes another unit: 1,000 for CAT12's mL.
    """

    source: Path
    identifiers: Sequence[str]
    cells: Mapping[str, Sequence[str]]
    lines: Sequence[int]
    sessions: Sequence[str] = ()
    side: str = ""
    measure: str = ""
    atlas: str = ""
    software: str = ""
    scale: float = 1.0


_HERE = "neurocontrast.data.measures.formats"
FORMATS = {
    "table": f"{_HERE}.table:sheets_of",
}
"""Name of a format → import path of a function that returns the sheets of a file, or None if the format is another."""
