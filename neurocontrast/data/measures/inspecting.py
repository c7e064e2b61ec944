"""Inspect people and their regional measures, and collect problems instead of raising errors."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.cells import text_of
from neurocontrast.data.cohort import Cohort, Inspection, inspect_cohort
from neurocontrast.data.columns import first_of
from neurocontrast.data.listing import read_sheet
from neurocontrast.data.measures.choosing import Choice
from neurocontrast.data.measures.contract import ways_out
from neurocontrast.data.measures.finding import holds_measures
from neurocontrast.data.measures.joining import (
    find_measures,
    measures_beside,
    rows_of,
    sites_of,
    versions_of,
)
from neurocontrast.data.measures.merging import scan_name
from neurocontrast.data.measures.names import UNITS, Kind, region_of
from neurocontrast.data.measures.sheets import SOFTWARE
from neurocontrast.data.measures.tables import MeasuresTable, read_chosen
from neurocontrast.data.problems import Problem, Problems, first_names
from neurocontrast.data.settings import MeasureDataSettings
from neurocontrast.provenance import unify_subjects

KINDS_OF_NUMBERS: tuple[Kind, ...] = ("thickness", "volume", "area")
"""Kinds of measure in which no person can have the same number in every region."""
N_ALIKE = 5
"""Smallest number of a person's measures that are compared with each other, or with other
people's.
"""
_LACKS_ROW = "no table of measures has a row of this scan"


@dataclass(frozen=True, eq=False)
class InspectedMeasures:
    """People and their regional measures, with all problems of both; made by `inspect_measures`.

    Parameters
    ----------
    people : Cohort
        People, without their measures; if there is no table of people, the scans in the table of
        measures.
    lines : sequence of int
        Line of each row in the table of people; empty if there is no table of people.
    problems : Problems
        Reasons why `pretrain` would refuse the tables, and scans whose measures are all equal to
        the measures of another scan.
    table : MeasuresTable
        All measures read, one row a scan in the tables of measures.
    values : DataFrame
        Measures with one row for each row of `people`, in the same order; NaN where a measure is
        missing, or is an impossible 0.
    zeros : DataFrame
        Whether a value is an impossible 0, for each cell of `values`.
    versions : list of str
        Program and version for each row of `people`, "" where none is stated.
    """

    people: Cohort
    lines: Sequence[int]
    problems: Problems
    table: MeasuresTable
    values: pd.DataFrame
    zeros: pd.DataFrame
    versions: list[str]

    @cached_property
    def names(self) -> list[str]:
        """Name of each inspected person's row, for messages."""
        return self.people.names()

    @cached_property
    def sites(self) -> pd.Series:
        """Site of each inspected person's row; "" if unknown."""
        table = self.people.table
        if "site" not in table:
            return pd.Series("", index=table.index)
        return table["site"].astype(object).fillna("").astype(str)

    @cached_property
    def is_measured(self) -> npt.NDArray[np.bool_]:
        """Whether each inspected person's row has any measure."""
        return self.values.notna().any(axis=1).to_numpy()

    @cached_property
    def constants(self) -> list[str]:
        """Names of measures with the same value in all measured people, or with no value at all.

        Missing values do not count as different. With a single measured person, only measures
        without a value are named. Nothing can be learned of such measures.
        """
        n_values = self.values[self.is_measured].nunique()
        return n_values.index[n_values < min(2, self.is_measured.sum())].astype(str).tolist()

    @cached_property
    def _rows(self) -> dict[int | str, int]:
        """Line in the table of people, or name of a scan → row position in the table of people.

        The position counts from 0, and is also a row of `values`. Of several rows of one name the
        first is taken.
        """
        rows: dict[int | str, int] = {}
        for row, name in enumerate(self.names):
            rows.setdefault(name, row)
        for row, line in enumerate(self.lines):
            rows.setdefault(line, row)
        return rows

    def line(self, row: int) -> int | None:
        """Return the number of the line in the table of people for the person at position `row`.

        `row` counts from 0, and lines are those of the table's file. None if there is no table of
        people.
        """
        if not len(self.lines):
            return None
        return self.lines[row]

    def row_of(self, problem: Problem) -> int | None:
        """Return the position in `people` of the person that a problem is about, or None.

        The person is found by the line or by the name in the problem; None if neither is of a
        person.
        """
        if problem.line is not None and problem.line in self._rows:
            return self._rows[problem.line]
        return self._rows.get(problem.name)

    def add(self, row: int, problem: str, column: str = "") -> None:
        """Add a problem of one person's row to `problems`, with the row's name and line."""
        self.problems.add(problem, column=column, line=self.line(row), name=self.names[row])


def is_of_measures(participants: Path) -> bool:
    """Tell whether a path is a folder, a table of measures, or people with ``measures.tsv``.

    The last is a table of people without a column ``path``, with the table of measures that `index`
    writes to the same folder (see `find_measures`). A folder is not opened.
    """
    if participants.is_dir() or holds_measures(participants):
        return True
    if not participants.is_file() or not find_measures(participants).is_file():
        return False
    return "path" not in read_sheet(participants).columns.astype(str).str.lower()


def inspect_measures(participants: Path, settings: MeasureDataSettings) -> InspectedMeasures:
    """Read people and regional measures, and return an `InspectedMeasures` with all problems found.

    Problems of tables' content are collected in the `InspectedMeasures`, and raise no error.

    Parameters
    ----------
    participants : path
        Table of people, or a table or folder of measures.
    settings : MeasureDataSettings
        Section ``data``: tables of measures, the choice among the tables, and the share of measures
        that a person may lack.
    """
    participants = participants.expanduser()
    choice = Choice(settings.atlas, settings.measure)
    is_alone = settings.measures is None and (participants.is_dir() or holds_measures(participants))
    if is_alone:
        problems = Problems("measures")
        table = read_chosen(participants, choice, collected=problems)
        inspection = _people_of(participants, table)
    else:
        inspection = inspect_cohort(participants, channels=())
        measures = settings.measures or measures_beside(participants)
        sites = sites_of(inspection.cohort.table)
        problems = Problems("measures")
        table = read_chosen(measures, choice, sites=sites, collected=problems)
    inspected = _joined(inspection, table, problems)
    _add_lacking(inspected, settings.max_missing)
    _add_alike(inspected)
    _add_copies(inspected)
    return inspected


def _people_of(participants: Path, table: MeasuresTable) -> Inspection:
    """Return an `Inspection` of the people in a table of measures, with ages and sites if stated.

    `participants` is the file or folder of measures, and `table` the measures read from it. A
    ``.tsv`` or ``.csv`` file with a column ``participant_id`` is read again as a table of people,
    without its measures. From any other file, and from a folder, people are the rows of `table`.
    """
    if participants.suffix.lower() in (".tsv", ".csv"):
        columns = list(map(str, read_sheet(participants)))
        if "participant_id" in map(str.lower, columns):
            inspection = inspect_cohort(participants, channels=())
            listed = inspection.cohort
            is_region = listed.table.columns.map(_is_region)
            people = replace(listed, table=listed.table.loc[:, ~is_region.to_numpy(dtype=bool)])
            return Inspection(people, inspection.problems, inspection.lines)
    keys = table.values.index
    names = keys.get_level_values(0).astype(str)
    subjects = unify_subjects(map(table.subjects.get, keys, names))
    people_table = pd.DataFrame(
        {
            "participant_id": names,
            "subject_id": subjects,
            "session": keys.get_level_values(1).astype(str),
        }
    )
    cohort = Cohort(people_table, participants, participants.parent, channels=())
    return Inspection(cohort, Problems(participants.name), [])


def count_versions(versions: pd.Series) -> list[str]:
    """List each program and version with its number of people, the most frequent first."""
    counts = versions.value_counts()
    return (counts.index.astype(str) + counts.map(" ({})".format)).tolist()


def _is_region(column: object) -> bool:
    """Tell whether the name of a column means a regional measure."""
    return region_of(str(column)) is not None


def _pass_on(problems: Problems, inspected: InspectedMeasures, positions: Sequence[int]) -> None:
    """Add `problems`, of the tables of measures, to the problems of `inspected`.

    A problem of a scan gets the scan's name and line in the table of people. `positions` has for
    each inspected person the row in the table of measures, -1 for none.
    """
    row_of: dict[str, int] = {}
    for row, position in enumerate(positions):
        if position >= 0:
            row_of[scan_name(*inspected.table.values.index[position])] = row
    for problem in problems.found:
        if problem.name not in row_of:
            inspected.problems.found.append(problem)
            continue
        sentence = problem.text
        if problem.line is not None and len(inspected.lines):
            sentence = f"{sentence} (line {problem.line} of the measures)"
        inspected.add(row_of[problem.name], sentence, column=problem.column)
    for hint in problems.hints:
        inspected.problems.hint(hint)


def _joined(inspection: Inspection, table: MeasuresTable, problems: Problems) -> InspectedMeasures:
    """Return the `InspectedMeasures` of the people in `inspection`, joined with rows of `table`.

    The problems in it are those of `inspection`, one for each person without a row in `table`, and
    `problems`, which were found in the tables of measures.
    """
    people = inspection.cohort
    participants = people.table["participant_id"].astype(str).tolist()
    rows = rows_of(table, participants, people.table["session"].astype(str).tolist())
    zeros = pd.DataFrame(False, index=rows.values.index, columns=rows.values.columns)
    for row, position in enumerate(rows.positions.tolist()):
        if position >= 0:
            columns = list(table.zeros.get(table.values.index[position], ()))
            zeros.iloc[row, zeros.columns.get_indexer_for(zeros.columns.intersection(columns))] = (
                True
            )
    versions = versions_of(table, rows)
    stated = first_of(people.table, SOFTWARE)
    if stated:
        cells = people.table[stated].map(text_of)
        of_measures = pd.Series(versions, index=cells.index, dtype=object)
        versions = of_measures.where(of_measures != "", cells).tolist()
    inspected = InspectedMeasures(
        people, inspection.lines, inspection.problems, table, rows.values, zeros, versions
    )
    for row in rows.lacking.tolist():
        inspected.add(row, _LACKS_ROW)
    _pass_on(problems, inspected, rows.positions.tolist())
    return inspected


def _add_lacking(inspected: InspectedMeasures, max_missing: float) -> None:
    """Add to `inspected` a problem for each person who lacks more measures than allowed.

    `max_missing` is the share of measures that may be missing. Unreadable cells, which are problems
    already, are not counted.
    """
    values = inspected.values.drop(columns=inspected.constants)
    is_missing_value = values.isna()
    zeros = inspected.zeros[values.columns]
    n_lacking = is_missing_value.sum(axis=1).to_numpy() - _n_bad_cells(inspected)
    is_lacking = (n_lacking > max_missing * values.shape[1]) & inspected.is_measured
    worst = 0.0
    for row in np.flatnonzero(is_lacking).tolist():
        lacking = is_missing_value.iloc[row]
        n_zeros = int(zeros.iloc[row].sum())
        are_zeros = f" {n_zeros} of them 0," * bool(n_zeros)
        worst = max(worst, float(lacking.mean()))
        inspected.add(
            row,
            f"lacks {int(lacking.sum())} of {values.shape[1]} measures,{are_zeros} "
            f"'{lacking.idxmax()}' first; at most {max_missing * 100:g} % may be missing "
            "(data.max_missing)",
        )
    if worst:
        inspected.problems.hint(ways_out(worst))
    elif not inspected.is_measured.all():
        inspected.problems.hint("--skip (data.skip_unreadable=true) leaves such people out.")


def _n_bad_cells(inspected: InspectedMeasures) -> npt.NDArray[np.int64]:
    """Return the number of unreadable cells of measures of each inspected person, an array (n,).

    Each unreadable cell already is a problem in `inspected`; these problems are counted here, and
    none is added.
    """
    n_bad = np.zeros(len(inspected.names), dtype=np.int64)
    for problem in inspected.problems.found:
        row = inspected.row_of(problem)
        if row is not None and problem.column not in inspected.people.table:
            n_bad[row] += bool(problem.column)
    return n_bad


def _add_alike(inspected: InspectedMeasures) -> None:
    """Add to `inspected` a problem for each person with one number in all measures of one kind.

    Such a person has, for instance, 2.5 mm in every column of thickness. Kinds are thickness,
    volume and area; a person needs `N_ALIKE` values or more of the kind.
    """
    kinds = inspected.values.columns.map(dict(inspected.table.kinds))
    for kind in KINDS_OF_NUMBERS:
        values = inspected.values.loc[:, np.asarray(kinds == kind)]
        is_alike = (values.nunique(axis=1) == 1) & (values.notna().sum(axis=1) >= N_ALIKE)
        for row in np.flatnonzero(is_alike).tolist():
            of_person = values.iloc[row].dropna()
            number = f"{of_person.iloc[0]:g} {UNITS[kind]}"
            inspected.add(row, f"all {len(of_person)} measures of {kind} are {number}")


def _add_copies(inspected: InspectedMeasures) -> None:
    """Add to `inspected` a problem for each scan with exactly the same measures as another scan.

    Two equal scans are two problems. Scans with fewer than `N_ALIKE` measures are not compared.
    """
    values = inspected.values.round(6)
    is_enough = values.notna().sum(axis=1) >= N_ALIKE
    values = values[is_enough]
    copies = values[values.duplicated(keep=False)]
    for _, rows in copies.groupby(list(copies.columns), dropna=False).groups.items():
        for row in rows:
            others = list(map(inspected.names.__getitem__, rows.drop(row)))
            inspected.add(int(row), f"has the measures of {first_names(others)}, every number")
    if len(copies):
        inspected.problems.hint(
            "Of scans with the same measures find out whose they are, and take out the others."
        )
