"""A table of measures as a program wrote it, and tables with a column of identifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neurocontrast.data.columns import IDENTIFIERS, SESSIONS, first_of, identifier_column
from neurocontrast.data.listing import read_sheet
from neurocontrast.reading import read_json


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


_IDENTIFIERS = (*IDENTIFIERS, "subjid", "subjectid", "sub", "id", "participant", "names")


class Table:
    """Read a table of measures in columns that have FreeSurfer's names or ENIGMA's."""

    def atlas_of(self, path: Path, _head: str) -> str | None:
        """Return "" for a file whose name ends as that of a table."""
        return "" if path.suffix.lower() in (".tsv", ".csv", ".txt", ".xlsx", ".xls", ".parquet") else None

    def sheets(self, paths: Sequence[Path]) -> list[Sheet]:
        """Read tables; one without a column of identifiers is a `DataError`."""
        return [by_identifier(path) for path in paths]


def by_identifier(path: Path) -> Sheet:
    """Return a table as a sheet; a JSON file of the same name may name ``parcellation`` and ``software``."""
    table = read_sheet(path)
    found = identifier_column(list(table.columns), source=path.name, names=_IDENTIFIERS)
    session = first_of(table, SESSIONS)
    about = read_json(path.with_suffix(".json")) if path.with_suffix(".json").is_file() else {}
    atlas, software = (str(about.get(name, "")) for name in ("parcellation", "software"))
    cells = {str(name): column.tolist() for name, column in table.items()}
    people, sessions = cells.pop(found), cells.pop(session) if session else ()
    return Sheet(path, people, cells, table.index.tolist(), sessions, atlas=atlas, software=software)
