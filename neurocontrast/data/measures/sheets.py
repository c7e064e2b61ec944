"""Hold tables of measures of any program as text in one form, a `Sheet`."""

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

import pandas as pd

from neurocontrast.cells import text_of
from neurocontrast.data.columns import IDENTIFIERS, SESSIONS, first_of, identifier_column
from neurocontrast.data.listing import read_sheet
from neurocontrast.documents.index import MeasuresDescription
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.reading import read_json

Value = TypeVar("Value")
_TEMPLATE = re.compile(r"(?:.*[/\\])?fsaverage[0-9]?(?:_sym)?[/\\]?")
SOFTWARE = ("software", "software_version", "freesurfer_version", "fs_version")
"""Usual names of a column of program and version, in tables of measures or of people."""
SUBJECT = "subject_id"
"""Name of the column of the person; several participants can be visits of one person."""
_IDENTIFIERS = (*IDENTIFIERS, "subjid", "subjectid", "sub", "id", "participant", "names")


@dataclass(frozen=True)
class Sheet:
    """Table of regional measures as a program writes them: a row for each scan, cells as text.

    The readers in `FORMATS` make one from a file, or from the files of several scans, and
    `sheet_of_frame` makes one from a DataFrame.
    """

    source: Path
    """File that was read, or the common folder of several files; messages begin with its name."""
    identifiers: Sequence[str]
    """Participant of each row: ``sub-01``, ``sub-01_ses-2``, or a path that ends in such a name."""
    cells: Mapping[str, Sequence[str]]
    """Column → cells of the rows; a missing cell is empty or ``n/a``."""
    lines: Sequence[int] = ()
    """Line in the file for each row; empty if every row has a file of its own."""
    sessions: Sequence[str] = ()
    """Session of each row; empty if the file has no column of sessions."""
    side: str = ""
    """Hemisphere of all columns, ``lh`` or ``rh``; "" if columns differ."""
    measure: str = ""
    """Measure of all columns, such as ``thickness``; "" if columns' names tell the measure."""
    atlas: str = ""
    """Atlas of all columns, such as ``aparc.a2009s``; "" if unknown."""
    software: str = ""
    """Program and version for the whole table; "" if unknown."""
    scale: float = 1.0
    """Factor from the unit of the file's volumes to mm³: 1,000 for CAT12's mL."""
    files: Sequence[Path] = ()
    """Files that were read, if `source` is their folder."""
    datasets: Sequence[str] = ()
    """Data set to put in front of each row's participant; empty if participants of one name in
    several folders are one person.
    """
    subjects: Sequence[str] = ()
    """Subject of each row; empty if the file has no column ``subject_id``."""
    programs: Sequence[str] = ()
    """Program and version of each row; empty if the file has no such column."""
    damage: str = ""
    """Reason why the file cannot be read; "" if readable. A damaged sheet has no cells, at most
    a row.
    """

    def line(self, row: int) -> int | None:
        """Return the line number in the file of the row at position `row`, counted from 0.

        None if every row has a file of its own.
        """
        if not self.lines:
            return None
        return self.lines[row]

    def take(self, rows: Sequence[int]) -> Self:
        """Return a `Sheet` with only the rows at the positions `rows`."""

        def of_rows(values: Sequence[Value]) -> list[Value]:
            if not values:
                return []
            return [values[row] for row in rows]

        files = self.files
        if len(self.files) == len(self.identifiers):
            files = of_rows(self.files)
        return replace(
            self,
            identifiers=of_rows(self.identifiers),
            cells={name: of_rows(cells) for name, cells in self.cells.items()},
            lines=of_rows(self.lines),
            sessions=of_rows(self.sessions),
            files=files,
            datasets=of_rows(self.datasets),
            subjects=of_rows(self.subjects),
            programs=of_rows(self.programs),
        )


@dataclass(frozen=True)
class SharedFacts:
    """Hemisphere, measure, atlas, software and scale that all columns of a `Sheet` share."""

    side: str = ""
    measure: str = ""
    atlas: str = ""
    software: str = ""
    scale: float = 1.0


class ScanRow(NamedTuple):
    """Regional measures of a scan that has a file of its own: a row of a table to be made.

    `cells` is column → cell, and `facts` has what all columns of the file share: hemisphere,
    measure, atlas, software and scale. `sheets_of_scans` joins rows with equal facts to one
    `Sheet`.
    """

    file: Path
    identifier: str
    cells: Mapping[str, str]
    facts: SharedFacts


def sheets_of_scans(rows: Iterable[ScanRow]) -> list[Sheet]:
    """Join rows of scans, each read from its own file, to tables; return a list of `Sheet` objects.

    Rows with the same `SharedFacts` (hemisphere, measure, atlas, software and scale) form one
    table.
    """
    groups: dict[SharedFacts, list[ScanRow]] = defaultdict(list)
    for row in rows:
        groups[row.facts].append(row)
    sheets = []
    for facts, group in groups.items():
        files = [row.file for row in group]
        source = Path(os.path.commonpath(files))
        if len(files) > 1 and len({file.name for file in files}) == 1:
            source /= files[0].name
        table = pd.DataFrame([row.cells for row in group], dtype=object).fillna("")
        sheet = Sheet(
            source,
            [row.identifier for row in group],
            {str(name): column.tolist() for name, column in table.items()},
            side=facts.side,
            measure=facts.measure,
            atlas=facts.atlas,
            software=facts.software,
            scale=facts.scale,
            files=files,
        )
        sheets.append(sheet)
    return sheets


def by_identifier(path: Path) -> Sheet:
    """Read a table of measures with a column of identifiers as a `Sheet`.

    Atlas and software are in a JSON file with the table's name, if there is one, under the keys
    ``parcellation`` and ``software``.
    """
    table = read_sheet(path)
    sheet = _sheet_of(table, path)
    file = path.with_suffix(".json")
    if not file.is_file():
        return sheet
    description = _read_description(file, table.columns)
    return replace(sheet, atlas=description.parcellation, software=description.software)


def _read_description(file: Path, columns: Collection[str]) -> MeasuresDescription:
    """Read atlas and software of a table from its JSON file, which may also describe columns.

    A key that describes one of the table's `columns` is left out.
    """
    content = read_json(file)
    for key in MeasuresDescription.model_fields:
        if key in columns and isinstance(content.get(key), dict):
            del content[key]
    return MeasuresDescription.of(content, file)


def sheet_of_frame(frame: pd.DataFrame, name: str) -> Sheet:
    """Return a DataFrame of measures as a `Sheet`; identifiers are in a column or the index."""
    table = frame
    if first_of(frame.columns, _IDENTIFIERS) == "" and first_of(frame.index.names, _IDENTIFIERS):
        table = frame.reset_index()
    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise DataError(f"{name}: has several columns '{twice}'. Take out all but one.")
    texts = table.astype(object).map(text_of).set_axis(table.columns.astype(str), axis=1)
    return _sheet_of(texts.set_axis(range(len(texts)), axis=0), Path(name))


def _sheet_of(table: pd.DataFrame, source: Path) -> Sheet:
    """Return a table of text as a `Sheet`; columns of names and programs become separate fields.

    Fields are the identifiers (participant), sessions, subjects (person) and programs; all other
    columns become `cells`. The index of `table` has the line number of each row in `source`.
    """
    identifier = identifier_column(list(table.columns), source=source.name, names=_IDENTIFIERS)
    session = first_of(table, SESSIONS)
    cells = {}
    for name, column in table.items():
        cells[str(name)] = column.tolist()
    people = cells.pop(identifier)
    sessions: Sequence[str] = ()
    if session:
        sessions = cells.pop(session)
    subjects = cells.pop(first_of(cells, [SUBJECT]), ())
    programs = cells.pop(first_of(cells, SOFTWARE), ())
    lines = table.index.tolist()
    return Sheet(source, people, cells, lines, sessions, subjects=subjects, programs=programs)


def without_templates(sheet: Sheet, notes: list[str]) -> Sheet:
    """Return `sheet` without rows of FreeSurfer's average brain; add a line on them to `notes`."""
    rows = []
    templates = []
    for row, cell in enumerate(sheet.identifiers):
        if _TEMPLATE.fullmatch(cell.strip()):
            templates.append(cell)
        else:
            rows.append(row)
    if not templates:
        return sheet
    notes.append(
        f"{sheet.source.name}: left out {one_of(templates)}: FreeSurfer's average brain, no person."
    )
    return sheet.take(rows)
