"""Check a table and its images before anything is computed from them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from neurocontrast.commands.check_counts import kind_of_images, summarise, without_ages
from neurocontrast.commands.check_measures import (
    MeasuresFacts,
    add_counts,
    check_measures,
    measures_to_name,
    settings_of_measures,
)
from neurocontrast.data.advice import recipe_for
from neurocontrast.data.cohort import Cohort, Inspection, columns_of, inspect_cohort
from neurocontrast.data.kinds import KINDS, SampleKind
from neurocontrast.data.listing import write_rows
from neurocontrast.data.people import check_not_described, read_people
from neurocontrast.data.privacy import look_for_identities
from neurocontrast.data.problems import Problems
from neurocontrast.data.quality import (
    Finding,
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
from neurocontrast.files import ScanFiles, check_output_file, files_of
from neurocontrast.progress import Progress
from neurocontrast.torch_state import in_default_torch_state
from neurocontrast.transforms.preprocessing import Preprocessing


@dataclass(frozen=True, eq=False)
class CheckReport:
    """Problems, warnings and counts of a table, as `check` returns them."""

    cohort: Cohort
    kind: str
    """Kind of the samples, as ``data.kind`` names it."""
    problems: Problems
    """Problems that must be mended before the table can be used."""
    warnings: tuple[str, ...]
    summary: pd.DataFrame
    """Counts of each site, or of each split of natural images; the last row counts all."""
    deep: bool
    """Whether every voxel was read, or headers alone."""
    phi: dict[str, int] | None = None
    """``n_found``, number of fields that could identify a patient, and ``n_unread``, number of
    files that could not be read; None if `check` did not look."""
    good: Path | None = None
    """Written table of the rows without a problem; None if none was asked for."""
    recipe: tuple[str, ...] = ("small",)
    """Recipe for a first run on this table, as the command line takes it after ``--config``."""
    n_unprepared: int = 0
    """Number of scans that need `prepare` first: whole heads, brains outside of MNI space, and
    scans whose column ``stage`` is ``raw``.
    """
    measures: MeasuresFacts | None = None
    """Number, atlas and program of regional measures; None for a table of images."""
    unfound: tuple[Path, ...] = ()
    """Tables of measures that `pretrain` does not find, and whose paths the user must pass."""

    @property
    def n_scans(self) -> int:
        """Number of scans, or of other samples: rows of the checked table."""
        return len(self.cohort)

    @property
    def n_subjects(self) -> int:
        """Number of people in the checked table."""
        return int(self.cohort.table["subject_id"].nunique())

    @property
    def passed(self) -> bool:
        """Whether the table has no problem, whatever the warnings."""
        return not self.problems.found

    def facts(self) -> Json:
        """Return the report as a mapping of JSON values, which `check` prints under ``--json``."""
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
        """Return a line with the number of samples, and whether headers or all voxels were read."""
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
        """Return the report as one text of several lines: counts by site, warnings and problems.

        Up to `n_shown` warnings and as many problems are written in full, and the others are
        counted.
        """
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
            n_good = self.n_scans - n_bad
            parts.append(f"{self.good}: the {n_good} rows without a problem; left out: {n_bad}.")
        return "\n\n".join(parts)

    def _verdict(self, n_shown: int) -> str:
        """Return the problems of the checked table as text, at most `n_shown` of them in full.

        Without any problem, return a sentence that says so and, if there are any, counts the scans
        that need `prepare` first (`n_unprepared`).
        """
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

    All problems are collected in the returned `CheckReport`, with warnings and counts by site.

    Parameters
    ----------
    participants, images_root, channels
        As for `neurocontrast.data.read_cohort`. Also a table or folder of regional measures.
    preprocessing : Preprocessing, optional
        With `deep`, each scan is also preprocessed, and a scan whose preprocessing fails is a
        problem. The result is not kept.
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
        Receives progress messages; True shows them on standard error, False nothing. With None,
        lines appear in a terminal or notebook alone, and warnings (`NeurocontrastWarning`) always.
    """
    progress = as_progress(progress)
    good = _checked_target(write_good, participants, overwrite=overwrite)
    of_measures = settings_of_measures(Path(participants), measures, kind)
    if of_measures is not None:
        return _check_measures(Path(participants), of_measures, phi=phi, good=good)
    inspection = inspect_cohort(participants, images_root=images_root, channels=channels)
    cohort = inspection.cohort
    if kind is not None:
        check_kind(cohort, kind)
    rows = _readable_rows(inspection)
    sample_kind = kind_of_images(cohort)
    if sample_kind is not None:
        samples = _inspect_images(sample_kind, inspection, rows, deep=deep, progress=progress)
    else:
        readable = cohort.subset(rows).scans
        findings = inspect_scans(
            readable, preprocessing=preprocessing, deep=deep, n_workers=n_workers, progress=progress
        )
        samples = _inspect_scans(inspection, rows, findings)
    summary = summarise(cohort)
    identities = None
    if phi:
        summary = without_ages(summary)
        files = _files_of_rows(cohort, rows)
        identities = look_for_identities(cohort.source, files, inspection.problems)
    if good is not None:
        _write_good(good, inspection)
    return CheckReport(
        cohort,
        kind=samples.kind,
        problems=inspection.problems,
        warnings=samples.warnings,
        summary=summary,
        deep=deep,
        phi=identities,
        good=good,
        recipe=recipe_for(cohort.table, kind=samples.kind).words,
        n_unprepared=samples.n_unprepared,
    )


@dataclass(frozen=True)
class _InspectedSamples:
    """Result of opening a table's images: kind, warnings, number of scans that need `prepare`."""

    kind: str
    """Kind of the samples, as ``data.kind`` names it."""
    warnings: tuple[str, ...]
    """Sentences on the table and the image files."""
    n_unprepared: int = 0
    """Number of whole heads, brains outside of MNI space, and scans whose column ``stage`` is
    ``raw``.
    """


def _readable_rows(inspection: Inspection) -> list[int]:
    """Return the numbers, from 0, of the table's rows without a problem of their image files."""
    columns = ("path", *inspection.cohort.channels)
    lines = {problem.line for problem in inspection.problems.found if problem.column in columns}
    return [row for row, line in enumerate(inspection.lines) if line not in lines]


def _files_of_rows(cohort: Cohort, rows: Sequence[int]) -> list[Path]:
    """Return the paths of the image files of some rows of a cohort's table, as one flat list.

    `rows` are numbers of rows, from 0, in whose order the files are. A scan can have several files.
    """
    files = []
    for scan in cohort.subset(rows).scans:
        files += list(map(Path, files_of(scan)))
    return files


def _checked_target(
    write_good: str | Path | None, participants: str | Path, *, overwrite: bool
) -> Path | None:
    """Return `write_good`, the table to write, as a path; refuse a file that exists, or the input.

    None if no table is to be written. The input is the checked table `participants`.
    """
    if write_good is None:
        return None
    good = Path(write_good)
    check_output_file(good, ".tsv", overwrite=overwrite, parameter="write_good")
    if good.resolve() == Path(participants).expanduser().resolve():
        raise ConfigError(f"write_good: {good} is the table that is checked. Write another file.")
    return good


def _check_measures(
    participants: Path, settings: MeasureDataSettings, *, phi: bool, good: Path | None
) -> CheckReport:
    """Check the people of the table `participants`, and the tables of their regional measures.

    Return the report of `check`; write the rows without a problem to the file `good`, if not None.
    """
    inspected, warnings = check_measures(participants, settings, write_good=good)
    people = inspected.people
    summary = add_counts(summarise(people), inspected)
    identities = None
    if phi:
        summary = without_ages(summary)
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


def _inspect_images(
    sample_kind: SampleKind,
    inspection: Inspection,
    rows: Sequence[int],
    *,
    deep: bool,
    progress: Progress,
) -> _InspectedSamples:
    """Open the natural images of some rows, and add unusable ones to the problems in `inspection`.

    `rows` are numbers of rows, from 0, whose files exist. Return the kind of the images, and the
    warnings about them.
    """
    warnings = inspection.cohort.warnings
    if rows:
        readable = inspection.cohort.subset(rows)
        warnings = sample_kind.inspect(readable, inspection.problems, deep=deep, progress=progress)
    return _InspectedSamples(sample_kind.name, warnings)


def _inspect_scans(
    inspection: Inspection, rows: Sequence[int], findings: Sequence[Finding]
) -> _InspectedSamples:
    """Add the problems of opened scans to `inspection`, and count the scans that need `prepare`.

    `findings` has an entry for each of `rows`: problem and warnings of an opened scan, and the
    extent of the head or brain in the image. Whole heads, brains outside of MNI space, and scans
    whose column ``stage`` is ``raw`` need `prepare` before pretraining. Return an
    `_InspectedSamples` with their number, and with warnings about the table, the images, and brains
    outside of MNI space.
    """
    readable = inspection.cohort.subset(rows)
    for row, name, finding in zip(rows, readable.names(), findings, strict=True):
        if finding.problem:
            inspection.problems.add(finding.problem, line=inspection.lines[row], name=name)
    doubts = [*doubts_about(inspection.cohort), *doubts_about_images(findings)]
    extents = {}
    if readable.channels == columns_of(None):  # maps of tissue are no brains
        extents = {scan.scan: scan.extent for scan in findings if scan.extent is not None}
    raw = {scan for scan, extent in extents.items() if extent.is_head or extent.is_unregistered}
    raw |= _scans_called_raw(readable)
    return _InspectedSamples("volumes", (*doubts, *doubts_about_extents(extents)), len(raw))


def _scans_called_raw(cohort: Cohort) -> set[ScanFiles]:
    """Return the image files of scans whose cell in the cohort's column ``stage`` is ``raw``.

    `index` writes the column. The set is empty for a table without the column.
    """
    if "stage" not in cohort.table:
        return set()
    is_raw = cohort.table["stage"].eq("raw")
    return {scan for scan, raw in zip(cohort.scans, is_raw, strict=True) if raw}


def _write_good(good: Path, inspection: Inspection) -> None:
    """Write the rows of the inspected table that have no problem to the file `good`.

    Refuse where a problem is of no single row, or where every row has a problem.
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
