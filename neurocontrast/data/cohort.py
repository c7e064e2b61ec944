"""The cohort: one validated table, one row a scan."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.columns import text_of
from neurocontrast.data.listing import AnyTable, place_of, read_text_table
from neurocontrast.data.problems import Problems, shown
from neurocontrast.data.selection import matching_rows
from neurocontrast.data.validation import convert
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.files import ScanFiles, digest_of
from neurocontrast.provenance import subject_digest
from neurocontrast.seeds import derive_generator

if TYPE_CHECKING:
    from neurocontrast.data.measures.tables import MeasuresTable

Kind = Literal["continuous", "categorical"]


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
        Columns that hold the files of each scan (absolute paths), one a channel; empty for people without images.
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
            marks += [text for text in map(text_of, self.table["source"].unique()) if text.startswith("simulat")]
        return any(mark not in ("", "0", "no", "false") for mark in marks)

    def paths_in(self, *columns: str) -> list[str]:
        """Return the files that the first of these columns of the table names, absolute; "" for a missing one."""
        given = next((self.table[name] for name in columns if name in self.table), pd.Series("", self.table.index))
        return [os.path.join(self.root, path) if path else "" for path in given.fillna("").astype(str)]  # noqa: PTH118

    def subset(self, rows: npt.ArrayLike) -> Cohort:
        """Return the cohort of the given row positions (or of a boolean mask), in their order."""
        chosen = replace(self, table=self.table.iloc[np.asarray(rows)].reset_index(drop=True))
        if self.measures is None:
            return chosen
        values = self.measures.values.iloc[np.asarray(rows)].reset_index(drop=True)
        return replace(chosen, measures=replace(self.measures, values=values))

    def select(self, where: Mapping[str, Any]) -> Cohort:
        """Return the scans that a selection keeps, for instance ``{"site": ["london"], "diagnosis": {"not": "pd"}}``.

        See `neurocontrast.data.selection.matching_rows`.
        """
        return self.subset(matching_rows(self.table, where, place=self.source.name))

    def names(self) -> list[str]:
        """Return the name of each scan in messages: its participant, and its session if it has one."""
        return [
            f"{participant} session {session}" if session else str(participant)
            for participant, session in zip(self.table["participant_id"], self.table["session"], strict=True)
        ]

    def digest(self) -> str:
        """Return a digest of the content of the table, which is the same on every machine."""
        parts: list[str] = []
        for column in self.table.columns:
            values = self.table[column]
            if column in ("path", *self.channels):
                texts = _below(self.root, values)
            elif values.dtype == np.float64:
                texts = ["" if np.isnan(value) else repr(float(value)) for value in values]
            else:
                texts = [text_of(value) for value in values]
            parts += [column, "\x1f".join(texts)]
        if self.measures is not None:
            measured = self.measures.values
            parts += ["measures", *map(str, measured.columns), measured.to_numpy(dtype=np.float64).tobytes().hex()]
        return digest_of("neurocontrast-cohort", len(self.table), *parts)

    def subject_digests(self) -> list[str]:
        """Return the sorted digests of the subjects, which do not reveal the order of the table."""
        return sorted(subject_digest(str(subject)) for subject in self.table["subject_id"].unique())


def columns_of(channels: Sequence[str] | None) -> tuple[str, ...]:
    """Return the column with the files of each channel: ``path`` for "t1"; None means ``["t1"]``."""
    return tuple("path" if name == "t1" else name for name in (("t1",) if channels is None else channels))


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

    Every cell is read as text and then converted by the rule of its column, as ``docs/data.md`` states. One DataError
    names all bad rows together: each with line, participant, column, what was found and what is allowed.

    Parameters
    ----------
    participants : path or DataFrame
        Tab-separated table, or comma-separated when its name ends in ``.csv``; `neurocontrast.index` makes one of a
        folder of scans.
    images_root : path, optional
        Folder that relative image paths start from; by default the table's own.
    channels : sequence of str, optional
        Columns that hold the files of each scan, one a channel, for instance ``["gm", "wm"]``; "t1" means
        "path". None for ``["t1"]``; an empty sequence for people without images.
    check_images : bool
        Whether every image file must be there. The images are not opened.
    """
    inspection = inspect_cohort(participants, images_root=images_root, channels=channels, check_images=check_images)
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
    cells, source = read_text_table(participants), place_of(participants)
    root = Path(images_root).expanduser() if images_root is not None else source.parent
    if images_root is not None and not root.is_dir():
        raise DataError(f"images_root: there is no folder {shown(root, 200)}.")
    root, problems, columns = root.absolute(), Problems(source.name), columns_of(channels)
    table, warnings = convert(cells, root=root, channels=columns, check_images=check_images, problems=problems)
    return Inspection(Cohort(table, source, root, tuple(warnings), columns), problems, cells.index.tolist())


def _below(root: Path, paths: Iterable[str]) -> list[str]:
    """Return paths from the root, or the names of files that are elsewhere."""
    found = map(Path, paths)
    return [path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name for path in found]


def split_by_subject(cohort: Cohort, fraction: float, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the rows for training and for validation, ascending; all scans of a subject are on one side.

    About `fraction` of the subjects of each site are held out, at least one unless it is 0, and one is always kept;
    where sites are too small for that, the largest remainders decide. The choice depends on the subjects and the
    seed, not on the order of the table.
    """
    if not 0 <= fraction < 1:
        raise ConfigError(f"val_fraction must be at least 0 and below 1, found {fraction}.")
    rows = np.arange(len(cohort), dtype=np.int64)
    if fraction == 0:
        return rows, rows[:0]
    subjects = cohort.table["subject_id"].astype(object)
    sites = cohort.table["site"].fillna("") if "site" in cohort.table else pd.Series("", index=subjects.index)
    site_of = sites.groupby(subjects).first().astype(str)
    if len(site_of) < 2:
        raise DataError(f"{cohort.source.name}: a validation split needs two subjects, found {len(site_of)}.")
    is_val = subjects.isin(_held_out(site_of, fraction, seed)).to_numpy()
    return rows[~is_val], rows[is_val]


def _held_out(site_of: pd.Series, fraction: float, seed: int) -> list[str]:
    """Return the subjects to hold out, of the site of each."""
    generator = derive_generator("split-by-subject", seed)
    by_site = {site: sorted(part.index) for site, part in site_of.groupby(site_of)}
    n_total = min(max(round(fraction * len(site_of)), 1), len(site_of) - 1)
    wanted = np.array([n_total * len(by_site[site]) / len(site_of) for site in sorted(by_site)])
    counts = np.floor(wanted).astype(int)
    # Equal remainders are common with equal sites; a random key keeps the first names from always winning.
    order = np.lexsort((generator.random(len(by_site)), -(wanted - counts)))
    counts[order[: n_total - counts.sum()]] += 1
    held_out: list[str] = []
    for site, count in zip(sorted(by_site), counts, strict=True):
        held_out += [by_site[site][position] for position in generator.permutation(len(by_site[site]))[:count]]
    return held_out
