"""Find images in rows of other people or other sessions, by the labels of BIDS in their paths."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pandas as pd

from neurocontrast.cells import is_missing
from neurocontrast.data.layouts.longitudinal import scan_of_stream
from neurocontrast.data.layouts.tree import identity_of
from neurocontrast.data.problems import shown
from neurocontrast.files import composed
from neurocontrast.provenance import subject_label

MAPS = ("mask_path", "gm", "wm", "csf")
"""Columns with the brain mask and the tissue maps of each row's scan."""
_SUBJECT = re.compile("sub-", re.IGNORECASE)
_END_OF_LABEL = re.compile(r"[_.]|$")


@dataclass(frozen=True)
class _Owner:
    """Participant, person (``subject_id``) and session of a row of a table, as bare labels."""

    participant: str
    person: str
    session: str


@dataclass(frozen=True)
class _Mark:
    """Label of a person in a path, and the end of the path from the name with the label on."""

    label: str
    end: str
    folder: str
    """Folder with the label, as a path; "" for a label in the file name."""


def images_of_others(cells: pd.DataFrame, paths: Sequence[str]) -> dict[int, str]:
    """Return row position → message, for images whose path is of another row's person or session.

    Images are in wrong rows if, for instance, one column of the table was sorted without the other
    columns. The label after ``sub-`` in the file name counts, or else in the nearest folder. A
    folder with more rows than its label has in the table is no person's folder, and is ignored. A
    mask or map that several rows share can be of any session of the person.

    Parameters
    ----------
    cells : DataFrame
        Table with ``participant_id``, and ``subject_id`` and ``session`` if the file has them.
    paths : sequence of str
        File of each row: its image, brain mask or tissue map; "" if the row has none.
    """
    owners = _owners_of(cells)
    n_rows = Counter[str]()
    sessions = defaultdict(set)
    for owner in owners:
        n_rows.update({owner.participant, owner.person})
        sessions[owner.person].add(owner.session)
    del n_rows[""]
    marks = [_mark_in(path, owner, n_rows) for path, owner in zip(paths, owners, strict=True)]
    n_in_folder = Counter(mark.folder for mark in marks if mark.folder)
    n_of_path = Counter(paths)
    wrong = {}
    for row, (path, owner, mark) in enumerate(zip(paths, owners, marks, strict=True)):
        if not mark.label:
            continue
        if _is_own(mark.label, owner, path):
            end = _end_of_other_session(path, owner.session, sessions[owner.person])
            if end and n_of_path[path] == 1:
                wrong[row] = f"found {shown(end)}, the image of another session of this participant"
        elif mark.label in n_rows and n_in_folder[mark.folder] <= n_rows[mark.label]:
            wrong[row] = f"found {shown(mark.end)}, the image of another participant of this table"
    return wrong


def _owners_of(cells: pd.DataFrame) -> list[_Owner]:
    """Return participant, person and session of each row; the session is "" if missing."""
    participants = cells["participant_id"].map(subject_label)
    persons = participants
    if "subject_id" in cells:
        persons = cells["subject_id"].map(subject_label)
    sessions = pd.Series("", cells.index)
    if "session" in cells:
        sessions = cells["session"].mask(cells["session"].map(is_missing), "").map(_session_label)
    return list(map(_Owner, participants, persons, sessions))


def _session_label(session: str) -> str:
    """Return a session without ``ses-``, ``.0`` of a float, and zeros before a number."""
    label = subject_label(session.strip().removeprefix("ses-"))
    if label.isdecimal():
        return str(int(label))
    return label


def _mark_in(path: str, owner: _Owner, known: Collection[str]) -> _Mark:
    """Return the `_Mark` of the file name, or else of the nearest folder that begins ``sub-``.

    `_label_in` chooses the label by the row's `owner` and the `known` labels of the table. Without
    ``sub-`` in the path, label and end are "".
    """
    names = path.split("/")
    if _SUBJECT.search(names[-1]):
        return _Mark(_label_in(names[-1], owner, known), names[-1], "")
    for depth in reversed(range(len(names) - 1)):
        if _SUBJECT.match(names[depth]):
            label = _label_in(scan_of_stream(names[depth]), owner, known)
            return _Mark(label, "/".join(names[depth:]), "/".join(names[: depth + 1]))
    return _Mark("", "", "")


def _label_in(name: str, owner: _Owner, known: Collection[str]) -> str:
    """Return the label after ``sub-`` in a name, which can end at any "_" or ".".

    ``sub-A_1_T1w`` can be of A or of A_1: the label is that of the row's `owner`, or else the
    longest one in `known`, or else the shortest one.
    """
    labels = []
    for after in _SUBJECT.split(composed(name))[1:]:
        for end in _END_OF_LABEL.finditer(after):
            labels.append(after[: end.start()])
    if owner.participant in labels:
        return owner.participant
    for label in sorted(labels, key=len, reverse=True):
        if label in known:
            return label
    return min(labels, key=len)


def _is_own(label: str, owner: _Owner, path: str) -> bool:
    """Tell whether a label is the row's participant or person.

    A participant that `index` named after a data set is known too: paris_01 for
    ``paris/sub-01/anat/sub-01_T1w.nii``.
    """
    if label in (owner.participant, owner.person):
        return True
    dataset, _, last = owner.participant.rpartition(f"_{label}")
    return bool(dataset) and not last and f"-{dataset}-" in f"-{path.replace('/', '-')}"


def _end_of_other_session(path: str, session: str, sessions: Collection[str]) -> str:
    """Return the end of a path from the name of another session on; "" if of no other session.

    The label after ``ses-`` in the file name counts, or else in the nearest folder. Another session
    is one of `sessions`, all sessions of the person in the table, but not `session` of the row. A
    row without a session has no other session.
    """
    names = path.split("/")
    if not session or len(sessions) == 1:
        return ""
    for depth in reversed(range(len(names))):
        label = _session_label(identity_of(scan_of_stream(names[depth]))[1])
        if label:
            if label == session or label not in sessions:
                break
            return "/".join(names[depth:])
    return ""
