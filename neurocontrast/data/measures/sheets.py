"""Tables of measures as they were written: a sheet of text, whatever program wrote them."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import pandas as pd

from neurocontrast.cells import text_of
from neurocontrast.data.columns import IDENTIFIERS, SESSIONS, first_of, identifier_column
from neurocontrast.data.listing import read_sheet
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.reading import read_json

Value = TypeVar("Value")
_TEMPLATE = re.compile(r"(?:.*[/\\])?fsaverage[0-9]?(?:_sym)?[/\\]?")
SOFTWARE = ("software", "software_version", "freesurfer_version", "fs_version")
"""Names of a column of program and version, in tables of measures and of people."""
SUBJECT = "subject_id"
"""Column of the person, of whom several participants can be visits."""
_IDENTIFIERS = (*IDENTIFIERS, "subjid", "subjectid", "sub", "id", "participant", "names")


@dataclass(frozen=True)
class Sheet:
    """A table as a program wrote it: identifiers and cells as text, with what holds for all columns."""

    source: Path
    """File that was read, or the folder of several; messages begin with its name."""
    identifiers: Sequence[str]
    """Participant of each row: ``sub-01``, ``sub-01_ses-2``, or a path that ends in one."""
    cells: Mapping[str, Sequence[str]]
    """Cells by column, one a row; a missing one is empty or ``n/a``."""
    lines: Sequence[int] = ()
    """Line of the file for each row; empty if a row is a file."""
    sessions: Sequence[str] = ()
    """Session of each row, or empty if the file has no column of sessions."""
    side: str = ""  # "lh" or "rh", where it is that of all columns
    measure: str = ""  # of all columns, such as thickness
    atlas: str = ""  # of all columns, such as aparc.a2009s
    software: str = ""  # program and version
    scale: float = 1.0
    """Factor that takes volumes to mm³ from the unit that the format fixes: 1,000 for CAT12's mL."""
    files: Sequence[Path] = ()  # that were read, if `source` is their folder
    datasets: Sequence[str] = ()
    """Data set in front of each row's participant, or empty where a name is one person."""
    subjects: Sequence[str] = ()
    """Subject of each row, or empty if no column ``subject_id`` is beside the identifiers."""
    programs: Sequence[str] = ()
    """Program and version of each row, or empty if no column says them."""
    damage: str = ""
    """Reason why the file cannot be read: the sheet then has no cells, and at most one row."""

    def line(self, row: int) -> int | None:
        """Return the line of a row in the file; None if a row is a file."""
        return self.lines[row] if self.lines else None

    def take(self, rows: Sequence[int]) -> Self:
        """Return the sheet with some of its rows, by position."""

        def of_rows(values: Sequence[Value]) -> list[Value]:
            return [values[row] for row in rows] if values else []

        has_files = len(self.files) == len(self.identifiers)
        return replace(
            self,
            identifiers=of_rows(self.identifiers),
            cells={name: of_rows(cells) for name, cells in self.cells.items()},
            lines=of_rows(self.lines),
            sessions=of_rows(self.sessions),
            files=of_rows(self.files) if has_files else self.files,
            datasets=of_rows(self.datasets),
            subjects=of_rows(self.subjects),
            programs=of_rows(self.programs),
        )


class ScanRow(NamedTuple):
    """The row of one scan, which a file of its own holds, and what holds for all of its columns."""

    file: Path
    identifier: str
    cells: Mapping[str, str]
    about: Mapping[str, Any]


def sheets_of_scans(rows: Iterable[ScanRow]) -> list[Sheet]:
    """Return one sheet for the rows of scans that share hemisphere, measure, atlas and software."""
    groups: dict[tuple[Any, ...], list[ScanRow]] = defaultdict(list)
    for row in rows:
        groups[tuple(row.about.items())].append(row)
    sheets = []
    for about, found in groups.items():
        files = [row.file for row in found]
        source = Path(os.path.commonpath(files))
        if len(files) > 1 and len({file.name for file in files}) == 1:
            source /= files[0].name
        cells = pd.DataFrame([row.cells for row in found], dtype=object).fillna("").to_dict("list")
        people = [row.identifier for row in found]
        sheets.append(
            Sheet(
                source,
                people,
                {str(name): each for name, each in cells.items()},
                files=files,
                **dict(about),
            )
        )
    return sheets


def by_identifier(path: Path) -> Sheet:
    """Return a table as a sheet; a JSON file of the same name may name ``parcellation`` and ``software``."""
    sheet = _sheet_of(read_sheet(path), path)
    description = path.with_suffix(".json")
    if not description.is_file():
        return sheet
    facts = read_json(description)
    atlas = str(facts.get("parcellation", ""))
    return replace(sheet, atlas=atlas, software=str(facts.get("software", "")))


def sheet_of_frame(frame: pd.DataFrame, name: str) -> Sheet:
    """Return a DataFrame with a column of identifiers, or such an index, as a sheet."""
    table = frame
    if first_of(frame.columns, _IDENTIFIERS) == "" and first_of(frame.index.names, _IDENTIFIERS):
        table = frame.reset_index()
    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise DataError(f"{name}: has several columns '{twice}'. Take out all but one.")
    texts = table.astype(object).map(text_of).set_axis(table.columns.astype(str), axis=1)
    return _sheet_of(texts.set_axis(range(len(texts)), axis=0), Path(name))


def _sheet_of(table: pd.DataFrame, source: Path) -> Sheet:
    """Return a table as text as a sheet: identifiers, sessions and subjects apart."""
    identifier = identifier_column(list(table.columns), source=source.name, names=_IDENTIFIERS)
    session = first_of(table, SESSIONS)
    cells = {}
    for name, column in table.items():
        cells[str(name)] = column.tolist()
    people = cells.pop(identifier)
    sessions = cells.pop(session) if session else ()
    subjects = cells.pop(first_of(cells, [SUBJECT]), ())
    programs = cells.pop(first_of(cells, SOFTWARE), ())
    lines = table.index.tolist()
    return Sheet(source, people, cells, lines, sessions, subjects=subjects, programs=programs)


def without_templates(sheet: Sheet, notes: list[str]) -> Sheet:
    """Return the sheet without rows of FreeSurfer's average brain, which `notes` then name."""
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
