"""Merge tables of measures into one with the scans and the columns of all.

Scans that cannot be read are left out of the merged table, and listed in `unread` of `Merged`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, filterfalse, starmap

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.cells import is_missing
from neurocontrast.data.codes import base_name
from neurocontrast.data.measures.names import Region, region_of
from neurocontrast.data.measures.sheets import Sheet
from neurocontrast.data.measures.units import may_be_empty
from neurocontrast.data.problems import Problems, first_names, shown
from neurocontrast.exceptions import one_of

_FACTS = ("age", "sex", "site")
_THICKNESSES = "thicknesses are 0, of regions without surface"
_SIZES = "volumes or areas are 0, of structures that every brain has"
_ROUNDING = 1e-5
"""Relative difference of two values that count as equal, since programs write six digits."""


def scan_name(participant: str, session: str) -> str:
    """Return the name of a scan in messages: participant, and session if there is one."""
    return " session ".join(filter(None, (participant, session)))


@dataclass
class Merged:
    """Measures, notes and problems of all tables read so far, before they become one table.

    Made by `read_chosen` or `measures_of`, and filled table by table. `frames` has the name and the
    measures of each table, and `regions` the region of each measure.
    """

    problems: Problems
    frames: list[tuple[str, pd.DataFrame]] = field(default_factory=list)
    regions: dict[str, Region] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    atlases: dict[str, Sheet] = field(default_factory=dict)
    """Region → the first table that states the region's atlas."""
    subjects: dict[tuple[str, str], str] = field(default_factory=dict)
    with_facts: bool = False
    """Whether to read columns of age, sex and site as well."""
    facts: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """Scan → column → cell of age, sex or site in a table of measures, as written."""
    spelled: dict[str, str] = field(default_factory=dict)
    """Participant's name without ``sub-`` → the first spelling in the tables."""
    keys: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Name of a scan in messages → participant and session."""
    unread: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Participant and session of a skipped scan → reasons."""
    zeros: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Participant and session → measures that are 0 and cannot truly be 0."""
    versions: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)
    """Participant and session of a scan → programs and versions that measured the scan."""
    collected: Problems | None = None
    """Caller's list of problems, which gets all problems; None to raise them as one error."""

    def takes(self, column: str) -> bool:
        """Tell whether `column` is named age, sex or site, and `with_facts` is set.

        A name may have codes in it, as ``sex (1=M, 2=F)``.
        """
        return self.with_facts and base_name(column) in _FACTS

    def add_facts(self, index: pd.MultiIndex, column: str, cells: Sequence[str]) -> None:
        """Add the cells of a column of age, sex or site to `facts`.

        A cell becomes "" if two tables disagree. `index` has participant and session of each cell.
        """
        for key, cell in zip(index, cells, strict=True):
            if not is_missing(cell):
                facts = self.facts.setdefault(key, {})
                if facts.setdefault(column, cell) != cell:
                    facts[column] = ""

    def settle(self, *, skip: bool) -> None:
        """Raise all problems as one error, or add them to `collected`, if there is such a list.

        With `skip`, problems of single scans are first moved to `unread`, and are no error; the
        rows of these scans are left out later, by `without_unread`.
        """
        if skip:
            everything = list(self.problems.found)
            self.problems.found.clear()
            for problem in everything:
                key = self.keys.get(problem.name)
                if key is None:
                    self.problems.found.append(problem)
                else:
                    self.unread.setdefault(key, []).append(str(problem._replace(name="")))
        self.problems.pass_on(self.collected)

    def without_unread(self, values: pd.DataFrame) -> pd.DataFrame:
        """Return the measures `values` without the rows of scans that are skipped as unreadable."""
        return values[~values.index.isin(list(self.unread))]

    def listed(self) -> tuple[tuple[str, str], ...]:
        """List participant and session of all scans, in the order of the tables."""
        keys = dict[tuple[str, str], None]()
        for _, frame in self.frames:
            keys |= dict.fromkeys(frame.index)
        return tuple(keys)

    def joined(self) -> pd.DataFrame:
        """Return the measures of all tables in `frames` as one DataFrame: a row a scan, sorted.

        The index is participant and session, and there is one column for each region. For each scan
        and region of which two tables have different values, a problem is added to `problems`, and
        the value of the earlier table is taken.
        """
        values = pd.DataFrame(dtype=float)
        seen: dict[str, str] = {}
        for source, with_unread in self.frames:
            frame = self.without_unread(with_unread)
            if len(values):
                self._add_disagreements(values, frame, seen, source)
            values = _filled(values, frame)
            for name in frame.columns.astype(str):
                seen.setdefault(name, source)
        return values[list(seen)].sort_index()

    def _add_disagreements(
        self, values: pd.DataFrame, frame: pd.DataFrame, seen: dict[str, str], source: str
    ) -> None:
        """Add a problem for each value in `frame` that differs from the value in an earlier table.

        Values of the same scan and measure are compared; the problems go to ``self.problems``.
        `values` are the measures of the earlier tables, and `seen` is measure → name of the first
        table with the measure; `source` is the name of `frame`.
        """
        common = frame.columns.intersection(values.columns)
        earlier, later = values[common].align(frame[common], join="inner", axis=0)
        old = earlier.to_numpy(float)
        new = later.to_numpy(float)
        differ = ~(np.isnan(old) | np.isnan(new) | np.isclose(old, new, rtol=_ROUNDING, atol=0))
        for column, row in np.argwhere(differ.T).tolist():
            name = str(common[column])
            both = f"{old[row, column]:g} in {seen[name]} and {new[row, column]:g} in {source}"
            self.problems.add(both, column=name, name=scan_name(*earlier.index[row]))

    def lacking(self, values: pd.DataFrame) -> list[str]:
        """Return a list of notes, one for each table without values for some scans.

        A note names the scans. `values` are the measures of all tables, with a row for each scan.
        """
        columns: dict[str, list[str]] = {}
        for source, frame in self.frames:
            columns.setdefault(source, []).extend(frame.columns.astype(str))
        notes = []
        for source, names in columns.items():
            if not names:
                continue
            is_empty = values[list(dict.fromkeys(names))].isna().all(axis=1)
            scans = list(starmap(scan_name, values.index[is_empty]))
            if scans:
                notes.append(
                    f"{source}: has nothing of {len(scans)} of {len(values)} scans, which other "
                    f"tables have: {first_names(scans)}; taken as missing."
                )
        return notes


def _filled(values: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """Return `values` with empty cells, and absent scans and measures, filled from `frame`.

    Rows are scans, and columns are measures. `DataFrame.combine_first` would give the same more
    slowly, as it goes through hundreds of columns one by one.
    """
    if not len(values):
        return frame
    scans = values.index.union(frame.index)
    measures = values.columns.union(frame.columns)
    earlier = values.reindex(index=scans, columns=measures)
    later = frame.reindex(index=scans, columns=measures)
    return earlier.where(earlier.notna(), later)


def add_versions(sheet: Sheet, index: pd.MultiIndex, merged: Merged) -> None:
    """Add program and version of each scan in `sheet` to ``merged.versions``, if known.

    A sheet states program and version for each row, or for the whole table. `index` has participant
    and session of each row of `sheet`, which are the keys of ``merged.versions``.
    """
    programs = list(sheet.programs)
    if not programs and ";" not in sheet.software:  # several joined are of nobody in particular
        programs = [sheet.software] * len(index)
    for key, program in zip(index, programs, strict=False):
        if not is_missing(program):
            merged.versions.setdefault(key, {})[program.strip()] = None


def numbers_of(
    sheet: Sheet,
    chosen: Mapping[str, str],
    names: Sequence[str],
    merged: Merged,
    source: str,
) -> npt.NDArray[np.float64]:
    """Return chosen measures of `sheet` as an array of numbers: a row for each scan.

    `chosen` is region → column of `sheet`, in the order of the array's columns, and `names` the
    name of each scan. Volumes are converted to mm³; missing, unreadable and impossible negative
    cells are NaN. For each unreadable or negative cell a problem is added to ``merged.problems``.
    All columns are converted in one call: a table has hundreds of columns, and pandas takes a
    millisecond for a call.
    """
    columns = list(chosen.values())
    cells = pd.Series(
        list(chain.from_iterable(map(sheet.cells.__getitem__, columns))), dtype=object
    )
    missing = cells.map(is_missing).to_numpy(bool)
    values = pd.to_numeric(cells.mask(missing), errors="coerce").to_numpy(np.float64, copy=True)
    kinds = []
    for region in chosen:
        kinds.append(merged.regions[region].kind)
    bad = ~missing & ~np.isfinite(values)
    negative = (values < 0) & np.repeat(np.array(kinds) != "other", len(names))
    for position in np.flatnonzero(bad | negative).tolist():
        column, row = divmod(position, len(names))
        rule = f"a {kinds[column]} is not below 0; write n/a if it is not known"
        if bad[position]:
            rule = "a number with a decimal point, or n/a"
        merged.problems.add(
            f"{source}found {shown(cells[position])}; {rule}",
            column=columns[column],
            line=sheet.line(row),
            name=names[row],
        )
    values[bad | negative] = np.nan
    table = values.reshape(len(columns), len(names)).T
    return table * np.where(np.array(kinds) == "volume", sheet.scale, 1.0)


def without_zeros(sheet: Sheet, frame: pd.DataFrame, merged: Merged) -> pd.DataFrame:
    """Return `frame`, measures of scans, with NaN for zeros of structures that every brain has.

    Notes that count the zeros are added to ``merged.notes``, and the measures that are 0 for each
    scan to ``merged.zeros``.
    """
    names = frame.columns.astype(str)
    never_empty = []
    for name in names:
        never_empty.append(not may_be_empty(name, merged.regions[name].kind))
    is_zero = frame.eq(0).to_numpy(bool) & np.array(never_empty, dtype=bool)
    for row in np.flatnonzero(is_zero.any(axis=1)).tolist():
        of_scan = merged.zeros.setdefault(frame.index[row], [])
        of_scan += names[is_zero[row]].tolist()
    zeros = pd.DataFrame(is_zero, index=frame.index, columns=names)
    empty = zeros.columns[zeros.any()].astype(str)
    kinds = empty.map(lambda column: merged.regions[column].kind)
    is_thickness = np.asarray(kinds == "thickness", dtype=bool)
    for columns, things in ((empty[is_thickness], _THICKNESSES), (empty[~is_thickness], _SIZES)):
        if len(columns):
            n_zeros = int(zeros[columns].sum().sum())
            merged.notes.append(
                f"{sheet.source.name}: {n_zeros} {things} ({one_of(columns[:3])} among "
                f"{len(columns)} columns): taken as missing."
            )
    return frame.mask(zeros)


def region_of_column(column: str, sheet: Sheet, keep: Sequence[str]) -> Region | None:
    """Return the region that the name of a column of `sheet` means; None if the name means none.

    A column in `keep` is a region of its name, of kind ``other``.
    """
    region = region_of(column, side=sheet.side, measure=sheet.measure)
    if region is not None and sheet.atlas and region.atlas != "aseg":
        return region._replace(atlas=sheet.atlas)
    if region is None and column in keep:
        return Region(column, "other", "")
    return region


def holds_numbers(cells: Sequence[str]) -> bool:
    """Tell whether a column has a number in some cell, and numbers or missing values in all others.

    `cells` are the column's cells as text.
    """
    filled = pd.Series(list(filterfalse(is_missing, cells)), dtype=object)
    return len(filled) > 0 and bool(pd.to_numeric(filled, errors="coerce").notna().all())
