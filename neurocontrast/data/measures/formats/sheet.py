"""A table of measures as a program wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Sheet", "sheet_of_scans"]


@dataclass(frozen=True)
class Sheet:
    """A table as a program wrote it: identifiers and cells as text, with what holds for all columns.

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

    def line(self, row: int) -> int | None:
        """Return the line of a row in the file; None if a row is a file."""
        return self.lines[row] if self.lines else None


def sheet_of_scans(source: Path, rows: Mapping[Path, Mapping[str, str]], people: Sequence[str], **about: Any) -> Sheet:
    """Return one sheet of several files, each of which holds the row of a scan."""
    names = dict.fromkeys(name for cells in rows.values() for name in cells)
    columns = {name: [cells.get(name, "") for cells in rows.values()] for name in names}
    return Sheet(source, people, columns, files=list(rows), **about)
