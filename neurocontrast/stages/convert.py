"""Convert series of DICOM files to a BIDS tree that says nothing of the patients."""

from __future__ import annotations

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from neurocontrast.data.parallel import map_files
from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import DataError, NeurocontrastError
from neurocontrast.files import atomic_folder, check_output_folder, write_json, write_table
from neurocontrast.prepare.dicom import Series, convert_series, find_series_folders, read_series
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment

__all__ = ["convert"]

CONVERT_RECORD = "convert.json"


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
