"""Formats of tables of regional measures: a class and a line of `FORMATS` each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from neurocontrast.data.measures.formats.cat12 import CAT12Regions
from neurocontrast.data.measures.formats.freesurfer import FreeSurferStats, FreeSurferTable
from neurocontrast.data.measures.formats.openbhb import OpenBHBRegions
from neurocontrast.data.measures.formats.sheet import Sheet, Table

__all__ = ["FORMATS", "Format", "Sheet"]


class Format(Protocol):
    """A way in which a program writes measures, found by its name in `FORMATS`."""

    def atlas_of(self, path: Path, head: str, /) -> str | None:
        """Return the atlas of a file ("" if it names none), or None if its format is another.

        `head` is the beginning of the file as text, "" for what is no text.
        """

    def sheets(self, paths: Sequence[Path]) -> list[Sheet]:
        """Read files of this format, all of one atlas."""


FORMATS: dict[str, Format] = {
    "freesurfer-stats": FreeSurferStats(),
    "freesurfer-table": FreeSurferTable(),
    "cat12": CAT12Regions(),
    "openbhb": OpenBHBRegions(),
    "table": Table(),
}
"""Name of a format → its reader; the first that claims a file reads it."""
