"""Prepare heads as they were acquired: brains and tissue maps in MNI space, and what they were made from."""

from __future__ import annotations

import contextlib
import os
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd
from filelock import FileLock, Timeout

from neurocontrast.data.cohort import Cohort, read_cohort
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion
from neurocontrast.files import check_writable, digest_of_file, write_json, write_table
from neurocontrast.lazy import is_installed, require
from neurocontrast.parallel.workers import map_files
from neurocontrast.prepare.records import (
    IMAGES,
    MOST_IMITATIONS,
    Found,
    PrepareOptions,
    files_of_scan,
    imitated_stem,
    look_up,
    recipe_of,
)
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment

__all__ = ["Extraction", "Protocol", "prepare"]

Protocol = Literal["standard", "quasiraw"]
Extraction = Literal["auto", "deepbet", "template"]

RECORD_NAME = "prepare.json"
IMITATIONS = "imitations.tsv"
TABLES = ("participants.tsv", IMITATIONS, "quality.tsv")
VOLUMES = ("tiv", "gm_ml", "wm_ml", "csf_ml")
"""Columns of native volumes in mL; ``gm``, ``wm`` and ``csf`` are paths."""
_PATIENCE = 5.0
"""Seconds: the processes of a call that was killed may take a moment to end."""
SPACINGS_MM = (0.5, 8.0)


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

    A scan that was prepared from the same file with the same options and versions, and whose images are whole, is not
    prepared again, so an interrupted call is continued by the same call. Volumes with more than half of their voxels 0
    are taken to be stripped already.

    Parameters
    ----------
    participants : path
        Table of scans; a column ``mask_path`` gives brain masks on the grid of the images.
    out : path
        Folder of the results: ``images/``; ``participants.tsv`` with the new paths and the columns ``gm``, ``wm``,
        ``csf`` and ``tiv``, ``gm_ml``, ``wm_ml``, ``csf_ml`` (native volumes in mL); ``quality.tsv`` with one row a
        scan; and ``prepare.json``. It must not hold the table itself, nor images of another cohort.
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
    stems = [name.replace(" session ", "_ses-").replace("/", "-").replace(" ", "-") for name in cohort.names()]
    _refuse_outputs(cohort, target, stems, options)
    with _held(target, progress):
        work = _Work(cohort, target, stems, options, n_workers, progress)
        facts = work.prepare(work.look_up())
        _refuse_or_warn(cohort, facts, skip, progress)
        done = [row for row, each in enumerate(facts) if "problem" not in each]
        _write_results(work, facts, done)
    return target / "participants.tsv"


@dataclass(frozen=True, eq=False)
class _Work:
    """The scans to prepare, and where their images go."""

    cohort: Cohort
    target: Path
    stems: Sequence[str]
    options: PrepareOptions
    n_workers: int
    progress: Progress

    @cached_property
    def sources(self) -> list[tuple[str, str]]:
        """Return the image and the mask of each scan."""
        paths = [str(path) for path in self.cohort.table["path"]]
        return list(zip(paths, self.cohort.paths_in("mask_path"), strict=True))

    def look_up(self) -> list[Found]:
        """Return what an earlier call left of each scan; images of another cohort are refused."""
        folder, root = str(self.target / "images"), str(self.cohort.root)
        given = [
            (row, *self.sources[row], root, self.stems[row], folder, self.options) for row in range(len(self.stems))
        ]
        found = self._map(_look_up, given, "Looking for what is there")
        names, problems = self.cohort.names(), Problems(f"out: '{self.target}' holds images of another cohort")
        for name, stem, each in zip(names, self.stems, found, strict=True):
            if each.other:
                problems.add(
                    f"images/{stem}_brain.nii.gz was made of another file ('{each.other}'), from another place",
                    name=name,
                )
        problems.hint("Give another --out; or remove these images, if they are no longer needed.")
        problems.raise_if_any()
        again = [f"{name}: {each.again}" for name, each in zip(names, found, strict=True) if each.again]
        if again:
            more = [f"… and {len(again) - N_SHOWN} more"] if len(again) > N_SHOWN else []
            text = "\n  ".join(again[:N_SHOWN] + more)
            self.progress.warning(f"{len(again)} of {len(found)} scans are prepared again:\n  {text}")
        return found

    def prepare(self, found: Sequence[Found]) -> list[dict[str, Any]]:
        """Prepare what is not there yet; return the measures of every scan."""
        folder = self.target / "images"
        if any(each.again for each in found):  # no table may name what changes
            for name in TABLES:
                (self.target / name).unlink(missing_ok=True)
        elif any(each.lacks for each in found):
            (self.target / IMITATIONS).unlink(missing_ok=True)
        folder.mkdir(exist_ok=True)
        _write_record(self, n=None)
        facts = [each.facts or {"problem": each.problem} for each in found]
        missing = [row for row, each in enumerate(found) if not each.problem and (each.lacks or each.facts is None)]
        given = [
            (row, *self.sources[row], self.stems[row], str(folder), found[row], self.options, os.getpid())
            for row in missing
        ]
        for row, made in zip(missing, self._map(_prepare, given, "Preparing scans"), strict=True):
            facts[row] = made
        return facts

    def _map(self, function: Callable[..., tuple[int, Any]], given: Sequence[tuple[Any, ...]], title: str) -> list[Any]:
        """Return what a function says of each scan, in their order."""
        results: dict[int, Any] = {}
        with self.progress.task(title, total=len(given), unit="scan") as task:
            for row, result in map_files(
                function, given, n_workers=self.n_workers, option="--n-workers", n_per_worker=1
            ):
                results[row] = result
                task.advance(1)
        return [results[each[0]] for each in given]


def _refuse_outputs(cohort: Cohort, target: Path, stems: Sequence[str], options: PrepareOptions) -> None:
    """Refuse, before any work, what would replace an input, a table of others, or the image of another scan."""
    for name in (*TABLES, RECORD_NAME):
        if (target / name).exists() and (target / name).samefile(cohort.source):
            raise ConfigError(f"out: '{target / name}' is the input table, and would be replaced. Give another folder.")
    problems, names = Problems(cohort.source.name), cohort.names()
    of_file: dict[str, list[int]] = defaultdict(list)
    for row, stem in enumerate(stems):
        for each in [stem, *(imitated_stem(stem, number) for number in range(1, options.imitations + 1))]:
            of_file[unicodedata.normalize("NFC", each).casefold()].append(row)
    for rows in {tuple(rows): None for rows in of_file.values() if len(rows) > 1}:
        several = ", ".join(shown(names[row]) for row in rows)
        problems.add(f"{several} would be one file, images/{stems[rows[0]]}_brain.nii.gz; rename all but one")
    inputs = {
        os.path.realpath(path): name
        for column in (cohort.table["path"], cohort.paths_in("mask_path"))
        for path, name in zip(column, names, strict=True)
        if path
    }
    for stem in stems:
        for place in (target / "images" / name for name in files_of_scan(stem)):
            if os.path.realpath(place) in inputs:
                problems.add(
                    f"images/{place.name} is an input, and would be replaced", name=inputs[os.path.realpath(place)]
                )
    problems.raise_if_any()
    if not (target / RECORD_NAME).is_file():
        images = [f"images/{name}" for stem in stems for name in files_of_scan(stem)]
        there = [name for name in (*TABLES, *images) if os.path.lexists(target / name)]
        if there:
            raise ConfigError(
                f"out: '{target}' holds {there[0]} and no {RECORD_NAME}, so it is not known what it was made from. "
                "Give another folder."
            )


@contextlib.contextmanager
def _held(target: Path, progress: Progress) -> Iterator[None]:
    """Keep other calls from the folder, and remove the temporary files that a killed call left there."""
    target.mkdir(parents=True, exist_ok=True)
    lock = FileLock(target / ".prepare.lock")
    try:
        lock.acquire(timeout=_PATIENCE)
    except Timeout:
        raise ConfigError(f"out: another process is preparing scans in '{target}'. Wait for it.") from None
    except OSError as error:
        progress.warning(f"{target}: no lock ({error.strerror}); see to it that no other process writes there.")
    try:
        for left in [*target.glob(".tmp-*"), *target.glob("images/.tmp-*")]:
            if left.is_file():
                left.unlink(missing_ok=True)
        yield
    finally:
        (target / ".prepare.lock").unlink(missing_ok=True)
        lock.release()
        with contextlib.suppress(OSError):
            target.rmdir()  # where nothing was written


def _write_record(work: _Work, n: int | None) -> None:
    """Write what the folder is made from; `n` is the number of prepared scans, None before the end."""
    source = work.cohort.source
    table = {"name": source.name, "size": source.stat().st_size, "sha256": digest_of_file(source)}
    record = {"finished": n is not None, "n": n, "options": vars(work.options), "input": table}
    write_json(
        work.target / RECORD_NAME,
        record | {"code": recipe_of(work.options)["code"], "environment": describe_environment()},
    )


def _write_results(work: _Work, facts: Sequence[dict[str, Any]], done: Sequence[int]) -> None:
    """Write the tables, that of the scans last."""
    cohort, target = work.cohort, work.target
    keys = cohort.table[["participant_id", "session"]]
    quality = pd.DataFrame([{**keys.loc[row], **facts[row]} for row in done]).replace("", "n/a")
    write_table(target / "quality.tsv", quality.fillna("n/a"))
    if work.options.imitations:
        every = [_table(work, facts, done, number) for number in range(work.options.imitations + 1)]
        write_table(target / IMITATIONS, pd.concat(every).sort_index(kind="stable"))
    table = _table(work, facts, done)
    write_table(target / "participants.tsv", table)
    kept = [name for name in quality if name in VOLUMES and name not in _new_volumes(cohort, facts, done)]
    if kept:
        work.progress.warning(f"The table's own {', '.join(kept)} is kept; what was measured here is in quality.tsv.")
    _write_record(work, n=len(done))


def _table(
    work: _Work, facts: Sequence[dict[str, Any]], done: Sequence[int], imitation: int | None = None
) -> pd.DataFrame:
    """Return the table of what was prepared; with a number, of one imitated acquisition of every scan (0: the real)."""
    table = work.cohort.table.iloc[list(done)].drop(columns=["mask_path"], errors="ignore").copy()
    if imitation is not None:
        table["acquisition"] = f"imitated{imitation}" if imitation else "real"
    if imitation:
        table["session"] = [f"{session}imitated{imitation}" for session in table["session"].fillna("")]
    stems = [imitated_stem(work.stems[row], imitation) if imitation else work.stems[row] for row in done]
    for name in IMAGES if work.options.tissue else IMAGES[:1]:
        table["path" if name == "brain" else name] = [f"images/{stem}_{name}.nii.gz" for stem in stems]
    table["space"], table["stage"] = "MNI152", "stripped"
    for name in _new_volumes(work.cohort, facts, done):
        table[name] = [facts[row].get(name) for row in done]
    return table.astype(object).where(table.notna() & (table != ""), "n/a")


def _new_volumes(cohort: Cohort, facts: Sequence[dict[str, Any]], done: Sequence[int]) -> list[str]:
    """Return the native volumes that were measured and that the table of the cohort does not have itself."""
    given = {str(name).lower() for name in cohort.table}
    return [name for name in VOLUMES if name not in given and any(name in facts[row] for row in done)]


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
    require("SimpleITK", extra="prepare", purpose="prepare")
    if extraction == "auto":
        extraction = "deepbet" if is_installed("deepbet") else "template"
    given: dict[str, Any] = {"registration": registration, "imitations": imitations, **wanted}
    return PrepareOptions(spacing, extraction=extraction, quasiraw=quasiraw, **given)


def _look_up(row: int, *given: Any) -> tuple[int, Found]:
    return row, look_up(*given)


def _prepare(row: int, *given: Any) -> tuple[int, dict[str, Any]]:
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
