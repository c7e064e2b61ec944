"""Convert series of DICOM files to a BIDS tree that says nothing of the patients."""

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from nibabel.filebasedimages import ImageFileError

from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.display import as_progress
from neurocontrast.exceptions import DataError
from neurocontrast.files import atomic_folder, check_output_folder, write_json, write_table
from neurocontrast.parallel.workers import map_files
from neurocontrast.prepare.dicom import Series, convert_series, find_series_folders, read_series
from neurocontrast.progress import Progress
from neurocontrast.provenance import describe_environment
from neurocontrast.reading import DAMAGE

CONVERT_RECORD = "convert.json"
_HINT = "show_names=True shows folders and descriptions, which can hold names."


def convert(
    root: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    series: str | None = None,
    metadata_from_dicom: bool = False,
    skip: bool = False,
    show_names: bool = False,
    n_workers: int = 2,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
) -> Path:
    """Convert T1-weighted DICOM series to a BIDS tree without what identifies the patient, and return its path.

    The first folder below `root` is the person, the last one a series. Where a person has
    T1-weighted series in several folders between the two (the studies of a PACS), they are
    sessions, numbered in the order of the names.

    Parameters
    ----------
    root : path
        Folder of the series: ``ROOT/PERSON/…/SERIES/*.dcm``, or ``ROOT/PERSON/*.dcm``.
    out : path
        BIDS tree to write: images with new headers, JSON files with the scanner's settings alone,
        ``participants.tsv``, and ``convert.json``, which lists what was left out.
    series : str, optional
        Text in the description of the series to take, in any case; by default those whose name and
        headers are of a T1-weighted volume as it was acquired.
    metadata_from_dicom : bool, default=False
        Whether age and sex are taken from the headers; ages from 90 on become ``89+``.
    skip : bool, default=False
        Whether people with a problem are left out, instead of all problems being an error.
    show_names : bool, default=False
        Whether messages also show folders and the descriptions of series, which can hold names;
        they are never stored.
    n_workers : int, default=2
        Processes.
    overwrite : bool, default=False
        Whether an earlier tree of this command is replaced.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. None shows
        lines in a terminal or notebook, and warns with `NeurocontrastWarning`.
    """
    progress = as_progress(progress)
    source = Path(root).expanduser().absolute()
    target = Path(out).absolute()
    check_output_folder(target, overwrite=overwrite, marker=CONVERT_RECORD, what="a converted tree")
    if not (source.is_dir() and os.access(source, os.R_OK | os.X_OK)):
        raise DataError(f"{source}: there is no such folder, or it may not be read.")
    folders = find_series_folders(source)
    if not folders:
        raise DataError(f"{source}: there are no DICOM files below it.")
    if source in folders:
        raise DataError(
            f"{source}: holds DICOM files itself; give the folder above it, with a folder a person."
        )
    with atomic_folder(target) as temporary:
        scratch = temporary / ".scratch"
        scratch.mkdir()
        notes = _Notes(source, show_names)
        people = _people(
            source, _read_all(folders, scratch, notes, n_workers, progress), series, notes
        )
        scans = _scans(people, notes)
        work = [(scan.series, temporary / scan.path, scratch, scan.name) for scan in scans]
        with progress.task("Converting series", total=len(work), unit="series") as task:
            for name, wrong, detail in map_files(
                _convert, work, n_workers=n_workers, option="n_workers"
            ):
                if wrong:
                    notes.add(name, wrong, detail)
                task.advance(1)
        if not skip:
            notes.raise_if_any()
        bad = {note.name for note in notes.problems}
        for name in bad - {""}:
            shutil.rmtree(temporary / name, ignore_errors=True)
        scans = [scan for scan in scans if scan.name not in bad]
        if not scans:
            raise DataError(f"{source}: no T1-weighted series is left. {notes}")
        shutil.rmtree(scratch)
        _write_tables(temporary, scans, notes, metadata_from_dicom=metadata_from_dicom)
    n_numbered = sum(scan.series.is_numbered(scan.name) for scan in scans)
    if n_numbered:
        progress.warning(
            f"{n_numbered} of {len(scans)} labels hold the PatientID of the headers; is it a pseudonym?"
        )
    if notes.all:
        progress.warning(str(notes))
    return target


class _Note(NamedTuple):
    """Why something is left out, or is a problem; `detail` can hold names."""

    name: str
    text: str
    detail: str
    is_problem: bool


class _Notes:
    """Notes on series that are left out and on problems; details that can hold names are shown on request only."""

    def __init__(self, source: Path, show_names: bool) -> None:
        self.source = source
        self.show_names = show_names
        self.all: list[_Note] = []

    @property
    def problems(self) -> list[_Note]:
        return [note for note in self.all if note.is_problem]

    def add(self, name: str, text: str, detail: str = "", *, is_problem: bool = True) -> None:
        """Note a problem, or what is left out, of the person with that label; it is "" where a folder has none."""
        self.all.append(_Note(name, text, detail, is_problem))

    def raise_if_any(self) -> None:
        """Raise all problems as one error."""
        problems = Problems(str(self.source))
        for note in sorted(self.problems):
            problems.add(self._shown(note), name=note.name)
        problems.hint("skip=True leaves out people with problems, and lists them in convert.json.")
        if not self.show_names:
            problems.hint(_HINT)
        problems.raise_if_any()

    def __str__(self) -> str:
        begins = ((f"{note.name}: " if note.name else "", note) for note in sorted(self.all))
        lines = [f"{begin}{self._shown(note)}" for begin, note in begins]
        rest = (
            []
            if self.show_names or len(lines) <= N_SHOWN
            else [f"… and {len(lines) - N_SHOWN} more"]
        )
        hint = [] if self.show_names else [_HINT]
        return "\n  ".join(
            [f"{len(lines)} left out:", *(lines[:N_SHOWN] if rest else lines), *rest, *hint]
        )

    def _shown(self, note: _Note) -> str:
        return f"{note.text} ({note.detail})" if self.show_names and note.detail else note.text


@dataclass(frozen=True)
class _Scan:
    """A series that is converted, and the person and session that it is of."""

    name: str
    session: str
    series: Series

    @property
    def path(self) -> str:
        """Return the path of the image below the tree."""
        between, stem = (
            (f"/{self.session}", f"{self.name}_{self.session}") if self.session else ("", self.name)
        )
        return f"{self.name}{between}/anat/{stem}_T1w.nii.gz"


def _read_all(
    folders: Sequence[Path], scratch: Path, notes: _Notes, n_workers: int, progress: Progress
) -> dict[Path, list[Series]]:
    """Return the series of every folder; a folder that cannot be read is a problem."""
    found: dict[Path, list[Series]] = {}
    known = {folder.relative_to(notes.source).parts[0] for folder in folders}
    empty = sorted(
        each.name for each in notes.source.glob("[!.]*") if each.is_dir() and each.name not in known
    )
    if empty:
        text = f"{len(empty)} folders of people hold no DICOM files that are found (links are not followed)"
        notes.add("", text, ", ".join(empty), is_problem=False)
    with progress.task("Reading headers", total=len(folders), unit="folder") as task:
        given = [(each, scratch) for each in folders]
        for folder, read, wrong in map_files(_read, given, n_workers=n_workers, option="n_workers"):
            if wrong:
                where = f"series folder {folders.index(folder) + 1} of {len(folders)}"
                notes.add("", f"{where}: {wrong}", str(folder.relative_to(notes.source)))
            else:
                found[folder] = read
            task.advance(1)
    return found


def _read(folder: Path, scratch: Path) -> tuple[Path, list[Series], str]:
    try:
        return folder, read_series(folder, scratch), ""
    except DataError as error:
        return folder, [], str(error)


def _convert(series: Series, target: Path, scratch: Path, name: str) -> tuple[str, str, str]:
    """Convert a series; return the person, what is wrong with it, or "", and what dcm2niix says of it."""
    try:
        convert_series(series, target, scratch)
    except DataError as error:
        return name, str(error), " ".join(getattr(error, "__notes__", []))
    except (
        *DAMAGE,
        ImageFileError,
    ) as error:  # of what dcm2niix made: nibabel's words can hold the path
        return name, f"what dcm2niix made of it cannot be read ({type(error).__name__})", str(error)
    return name, "", ""


def _people(
    source: Path, found: Mapping[Path, Sequence[Series]], asked: str | None, notes: _Notes
) -> dict[str, dict[Path, list[Series]]]:
    """Return the series to convert by person and study; other series are left out, or a problem of the person."""
    folders: dict[str, dict[Path, Sequence[Series]]] = defaultdict(dict)
    for folder in sorted(found):
        place = folder.relative_to(source)
        folders[place.parts[0]][place] = found[folder]
    people: dict[str, dict[Path, list[Series]]] = defaultdict(lambda: defaultdict(list))
    first_of: dict[str, tuple[int, str]] = {}
    for number, (person, places) in enumerate(folders.items(), start=1):
        where = f"person folder {number} of {len(folders)}"
        label = re.sub("[^A-Za-z0-9]", "", person.removeprefix("sub-"))
        if any(series.is_called(Path(person)) for several in places.values() for series in several):
            notes.add("", f"{where}: its path holds the patient's name; rename it", person)
            continue
        if not label:
            notes.add(
                "",
                f"{where}: its name has no letter or digit (A-Z, 0-9) for a label; rename it",
                person,
            )
            continue
        first, name = first_of.setdefault(label.casefold(), (number, f"sub-{label}"))
        if first != number:
            notes.add(
                name, f"{where} and folder {first} have one label in BIDS; rename one", person
            )
        for n, (place, several) in enumerate(places.items(), start=1):
            text = f"series folder {n} of {len(places)}"
            if not several:
                notes.add(
                    name, f"{text}: dcm2niix reads no series of it", str(place), is_problem=False
                )
                continue
            text += f" (number {several[0].number})"
            detail = f"{place}, {', '.join(shown(series.description) for series in several)}"
            reason = several[0].why_not_t1() if asked is None else several[0].why_not_called(asked)
            if any(series.is_called(place) for series in several):
                notes.add(name, f"{text}: its path holds the patient's name; rename it", detail)
            elif len(several) > 1:
                notes.add(
                    name,
                    f"{text}: holds {len(several)} series or echoes; give each a folder",
                    detail,
                )
            elif reason:
                notes.add(name, f"{text} {reason}", detail, is_problem=False)
            else:
                people[name][place.parent].append(several[0])
    return people


def _scans(people: Mapping[str, Mapping[Path, Sequence[Series]]], notes: _Notes) -> list[_Scan]:
    """Return one series of each person and study; several are a problem."""
    scans = []
    for name, studies in people.items():
        for number, (_, several) in enumerate(sorted(studies.items()), start=1):
            if len(several) > 1:
                numbers = ", ".join(series.number for series in several)
                detail = ", ".join(
                    f"{series.folder.name}: {shown(series.description)}" for series in several
                )
                notes.add(
                    name,
                    f"{len(several)} T1-weighted series, numbers {numbers}; decide with series=TEXT",
                    detail,
                )
            scans.append(_Scan(name, f"ses-{number}" if len(studies) > 1 else "", several[0]))
    bad = {note.name for note in notes.problems}
    return [scan for scan in scans if scan.name not in bad]


def _write_tables(
    folder: Path, scans: Sequence[_Scan], notes: _Notes, *, metadata_from_dicom: bool
) -> None:
    people = pd.DataFrame(
        [{"participant_id": scan.name, "session_id": scan.session} for scan in scans]
    )
    if metadata_from_dicom:
        people["age"] = [scan.series.age() or "n/a" for scan in scans]
        people["sex"] = [scan.series.sex() or "n/a" for scan in scans]
        for name, sessions in people[people["session_id"] != ""].groupby("participant_id"):
            write_table(
                folder / str(name) / f"{name}_sessions.tsv", sessions[["session_id", "age"]]
            )
    write_table(
        folder / "participants.tsv",
        people.drop_duplicates("participant_id").drop(columns="session_id"),
    )
    write_json(
        folder / "dataset_description.json",
        {"Name": "Converted from DICOM", "BIDSVersion": "1.10.0"},
    )
    environment = {
        name: value for name, value in describe_environment().items() if name != "command"
    }  # it holds paths
    left_out = [{"what": note.name, "reason": note.text} for note in sorted(notes.all)]
    write_json(
        folder / CONVERT_RECORD, {"n": len(scans), "left_out": left_out, "environment": environment}
    )
