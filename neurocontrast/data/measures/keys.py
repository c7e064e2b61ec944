"""Read participant and session from the identifiers in tables of measures."""

import re

import numpy as np
import pandas as pd

from neurocontrast.cells import is_missing
from neurocontrast.data.identifiers import problem_of_identifier
from neurocontrast.data.layouts.longitudinal import scan_of_stream
from neurocontrast.data.layouts.tree import identity_of
from neurocontrast.data.measures.merging import Merged, scan_name
from neurocontrast.data.measures.sheets import SUBJECT, Sheet
from neurocontrast.data.problems import shown
from neurocontrast.files import composed
from neurocontrast.provenance import subject_label

_OF_DATA_SET = re.compile(
    r"sub-[^_]+(?:_(?!T[12]w?$|FLAIR$|MPRAGE$|brain$|anat$)[^_-]+)+", re.IGNORECASE
)
"""Pattern of a participant's name that begins with a data set, as ``sub-paris_01``; a name that
ends in an image's suffix, as ``sub-01_T1w``, does not fit.
"""


def _add_subjects(sheet: Sheet, index: pd.MultiIndex, merged: Merged, source: str) -> None:
    """Add the subject of each scan, by the column of subjects in `sheet`, to ``merged.subjects``.

    If an earlier table states another subject for the scan, the earlier one stays and a problem is
    added to ``merged.problems``. `index` has participant and session of each row, and `source`
    begins the problem's text.
    """
    for key, cell in zip(index, sheet.subjects, strict=False):  # a sheet may have none
        if is_missing(cell):
            continue
        subject = subject_label(cell)
        earlier = merged.subjects.setdefault(key, subject)
        if earlier != subject:
            problem = f"{source}found {shown(subject)}, and {shown(earlier)} in another table"
            merged.problems.add(problem, column=SUBJECT, name=scan_name(*key))


def index_of(sheet: Sheet, merged: Merged, source: str) -> pd.MultiIndex:
    """Return participant and session of each row of `sheet`, as the index of a table.

    `merged` collects the tables read so far, and is changed: a problem is added for each row with a
    wrong identifier, and for each that repeats a scan; the subject of each scan is added to
    `subjects`. All rows stay in the result. `source` begins messages.
    """
    people = []
    sessions = []
    for row, cell in enumerate(map(composed, sheet.identifiers)):
        person, session = identity(cell, has_session=bool(sheet.sessions))
        problem = problem_of_identifier(person)
        if problem:
            merged.problems.add(f"{source}{problem}", line=sheet.line(row))
        if sheet.datasets and sheet.datasets[row]:
            person = f"sub-{sheet.datasets[row]}_{person.removeprefix('sub-')}"
        stated = _session_of(sheet, row)
        if stated and session and stated != session:
            conflict = f"{source}found {shown(cell)} in session {shown(stated)}"
            merged.problems.add(conflict, line=sheet.line(row))
        people.append(merged.spelled.setdefault(subject_label(person), person))
        sessions.append(stated or session)
    index = pd.MultiIndex.from_arrays([people, sessions], names=["participant_id", "session"])
    for person, session in zip(people, sessions, strict=True):
        merged.keys[scan_name(person, session)] = (person, session)
    _add_subjects(sheet, index, merged, source)
    _add_repeated(sheet, index, merged, source)
    return index


def _session_of(sheet: Sheet, row: int) -> str:
    """Return the session of one row in the column of sessions of `sheet`; "" if none."""
    if not sheet.sessions:
        return ""
    session = sheet.sessions[row].removeprefix("ses-")
    if is_missing(session):
        return ""
    return session


def _add_repeated(sheet: Sheet, index: pd.MultiIndex, merged: Merged, source: str) -> None:
    """Add to ``merged.problems`` a problem for each row of `sheet` that repeats a scan of `sheet`.

    `index` has participant and session of each row; the first row of a scan is no problem. Rows of
    one scan in other tables are not compared here.
    """
    has_files = len(sheet.files) == len(index)
    for row in np.flatnonzero(index.duplicated()).tolist():
        where = source
        if has_files:  # one a row: the scan's name does not tell which of them to take out
            where = f"{sheet.files[row]}: "
        merged.problems.add(
            f"{where}the scan has an earlier row; a participant, or a session of one, has one row",
            line=sheet.line(row),
            name=scan_name(*map(str, index[row])),
        )


def identity(cell: str, *, has_session: bool = False) -> tuple[str, str]:
    """Return participant and session of an identifier: ``sub-01``, ``2`` for ``sub-01_ses-2/``.

    Of a path, only the last part is read. In a table with a column of sessions (`has_session`),
    ``sub-paris_01`` is a participant of the data set ``paris``, as `index` writes.
    """
    name = re.split(r"[/\\]", cell.strip().rstrip("/\\"))[-1]
    name = scan_of_stream(name)
    if has_session and _OF_DATA_SET.fullmatch(name):
        return name, ""
    subject, session, _ = identity_of(name)
    if subject == name:
        return name, ""
    return f"sub-{subject}", session
