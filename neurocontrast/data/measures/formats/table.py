"""A table with one row a scan and a column of identifiers: ``.tsv``, ``.csv``, ``.xlsx`` or ``.parquet``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from neurocontrast.data.columns import text_of
from neurocontrast.data.measures.formats import Sheet
from neurocontrast.data.phenotype import read_cells
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.reading import read_json
from neurocontrast.tables import read_parquet

__all__ = ["Table", "by_identifier"]

_IDENTIFIERS = ("participant_id", "subject_id", "subject", "subjid", "subjectid", "sub", "id", "participant", "names")
_SESSIONS = ("session", "session_id", "ses")


class Table:
    """Read a table of measures in columns that have FreeSurfer's names or ENIGMA's."""

    def atlas_of(self, path: Path, _head: str) -> str | None:
        """Return "" for a file whose name ends as that of a table."""
        return "" if path.suffix.lower() in (".tsv", ".csv", ".txt", ".xlsx", ".xls", ".parquet") else None

    def sheets(self, paths: Sequence[Path]) -> list[Sheet]:
        """Read tables; one without a column of identifiers is a `DataError`."""
        return [by_identifier(path) for path in paths]


def by_identifier(path: Path) -> Sheet:
    """Return a table as a sheet; a JSON file beside it may name ``parcellation`` and ``software``."""
    cells, lines = _parquet(path) if path.suffix.lower() == ".parquet" else read_cells(path)
    by_name = {name.lower(): name for name in reversed(list(cells))}
    found = next((by_name[name] for name in _IDENTIFIERS if name in by_name), None)
    if found is None:
        there = one_of(list(cells)[:10])
        raise DataError(f"{path.name}: no column of identifiers such as 'participant_id'; it has: {there}.")
    session = next((by_name[name] for name in _SESSIONS if name in by_name), None)
    about = read_json(path.with_suffix(".json")) if path.with_suffix(".json").is_file() else {}
    atlas, software = (str(about.get(name, "")) for name in ("parcellation", "software"))
    rest = {name: column for name, column in cells.items() if name not in (found, session)}
    return Sheet(path, cells[found], rest, lines, cells[session] if session else (), atlas=atlas, software=software)


def _parquet(path: Path) -> tuple[dict[str, list[str]], list[int]]:
    table = read_parquet(path)
    if not isinstance(table.index, pd.RangeIndex):
        table = table.reset_index()
    return {str(name): [text_of(cell) for cell in table[name]] for name in table}, list(range(1, len(table) + 1))
