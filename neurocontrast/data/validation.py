"""A listing of text becomes a table of values: identity, image paths and every other column."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.columns import RULES, Refusal, is_missing, is_numeric, number_of
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.exceptions import DataError, one_of, suggestion

IMAGE_ENDINGS = (".nii.gz", ".nii", ".mgz", ".mgh", ".npy")
_IDENTITY = ("participant_id", "subject_id", "session", "path")
_OTHER_NAMES = {"gender": "sex", "center": "site", "centre": "site", "session_id": "session", "dx": "diagnosis"}
_RESERVED = re.compile(r"feature_[0-9]+")
_TEXT = pd.Series(["text"]).dtype
"""Text dtype of the installed pandas: `str` from version 3 on, object before; both hold missing values as NaN."""


@dataclass(frozen=True)
class _Rows:
    """Cells as text, indexed by their line in the file, and the problems of the table."""

    cells: pd.DataFrame
    problems: Problems

    def add(self, position: int, text: str, column: str) -> None:
        name = self.cells["participant_id"].iloc[position]
        self.problems.add(text, column=column, line=int(self.cells.index[position]), name=name)

    def missing(self, column: str, rule: str) -> npt.NDArray[np.bool_]:
        """Return which cells are missing; each of them is a problem."""
        missing = self.cells[column].map(is_missing).to_numpy(dtype=bool)
        for position in np.flatnonzero(missing).tolist():
            self.add(position, f"found {shown(self.cells[column].iloc[position])}; {rule}", column)
        return missing


def convert(
    table: pd.DataFrame, *, root: Path, channels: tuple[str, ...], check_images: bool, problems: Problems
) -> tuple[pd.DataFrame, list[str]]:
    """Return the table that `Cohort` describes, and warnings; bad cells become problems.

    `table` is one of text, indexed by lines (`neurocontrast.data.listing.read_text_table`).
    """
    rows = _Rows(_with_known_names(table, problems.source), problems)
    _check_columns(problems.source, list(rows.cells.columns), channels)
    values: dict[str, object] = _identity(rows)
    if "path" not in rows.cells:
        rows.cells["path"] = rows.cells[channels[0]] if channels else ""
    for column in dict.fromkeys(("path", *channels)):
        values[column] = _paths(rows, column, root, check=check_images, is_used=column in channels)
    for column in rows.cells.columns:
        if column not in values:
            values[column] = _column(rows, column, rows.cells[column].tolist())
    return pd.DataFrame(values), _warnings(rows.cells)


def _with_known_names(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """Return the table with columns of a fixed meaning in lower case, however the file writes them."""
    known = table.rename(columns={name: name.lower() for name in table.columns if name.lower() in (*_IDENTITY, *RULES)})
    if len(twice := known.columns[known.columns.duplicated()]):
        raise DataError(f"{source}: the header names the column '{twice[0]}' twice, in different cases.")
    return known


def _check_columns(source: str, cells: list[str], channels: tuple[str, ...]) -> None:
    for column in cells:
        if _RESERVED.fullmatch(column):
            raise DataError(f"{source}: the column name '{column}' is kept for embeddings; rename the column.")
    has = f"It has: {one_of(cells[:30])}."
    if "participant_id" not in cells:
        raise DataError(f"{source}: column 'participant_id' is needed.{suggestion('participant_id', cells)} {has}")
    for column in channels:
        if column not in (*cells, "path"):
            raise DataError(f"{source}: data.channels: there is no column '{column}'.{suggestion(column, cells)} {has}")
        if column in (*_IDENTITY[:3], *RULES):
            raise DataError(f"{source}: data.channels: column '{column}' holds no files. {has}")
    if "path" in channels and "path" not in cells:
        raise DataError(
            f"{source}: column 'path' is needed, the image of each row.{suggestion('path', cells)} {has} "
            "People with regional measures and no images are read by index, pretrain, embed and predict."
        )


def _identity(rows: _Rows) -> dict[str, object]:
    cells = rows.cells
    nameless = rows.missing("participant_id", "every row needs an identifier")
    participants = subjects = cells["participant_id"]
    if "subject_id" in cells:
        subjects = cells["subject_id"]
        rows.missing("subject_id", "every row needs one, or leave the column out where it is the participant_id")
    given, lines = cells.get("session", pd.Series("", cells.index)), cells.index.to_series()
    sessions = given.mask(given.map(is_missing), "")
    before = lines.groupby([participants, sessions]).transform("first")
    for position in np.flatnonzero((before != lines) & ~nameless).tolist():
        session = sessions.iloc[position]
        what = f"session {shown(session)} of this participant" if session else "this participant"
        rows.add(position, f"{what} is on line {before.iloc[position]} already", "participant_id")
        if "session" not in cells:
            rows.problems.hint("Several scans of one participant need a column 'session'.")
    above = subjects.groupby(participants).transform("first")
    for position in np.flatnonzero(above != subjects).tolist():
        found, before_it = shown(subjects.iloc[position]), shown(above.iloc[position])
        rows.add(position, f"found {found}, but {before_it} above", "subject_id")
    return {"participant_id": participants.tolist(), "subject_id": subjects.tolist(), "session": sessions.tolist()}


def _paths(rows: _Rows, column: str, root: Path, *, check: bool, is_used: bool) -> list[str]:
    """Return the absolute paths of a column; a column that `is_used` needs a path of its own in every row."""
    paths: list[str] = []
    for cell in rows.cells[column]:
        place = os.path.join(root, os.path.expanduser(cell))  # noqa: PTH111, PTH118
        paths.append("" if not is_used and is_missing(cell) else os.path.normpath(place))
    if not is_used:
        return paths
    missing = rows.missing(column, "every scan needs an image")
    if check:
        _check_files(rows, column, paths, missing)
    first: dict[str, int] = {}
    for position, path in enumerate(paths):
        before = first.setdefault(path, position)
        if before != position:
            rows.add(position, f"{shown(path, 200)} is the image of line {rows.cells.index[before]} already", column)
    return paths


def _check_files(rows: _Rows, column: str, paths: Sequence[str], missing: npt.NDArray[np.bool_]) -> None:
    # Not at the top: tables are read without images.
    from neurocontrast.data.natural.store import Located, is_image_path

    n_absent, located = 0, Located()
    for position in np.flatnonzero(~missing).tolist():
        path = paths[position]
        if is_image_path(path):
            problem = located.add(path)
            if problem:
                rows.add(position, problem, column)
        elif not path.lower().endswith(IMAGE_ENDINGS):
            folder = " (a folder: convert DICOM with dcm2niix)" if os.path.isdir(path) else ""  # noqa: PTH112
            rows.add(position, f"found {shown(path, 200)}{folder}; an image ends in {', '.join(IMAGE_ENDINGS)}", column)
        elif not os.path.isfile(path):  # noqa: PTH113  a plain call: there can be 100,000 of them
            n_absent += 1
            near = _near_file(path) if n_absent <= N_SHOWN else ""
            rows.add(position, f"there is no image {shown(path, 200)}.{near}", column)
            if ":/" in path:
                rows.problems.hint("Images are read from a disk, never downloaded; give the path of a file.")
            if "\\" in path:
                rows.problems.hint("Write image paths with '/', not with '\\'.")
    if n_absent == len(paths):
        rows.problems.hint("None of the images is there: is images_root the folder the paths start from?")


def _near_file(path: str) -> str:
    other = Path(path[:-3] if path.endswith(".gz") else path + ".gz")
    return f" Did you mean '{other.name}'?" if other.is_file() else ""


def _column(rows: _Rows, column: str, cells: list[str]) -> object:
    """Return a column of values; missing and refused cells are NaN, and refused ones become problems."""
    rule = RULES.get(column)
    if rule is None and is_numeric(cells):
        return [float("nan") if is_missing(cell) else number_of(cell) for cell in cells]
    convert_cell = rule or str
    value_of = {cell: float("nan") if is_missing(cell) else convert_cell(cell) for cell in set(cells)}
    values: list[object] = [value_of[cell] for cell in cells]
    for position, value in enumerate(values):
        if isinstance(value, Refusal):
            rows.add(position, f"found {shown(cells[position])}; {value.rule}", column)
            if value.hint:
                rows.problems.hint(value.hint)
            values[position] = float("nan")
    return pd.Series(values, dtype="float64" if column == "age" else _TEXT)


def _warnings(cells: pd.DataFrame) -> list[str]:
    warnings = []
    for column, meant in _OTHER_NAMES.items():
        if meant not in cells and column in {name.lower() for name in cells.columns}:
            warnings.append(f"column '{column}' is kept as it is; rename it '{meant}' if that is what it holds")
    n_top_coded = sum(cell.endswith("+") for cell in cells.get("age", ()))
    if n_top_coded:
        warnings.append(f"column 'age': {n_top_coded} ages such as '89+' are read as their number")
    are_numbers = {number_of(cell) is not None for cell in cells.get("sex", ()) if not is_missing(cell)}
    if len(are_numbers) == 2:
        warnings.append("column 'sex' mixes numbers and letters; 1 is read as male and 2 as female")
    for column in ("site", "diagnosis"):
        spellings: dict[str, set[str]] = {}
        for cell in set(cells.get(column, ())):
            if not is_missing(cell):
                spellings.setdefault(re.sub(r"[\s_-]+", "", cell.lower()), set()).add(cell)
        warnings += [
            f"column '{column}': {one_of(sorted(alike))} count as different values"
            for alike in spellings.values()
            if len(alike) > 1
        ]
    return warnings
