"""Checks of a table of scans: its columns, identifiers, image files and cells."""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.cells import Refusal, is_missing, number_of
from neurocontrast.data.addresses import SampleFinder, address_of
from neurocontrast.data.columns import RULES, values_of
from neurocontrast.data.identifiers import REMEDY_OF_VISITS, problem_of_identifier
from neurocontrast.data.layouts.tree import identity_of
from neurocontrast.data.levels import spelled_alike
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.data.subjects import first_visits, notes_on_two_sexes, visit_of
from neurocontrast.data.unmarked import REMEDY, unmarked_missing
from neurocontrast.exceptions import DataError, one_of, suggestion
from neurocontrast.files import as_on_disk
from neurocontrast.provenance import subject_label, unify_subjects
from neurocontrast.reading import NO_FILE, problem_of_content

IMAGE_ENDINGS = (".nii.gz", ".nii", ".mgz", ".mgh", ".npy")
IDENTITY = ("participant_id", "subject_id", "session", "path")
_OTHER_NAMES = {
    "session_id": "session",
    "dx": "diagnosis",
}
_WITHOUT_CODES = ("age", "site", "diagnosis")
"""Columns in which a code for missing values would be an age, a site or a class."""
_RESERVED = re.compile(r"feature_[0-9]+")


@dataclass(frozen=True)
class Rows:
    """Cells of a table as text, indexed by their line in the file, and the table's problems."""

    cells: pd.DataFrame
    problems: Problems

    def refuse(self, column: str, reasons: Mapping[int, str]) -> None:
        """Add a problem of a column for each row position that has a reason."""
        for row, reason in reasons.items():
            name = self.cells["participant_id"].iloc[row]
            line = int(self.cells.index[row])
            self.problems.add(reason, column=column, line=line, name=name)

    def values(self, column: str, not_decoded: Mapping[int, Refusal]) -> pd.Series:
        """Return the values of a column; cells that cannot be read become problems."""
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
        """Return a mask of the missing cells of a column, and add a problem for each."""
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
    """Refuse a table that lacks needed columns, or has reserved or repeated ones.

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
    for column in channels:
        if column not in (*names, "path"):
            hint = suggestion(column, names)
            raise DataError(f"{source}: data.channels: there is no column '{column}'.{hint} {has}")
        if column in (*IDENTITY[:3], *RULES):
            raise DataError(f"{source}: data.channels: column '{column}' holds no files. {has}")
    if "path" in channels and "path" not in names:
        hint = suggestion("path", names)
        raise DataError(
            f"{source}: column 'path' is needed, the image of each row.{hint} {has} People with "
            "regional measures and no images are read by index, pretrain, embed and predict."
        )


def identity_of_rows(rows: Rows) -> dict[str, object]:
    """Return participant, subject and session of each row; bad and repeated ones are problems."""
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
    """Refuse names of nobody, and subjects whose names differ in a visit alone."""
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
    """Return the absolute paths of a column of files, "" for missing cells.

    Parameters
    ----------
    rows : Rows
        Cells, and the table's problems.
    column : str
        Column of files.
    root : Path
        Folder that relative paths start from.
    check : bool
        Whether every file must exist.
    is_used : bool
        Whether the files are images of scans: every row then needs its own.
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
        rows.refuse(column, _images_of_others(rows.cells, paths.tolist()))
    return paths.tolist()


def _images_of_others(cells: pd.DataFrame, paths: Sequence[str]) -> dict[int, str]:
    """Return a problem by row for images that belong, by their BIDS name, to another row's person.

    A column that was sorted without the other columns leaves such a table.
    """
    labels = list(map(subject_label, cells["participant_id"]))
    people = set(labels)
    wrong = {}
    for row, path in enumerate(paths):
        stem = path.rpartition("/")[2]
        subject = subject_label(identity_of(stem)[0])
        if stem.startswith("sub-") and subject in people and subject != labels[row]:
            wrong[row] = f"found {shown(stem)}, the image of another participant of this table"
    return wrong


def _absolute(cell: str, *, root: Path) -> str:
    """Return the absolute path of a cell, in the form of Unicode of the disk."""
    path = os.path.join(root, os.path.expanduser(cell))  # noqa: PTH111, PTH118
    return as_on_disk(os.path.normpath(path))


def _check_files(
    rows: Rows, column: str, paths: Sequence[str], missing: npt.NDArray[np.bool_]
) -> None:
    """Add a problem for each image that is absent, of no known format, or without content."""
    wrong = dict[int, str]()
    n_absent = 0
    finder = SampleFinder()
    for row in positions_of(~missing):
        path = paths[row]
        address = address_of(path)
        if address is not None:
            problem = finder.problem_of(path, address)
            if problem:
                wrong[row] = problem
        elif not path.lower().endswith(IMAGE_ENDINGS):
            folder = ""
            if os.path.isdir(path):  # noqa: PTH112
                folder = " (a folder: make a BIDS tree of DICOM files with heudiconv or dcm2bids)"
            wrong[row] = (
                f"found {shown(path, 200)}{folder}; an image ends in {', '.join(IMAGE_ENDINGS)}"
            )
        else:
            problem = problem_of_content(path)
            if problem == NO_FILE:
                near = ""
                if n_absent < N_SHOWN:
                    near = _hint_for_absent(path)
                wrong[row] = f"there is no image {shown(path, 200)}.{near}"
                n_absent += 1
                _hint_for_address(path, rows.problems)
            elif problem:
                wrong[row] = f"{shown(path, 200)}: {problem}"
    rows.refuse(column, wrong)
    if n_absent == len(paths):
        rows.problems.hint(
            "None of the images is there: is images_root the folder the paths start from?"
        )


def _hint_for_absent(path: str) -> str:
    """Name the compressed or uncompressed file beside an absent image, if there is one."""
    near = Path(f"{path}.gz")
    if path.endswith(".gz"):
        near = Path(path.removesuffix(".gz"))
    if not near.is_file():
        return ""
    return f" Did you mean '{near.name}'?"


def _hint_for_address(path: str, problems: Problems) -> None:
    """Add a hint for an address of the web, or a path of Windows."""
    if ":/" in path:
        problems.hint("Images are read from a disk, never downloaded; give the path of a file.")
    if "\\" in path:
        problems.hint("Write image paths with '/', not with '\\'.")


def warnings_about_cells(cells: pd.DataFrame, table: pd.DataFrame) -> list[str]:
    """Return warnings on cells that can be read, and may not be read as they are meant.

    Parameters
    ----------
    cells : DataFrame
        Table as text.
    table : DataFrame
        Values of the same cells.
    """
    warnings = []
    lower_case = {name.lower() for name in cells.columns}
    for column, name in _OTHER_NAMES.items():
        if name not in cells and column in lower_case:
            warnings.append(
                f"column '{column}' is kept as it is; rename it '{name}' if that is what it holds"
            )
    n_top_coded = int(cells.get("age", pd.Series(dtype=str)).str.endswith("+").sum())
    if n_top_coded:
        warnings.append(f"column 'age': {n_top_coded} ages such as '89+' are read as their number")
    warnings += _warnings_of_none(cells)
    for column in cells.columns.difference([*IDENTITY, *RULES], sort=False):
        if pd.api.types.is_numeric_dtype(table[column]):
            continue
        counts = table[column].value_counts()
        n_texts = counts[counts.index.map(number_of).isna()].sum()
        n_cells = counts.sum()
        is_number = counts.index.str.replace(",", ".").map(number_of).notna()
        if n_texts and counts[is_number].sum() > 0.5 * n_cells:
            few = f"{n_texts} of {n_cells} cells are no numbers, as 1.5 and n/a are"
            warnings.append(f"column '{column}' is read as text: {few}")
    if "sex" in cells:
        warnings += notes_on_two_sexes(table["subject_id"], cells["sex"])
    return warnings + _warnings_of_spellings(cells)


def _warnings_of_none(cells: pd.DataFrame) -> list[str]:
    """Warn of columns where Python's "None", which is read as missing, can mean no diagnosis."""
    warnings = []
    for column in cells.columns:
        n_cells = int((cells[column] == "None").sum())
        if n_cells:
            warnings.append(
                f"column '{column}': {n_cells} cells 'None' are read as missing; a value, such as "
                "no diagnosis, is written 'none'"
            )
    return warnings


def _warnings_of_spellings(cells: pd.DataFrame) -> list[str]:
    """Warn of sites and diagnoses that are spelled in several ways."""
    warnings = []
    for column in ("site", "diagnosis"):
        levels = itertools.filterfalse(is_missing, cells.get(column, ()))
        for group in spelled_alike(levels):
            warnings.append(f"column '{column}': {one_of(group)} count as different values")
    return warnings
