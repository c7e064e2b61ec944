"""Check a table and its images before anything is computed from them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from neurocontrast.commands.check_measures import (
    MeasuresFacts,
    add_counts,
    check_measures,
    measures_to_name,
    settings_of_measures,
)
from neurocontrast.data.addresses import address_of
from neurocontrast.data.advice import recipe_for
from neurocontrast.data.cohort import Cohort, Inspection, columns_of, inspect_cohort
from neurocontrast.data.kinds import KINDS, SampleKind
from neurocontrast.data.listing import write_rows
from neurocontrast.data.people import check_not_described, read_people
from neurocontrast.data.privacy import look_for_identities
from neurocontrast.data.problems import Problems
from neurocontrast.data.quality import (
    doubts_about,
    doubts_about_extents,
    doubts_about_images,
    inspect_scans,
)
from neurocontrast.data.settings import MeasureDataSettings
from neurocontrast.data.sources import check_kind
from neurocontrast.display import as_progress
from neurocontrast.documents.document import Json
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.files import check_output_file, files_of
from neurocontrast.progress import Progress
from neurocontrast.torch_state import in_default_torch_state
from neurocontrast.transforms.preprocessing import Preprocessing


@dataclass(frozen=True, eq=False)
class CheckReport:
    """Problems, warnings and counts of a table, as `check` returns them."""

    cohort: Cohort
    kind: str  # of the samples, as `data.kind` names them
    problems: Problems  # what must be mended before the table can be used
    warnings: tuple[str, ...]
    summary: pd.DataFrame  # one row a site, or a split, and a last row for all
    deep: bool  # whether every voxel was read, or headers alone
    phi: dict[str, int] | None = (
        None  # fields found that could identify a patient, and files that could not be read
    )
    good: Path | None = None  # the table of the rows without a problem
    recipe: tuple[str, ...] = ("small",)  # what follows --config to begin with
    n_unprepared: int = 0  # whole heads, and brains that are not in MNI space
    measures: MeasuresFacts | None = None  # of people with regional measures
    unfound: tuple[Path, ...] = ()  # tables of measures that `pretrain` must be told

    @property
    def n_scans(self) -> int:
        """Number of rows."""
        return len(self.cohort)

    @property
    def n_subjects(self) -> int:
        """Number of people."""
        return int(self.cohort.table["subject_id"].nunique())

    @property
    def passed(self) -> bool:
        """Whether there is no problem."""
        return not self.problems.found

    def facts(self) -> Json:
        """Return the report as JSON-ready values."""
        facts: Json = {
            "passed": self.passed,
            "n_scans": self.n_scans,
            "n_subjects": self.n_subjects,
            "problems": [problem._asdict() for problem in self.problems.found],
            "warnings": list(self.warnings),
        }
        if self.phi is not None:
            facts["phi"] = self.phi
        if self.good is not None:
            facts["good"] = str(self.good)
        if self.measures is not None:
            facts["n_measures"] = self.measures.n_measures
            facts["atlas"] = self.measures.atlas
            facts["software"] = self.measures.software
        facts["summary"] = json.loads(self.summary.to_json(orient="index"))
        return facts

    def __str__(self) -> str:
        return self.to_text()

    def _title(self) -> str:
        """Return a line on the samples, and how far they were read."""
        counted = f"{self.n_scans} scans of {self.n_subjects} subjects"
        store = "headers"
        content = "voxels"
        kind = KINDS.find(self.kind)
        if kind is not None:
            counted = f"{self.n_scans:,} {kind.items}"
            store = kind.files
            content = kind.content
        read = f"table and {store}, not the {content}"
        if self.deep:
            read = f"table, {store} and {content}"
        if self.measures is not None:
            counted = f"{counted}, {self.measures}"
            read = "table and measures"
        if self.cohort.simulated:
            counted += " (simulated)"
        return f"{self.cohort.source.name}: {counted}; checked {read}."

    def to_text(self, *, n_shown: int = 20) -> str:
        """Return the report as lines of text, at most `n_shown` problems in full."""
        summary = self.summary.to_string(na_rep="", float_format="{:.1f}".format)
        parts = [self._title(), summary]
        if self.warnings:
            n = len(self.warnings)
            listed = [f"  {warning}" for warning in self.warnings[:n_shown]]
            more = [f"  … and {n - n_shown} more"] if n > n_shown else []
            parts.append("\n".join([f"{n} warning{'s' if n > 1 else ''}", *listed, *more]))
        parts.append(self._verdict(n_shown))
        if self.phi == {"n_found": 0, "n_unread": 0}:
            parts.append("Nothing was found that could identify a patient.")
        if self.good is not None:
            n_bad = len({problem.line for problem in self.problems.found})
            parts.append(
                f"{self.good}: the {self.n_scans - n_bad} rows without a problem; left out: {n_bad}."
            )
        return "\n\n".join(parts)

    def _verdict(self, n_shown: int) -> str:
        """Return the problems, or that there are none, and how many scans are raw."""
        if not self.passed:
            return self.problems.to_text(n_shown)
        if self.n_unprepared:
            return f"No problems but that {self.n_unprepared} scans are raw: prepare them first."
        return "No problems."


@in_default_torch_state
def check(
    participants: str | Path,
    *,
    images_root: str | Path | None = None,
    channels: Sequence[str] | None = None,
    preprocessing: Preprocessing | None = None,
    measures: MeasureDataSettings | None = None,
    kind: str | None = None,
    deep: bool = True,
    phi: bool = False,
    write_good: str | Path | None = None,
    overwrite: bool = False,
    n_workers: int = 2,
    progress: Progress | bool | None = None,
) -> CheckReport:
    """Check a table of scans, of other images, or of people with measures, and their data.

    Parameters
    ----------
    participants, images_root, channels
        As for `neurocontrast.data.read_cohort`. Also a table or folder of regional measures.
    preprocessing : Preprocessing, optional
        With it, `deep` also finds scans that would not fit. Nothing is fitted on the scans.
    measures : MeasureDataSettings, optional
        Where the tables of measures lie, and how many measures a person may lack. None for
        ``measures.tsv`` beside a table without a column ``path``, or the table itself.
    kind : {'volumes', 'images', 'measures'}, optional
        What the table must hold; None for any.
    deep : bool
        Read every voxel; otherwise headers alone.
    phi : bool
        Also look for columns, header fields and JSON files that could identify a patient.
    write_good : path, optional
        Table to write, of the rows without a problem, ending in ``.tsv``.
    overwrite : bool
        Whether a `write_good` that exists is replaced.
    n_workers : int
        Processes that read images.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. None shows
        lines in a terminal or notebook, and warns with `NeurocontrastWarning`.
    """
    progress = as_progress(progress)
    good = _checked_target(write_good, participants, overwrite=overwrite)
    of_measures = settings_of_measures(Path(participants), measures, kind)
    if of_measures is not None:
        return _check_measures(Path(participants), of_measures, phi=phi, good=good)
    inspection = inspect_cohort(participants, images_root=images_root, channels=channels)
    cohort = inspection.cohort
    problems = inspection.problems
    if kind is not None:
        check_kind(cohort, kind)
    without = {
        problem.line for problem in problems.found if problem.column in ("path", *cohort.channels)
    }
    rows = [row for row, line in enumerate(inspection.lines) if line not in without]
    readable = cohort.subset(rows)
    sample_kind = _other_kind_of(cohort)
    kind_name = "volumes"
    summary = summarise(cohort)
    found = None
    n_unprepared = 0
    if sample_kind is not None:
        kind_name = sample_kind.name
        warnings = cohort.warnings
        if rows:
            warnings = sample_kind.inspect(readable, problems, deep=deep, progress=progress)
    else:
        how = {"preprocessing": preprocessing, "n_workers": n_workers, "progress": progress}
        warnings, n_unprepared = _inspect_scans(inspection, rows, deep=deep, **how)
    if phi:
        summary = _without_ages(summary)
        files = [Path(path) for scan in readable.scans for path in files_of(scan)]
        found = look_for_identities(cohort.source, files, problems)
    if good is not None:
        _write_good(good, inspection)
    return CheckReport(
        cohort,
        kind=kind_name,
        problems=problems,
        warnings=warnings,
        summary=summary,
        deep=deep,
        phi=found,
        good=good,
        recipe=recipe_for(cohort.table, kind=kind_name).words,
        n_unprepared=n_unprepared,
    )


def _checked_target(
    write_good: str | Path | None, participants: str | Path, *, overwrite: bool
) -> Path | None:
    """Return the table to write; refuse one that is there, or that is checked."""
    if write_good is None:
        return None
    good = Path(write_good)
    check_output_file(good, ".tsv", overwrite=overwrite, parameter="write_good")
    if good.resolve() == Path(participants).expanduser().resolve():
        raise ConfigError(f"write_good: {good} is the table that is checked. Write another file.")
    return good


def _without_ages(summary: pd.DataFrame) -> pd.DataFrame:
    """Return counts without ages, whose extremes are values of single people."""
    return summary.loc[:, ~summary.columns.astype(str).str.startswith("age")]


def _check_measures(
    participants: Path, settings: MeasureDataSettings, *, phi: bool, good: Path | None
) -> CheckReport:
    """Check people with regional measures, and the measures."""
    inspected, warnings = check_measures(participants, settings, write_good=good)
    people = inspected.people
    summary = add_counts(summarise(people), inspected)
    identities = None
    if phi:
        summary = _without_ages(summary)
        identities = look_for_identities(people.source, [], inspected.problems)
    if good is not None:
        _write_good(good, Inspection(people, inspected.problems, inspected.lines))
    return CheckReport(
        people,
        kind="measures",
        problems=inspected.problems,
        warnings=warnings,
        summary=summary,
        deep=True,
        phi=identities,
        good=good,
        recipe=recipe_for(people.table, kind="measures").words,
        measures=MeasuresFacts.of(inspected),
        unfound=measures_to_name(participants, settings, good),
    )


def _inspect_scans(
    inspection: Inspection, rows: Sequence[int], **how: Any
) -> tuple[tuple[str, ...], int]:
    """Open scans, add their problems to the table's.

    Return warnings and the number of raw scans.
    """
    readable = inspection.cohort.subset(rows)
    findings = inspect_scans(readable.scans, **how)
    for row, name, finding in zip(rows, readable.names(), findings, strict=True):
        if finding.problem:
            inspection.problems.add(finding.problem, line=inspection.lines[row], name=name)
    doubts = [*doubts_about(inspection.cohort), *doubts_about_images(findings)]
    extents = {}
    if readable.channels == columns_of(None):  # maps of tissue are no brains
        extents = {scan.scan: scan.extent for scan in findings if scan.extent is not None}
    n_raw = sum(extent.is_head or extent.is_unregistered for extent in extents.values())
    return (*doubts, *doubts_about_extents(extents)), n_raw


def _write_good(good: Path, inspection: Inspection) -> None:
    """Write the rows that no problem names.

    Refuse where a problem is of no single row, or every row has one.
    """
    bad = {problem.line for problem in inspection.problems.found}
    table = read_people(inspection.cohort.source).cells
    check_not_described(good, table.columns)
    kept = table[~table.index.isin(bad - {None})]
    if None in bad or kept.empty:
        why = "a problem is not of single rows" if None in bad else "no row is without a problem"
        raise DataError(
            f"{inspection.problems.to_text()}\nwrite_good: nothing was written, since {why}."
        )
    write_rows(good, kept, root=inspection.cohort.root)


def _other_kind_of(cohort: Cohort) -> SampleKind | None:
    """Return the kind of a cohort's samples; None for scans and for people with measures."""
    for path in cohort.table.get("path", ()):
        address = address_of(str(path))
        if address is not None:
            return KINDS.find(address.kind)
    return None


def summarise(cohort: Cohort) -> pd.DataFrame:
    """Count scans of each site, or other samples of each part, and in the last row all."""
    sample_kind = _other_kind_of(cohort)
    table = cohort.table
    if sample_kind is not None:
        return sample_kind.summarise(table)
    parts = {}
    if "site" in table and table["site"].notna().any():
        parts = {str(name): part for name, part in table.groupby("site")}
        if table["site"].isna().any():
            parts["site n/a"] = table[table["site"].isna()]
    counts = []
    for scans in [*parts.values(), table]:
        counts.append(_count_scans(scans, table))
    return pd.DataFrame(counts, index=[*parts, "all"])


def _count_scans(part: pd.DataFrame, whole: pd.DataFrame) -> dict[str, float]:
    row: dict[str, float] = {"scans": len(part), "subjects": part["subject_id"].nunique()}
    if "age" in whole:
        row |= {
            f"age {name}": value for name, value in part["age"].agg(["mean", "min", "max"]).items()
        }
    for column in ("sex", "diagnosis"):
        if column in whole:
            counts = part[column].value_counts()
            row |= {
                f"{column} {value}": int(counts.get(value, 0))
                for value in sorted(whole[column].dropna().unique())
            }
            if whole[column].isna().any():
                row[f"{column} n/a"] = int(part[column].isna().sum())
    return row
