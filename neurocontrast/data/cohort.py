"""Read a cohort, a validated table with one row a scan, and split its subjects for validation."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.cells import text_of
from neurocontrast.data.checking import (
    IDENTITY,
    Rows,
    check_columns,
    identity_of_rows,
    paths_of_rows,
    positions_of,
    refuse_files_of_others,
)
from neurocontrast.data.columns import matching_rows
from neurocontrast.data.doubts import warnings_about_cells
from neurocontrast.data.listing import AnyTable, place_of
from neurocontrast.data.people import read_people
from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.files import ScanFiles, as_on_disk, digest_of
from neurocontrast.provenance import subject_digest
from neurocontrast.seeds import derive_generator

if TYPE_CHECKING:
    from neurocontrast.data.measures.tables import MeasuresTable

Kind = Literal["continuous", "categorical"]


@dataclass(frozen=True, eq=False)
class Cohort:
    """Cohort: a table of scans with metadata, and the paths of the scans' images.

    Parameters
    ----------
    table : DataFrame
        One row a scan, rows numbered from 0. Columns: ``participant_id``, ``subject_id``,
        ``session`` ("" if it has none), ``path`` (absolute); if the file has them
        ``age`` (years), ``sex`` ("F", "M"), ``site``, ``diagnosis``; then every further column,
        as float64 or text. Missing values are NaN.
    source : Path
        File of the table.
    root : Path
        Folder that relative image paths start from.
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
        """Files of each scan: one path, or a tuple with a path for each channel."""
        if len(self.channels) == 1:
            return list(self.table[self.channels[0]].astype(str))
        columns = [self.table[column].astype(str) for column in self.channels]
        return list(zip(*columns, strict=True))

    @property
    def simulated(self) -> bool:
        """Whether any scan is marked as simulated, by column ``simulated`` or column ``source``."""
        marks: list[str] = []
        if "simulated" in self.table:
            for value in self.table["simulated"].unique():
                marks.append(text_of(value).lower())
        if "source" in self.table:
            for value in self.table["source"].unique():
                source = text_of(value).lower()
                if source.startswith("simulat"):
                    marks.append(source)
        return any(mark not in ("", "0", "no", "false") for mark in marks)

    def paths_in(self, *columns: str) -> list[str]:
        """Return the absolute path in each row, from the first of `columns` that the table has.

        The path is "" where the cell is missing, and in all rows of a table without such a column.
        """
        cells = pd.Series("", self.table.index)
        for name in columns:
            if name in self.table:
                cells = self.table[name]
                break
        paths = []
        for path in cells.fillna("").astype(str):
            absolute = ""
            if path:
                absolute = as_on_disk(os.path.join(self.root, path))  # noqa: PTH118
            paths.append(absolute)
        return paths

    def subset(self, rows: npt.ArrayLike) -> Cohort:
        """Return a cohort of some rows, chosen by positions in order or by a boolean mask."""
        chosen = replace(self, table=self.table.iloc[np.asarray(rows)].reset_index(drop=True))
        if self.measures is None:
            return chosen
        values = self.measures.values.iloc[np.asarray(rows)].reset_index(drop=True)
        return replace(chosen, measures=replace(self.measures, values=values))

    def select(self, where: Mapping[str, object]) -> Cohort:
        """Return a cohort of the scans with selected values, such as the scans of one site.

        A selection is for instance ``{"site": ["london"], "diagnosis": {"not": "pd"}}``; see
        `neurocontrast.data.columns.matching_rows`.
        """
        return self.subset(matching_rows(self.table, where, place=self.source.name))

    def names(self) -> list[str]:
        """Return a list of the scans' names for messages: participant, and session if any."""
        names = []
        keys = zip(self.table["participant_id"], self.table["session"], strict=True)
        for participant, session in keys:
            name = str(participant)
            if session:
                name = f"{participant} session {session}"
            names.append(name)
        return names

    def digest(self) -> str:
        """Return a digest of the cohort's table and regional measures, equal on every machine."""
        contents: list[str] = []
        for column in self.table.columns:
            values = self.table[column]
            cells = map(text_of, values)
            if column in ("path", *self.channels):
                cells = map(self._below_root, values)
            elif values.dtype == np.float64:
                cells = map(_digits_of, values)
            contents += [column, "\x1f".join(cells)]
        if self.measures is not None:
            measures = self.measures.values
            contents += ["measures", *map(str, measures.columns)]
            contents.append(measures.to_numpy(dtype=np.float64).tobytes().hex())
        return digest_of("neurocontrast-cohort", len(self.table), *contents)

    def _below_root(self, path: str) -> str:
        """Return an image's path relative to the cohort's `root`; a file name if outside."""
        file = Path(path)
        if not file.is_relative_to(self.root):
            return file.name
        return file.relative_to(self.root).as_posix()

    def subject_digests(self) -> list[str]:
        """Return the sorted digests of the distinct subjects' identifiers.

        Sorting hides the order of the table.
        """
        return sorted(subject_digest(str(subject)) for subject in self.table["subject_id"].unique())


def columns_of(channels: Sequence[str] | None) -> tuple[str, ...]:
    """Return the table column of each of `channels`; None and channel "t1" are column ``path``."""
    if channels is None:
        return ("path",)
    columns = []
    for name in channels:
        column = name
        if name == "t1":
            column = "path"
        columns.append(column)
    return tuple(columns)


def _digits_of(value: float) -> str:
    """Return a number as text with all its digits; "" for a missing number."""
    if np.isnan(value):
        return ""
    return repr(float(value))


class Inspection(NamedTuple):
    """Result of `inspect_cohort`: a cohort with NaN in unreadable cells, and the table's problems.

    `lines` has the line number in the table's file for each row of ``cohort.table``, in order.
    """

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
    """Read a table of scans, such as ``participants.tsv`` of a BIDS data set.

    Every cell is read as text and then converted by the rule of its column, as ``docs/data.md``
    states. One DataError names all bad rows together, each with line, participant, column, the
    cell and the values that are allowed.

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
        Whether every image file must exist. Images are not opened.

    Returns
    -------
    Cohort
        Table of scans, with warnings.

    Raises
    ------
    DataError
        If the file cannot be read, a column is missing, or rows are bad.
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
    """Read a table of scans as `read_cohort` does, but collect wrong cells in place of raising.

    The returned `Inspection` has the cohort of all rows, the wrong ones included, the table's
    problems, and the line number of each row. A table without a needed column is still a
    `DataError`.
    """
    people = read_people(participants, IDENTITY)
    cells = people.cells
    source = place_of(participants)
    used = columns_of(channels)
    root = source.parent
    if images_root is not None:
        root = Path(as_on_disk(str(Path(images_root).expanduser())))
    if images_root is not None and not root.is_dir():
        raise DataError(f"images_root: there is no folder {shown(root, 200)}.")
    root = root.absolute()
    check_columns(source.name, list(cells.columns), used)
    rows = Rows(cells, Problems(source.name))
    values: dict[str, object] = identity_of_rows(rows)
    refuse_files_of_others(rows, root, used)
    if "path" not in cells:
        cells["path"] = ""
        if used:
            cells["path"] = cells[used[0]]
    for column in dict.fromkeys(("path", *used)):
        values[column] = paths_of_rows(
            rows, column, root, check=check_images, is_used=column in used
        )
    for column in cells.columns.difference(list(values), sort=False):
        values[column] = rows.values(column, people.refused.get(column, {}))
    table = pd.DataFrame(values)
    for first, second in itertools.combinations(used, 2):
        same = (table[first] == table[second]) & (table[first] != "")
        problem = f"found the file of column '{first}'; each channel has files of its own"
        rows.refuse(second, dict.fromkeys(positions_of(same), problem))
    warnings = (*people.warnings, *warnings_about_cells(cells, table))
    cohort = Cohort(table, source, root, warnings, used)
    return Inspection(cohort, rows.problems, cells.index.tolist())


def split_by_subject(
    cohort: Cohort, fraction: float, seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Split scans for training and validation, all scans of a subject on the same side.

    About `fraction` of the subjects of each site go to validation. In the whole cohort at least one
    subject goes to validation, unless `fraction` is 0, and at least one to training. A site's share
    is rarely a whole number of subjects: the sites with the largest remainders give one more. The
    choice depends on the subjects and the seed, not on the order of the table.

    Parameters
    ----------
    cohort : Cohort
        Scans to split.
    fraction : float
        Share of the subjects for validation, in [0, 1).
    seed : int
        Seed of the choice.

    Returns
    -------
    training, validation : ndarray of int64
        Positions of the rows of each side, ascending.
    """
    if not 0 <= fraction < 1:
        raise ConfigError(f"val_fraction must be at least 0 and below 1, found {fraction}.")
    rows = np.arange(len(cohort), dtype=np.int64)
    if fraction == 0:
        return rows, rows[:0]
    subjects = cohort.table["subject_id"].astype(object)
    sites = pd.Series("", index=subjects.index)
    if "site" in cohort.table:
        sites = cohort.table["site"].fillna("")
    site_of = sites.groupby(subjects).first().astype(str)
    if len(site_of) < 2:
        raise DataError(
            f"{cohort.source.name}: a validation split needs two subjects, found {len(site_of)}."
        )
    generator = derive_generator("split-by-subject", seed)
    by_site = {site: sorted(of_site.index) for site, of_site in site_of.groupby(site_of)}
    n_total = min(max(round(fraction * len(site_of)), 1), len(site_of) - 1)
    wanted = np.array([n_total * len(by_site[site]) / len(site_of) for site in sorted(by_site)])
    counts = np.floor(wanted).astype(int)
    # Equal remainders are common with equal sites; a random key keeps the first names from always
    # winning.
    order = np.lexsort((generator.random(len(by_site)), -(wanted - counts)))
    counts[order[: n_total - counts.sum()]] += 1
    held_out: list[str] = []
    for site, count in zip(sorted(by_site), counts, strict=True):
        order_of_site = generator.permutation(len(by_site[site]))
        held_out += [by_site[site][position] for position in order_of_site[:count]]
    is_val = subjects.isin(held_out).to_numpy()
    return rows[~is_val], rows[is_val]
