"""The cohort: one validated table, one row a scan."""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.cells import Refusal, is_missing, number_of, text_of
from neurocontrast.data.addresses import SampleFinder, address_of
from neurocontrast.data.columns import RULES, matching_rows, values_of
from neurocontrast.data.identifiers import REMEDY_OF_VISITS, problem_of_identifier
from neurocontrast.data.layouts.tree import identity_of
from neurocontrast.data.levels import spelled_alike
from neurocontrast.data.listing import AnyTable, place_of
from neurocontrast.data.people import read_people
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.data.subjects import first_visits, notes_on_two_sexes, visit_of
from neurocontrast.data.unmarked import REMEDY, unmarked_missing
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion
from neurocontrast.files import ScanFiles, as_on_disk, digest_of
from neurocontrast.provenance import subject_digest, subject_label, unify_subjects
from neurocontrast.reading import NO_FILE, problem_of_content
from neurocontrast.seeds import derive_generator

if TYPE_CHECKING:
    from neurocontrast.data.measures.tables import MeasuresTable

Kind = Literal["continuous", "categorical"]
IMAGE_ENDINGS = (".nii.gz", ".nii", ".mgz", ".mgh", ".npy")
_IDENTITY = ("participant_id", "subject_id", "session", "path")
_OTHER_NAMES = {
    "session_id": "session",
    "dx": "diagnosis",
}
_WITHOUT_CODES = ("age", "site", "diagnosis")
"""Columns in which a code for "not known" would be an age, a site or a class."""
_RESERVED = re.compile(r"feature_[0-9]+")


@dataclass(frozen=True, eq=False)
class Cohort:
    """Scans and what is known about each of them.

    Parameters
    ----------
    table : DataFrame
        One row a scan, rows numbered from 0. Columns: ``participant_id``, ``subject_id``,
        ``session`` ("" if it has none), ``path`` (absolute); if the file has them
        ``age`` (years), ``sex`` ("F", "M"), ``site``, ``diagnosis``; then every further column,
        as float64 or text. Missing values are NaN.
    source : Path
        The file the table was read from.
    root : Path
        The folder that relative image paths start from.
    warnings : tuple of str
        Warnings about the table.
    channels : tuple of str
        Columns that hold the files of each scan (absolute paths), one a channel; empty for people
        without images.
    measures : MeasuresTable or None
        Regional measures, a row for each row of the table.
    """

    table: pd.DataFrame
    source: Path
    root: Path = Path()
    warnings: tuple[str, ...] = ()
    channels: tuple[str, ...] = ("path",)
    measures: MeasuresTable | None = None

    def __len__(self) -> int:
        return len(self.table)

    @property
    def scans(self) -> list[ScanFiles]:
        """The files of each scan: its path, or one path a channel."""
        files = zip(*(self.table[column].astype(str) for column in self.channels), strict=True)
        return [scan if len(scan) > 1 else scan[0] for scan in files]

    @property
    def simulated(self) -> bool:
        """Whether any scan is marked as simulated, by a column ``simulated`` or by ``source``."""
        marks: list[str] = []
        if "simulated" in self.table:
            marks += [text_of(value).lower() for value in self.table["simulated"].unique()]
        if "source" in self.table:
            marks += [
                text
                for text in map(text_of, self.table["source"].unique())
                if text.startswith("simulat")
            ]
        return any(mark not in ("", "0", "no", "false") for mark in marks)

    def paths_in(self, *columns: str) -> list[str]:
        """Return the files that the first of these columns of the table names, absolute; "" for a missing one."""
        given = next(
            (self.table[name] for name in columns if name in self.table),
            pd.Series("", self.table.index),
        )
        return [
            as_on_disk(os.path.join(self.root, path)) if path else ""  # noqa: PTH118
            for path in given.fillna("").astype(str)
        ]

    def subset(self, rows: npt.ArrayLike) -> Cohort:
        """Return the cohort of the given row positions (or of a boolean mask), in their order."""
        chosen = replace(self, table=self.table.iloc[np.asarray(rows)].reset_index(drop=True))
        if self.measures is None:
            return chosen
        values = self.measures.values.iloc[np.asarray(rows)].reset_index(drop=True)
        return replace(chosen, measures=replace(self.measures, values=values))

    def select(self, where: Mapping[str, Any]) -> Cohort:
        """Return the scans that a selection keeps, for instance ``{"site": ["london"], "diagnosis": {"not": "pd"}}``.

        See `neurocontrast.data.columns.matching_rows`.
        """
        return self.subset(matching_rows(self.table, where, place=self.source.name))

    def names(self) -> list[str]:
        """Return the name of each scan in messages: its participant, and its session if it has one."""
        return [
            f"{participant} session {session}" if session else str(participant)
            for participant, session in zip(
                self.table["participant_id"], self.table["session"], strict=True
            )
        ]

    def digest(self) -> str:
        """Return a digest of the content of the table, which is the same on every machine."""
        parts: list[str] = []
        for column in self.table.columns:
            values = self.table[column]
            if column in ("path", *self.channels):
                texts = [
                    path.relative_to(self.root).as_posix()
                    if path.is_relative_to(self.root)
                    else path.name
                    for path in map(Path, values)
                ]
            elif values.dtype == np.float64:
                texts = ["" if np.isnan(value) else repr(float(value)) for value in values]
            else:
                texts = list(map(text_of, values))
            parts += [column, "\x1f".join(texts)]
        if self.measures is not None:
            measured = self.measures.values
            parts += [
                "measures",
                *map(str, measured.columns),
                measured.to_numpy(dtype=np.float64).tobytes().hex(),
            ]
        return digest_of("neurocontrast-cohort", len(self.table), *parts)

    def subject_digests(self) -> list[str]:
        """Return the sorted digests of the subjects, which do not reveal the order of the table."""
        return sorted(subject_digest(str(subject)) for subject in self.table["subject_id"].unique())


def columns_of(channels: Sequence[str] | None) -> tuple[str, ...]:
    """Return the column of the files of each channel: ``path`` for "t1"; None means ``["t1"]``."""
    return tuple(
        "path" if name == "t1" else name for name in (("t1",) if channels is None else channels)
    )


class Inspection(NamedTuple):
    """A cohort with NaN in refused cells, its problems, and each row's line in the file."""

    cohort: Cohort
    problems: Problems
    lines: Sequence[int]


def read_cohort(
    participants: AnyTable,
    *,
    images_root: str | Path | None = None,
    channels: Sequence[str] | None = None,
    check_images: bool = True,
) -> Cohort:
    """Read a table of scans, ``participants.tsv`` by the habits of BIDS.

    Every cell is read as text and then converted by the rule of its column, as ``docs/data.md``
    states. One DataError names all bad rows together: each with line, participant, column, what was
    found and what is allowed.

    Parameters
    ----------
    participants : path or DataFrame
        Tab-separated table, or comma-separated when its name ends in ``.csv``;
        `neurocontrast.index` makes one of a folder of scans.
    images_root : path, optional
        Folder that relative image paths start from; by default the table's own.
    channels : sequence of str, optional
        Columns that hold the files of each scan, one a channel, for instance ``["gm", "wm"]``; "t1"
        means "path". None for ``["t1"]``; an empty sequence for people without images.
    check_images : bool
        Whether every image file must be there. The images are not opened.
    """
    inspection = inspect_cohort(
        participants, images_root=images_root, channels=channels, check_images=check_images
    )
    inspection.problems.raise_if_any()
    return inspection.cohort


def inspect_cohort(
    participants: AnyTable,
    *,
    images_root: str | Path | None = None,
    channels: Sequence[str] | None = None,
    check_images: bool = True,
) -> Inspection:
    """Read a table as `read_cohort` does, and return bad rows instead of raising them."""
    people = read_people(participants, _IDENTITY)
    cells = people.cells
    source = place_of(participants)
    used = columns_of(channels)
    root = source.parent
    if images_root is not None:
        root = Path(as_on_disk(str(Path(images_root).expanduser())))
    if images_root is not None and not root.is_dir():
        raise DataError(f"images_root: there is no folder {shown(root, 200)}.")
    root = root.absolute()
    _check_columns(source.name, list(cells.columns), used)
    rows = _Rows(cells, Problems(source.name))
    values: dict[str, object] = _identity(rows)
    if "path" not in cells:
        cells["path"] = cells[used[0]] if used else ""
    for column in dict.fromkeys(("path", *used)):
        values[column] = _paths(rows, column, root, check=check_images, is_used=column in used)
    for column in cells.columns.difference(list(values), sort=False):
        values[column] = rows.values(column, people.refused.get(column, {}))
    table = pd.DataFrame(values)
    for first, second in itertools.combinations(used, 2):
        same = (table[first] == table[second]) & (table[first] != "")
        text = f"found the file of column '{first}'; each channel has files of its own"
        rows.refuse(second, dict.fromkeys(_positions(same), text))
    warnings = (*people.warnings, *_warnings(cells, table))
    cohort = Cohort(table, source, root, warnings, used)
    return Inspection(cohort, rows.problems, cells.index.tolist())


@dataclass(frozen=True)
class _Rows:
    """Cells as text, indexed by their line in the file, and the problems of the table."""

    cells: pd.DataFrame
    problems: Problems

    def refuse(self, column: str, why: Mapping[int, str]) -> None:
        """Make a problem of each row whose position has a text."""
        for at, text in why.items():
            name = self.cells["participant_id"].iloc[at]
            line = int(self.cells.index[at])
            self.problems.add(text, column=column, line=line, name=name)

    def values(self, column: str, not_decoded: Mapping[int, Refusal]) -> pd.Series:
        """Return the values of a column; cells without one, or not decoded, are problems."""
        cells = self.cells[column].copy()
        written = self.cells[column].tolist()
        cells.iloc[list(not_decoded)] = ""
        values, not_read = values_of(column, cells)
        if column in _WITHOUT_CODES:
            codes = unmarked_missing(column, cells)
            unclear = Refusal("it seems to mean that the value is not known", REMEDY)
            for row in _positions(cells.isin(codes)):
                not_read.setdefault(row, unclear)
                values.iloc[row] = np.nan
        for row, refusal in sorted({**not_decoded, **not_read}.items()):
            self.refuse(column, {row: f"found {shown(written[row])}; {refusal.rule}"})
            self.problems.hint(refusal.hint)
        return values

    def missing(self, column: str, rule: str) -> npt.NDArray[np.bool_]:
        """Return which cells are missing; each of them is a problem."""
        cells = self.cells[column]
        missing = cells.map(is_missing).to_numpy(dtype=bool)
        self.refuse(
            column, {at: f"found {shown(cells.iloc[at])}; {rule}" for at in _positions(missing)}
        )
        return missing


def _positions(marked: npt.ArrayLike) -> list[int]:
    return np.flatnonzero(marked).tolist()


def _check_columns(source: str, cells: list[str], channels: tuple[str, ...]) -> None:
    if twice := [column for column, n in Counter(cells).items() if n > 1]:
        raise DataError(
            f"{source}: the header names the column '{twice[0]}' twice, in different cases."
        )
    for column in cells:
        if _RESERVED.fullmatch(column):
            raise DataError(
                f"{source}: the column name '{column}' is kept for embeddings; rename the column."
            )
    has = f"It has: {one_of(cells[:30])}."
    if "participant_id" not in cells:
        raise DataError(
            f"{source}: column 'participant_id' is needed.{suggestion('participant_id', cells)} {has}"
        )
    for column in channels:
        if column not in (*cells, "path"):
            raise DataError(
                f"{source}: data.channels: there is no column '{column}'.{suggestion(column, cells)} {has}"
            )
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
    participants = cells["participant_id"]
    subjects = pd.Series(unify_subjects(participants), participants.index, dtype=object)
    if "subject_id" in cells:
        subjects = cells["subject_id"]
        subjects = pd.Series(unify_subjects(subjects), subjects.index, dtype=object)
        rows.missing(
            "subject_id",
            "every row needs one, or leave the column out where it is the participant_id",
        )
    given = cells.get("session", pd.Series("", cells.index))
    lines = cells.index.to_series()
    sessions = given.mask(given.map(is_missing), "")
    before = lines.groupby([participants, sessions]).transform("first")

    _check_identifiers(rows)
    earlier = {}
    for at in _positions((before != lines) & ~nameless):
        what = (
            f"session {shown(sessions.iloc[at])} of this participant"
            if sessions.iloc[at]
            else "this participant"
        )
        earlier[at] = f"{what} is on line {before.iloc[at]} already"
    rows.refuse("participant_id", earlier)
    if earlier and "session" not in cells:
        rows.problems.hint("Several scans of one participant need a column 'session'.")
    above = subjects.groupby(participants).transform("first")
    rows.refuse(
        "subject_id",
        {
            at: f"found {shown(subjects.iloc[at])}, but {shown(above.iloc[at])} above"
            for at in _positions(above != subjects)
        },
    )
    return {
        "participant_id": participants.tolist(),
        "subject_id": subjects.tolist(),
        "session": sessions.tolist(),
    }


def _check_identifiers(rows: _Rows) -> None:
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


def _paths(rows: _Rows, column: str, root: Path, *, check: bool, is_used: bool) -> list[str]:
    """Return the absolute paths of a column; a column that `is_used` needs a path of its own in every row."""
    cells = rows.cells[column]
    missing = (
        rows.missing(column, "every scan needs an image")
        if is_used
        else cells.map(is_missing).to_numpy()
    )
    paths = cells.map(partial(_absolute, root=root)).astype(object).mask(missing, "")
    if is_used and check:
        _check_files(rows, column, paths.tolist(), missing)
    if is_used:
        first = cells.index.to_series().groupby(paths).transform("first")
        again = _positions(paths.duplicated() & ~missing)
        text = "{} is the image of line {} already"
        rows.refuse(
            column, {at: text.format(shown(paths.iloc[at], 200), first.iloc[at]) for at in again}
        )
        rows.refuse(column, _images_of_others(rows.cells, paths.tolist()))
    return paths.tolist()


def _images_of_others(cells: pd.DataFrame, paths: Sequence[str]) -> dict[int, str]:
    """Return the problem of each row whose image is, by its name in BIDS, of another row's person.

    A column that was sorted without the others leaves such a table.
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
    rows: _Rows, column: str, paths: Sequence[str], missing: npt.NDArray[np.bool_]
) -> None:
    wrong = dict[int, str]()
    n_absent = 0
    finder = SampleFinder()
    for at in _positions(~missing):
        path = paths[at]
        address = address_of(path)
        if address is not None:
            problem = finder.problem_of(path, address)
            if problem:
                wrong[at] = problem
        elif not path.lower().endswith(IMAGE_ENDINGS):
            folder = ""
            if os.path.isdir(path):  # noqa: PTH112
                folder = " (a folder: make a BIDS tree of DICOM files with heudiconv or dcm2bids)"
            wrong[at] = (
                f"found {shown(path, 200)}{folder}; an image ends in {', '.join(IMAGE_ENDINGS)}"
            )
        elif (problem := problem_of_content(path)) not in ("", NO_FILE):
            wrong[at] = f"{shown(path, 200)}: {problem}"
        elif problem:
            other = Path(path[:-3] if path.endswith(".gz") else path + ".gz")
            near = (
                f" Did you mean '{other.name}'?" if n_absent < N_SHOWN and other.is_file() else ""
            )
            wrong[at] = f"there is no image {shown(path, 200)}.{near}"
            n_absent += 1
            if ":/" in path:
                rows.problems.hint(
                    "Images are read from a disk, never downloaded; give the path of a file."
                )
            if "\\" in path:
                rows.problems.hint("Write image paths with '/', not with '\\'.")
    rows.refuse(column, wrong)
    if n_absent == len(paths):
        rows.problems.hint(
            "None of the images is there: is images_root the folder the paths start from?"
        )


def _warnings(cells: pd.DataFrame, table: pd.DataFrame) -> list[str]:
    warnings = []
    for column, meant in _OTHER_NAMES.items():
        if meant not in cells and column in {name.lower() for name in cells.columns}:
            warnings.append(
                f"column '{column}' is kept as it is; rename it '{meant}' if that is what it holds"
            )
    n_top_coded = int(cells.get("age", pd.Series(dtype=str)).str.endswith("+").sum())
    if n_top_coded:
        warnings.append(f"column 'age': {n_top_coded} ages such as '89+' are read as their number")
    warnings += _warnings_of_none(cells)
    for column in cells.columns.difference([*_IDENTITY, *RULES], sort=False):
        if pd.api.types.is_numeric_dtype(table[column]):
            continue
        counts = table[column].value_counts()
        n_texts = counts[counts.index.map(number_of).isna()].sum()
        n = counts.sum()
        if (
            n_texts
            and counts[counts.index.str.replace(",", ".").map(number_of).notna()].sum() > 0.5 * n
        ):
            few = f"{n_texts} of {n} cells are no numbers, as 1.5 and n/a are"
            warnings.append(f"column '{column}' is read as text: {few}")
    if "sex" in cells:
        warnings += notes_on_two_sexes(table["subject_id"], cells["sex"])
    return warnings + _warnings_of_spellings(cells)


def _warnings_of_none(cells: pd.DataFrame) -> list[str]:
    """Name the columns where Python's "None", which is read as missing, can mean "no diagnosis"."""
    warnings = []
    for column in cells.columns:
        n_cells = int((cells[column] == "None").sum())
        if n_cells:
            warnings.append(
                f"column '{column}': {n_cells} cells 'None' are read as missing; a value, such as no "
                "diagnosis, is written 'none'"
            )
    return warnings


def _warnings_of_spellings(cells: pd.DataFrame) -> list[str]:
    """Name the sites and diagnoses that are spelled in several ways."""
    warnings = []
    for column in ("site", "diagnosis"):
        known = itertools.filterfalse(is_missing, cells.get(column, ()))
        for group in spelled_alike(known):
            warnings.append(f"column '{column}': {one_of(group)} count as different values")
    return warnings


def split_by_subject(
    cohort: Cohort, fraction: float, seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the rows for training and for validation, ascending; all scans of a subject are on one side.

    About `fraction` of the subjects of each site are held out, at least one unless it is 0, and one
    is always kept; where sites are too small for that, the largest remainders decide. The choice
    depends on the subjects and the seed, not on the order of the table.
    """
    if not 0 <= fraction < 1:
        raise ConfigError(f"val_fraction must be at least 0 and below 1, found {fraction}.")
    rows = np.arange(len(cohort), dtype=np.int64)
    if fraction == 0:
        return rows, rows[:0]
    subjects = cohort.table["subject_id"].astype(object)
    sites = (
        cohort.table["site"].fillna("")
        if "site" in cohort.table
        else pd.Series("", index=subjects.index)
    )
    site_of = sites.groupby(subjects).first().astype(str)
    if len(site_of) < 2:
        raise DataError(
            f"{cohort.source.name}: a validation split needs two subjects, found {len(site_of)}."
        )
    generator = derive_generator("split-by-subject", seed)
    by_site = {site: sorted(part.index) for site, part in site_of.groupby(site_of)}
    n_total = min(max(round(fraction * len(site_of)), 1), len(site_of) - 1)
    wanted = np.array([n_total * len(by_site[site]) / len(site_of) for site in sorted(by_site)])
    counts = np.floor(wanted).astype(int)
    # Equal remainders are common with equal sites; a random key keeps the first names from always
    # winning.
    order = np.lexsort((generator.random(len(by_site)), -(wanted - counts)))
    counts[order[: n_total - counts.sum()]] += 1
    held_out: list[str] = []
    for site, count in zip(sorted(by_site), counts, strict=True):
        held_out += [
            by_site[site][position]
            for position in generator.permutation(len(by_site[site]))[:count]
        ]
    is_val = subjects.isin(held_out).to_numpy()
    return rows[~is_val], rows[is_val]
