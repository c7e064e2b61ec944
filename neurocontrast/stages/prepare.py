"""Prepare heads as they were acquired: DICOM series as a BIDS tree, brains and tissue maps in MNI space."""

from __future__ import annotations

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import pandas as pd

from neurocontrast.data.cohort import Cohort, read_cohort
from neurocontrast.data.parallel import map_files
from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import (
    ConfigError,
    DataError,
    MissingDependencyError,
    NeurocontrastError,
    one_of,
    suggestion,
)
from neurocontrast.files import atomic_folder, check_output_folder, check_writable, write_json, write_table
from neurocontrast.lazy import is_installed
from neurocontrast.prepare.dicom import Series, convert_series, find_series_folders, read_series
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment

if TYPE_CHECKING:
    from neurocontrast.prepare.scan import PrepareOptions

__all__ = ["Extraction", "Protocol", "convert", "prepare"]

Protocol = Literal["standard", "quasiraw"]
Extraction = Literal["auto", "deepbet", "template"]

RECORD_NAME = "prepare.json"
CONVERT_RECORD = "convert.json"
SPACINGS_MM = (0.5, 8.0)
MOST_IMITATIONS = 20


def prepare(
    participants: str | Path,
    out: str | os.PathLike[str],
    *,
    images_root: str | Path | None = None,
    protocol: Protocol = "standard",
    extraction: Extraction = "auto",
    spacing_mm: float | None = None,
    bias: bool = True,
    registration: bool = True,
    tissue: bool = True,
    imitations: int = 0,
    skip: bool = False,
    n_workers: int = 2,
    progress: Progress = SILENT,
) -> Path:
    """Extract brains, correct their bias field, register them to MNI152, make tissue maps; return the new table's path.

    A scan that was prepared before with the same options is not prepared again, so an interrupted call is continued by
    the same call. Volumes with more than half of their voxels 0 are taken to be stripped already.

    Parameters
    ----------
    participants : path
        Table of scans; a column ``mask_path`` gives brain masks on the grid of the images.
    out : path
        Folder of the results: ``images/``; ``participants.tsv`` with the new paths and the columns ``gm``, ``wm``,
        ``csf``; ``quality.tsv`` with one row a scan; and ``prepare.json``.
    images_root : path, optional
        Folder that relative paths start from; by default the table's.
    protocol : {"standard", "quasiraw"}
        ``quasiraw`` is OpenBHB's: nine degrees of freedom, cubic splines, a grid of 182 × 218 × 182 voxels of 1 mm.
    extraction : {"auto", "deepbet", "template"}
        How brains are found in heads: by deepbet's networks, or by registration to a template of a head, which needs
        no further package and is less exact. ``auto`` is deepbet where it is installed.
    spacing_mm : float, optional
        Voxel size of the results, 0.5 to 8 mm; by default 1.5, or the 1 of ``quasiraw``.
    bias : bool, default=True
        Whether the bias field is corrected by N4.
    registration : bool, default=True
        Whether scans are registered; otherwise they lie in MNI152 already, as fMRIPrep's do, and are only resampled.
        The overlap with the template's brain is told in ``quality.tsv``.
    tissue : bool, default=True
        Whether maps of grey matter, white matter and fluid are made.
    imitations : int, default=0
        How many acquisitions of each brain are imitated, as other scanners and another preprocessing would have shown
        it, with their tissue maps. ``imitations.tsv`` has them beside the real scans, each as a session of its
        subject, for the encoder ``lda`` to learn what a person's scans differ by.
    skip : bool, default=False
        Whether scans that cannot be prepared are left out of the table, instead of being an error.
    n_workers : int, default=2
        Processes; the images do not depend on it.
    progress : Progress
        Receives progress messages.
    """
    options = _options(
        protocol, extraction, spacing_mm, imitations, bias=bias, registration=registration, tissue=tissue
    )
    cohort = read_cohort(participants, images_root=images_root)
    target = Path(out).absolute()
    check_writable(target / RECORD_NAME)
    folder = target / "images"
    folder.mkdir(parents=True, exist_ok=True)
    masks = cohort.paths_in("mask_path")
    stems = [name.replace(" session ", "_ses-").replace("/", "-").replace(" ", "-") for name in cohort.names()]
    paths = [str(path) for path in cohort.table["path"]]
    work = [(row, paths[row], masks[row], stems[row], str(folder), options) for row in range(len(cohort))]
    facts: list[dict[str, Any]] = [{}] * len(cohort)
    with progress.task("Preparing scans", total=len(work), unit="scan") as task:
        for row, prepared in map_files(_numbered, work, n_workers=n_workers, option="--n-workers", n_per_worker=1):
            facts[row] = prepared.facts
            task.advance(1)
    _refuse_or_warn(cohort, facts, skip, progress)
    made = ("brain", "gm", "wm", "csf") if tissue else ("brain",)
    done = [row for row, each in enumerate(facts) if "problem" not in each]
    table = _table(cohort, done, stems, made)
    keys = cohort.table[["participant_id", "session"]]
    quality = pd.DataFrame([{**keys.loc[row], **facts[row]} for row in done]).replace("", "n/a")
    write_table(target / "quality.tsv", quality.fillna("n/a"))
    write_json(target / RECORD_NAME, {"options": vars(options), "n": len(done), "environment": describe_environment()})
    if imitations:
        every = [_table(cohort, done, stems, made, number) for number in range(imitations + 1)]
        write_table(target / "imitations.tsv", pd.concat(every).sort_index(kind="stable"))
    write_table(target / "participants.tsv", table)
    return target / "participants.tsv"


def _table(
    cohort: Cohort, done: Sequence[int], stems: Sequence[str], made: Sequence[str], imitation: int | None = None
) -> pd.DataFrame:
    """Return the table of what was prepared; with a number, of one imitated acquisition of every scan (0: the real)."""
    from neurocontrast.prepare.scan import imitated_stem

    table = cohort.table.iloc[list(done)].drop(columns=["mask_path"], errors="ignore").copy()
    if imitation is not None:
        table["acquisition"] = f"imitated{imitation}" if imitation else "real"
    if imitation:
        table["session"] = [f"{session}imitated{imitation}" for session in table["session"].fillna("")]
    for name in made:
        files = [imitated_stem(stems[row], imitation) if imitation else stems[row] for row in done]
        table["path" if name == "brain" else name] = [f"images/{file}_{name}.nii.gz" for file in files]
    table["space"], table["stage"] = "MNI152", "stripped"
    return table.astype(object).where(table.notna() & (table != ""), "n/a")


def _options(
    protocol: str,
    extraction: str,
    spacing_mm: float | None,
    imitations: int,
    *,
    registration: bool,
    **wanted: bool,
) -> PrepareOptions:
    """Return what is done to each scan; wrong or missing parts are an error."""
    for name, found, allowed in (
        ("protocol", protocol, get_args(Protocol)),
        ("extraction", extraction, get_args(Extraction)),
    ):
        if found not in allowed:
            raise ConfigError(f"{name}: found '{found}'.{suggestion(found, allowed)} Allowed: {one_of(allowed)}.")
    quasiraw, (low, high) = protocol == "quasiraw", SPACINGS_MM
    spacing = (1.0 if quasiraw else 1.5) if spacing_mm is None else spacing_mm
    if not low <= spacing <= high:
        raise ConfigError(f"spacing_mm must be between {low:g} and {high:g}, got {spacing!r}.")
    if not 0 <= imitations <= MOST_IMITATIONS:
        raise ConfigError(f"imitations must be between 0 and {MOST_IMITATIONS}, got {imitations!r}.")
    if quasiraw and (spacing != 1 or not wanted["bias"] or not registration):
        what = "spacing_mm" if spacing != 1 else "registration" if wanted["bias"] else "bias"
        raise ConfigError(
            f"{what}: the protocol 'quasiraw' has voxels of 1 mm, a corrected bias field and a registration. Leave it "
            "out."
        )
    try:
        from neurocontrast.prepare.scan import PrepareOptions
    except ImportError as error:
        raise MissingDependencyError("prepare needs SimpleITK: pip install 'neurocontrast[prepare]'.") from error
    if extraction == "auto":
        extraction = "deepbet" if is_installed("deepbet") else "template"
    given: dict[str, Any] = {"registration": registration, "imitations": imitations, **wanted}
    return PrepareOptions(spacing, extraction=extraction, quasiraw=quasiraw, **given)


def _numbered(row: int, *given: Any) -> tuple[int, Any]:
    from neurocontrast.prepare.scan import prepare_scan

    return row, prepare_scan(*given)


def _refuse_or_warn(cohort: Cohort, facts: Sequence[dict[str, Any]], skip: bool, progress: Progress) -> None:
    names = cohort.names()
    bad = [f"{names[row]}: {each['problem']}" for row, each in enumerate(facts) if "problem" in each]
    if not bad:
        return
    text = f"{len(bad)} of {len(facts)} scans could not be prepared:\n  " + "\n  ".join(bad[:20])
    if not skip or len(bad) == len(facts):
        raise DataError(f"{cohort.source.name}: {text}\nThe others are kept. --skip leaves these out.")
    progress.warning(text)


def convert(
    root: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    series: str | None = None,
    metadata_from_dicom: bool = False,
    skip: bool = False,
    n_workers: int = 2,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Convert T1-weighted DICOM series to a BIDS tree without what identifies the patient, and return its path.

    The first folder below `root` is the person, the last one a series. Where a person has T1-weighted series in
    several folders between the two (the studies of a PACS), they are sessions, numbered in the order of the names.

    Parameters
    ----------
    root : path
        Folder of the series: ``ROOT/PERSON/…/SERIES/*.dcm``, or ``ROOT/PERSON/*.dcm``.
    out : path
        BIDS tree to write: images with headers of their own, JSON files with the scanner's settings alone,
        ``participants.tsv``, and ``convert.json``, which says what was left out.
    series : str, optional
        Text in the description of the series to take, in any case; by default those whose name and headers are of a
        T1-weighted volume as it was acquired.
    metadata_from_dicom : bool, default=False
        Whether age and sex are taken from the headers; ages from 90 on become ``89+``.
    skip : bool, default=False
        Whether people with a problem are left out, instead of all problems being an error.
    n_workers : int, default=2
        Processes.
    overwrite : bool, default=False
        Whether an earlier tree of this command is replaced.
    progress : Progress
        Receives progress messages.
    """
    source, target = Path(root).expanduser().absolute(), Path(out).absolute()
    check_output_folder(target, overwrite=overwrite, marker=CONVERT_RECORD, what="a converted tree")
    if not source.is_dir():
        raise DataError(f"{source}: there is no such folder.")
    folders = find_series_folders(source)
    if not folders:
        raise DataError(f"{source}: there are no DICOM files below it.")
    problems, left_out = Problems(str(source)), list[tuple[str, str]]()
    found: dict[Path, list[Series]] = {}
    with progress.task("Reading headers", total=len(folders), unit="folder") as task:
        for folder, read in map_files(_read, [(each,) for each in folders], n_workers=n_workers, option="--n-workers"):
            found[folder] = read
            task.advance(1)
    people = _people(source, found, series, problems, left_out)
    scans = _scans(people, problems)
    with atomic_folder(target) as temporary:
        work = [(scan.series.folder, temporary / scan.path, scan.name) for scan in scans]
        with progress.task("Converting series", total=len(work), unit="series") as task:
            for name, wrong in map_files(_convert, work, n_workers=n_workers, option="--n-workers"):
                if wrong:
                    problems.add(wrong, name=name)
                task.advance(1)
        if problems.found and not skip:
            problems.hint("--skip leaves out people with problems, and convert.json says whom.")
            problems.raise_if_any()
        bad = {problem.name for problem in problems.found}
        for name in bad - {""}:
            shutil.rmtree(temporary / name, ignore_errors=True)
        left_out += [(problem.name, problem.text) for problem in problems.found]
        scans = [scan for scan in scans if scan.name not in bad]
        if not scans:
            raise DataError(f"{source}: no T1-weighted series is left. {_listed(left_out)}")
        _write_tables(temporary, scans, left_out, metadata_from_dicom=metadata_from_dicom)
    n_numbered = sum(scan.series.is_numbered(scan.name) for scan in scans)
    if n_numbered:
        progress.warning(f"{n_numbered} of {len(scans)} labels hold the PatientID of the headers; is it a pseudonym?")
    if left_out:
        progress.warning(_listed(left_out))
    return target


@dataclass(frozen=True)
class _Scan:
    """A series that is converted, and the person and session that it is of."""

    name: str
    session: str
    series: Series

    @property
    def path(self) -> str:
        """Return the path of the image below the tree."""
        between, stem = (f"/{self.session}", f"{self.name}_{self.session}") if self.session else ("", self.name)
        return f"{self.name}{between}/anat/{stem}_T1w.nii.gz"


def _read(folder: Path) -> tuple[Path, list[Series]]:
    return folder, read_series(folder)


def _convert(folder: Path, target: Path, name: str) -> tuple[str, str]:
    """Convert a series; return the person and what is wrong with it, or ""."""
    try:
        convert_series(folder, target)
    except NeurocontrastError as error:
        return name, str(error)
    return name, ""


def _people(
    source: Path,
    found: Mapping[Path, Sequence[Series]],
    asked: str | None,
    problems: Problems,
    left_out: list[tuple[str, str]],
) -> dict[str, dict[Path, list[Series]]]:
    """Return the series to convert by person and study; other series are left out, or a problem of the person."""
    people: dict[str, dict[Path, list[Series]]] = defaultdict(lambda: defaultdict(list))
    of_label: dict[str, str] = {}
    for position, folder in enumerate(sorted(found), start=1):
        place = folder.relative_to(source)
        if not place.parts:
            raise DataError(f"{source}: holds DICOM files itself; give the folder above it, with a folder a person.")
        name = f"sub-{re.sub('[^A-Za-z0-9]', '', place.parts[0].removeprefix('sub-'))}"
        several = found[folder]
        if any(series.is_called(place.as_posix()) for series in several):
            # The message must not repeat what it is about.
            problems.add(f"series folder {position} of {len(found)}: its path holds the patient's name; rename it")
        elif of_label.setdefault(name, place.parts[0]) != place.parts[0]:
            problems.add(f"'{of_label[name]}' and '{place.parts[0]}' are one label in BIDS; rename one", name=name)
        elif len(several) > 1:
            problems.add(
                f"{place}: holds {len(several)} series or echoes: {_named(several)}; give each a folder", name=name
            )
        elif not several:
            left_out.append((place.as_posix(), "dcm2niix reads no series of it"))
        else:
            reason = several[0].why_not_t1() if asked is None else several[0].why_not_called(asked)
            if reason:
                left_out.append((place.as_posix(), f"{shown(several[0].description)} {reason}"))
            else:
                people[name][place.parent].append(several[0])
    return people


def _scans(people: Mapping[str, Mapping[Path, Sequence[Series]]], problems: Problems) -> list[_Scan]:
    """Return one series of each person and study; several are a problem."""
    scans = []
    for name, studies in people.items():
        for number, (_, several) in enumerate(sorted(studies.items()), start=1):
            if len(several) > 1:
                problems.add(f"{len(several)} T1-weighted series: {_named(several)}; decide with --series", name=name)
            scans.append(_Scan(name, f"ses-{number}" if len(studies) > 1 else "", several[0]))
    bad = {problem.name for problem in problems.found}
    return [scan for scan in scans if scan.name not in bad]


def _named(several: Sequence[Series]) -> str:
    return ", ".join(
        f"{shown(series.description)} (folder {series.folder.name}, number {series.header.get('SeriesNumber', '?')})"
        for series in several
    )


def _listed(left_out: Sequence[tuple[str, str]]) -> str:
    lines = "".join(f"\n  {what}: {reason}" if what else f"\n  {reason}" for what, reason in left_out[:20])
    return f"{len(left_out)} left out:{lines}"


def _write_tables(
    folder: Path, scans: Sequence[_Scan], left_out: Sequence[tuple[str, str]], *, metadata_from_dicom: bool
) -> None:
    people = pd.DataFrame([{"participant_id": scan.name, "session_id": scan.session} for scan in scans])
    if metadata_from_dicom:
        people["age"] = [scan.series.age() or "n/a" for scan in scans]
        people["sex"] = [scan.series.sex() or "n/a" for scan in scans]
        for name, sessions in people[people["session_id"] != ""].groupby("participant_id"):
            write_table(folder / str(name) / f"{name}_sessions.tsv", sessions[["session_id", "age"]])
    write_table(folder / "participants.tsv", people.drop_duplicates("participant_id").drop(columns="session_id"))
    write_json(folder / "dataset_description.json", {"Name": "Converted from DICOM", "BIDSVersion": "1.10.0"})
    record = {"n": len(scans), "left_out": [{"what": what, "reason": reason} for what, reason in left_out]}
    write_json(folder / CONVERT_RECORD, record | {"environment": describe_environment()})
