"""Check a table of scans: columns, identifiers, image files and cells."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.cells import Refusal, is_missing
from neurocontrast.data.addresses import SampleFinder, address_of
from neurocontrast.data.columns import RULES, values_of
from neurocontrast.data.identifiers import REMEDY_OF_VISITS, problem_of_identifier
from neurocontrast.data.layouts.owners import MAPS, images_of_others
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.data.subjects import first_visits, visit_of
from neurocontrast.data.unmarked import REMEDY, unmarked_missing
from neurocontrast.exceptions import DataError, one_of, suggestion
from neurocontrast.files import as_on_disk
from neurocontrast.provenance import unify_subjects
from neurocontrast.reading import NO_FILE, problem_of_content

IMAGE_ENDINGS = (".nii.gz", ".nii", ".mgz", ".mgh", ".npy")
IDENTITY = ("participant_id", "subject_id", "session", "path")
_WITHOUT_CODES = ("age", "site", "diagnosis")
"""Columns whose cells are refused if they seem to be a code for a missing value, such as -9."""
_RESERVED = re.compile(r"feature_[0-9]+")


@dataclass(frozen=True)
class Rows:
    """Cells of a table of scans as text, indexed by line of the file, and the table's problems.

    Made by `inspect_cohort`; the methods add problems to `problems` and raise no error.
    """

    cells: pd.DataFrame
    problems: Problems

    def refuse(self, column: str, reasons: Mapping[int, str]) -> None:
        """Add a problem to `problems` for each refused cell of a column.

        `reasons` is row position → reason, which is the text of the problem. The problem also has
        the column, the line in the file, and the participant of the row.
        """
        for row, reason in reasons.items():
            name = self.cells["participant_id"].iloc[row]
            line = int(self.cells.index[row])
            self.problems.add(reason, column=column, line=line, name=name)

    def values(self, column: str, not_decoded: Mapping[int, Refusal]) -> pd.Series:
        """Return the values of a column as a Series by row position, with NaN in refused cells.

        A problem is added to `problems` for each refused cell. Refused are the cells that are no
        value of the column, such as text in column ``age``, and the cells in `not_decoded`: row
        position → reason why `read_people` could not decode the cell by the table's JSON file or
        by codes in the column's name, as in ``sex (1=m, 2=f)``.
        """
        cells = self.cells[column].copy()
        written = self.cells[column].tolist()
        cells.iloc[list(not_decoded)] = ""
        values, not_read = values_of(column, cells)
        if column in _WITHOUT_CODES:
            codes = unmarked_missing(column, cells)
            unclear = Refusal("it seems to mean that the value is not known", REMEDY)
            for row in positions_of(cells.isin(codes)):
                not_read.setdefault(row, unclear)
                values.iloc[row] = np.nan
        for row, refusal in sorted({**not_decoded, **not_read}.items()):
            self.refuse(column, {row: f"found {shown(written[row])}; {refusal.rule}"})
            self.problems.hint(refusal.hint)
        return values

    def missing(self, column: str, rule: str) -> npt.NDArray[np.bool_]:
        """Return a mask of the missing cells of a column; add one problem for each such cell.

        The problems are added to `problems`. The text of each ends with `rule`, which says which
        cells are allowed.
        """
        cells = self.cells[column]
        missing = cells.map(is_missing).to_numpy(dtype=bool)
        reasons = {}
        for row in positions_of(missing):
            reasons[row] = f"found {shown(cells.iloc[row])}; {rule}"
        self.refuse(column, reasons)
        return missing


def positions_of(mask: npt.ArrayLike) -> list[int]:
    """Return the positions of the true values of a mask."""
    return np.flatnonzero(mask).tolist()


def check_columns(source: str, names: list[str], channels: tuple[str, ...]) -> None:
    """Refuse a table of scans that lacks a needed column, or has reserved or repeated names.

    Parameters
    ----------
    source : str
        Name of the table in messages.
    names : list of str
        Columns of the table.
    channels : tuple of str
        Columns with the files of each channel.
    """
    for column, n_times in Counter(names).items():
        if n_times > 1:
            raise DataError(
                f"{source}: the header names the column '{column}' twice, in different cases."
            )
    for column in names:
        if _RESERVED.fullmatch(column):
            raise DataError(
                f"{source}: the column name '{column}' is kept for embeddings; rename the column."
            )
    has = f"It has: {one_of(names[:30])}."
    if "participant_id" not in names:
        hint = suggestion("participant_id", names)
        raise DataError(f"{source}: column 'participant_id' is needed.{hint} {has}")
    _check_channels(source, names, channels, has)
    if "path" in channels and "path" not in names:
        hint = suggestion("path", names)
        raise DataError(
            f"{source}: column 'path' is needed, the image of each row.{hint} {has} People with "
            "regional measures and no images are read by index, pretrain, embed and predict."
        )


def _check_channels(source: str, names: list[str], channels: tuple[str, ...], has: str) -> None:
    """Refuse channels that are no columns of the table (`names`), or whose column holds no files.

    `has` is a sentence for the message, with the columns that the table has.
    """
    for column in channels:
        if column not in (*names, "path"):
            hint = suggestion(column, names)
            raise DataError(f"{source}: data.channels: there is no column '{column}'.{hint} {has}")
        if column in (*IDENTITY[:3], *RULES):
            raise DataError(f"{source}: data.channels: column '{column}' holds no files. {has}")


def identity_of_rows(rows: Rows) -> dict[str, object]:
    """Return a dict of participants, subjects and sessions, lists with a value for each row.

    Keys are ``participant_id``, ``subject_id`` and ``session``. In a table without ``subject_id``
    the subject is the participant, and all spellings of one participant become one.

    For each wrong cell, such as a missing or repeated identifier, a problem is added to
    ``rows.problems``; the cell stays in the lists.
    """
    cells = rows.cells
    nameless = rows.missing("participant_id", "every row needs an identifier")
    participants = cells["participant_id"]
    subjects = pd.Series(unify_subjects(participants), participants.index, dtype=object)
    if "subject_id" in cells:
        subjects = cells["subject_id"]
        subjects = pd.Series(unify_subjects(subjects), subjects.index, dtype=object)
        rows.missing(
            "subject_id",
            "every row needs one, or leave the column out where it is the participant_id",
        )
    stated = cells.get("session", pd.Series("", cells.index))
    lines = cells.index.to_series()
    sessions = stated.mask(stated.map(is_missing), "")
    before = lines.groupby([participants, sessions]).transform("first")

    _check_identifiers(rows)
    earlier = {}
    for row in positions_of((before != lines) & ~nameless):
        scan = "this participant"
        if sessions.iloc[row]:
            scan = f"session {shown(sessions.iloc[row])} of this participant"
        earlier[row] = f"{scan} is on line {before.iloc[row]} already"
    rows.refuse("participant_id", earlier)
    if earlier and "session" not in cells:
        rows.problems.hint("Several scans of one participant need a column 'session'.")
    above = subjects.groupby(participants).transform("first")
    conflicts = {}
    for row in positions_of(above != subjects):
        conflicts[row] = f"found {shown(subjects.iloc[row])}, but {shown(above.iloc[row])} above"
    rows.refuse("subject_id", conflicts)
    return {
        "participant_id": participants.tolist(),
        "subject_id": subjects.tolist(),
        "session": sessions.tolist(),
    }


def _check_identifiers(rows: Rows) -> None:
    """Add a problem to ``rows.problems`` for each row that names no participant, or a later visit.

    S01_v2 names a later visit if another row has S01_v1, a name that differs only in the visit.
    """
    for column in rows.cells.columns.intersection(["participant_id", "subject_id"]):
        wrong = {}
        for row, cell in enumerate(rows.cells[column]):
            problem = problem_of_identifier(cell)
            if problem and not is_missing(cell):
                wrong[row] = problem
        rows.refuse(column, wrong)
    column = "participant_id"
    if "subject_id" in rows.cells:
        column = "subject_id"
    names = rows.cells[column].tolist()
    sexes = rows.cells.get("sex", pd.Series("", rows.cells.index)).tolist()
    visits = {}
    for row, first in first_visits(names, sexes).items():
        visits[row] = visit_of(first)
        rows.problems.hint(REMEDY_OF_VISITS)
    rows.refuse(column, visits)


def paths_of_rows(rows: Rows, column: str, root: Path, *, check: bool, is_used: bool) -> list[str]:
    """Return the absolute paths in a column of files, one for each row; "" for missing cells.

    For a column of images that are used (`is_used`), a problem is added to ``rows.problems`` for
    each row whose cell is missing, whose file cannot be used (with `check`), whose image an earlier
    row has, or whose image is of another participant or session of the table by its path.

    Parameters
    ----------
    rows : Rows
        Cells of the table, and the problems to add to.
    column : str
        Name of the column of files.
    root : Path
        Folder that relative paths start from.
    check : bool
        Whether every file must exist.
    is_used : bool
        Whether the files are images of scans: every row then needs an image of its own.
    """
    cells = rows.cells[column]
    missing = cells.map(is_missing).to_numpy(dtype=bool)
    if is_used:
        rows.missing(column, "every scan needs an image")
    paths = cells.map(partial(_absolute, root=root)).astype(object).mask(missing, "")
    if is_used and check:
        _check_files(rows, column, paths.tolist(), missing)
    if is_used:
        first = cells.index.to_series().groupby(paths).transform("first")
        repeated = {}
        for row in positions_of(paths.duplicated() & ~missing):
            path = shown(paths.iloc[row], 200)
            repeated[row] = f"{path} is the image of line {first.iloc[row]} already"
        rows.refuse(column, repeated)
        rows.refuse(column, images_of_others(rows.cells, paths.tolist()))
    return paths.tolist()


def refuse_files_of_others(rows: Rows, root: Path, used: Collection[str]) -> None:
    """Add a problem for each image, brain mask or tissue map of another row's person or session.

    Problems are added to ``rows.problems``. Relative paths start from the folder `root`. Left out
    are the columns in `used`, which `paths_of_rows` checks.
    """
    for column in rows.cells.columns.intersection(["path", *MAPS]):
        if column in used:
            continue
        cells = rows.cells[column]
        files = cells.map(partial(_absolute, root=root)).mask(cells.map(is_missing), "")
        rows.refuse(column, images_of_others(rows.cells, files.tolist()))


def _absolute(cell: str, *, root: Path) -> str:
    """Return the absolute path in a cell, with accented letters as the disk spells them.

    A relative path starts from the folder `root`.
    """
    path = os.path.join(root, os.path.expanduser(cell))  # noqa: PTH111, PTH118
    return as_on_disk(os.path.normpath(path))


def _check_files(
    rows: Rows, column: str, paths: Sequence[str], missing: npt.NDArray[np.bool_]
) -> None:
    """Add a problem for each image that is absent, without content, or of an unknown format.

    Problems are added to ``rows.problems``. `paths` has the absolute path of the image of each row,
    from the column named `column`. Rows in the mask `missing` have no path and are left out.
    """
    wrong = dict[int, str]()
    n_absent = 0
    finder = SampleFinder()
    for row in positions_of(~missing):
        path = paths[row]
        problem = _problem_of_image(path, finder)
        if problem is _ABSENT:
            near = ""
            if n_absent < N_SHOWN:
                near = _hint_for_absent(path)
            wrong[row] = f"there is no image {shown(path, 200)}.{near}"
            n_absent += 1
            _hint_for_address(path, rows.problems)
        elif problem:
            wrong[row] = problem
    rows.refuse(column, wrong)
    if n_absent == len(paths):
        rows.problems.hint(
            "None of the images is there: is images_root the folder the paths start from?"
        )


_ABSENT = "absent"
"""Mark that `_problem_of_image` returns for a path without a file."""


def _problem_of_image(path: str, finder: SampleFinder) -> str:
    """Return `_ABSENT`, or words on why the image at `path` cannot be used; "" for a usable image.

    `finder` checks a path that is the address of a sample in a file of many.
    """
    address = address_of(path)
    if address is not None:
        return finder.problem_of(path, address)
    if not path.lower().endswith(IMAGE_ENDINGS):
        folder = ""
        if os.path.isdir(path):  # noqa: PTH112
            folder = " (a folder: make a BIDS tree of DICOM files with heudiconv or dcm2bids)"
        return f"found {shown(path, 200)}{folder}; an image ends in {', '.join(IMAGE_ENDINGS)}"
    problem = problem_of_content(path)
    if problem == NO_FILE:
        return _ABSENT
    if problem:
        return f"{shown(path, 200)}: {problem}"
    return ""


def _hint_for_absent(path: str) -> str:
    """Return a question that names an existing file like the absent `path`; "" if there is none.

    The file has the same name with ``.gz``, or without.
    """
    near = Path(f"{path}.gz")
    if path.endswith(".gz"):
        near = Path(path.removesuffix(".gz"))
    if not near.is_file():
        return ""
    return f" Did you mean '{near.name}'?"


def _hint_for_address(path: str, problems: Problems) -> None:
    """Add a hint to `problems` if an absent `path` is a web address, or has backslashes."""
    if ":/" in path:
        problems.hint("Images are read from a disk, never downloaded; give the path of a file.")
    if "\\" in path:
        problems.hint("Write image paths with '/', not with '\\'.")
