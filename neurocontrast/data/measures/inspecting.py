"""People and their regional measures, read to the end: all problems together, and no error for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.cohort import Cohort, Inspection, inspect_cohort
from neurocontrast.data.columns import first_of, text_of
from neurocontrast.data.listing import read_sheet
from neurocontrast.data.measures.contract import ways_out
from neurocontrast.data.measures.finding import Choice, holds_measures
from neurocontrast.data.measures.joining import find_measures, rows_of, sites_of, versions_of
from neurocontrast.data.measures.merging import scan_name
from neurocontrast.data.measures.names import UNITS, region_of
from neurocontrast.data.measures.sheets import SOFTWARE
from neurocontrast.data.measures.tables import MeasuresTable, read_chosen
from neurocontrast.data.problems import Problem, Problems, first_names
from neurocontrast.data.settings import MeasureDataSettings
from neurocontrast.exceptions import DataError
from neurocontrast.provenance import unify_subjects

N_ALIKE = 5
"""Measures of a person, at least, that are compared with those of others, or with each other."""
_N_OF_SITE = 5
_N_SHOWN = 10
_YOUNGEST = 4.0
_OLDEST = 100.0
_LACKS_ROW = "no table of measures has a row of this scan"
_ZEROS = " are 0, of "


@dataclass(frozen=True, eq=False)
class InspectedMeasures:
    """Hold people, their measures, and all that is wrong with both.

    Parameters
    ----------
    people : Cohort
        People without their measures; of a table of measures alone its scans.
    lines : sequence of int
        Line of each row in the table of people; empty without such a table.
    problems : Problems
        Reasons why `pretrain` would refuse the tables, and copies.
    table : MeasuresTable
        Measures as their tables list them.
    values : DataFrame
        Measures in the order of the people; NaN where one is missing, or 0 and cannot be.
    zeros : DataFrame
        Whether a value is 0 and cannot be.
    versions : list of str
        Program and version of each row, "" where none is known.
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
        """Name of each row in messages."""
        return self.people.names()

    @cached_property
    def sites(self) -> pd.Series:
        """Site of each row, "" where none is known."""
        table = self.people.table
        if "site" not in table:
            return pd.Series("", index=table.index)
        return table["site"].astype(object).fillna("").astype(str)

    @cached_property
    def is_measured(self) -> npt.NDArray[np.bool_]:
        """Whether a row has any measure."""
        return self.values.notna().any(axis=1).to_numpy()

    @cached_property
    def constants(self) -> list[str]:
        """Measures that are equal for everybody, of which nothing can be learned."""
        n_values = self.values[self.is_measured].nunique()
        return n_values.index[n_values < min(2, self.is_measured.sum())].astype(str).tolist()

    def line(self, row: int) -> int | None:
        """Return the line of a row in the table of people."""
        return self.lines[row] if len(self.lines) else None

    def row_of(self, problem: Problem) -> int | None:
        """Return the row that a problem is of, by its line or by its name; None for no single row."""
        if problem.line is not None and problem.line in self.lines:
            return list(self.lines).index(problem.line)
        if problem.name in self.names:
            return self.names.index(problem.name)
        return None

    def add(self, row: int, problem: str) -> None:
        """Add a problem of one row."""
        self.problems.add(problem, line=self.line(row), name=self.names[row])


def is_of_measures(participants: Path) -> bool:
    """Tell whether a table or folder holds measures, or people whose measures lie beside it."""
    if participants.is_dir() or holds_measures(participants):
        return True
    if not participants.is_file() or not find_measures(participants).is_file():
        return False
    return "path" not in {str(column).lower() for column in read_sheet(participants)}


def inspect_measures(participants: Path, settings: MeasureDataSettings) -> InspectedMeasures:
    """Read people and their measures, and collect all problems.

    Parameters
    ----------
    participants : path
        Table of people, or a table or folder of measures.
    settings : MeasureDataSettings
        Tables of measures, what to take of them, and how many a person may lack.
    """
    participants = participants.expanduser()
    choice = Choice(settings.atlas, settings.measure)
    is_alone = settings.measures is None and (
        participants.is_dir() or holds_measures(participants)
    )
    if is_alone:
        problems = Problems("measures")
        table = read_chosen(participants, choice, collected=problems)
        inspection = _people_of(participants, table)
    else:
        inspection = inspect_cohort(participants, channels=())
        measures = settings.measures or _beside(participants)
        sites = sites_of(inspection.cohort.table)
        problems = Problems("measures")
        table = read_chosen(measures, choice, sites=sites, collected=problems)
    inspected = _joined(inspection, table, problems)
    _add_lacking(inspected, settings.max_missing)
    _add_alike(inspected)
    _add_copies(inspected)
    return inspected


def _beside(participants: Path) -> Path:
    """Return the table of measures beside a table of people; refuse people without one."""
    measures = find_measures(participants)
    if not measures.is_file():
        raise DataError(
            f"data.measures: missing, and there is no {measures.name} in the folder of "
            f"{participants.name}. Name the table."
        )
    return measures


def _people_of(participants: Path, table: MeasuresTable) -> Inspection:
    """Return the people of measures, with ages and sites where a table of both has them."""
    if participants.suffix.lower() in (".tsv", ".csv"):
        columns = list(map(str, read_sheet(participants)))
        if "participant_id" in map(str.lower, columns):
            inspection = inspect_cohort(participants, channels=())
            listed = inspection.cohort
            others = [name for name in listed.table if region_of(str(name)) is None]
            people = replace(listed, table=listed.table[others])
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


def _pass_on(problems: Problems, inspected: InspectedMeasures, positions: Sequence[int]) -> None:
    """Add problems of measures to those of people, with name and line of each scan there."""
    row_of = {}
    for row, position in enumerate(positions):
        if position >= 0:
            row_of[scan_name(*inspected.table.values.index[position])] = row
    for problem in problems.found:
        row = row_of.get(problem.name)
        text = problem.text
        if problem.line is not None and len(inspected.lines):
            text = f"{text} (line {problem.line} of the measures)"
        if row is not None:
            name = inspected.names[row]
            line = inspected.line(row)
            problem = problem._replace(text=text, name=name, line=line)
        inspected.problems.found.append(problem)
    for hint in problems.hints:
        inspected.problems.hint(hint)


def _joined(
    inspection: Inspection, table: MeasuresTable, problems: Problems
) -> InspectedMeasures:
    """Return people and measures row by row; a person without a row is a problem."""
    people = inspection.cohort
    participants = people.table["participant_id"].astype(str).tolist()
    rows = rows_of(table, participants, people.table["session"].astype(str).tolist())
    zeros = pd.DataFrame(False, index=rows.values.index, columns=rows.values.columns)
    for row, position in enumerate(rows.positions.tolist()):
        if position >= 0:
            columns = table.zeros.get(table.values.index[position], ())
            zeros.loc[row, zeros.columns.intersection(columns)] = True
    versions = versions_of(table, rows)
    stated = first_of(people.table, SOFTWARE)
    if stated:
        cells = people.table[stated].map(text_of).tolist()
        versions = [version or cell for version, cell in zip(versions, cells, strict=True)]
    inspected = InspectedMeasures(
        people, inspection.lines, inspection.problems, table, rows.values, zeros, versions
    )
    for row in rows.lacking.tolist():
        inspected.add(row, _LACKS_ROW)
    _pass_on(problems, inspected, rows.positions.tolist())
    return inspected


def _add_lacking(inspected: InspectedMeasures, max_missing: float) -> None:
    """Add a problem for each person who lacks more measures than `pretrain` takes."""
    values = inspected.values.drop(columns=inspected.constants)
    is_missing_value = values.isna()
    zeros = inspected.zeros[values.columns]
    is_lacking = (is_missing_value.mean(axis=1) > max_missing).to_numpy() & inspected.is_measured
    worst = 0.0
    for row in np.flatnonzero(is_lacking).tolist():
        lacking = is_missing_value.iloc[row]
        n_zeros = int(zeros.iloc[row].sum())
        are_zeros = f", {n_zeros} of them 0," if n_zeros else ","
        worst = max(worst, float(lacking.mean()))
        inspected.add(
            row,
            f"lacks {int(lacking.sum())} of {values.shape[1]} measures{are_zeros} "
            f"'{lacking.idxmax()}' first; at most {max_missing * 100:g} % may be missing "
            "(data.max_missing)",
        )
    if worst:
        inspected.problems.hint(ways_out(worst))
    elif not inspected.is_measured.all():
        inspected.problems.hint("--skip (data.skip_unreadable=true) leaves such people out.")


def _add_alike(inspected: InspectedMeasures) -> None:
    """Add a problem for each person all of whose thicknesses, volumes or areas are one number."""
    for kind in ("thickness", "volume", "area"):
        columns = [name for name in inspected.values if inspected.table.kinds[str(name)] == kind]
        values = inspected.values[columns]
        is_alike = (values.nunique(axis=1) == 1) & (values.notna().sum(axis=1) >= N_ALIKE)
        for row in np.flatnonzero(is_alike).tolist():
            of_person = values.iloc[row].dropna()
            number = f"{of_person.iloc[0]:g} {UNITS[kind]}"
            inspected.add(row, f"all {len(of_person)} measures of {kind} are {number}")


def _add_copies(inspected: InspectedMeasures) -> None:
    """Add a problem for each scan whose measures are all those of another scan."""
    values = inspected.values.round(6)
    is_enough = values.notna().sum(axis=1) >= N_ALIKE
    values = values[is_enough]
    copies = values[values.duplicated(keep=False)]
    for _, rows in copies.groupby(list(copies.columns), dropna=False).groups.items():
        for row in rows:
            others = [inspected.names[other] for other in rows if other != row]
            inspected.add(int(row), f"has the measures of {first_names(others)}, every number")
    if len(copies):
        inspected.problems.hint(
            "Of scans with the same measures find out whose they are, and take out the others."
        )


def warnings_about(inspected: InspectedMeasures) -> list[str]:
    """Return warnings about measures that can be used: versions, ages, constants, and what is missing or 0."""
    return [*warnings_about_people(inspected), *_about_missing(inspected)]


def warnings_about_people(inspected: InspectedMeasures) -> list[str]:
    """Return the warnings of `warnings_about` that are not of single measures: a page has these in tables."""
    notes = [note for note in inspected.table.notes if _ZEROS not in note]
    return [
        *notes,
        *_about_versions(inspected),
        *_about_ages(inspected.people.table, inspected.names),
        *_about_constants(inspected),
    ]


def _about_missing(inspected: InspectedMeasures) -> list[str]:
    """Return a warning on each measure that people lack, the most lacking first."""
    measured = inspected.is_measured
    missing = inspected.values[measured].isna()
    zeros = inspected.zeros[measured]
    sites = inspected.sites[measured].to_numpy()
    counts = missing.sum().sort_values(ascending=False, kind="stable")
    lacking = counts[counts > 0]
    warnings = []
    for name, n_missing in lacking.head(_N_SHOWN).items():
        n_zeros = int(zeros[name].sum())
        of_sites = sorted(set(sites[missing[name].to_numpy()]) - {""})
        at = f" (sites {first_names(of_sites)})" if of_sites else ""
        are_zeros = f", 0 in {n_zeros}" if n_zeros else ""
        warnings.append(f"'{name}' is missing in {n_missing} of {len(missing)} scans{are_zeros}{at}")
    if len(lacking) > _N_SHOWN:
        n_further = len(lacking) - _N_SHOWN
        most = int(lacking.iloc[_N_SHOWN])
        warnings.append(f"{n_further} further measures are missing or 0 in at most {most} scans each")
    return warnings


def _about_constants(inspected: InspectedMeasures) -> list[str]:
    """Return warnings on measures that are equal for everybody, or for everybody of a site."""
    warnings = []
    if inspected.constants:
        warnings.append(
            f"the same for everybody, so that nothing is learned of it: "
            f"{first_names(inspected.constants, _N_SHOWN)}"
        )
    values = inspected.values.drop(columns=inspected.constants)
    for site, of_site in values.groupby(inspected.sites):
        n_known = of_site.notna().sum()
        is_alike = (of_site.nunique() == 1) & (n_known >= _N_OF_SITE)
        names = is_alike.index[is_alike].astype(str).tolist()
        if site and names:
            warnings.append(
                f"site {site}: one value for everybody of the site in {first_names(names)}"
            )
    return warnings


def _about_versions(inspected: InspectedMeasures) -> list[str]:
    """Return a warning on each site whose people are of several programs or versions."""
    known = pd.DataFrame({"site": inspected.sites, "version": inspected.versions})
    known = known[known["version"] != ""]
    mixed = []
    for site, versions in known.groupby("site")["version"]:
        counts = versions.value_counts()
        if len(counts) > 1:
            listed = ", ".join(f"{version} ({n})" for version, n in counts.items())
            name = f"site {site}" if site else "people without a site"
            mixed.append(f"{name}: {listed}")
    if not mixed:
        return []
    return [
        f"several versions of the program within a site, which differ as scanners do (run one for "
        f"all, or make a site of each): {'; '.join(mixed[:_N_SHOWN])}"
    ]


def _about_ages(table: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Return warnings on ages that are not there, or that FreeSurfer is not made for."""
    if "age" not in table:
        return ["there is no column 'age': what is learned of ages needs it"]
    ages = table["age"].to_numpy(dtype=float)
    odd = np.flatnonzero((ages < _YOUNGEST) | (ages > _OLDEST)).tolist()
    if not odd:
        return []
    listed = first_names([f"{names[row]} ({ages[row]:g})" for row in odd])
    return [
        f"column 'age': {len(odd)} below {_YOUNGEST:g} or above {_OLDEST:g} years, {listed}: are "
        "they years?"
    ]
