"""From a table of text to a table of values: identity, image paths and every other column."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from neurocontrast.data.columns import as_age, as_sex, as_text, convert_column, is_missing, is_numeric, number_of
from neurocontrast.data.images.paths import is_image_path
from neurocontrast.data.images.store import problem_of_path
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.data.tsv import TextTable
from neurocontrast.exceptions import DataError, one_of, suggestion

__all__ = ["IMAGE_ENDINGS", "assemble"]

IMAGE_ENDINGS = (".nii.gz", ".nii", ".npy")
"""The image formats that can be read, by the ending of the file's name."""

_RULES = {"age": as_age, "sex": as_sex, "site": as_text, "diagnosis": as_text}
_IDENTITY = ("participant_id", "subject_id", "session", "path")
_OTHER_NAMES = {"gender": "sex", "center": "site", "centre": "site", "session_id": "session", "dx": "diagnosis"}
_RESERVED = re.compile(r"feature_[0-9]+")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class _Rows:
    """The text of each column with, for messages, line and participant of each row."""

    cells: dict[str, list[str]]
    lines: Sequence[int]
    names: Sequence[str]
    problems: Problems

    def add(self, position: int, text: str, column: str) -> None:
        self.problems.add(text, column=column, line=self.lines[position], name=self.names[position])


def assemble(
    text: TextTable, *, root: Path, images_pattern: str | None, check_images: bool, problems: Problems
) -> tuple[pd.DataFrame, list[str]]:
    """Convert a table of text; bad cells become problems.

    Returns
    -------
    table : DataFrame
        As `Cohort` describes it.
    warnings : list of str

    Raises
    ------
    DataError
        Where the columns that name a row or its image are absent.
    """
    cells = _with_known_names(text)
    _check_columns(text.source.name, cells, images_pattern)
    rows = _Rows(cells, text.lines, cells["participant_id"], problems)
    values: dict[str, object] = _identity(rows)
    values["path"] = _paths(rows, root, images_pattern)
    if check_images:
        _check_files(rows, values["path"])  # type: ignore[arg-type]
    _check_repeated_images(rows, values["path"])  # type: ignore[arg-type]
    for column, of_column in cells.items():
        if column not in _IDENTITY:
            values[column] = _column(rows, column, of_column)
    return pd.DataFrame(values), _warnings(cells)


def _with_known_names(text: TextTable) -> dict[str, list[str]]:
    """Return the columns, those with a fixed meaning in lower case however the file writes them."""
    renamed: dict[str, list[str]] = {}
    for column, cells in text.columns.items():
        known = column.lower() if column.lower() in (*_IDENTITY, *_RULES) else column
        if known in renamed:
            raise DataError(f"{text.source.name}: the header names the column '{known}' twice, in different cases.")
        renamed[known] = cells
    return renamed


def _check_columns(source: str, cells: dict[str, list[str]], images_pattern: str | None) -> None:
    for column in cells:
        if _RESERVED.fullmatch(column):
            raise DataError(f"{source}: the column name '{column}' is kept for embeddings; rename the column.")
    has = f"It has: {one_of(list(cells)[:30])}."
    if "participant_id" not in cells:
        raise DataError(f"{source}: column 'participant_id' is needed.{suggestion('participant_id', cells)} {has}")
    if "path" not in cells and images_pattern is None:
        raise DataError(
            f"{source}: column 'path' is needed, or a pattern of the image paths such as "
            f"'{{participant_id}}/anat/{{participant_id}}_T1w.nii.gz'.{suggestion('path', cells)} {has}"
        )
    if "path" in cells and images_pattern is not None:
        raise DataError(f"{source}: images are named by the column 'path' and by a pattern; give one of the two.")


def _identity(rows: _Rows) -> dict[str, object]:
    participants = rows.cells["participant_id"]
    for position, cell in enumerate(participants):
        if is_missing(cell):
            rows.add(position, f"found {shown(cell)}; every row needs an identifier", "participant_id")
    sessions = ["" if is_missing(cell) else cell for cell in rows.cells.get("session", [""] * len(participants))]
    subjects = rows.cells.get("subject_id", participants)
    first: dict[tuple[str, str], int] = {}
    subject_of: dict[str, str] = {}
    for position, (participant, session, subject) in enumerate(zip(participants, sessions, subjects, strict=True)):
        if is_missing(subject) and not is_missing(participant):
            rule = "every row needs one, or leave the column out where it is the participant_id"
            rows.add(position, f"found {shown(subject)}; {rule}", "subject_id")
        before = first.setdefault((participant, session), position)
        if before != position and not is_missing(participant):
            what = f"session {shown(session)} of this participant" if session else "this participant"
            rows.add(position, f"{what} is on line {rows.lines[before]} already", "participant_id")
            if "session" not in rows.cells:
                rows.problems.hint("Several scans of one participant need a column 'session'.")
        if subject_of.setdefault(participant, subject) != subject:
            rows.add(position, f"found {shown(subject)}, but {shown(subject_of[participant])} above", "subject_id")
    return {"participant_id": participants, "subject_id": subjects, "session": sessions}


def _paths(rows: _Rows, root: Path, images_pattern: str | None) -> list[str]:
    patterns = rows.cells.get("path") or [str(images_pattern)] * len(rows.lines)
    paths = []
    for position, pattern in enumerate(patterns):
        if is_missing(pattern):
            rows.add(position, f"found {shown(pattern)}; every scan needs an image", "path")
        filled = _filled(rows, position, pattern) if "{" in pattern else pattern
        paths.append(os.path.normpath(os.path.join(root, os.path.expanduser(filled))))  # noqa: PTH111, PTH118
    return paths


def _filled(rows: _Rows, position: int, pattern: str) -> str:
    def cell_of(match: re.Match[str]) -> str:
        column = match.group(1)
        if column not in rows.cells or column == "path":
            known = [name for name in rows.cells if name != "path"]
            raise DataError(
                f"the image path {shown(pattern)} names a column '{column}' that the table does not have."
                f"{suggestion(column, known)} It has: {one_of(known[:30])}."
            )
        cell = rows.cells[column][position]
        if is_missing(cell):
            rows.add(position, f"found {shown(cell)}; the image path {shown(pattern)} needs it", column)
        return cell

    return _PLACEHOLDER.sub(cell_of, pattern)


def _check_files(rows: _Rows, paths: Sequence[str]) -> None:
    n_missing = 0
    n_images_of: dict[str, int | str] = {}
    for position, path in enumerate(paths):
        if rows.cells.get("path") and is_missing(rows.cells["path"][position]):
            continue
        if is_image_path(path):
            problem = problem_of_path(path, n_images_of)
            if problem:
                rows.add(position, problem, "path")
        elif not path.lower().endswith(IMAGE_ENDINGS):
            folder = " (a folder: convert DICOM with dcm2niix)" if os.path.isdir(path) else ""  # noqa: PTH112
            rows.add(position, f"found {shown(path, 200)}{folder}; an image ends in {', '.join(IMAGE_ENDINGS)}", "path")
        elif not os.path.isfile(path):  # noqa: PTH113  a plain call: there can be 100,000 of them
            n_missing += 1
            near = _near_file(path) if n_missing <= N_SHOWN else ""
            rows.add(position, f"there is no image {shown(path, 200)}.{near}", "path")
            if ":/" in path:
                rows.problems.hint("Images are read from a disk, never downloaded; give the path of a file.")
            if "\\" in path:
                rows.problems.hint("Write image paths with '/', not with '\\'.")
    if n_missing == len(paths):
        rows.problems.hint("None of the images is there: is images_root the folder the paths start from?")


def _near_file(path: str) -> str:
    other = path[:-3] if path.endswith(".gz") else path + ".gz"
    if os.path.isfile(other):  # noqa: PTH113
        return f" Did you mean '{os.path.basename(other)}'?"  # noqa: PTH119
    return ""


def _check_repeated_images(rows: _Rows, paths: Sequence[str]) -> None:
    first: dict[str, int] = {}
    for position, path in enumerate(paths):
        before = first.setdefault(path, position)
        if before != position:
            rows.add(position, f"{shown(path, 200)} is the image of line {rows.lines[before]} already", "path")


def _column(rows: _Rows, column: str, cells: list[str]) -> object:
    if column not in _RULES and is_numeric(cells):
        return [float("nan") if is_missing(cell) else number_of(cell) for cell in cells]
    rule = _RULES.get(column, as_text)
    values = convert_column(cells, rule, column=column, problems=rows.problems, lines=rows.lines, names=rows.names)
    return pd.Series(values, dtype="float64") if column == "age" else pd.Series(values, dtype=_TEXT)


# The text dtype of the pandas that is installed: `str` from version 3 on, object before.
# Both hold missing values as NaN and compare to plain booleans.
_TEXT = pd.Series(["text"]).dtype


def _warnings(cells: dict[str, list[str]]) -> list[str]:
    warnings = []
    for column, meant in _OTHER_NAMES.items():
        if meant not in cells and column in {name.lower() for name in cells}:
            warnings.append(f"column '{column}' is kept as it is; rename it '{meant}' if that is what it holds")
    n_top_coded = sum(cell.endswith("+") for cell in cells.get("age", ()))
    if n_top_coded:
        warnings.append(f"column 'age': {n_top_coded} ages such as '89+' are read as their number")
    sexes = {cell for cell in cells.get("sex", ()) if not is_missing(cell)}
    if any(number_of(cell) is not None for cell in sexes) and not all(number_of(cell) is not None for cell in sexes):
        warnings.append("column 'sex' mixes numbers and letters; 1 is read as male and 2 as female")
    for column in ("site", "diagnosis"):
        warnings += _spelled_alike(column, cells.get(column, ()))
    return warnings


def _spelled_alike(column: str, cells: Sequence[str]) -> list[str]:
    spellings: dict[str, set[str]] = {}
    for cell in set(cells):
        spellings.setdefault(re.sub(r"[\s_-]+", "", cell.lower()), set()).add(cell)
    return [
        f"column '{column}': {one_of(sorted(alike))} count as different values"
        for alike in spellings.values()
        if len(alike) > 1 and not all(map(is_missing, alike))
    ]
