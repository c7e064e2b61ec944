"""A table with one row a scan and a column of identifiers: ``.tsv``, ``.csv``, ``.xlsx`` or ``.parquet``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from neurocontrast.data.columns import IDENTIFIERS, SESSIONS, first_of, identifier_column
from neurocontrast.data.listing import read_sheet
from neurocontrast.data.measures.formats.sheet import Sheet
from neurocontrast.reading import read_json

__all__ = ["Table", "by_identifier"]

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
    listing = read_sheet(path)
    cells = listing.columns
    found, session = identifier_column(list(cells), source=path.name, names=_IDENTIFIERS), first_of(cells, SESSIONS)
    about = read_json(path.with_suffix(".json")) if path.with_suffix(".json").is_file() else {}
    atlas, software = (str(about.get(name, "")) for name in ("parcellation", "software"))
    rest = {name: column for name, column in cells.items() if name not in (found, session)}
    sessions = cells[session] if session else ()
    return Sheet(path, cells[found], rest, listing.lines, sessions, atlas=atlas, software=software)
