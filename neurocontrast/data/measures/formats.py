"""Register the formats of tables of measures: FreeSurfer, FastSurfer, CAT12, OpenBHB and others."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from neurocontrast.data.measures.cat12 import atlas_of_cat12, read_cat12, scan_of_cat12
from neurocontrast.data.measures.freesurfer import (
    atlas_of_freesurfer_table,
    atlas_of_stats,
    read_freesurfer_table,
    read_stats,
    scan_of_stats,
)
from neurocontrast.data.measures.openbhb import atlas_of_openbhb, read_openbhb, scan_of_openbhb
from neurocontrast.data.measures.sheets import Sheet, by_identifier
from neurocontrast.exceptions import DataError
from neurocontrast.reading import problem_of_content

_OF_TABLES = (".tsv", ".csv", ".txt", ".xlsx", ".xls", ".parquet")


def _atlas_of_table(path: Path, _head: str) -> str | None:
    """Return "", for an unknown atlas, if `path` ends like a table's; None for another ending."""
    if path.suffix.lower() in _OF_TABLES:
        return ""
    return None


def _read_freesurfer_tables(paths: Sequence[Path]) -> list[Sheet]:
    """Read tables of FreeSurfer, as one `Sheet` for each file."""
    return list(map(read_freesurfer_table, paths))


def _read_identified_tables(paths: Sequence[Path]) -> list[Sheet]:
    """Read tables with a column of identifiers, as one `Sheet` for each file."""
    return list(map(by_identifier, paths))


def _no_scan(_path: Path) -> str:
    """Return "" in place of a scan's identifier, since a table is of many scans."""
    return ""


class Format(NamedTuple):
    """Format in which a program writes regional measures; `FORMATS` has all of them by name.

    Parameters
    ----------
    atlas_of : callable
        Returns the atlas of a file ("" if it names none), or None for a file of another format. The
        arguments are the path, and the beginning of the file as text ("" for binary files).
    sheets : callable
        Reads files of this format, all of one atlas, as `Sheet` objects: tables of text with the
        identifier of each row.
    scan_of : callable, optional
        Returns the identifier of a file's only scan, read from the path of the file, so that with
        ``--skip`` the scan of a damaged file can be left out; "" for a table of many scans, the
        default.
    """

    atlas_of: Callable[[Path, str], str | None]
    sheets: Callable[[Sequence[Path]], list[Sheet]]
    scan_of: Callable[[Path], str] = _no_scan


def read_sheets(reader: Format, files: Sequence[Path]) -> list[Sheet]:
    """Read files of one format as `Sheet` objects, tables of text with an identifier for each row.

    A damaged file becomes a `Sheet` without cells, whose `damage` has the reason.
    """
    damage = {}
    for file in files:
        if problem := problem_of_content(file):
            damage[file] = problem
    readable = list(filter(lambda file: file not in damage, files))
    sheets: list[Sheet] = []
    if readable:
        try:
            sheets += reader.sheets(readable)
        except DataError:
            damage_alone = _damage_of(reader, readable)
            damage |= damage_alone
            if not damage_alone:
                raise
            undamaged = list(filter(lambda file: file not in damage_alone, readable))
            sheets += read_sheets(reader, undamaged)
    for file, reason in damage.items():
        scans = list(filter(None, [reader.scan_of(file)]))
        sheets.append(Sheet(file, scans, {}, files=[file], damage=reason))
    return sheets


def _damage_of(reader: Format, files: Sequence[Path]) -> dict[Path, str]:
    """Return file → reason, for each of `files` that cannot be read in the format `reader`.

    Each file is read alone, to find the damaged ones after reading all together failed.
    """
    damage = {}
    for file in files:
        try:
            reader.sheets([file])
        except DataError as error:
            reason = str(error)
            damage[file] = reason.removeprefix(f"{file}: ").removeprefix(f"{file.name}: ")
    return damage


FORMATS: dict[str, Format] = {
    "freesurfer-stats": Format(atlas_of_stats, read_stats, scan_of_stats),
    "freesurfer-table": Format(atlas_of_freesurfer_table, _read_freesurfer_tables),
    "cat12": Format(atlas_of_cat12, read_cat12, scan_of_cat12),
    "openbhb": Format(atlas_of_openbhb, read_openbhb, scan_of_openbhb),
    # Columns that have FreeSurfer's names or ENIGMA's.
    "table": Format(_atlas_of_table, _read_identified_tables),
}
"""Name → format of tables of measures; the first format whose `atlas_of` accepts a file reads the
file.
"""
