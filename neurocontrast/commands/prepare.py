"""Prepare heads as they were acquired: brains and tissue maps in MNI space, and what they were made from."""

import os
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from neurocontrast.data.cohort import Cohort, read_cohort
from neurocontrast.data.people import check_not_described
from neurocontrast.data.problems import Problems, shown
from neurocontrast.data.quality import warn_of_headers
from neurocontrast.display import as_progress
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.files import check_writable, digest_of_file, hold, write_json, write_table
from neurocontrast.lazy import require
from neurocontrast.parallel.workers import check_n_workers, map_files
from neurocontrast.prepare.records import (
    IMAGES,
    MOST_IMITATIONS,
    TABLES,
    PrepareOptions,
    files_of_scan,
    imitated_stem,
    problem_of_images,
    recipe_of,
)
from neurocontrast.progress import Progress
from neurocontrast.provenance import describe_environment
from neurocontrast.torch_state import in_default_torch_state

RECORD_NAME = "prepare.json"
IMITATIONS = "imitations.tsv"
VOLUMES = ("tiv", "gm_ml", "wm_ml", "csf_ml")
"""Columns of native volumes in mL; ``gm``, ``wm`` and ``csf`` are paths."""
SPACINGS_MM = (0.5, 8.0)


@in_default_torch_state
def prepare(
    participants: str | Path,
    out: str | os.PathLike[str],
    *,
    images_root: str | Path | None = None,
    spacing_mm: float = 1.5,
    bias: bool = True,
    registration: bool = True,
    tissue: bool = True,
    imitations: int = 0,
    skip: bool = False,
    n_workers: int = 2,
    progress: Progress | bool | None = None,
) -> Path:
    """Extract brains, correct their bias field, register them to MNI152, make tissue maps; return the new table's path.

    A scan that was prepared from the same file with the same options and versions, and whose images
    are whole, is not prepared again, so an interrupted call is continued by the same call. Volumes
    with more than half of their voxels 0 are taken to be stripped already.

    Parameters
    ----------
    participants : path
        Table of scans; a column ``mask_path`` gives brain masks on the grid of the images.
    out : path
        Folder of the results: ``images/``; ``participants.tsv`` with the new paths and the columns
        ``gm``, ``wm``, ``csf`` and ``tiv``, ``gm_ml``, ``wm_ml``, ``csf_ml`` (native volumes in
        mL); ``quality.tsv`` with one row a scan; and ``prepare.json``. It must not hold the table
        itself, nor images of another cohort.
    images_root : path, optional
        Folder that relative paths start from; by default the table's.
    spacing_mm : float, default=1.5
        Voxel size of the results, 0.5 to 8 mm.
    bias : bool, default=True
        Whether the bias field is corrected by N4.
    registration : bool, default=True
        Whether scans are registered; otherwise they lie in MNI152 already, as fMRIPrep's do, and
        are only resampled. ``quality.tsv`` has the overlap with the template's brain.
    tissue : bool, default=True
        Whether maps of grey matter, white matter and fluid are made.
    imitations : int, default=0
        How many acquisitions of each brain are imitated, as other scanners and another
        preprocessing would have shown it, with their tissue maps. ``imitations.tsv`` lists them
        with the real scans, each as a session of its subject; the encoder ``lda`` learns from it
        how scans of one person differ.
    skip : bool, default=False
        Whether scans that cannot be prepared are left out of the table, instead of being an error.
    n_workers : int, default=2
        Processes; the images do not depend on it.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. None shows
        lines in a terminal or notebook, and warns with `NeurocontrastWarning`.
    """
    progress = as_progress(progress)
    check_n_workers(n_workers)
    low, high = SPACINGS_MM
    if not low <= spacing_mm <= high:
        raise ConfigError(f"spacing_mm must be between {low:g} and {high:g}, got {spacing_mm!r}.")
    if not 0 <= imitations <= MOST_IMITATIONS:
        raise ConfigError(
            f"imitations must be between 0 and {MOST_IMITATIONS}, got {imitations!r}."
        )
    require("SimpleITK", extra="prepare", purpose="prepare")
    options = PrepareOptions(
        spacing_mm, bias=bias, tissue=tissue, registration=registration, imitations=imitations
    )
    cohort = read_cohort(participants, images_root=images_root)
    if n := int(cohort.table.get("stage", pd.Series(dtype=str)).eq("tissue").sum()):
        raise DataError(
            f"{cohort.source.name}: {n} images are tissue maps, which pretrain takes as they are."
        )
    target = Path(out).absolute()
    check_writable(target / RECORD_NAME)
    check_not_described(target / "participants.tsv", cohort.table.columns)
    warn_of_headers(cohort.scans, progress)
    stems = [
        name.replace(" session ", "_ses-").replace("/", "-").replace(" ", "-")
        for name in cohort.names()
    ]
    _refuse_outputs(cohort, target, stems, options)
    with hold(target, progress, doing="preparing scans"):
        for left in [*target.glob(".tmp-*"), *target.glob("images/.tmp-*")]:
            if left.is_file():
                left.unlink(missing_ok=True)
        _refuse_another_cohort(cohort, target, stems, options)
        _write_record(target, cohort, options, n=None)
        facts = _prepare_all(cohort, target, stems, options, n_workers, progress)
        names = cohort.names()
        done = [row for row, each in enumerate(facts) if "problem" not in each]
        bad = [
            f"{names[row]}: {each['problem']}"
            for row, each in enumerate(facts)
            if "problem" in each
        ]
        text = f"{len(bad)} of {len(facts)} scans could not be prepared:\n  " + "\n  ".join(
            bad[:20]
        )
        if bad and not (skip and done):
            raise DataError(
                f"{cohort.source.name}: {text}\nThe others are kept. Leave these out with skip=True."
            )
        if bad:
            progress.warning(text)
        _write_results(target, _Prepared(cohort, stems, options, facts, done), progress)
        _write_record(target, cohort, options, n=len(done))
    return target / "participants.tsv"


@dataclass(frozen=True, eq=False)
class _Prepared:
    """The scans of a cohort, the measures of each, and the rows that were prepared."""

    cohort: Cohort
    stems: Sequence[str]
    options: PrepareOptions
    facts: Sequence[dict[str, Any]]
    done: Sequence[int]


def _prepare_all(
    cohort: Cohort,
    target: Path,
    stems: Sequence[str],
    options: PrepareOptions,
    n_workers: int,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Prepare the scans that are not there yet; return the measures of every scan."""
    folder = target / "images"
    folder.mkdir(exist_ok=True)
    paths = zip(cohort.table["path"].astype(str), cohort.paths_in("mask_path"), strict=True)
    work = [
        (row, source, mask, str(cohort.root), stems[row], str(folder), options)
        for row, (source, mask) in enumerate(paths)
    ]
    facts: dict[int, dict[str, Any]] = {}
    with progress.task("Preparing scans", total=len(work), unit="scan") as task:
        for row, made in map_files(
            _prepare, work, n_workers=n_workers, option="n_workers", n_per_worker=1
        ):
            facts[row] = made
            task.advance(1)
    return [facts[row] for row in range(len(work))]


def _refuse_outputs(
    cohort: Cohort, target: Path, stems: Sequence[str], options: PrepareOptions
) -> None:
    """Refuse, before any work, what would replace an input, a table of others, or the image of another scan."""
    for name in (*TABLES, RECORD_NAME):
        if (target / name).exists() and (target / name).samefile(cohort.source):
            raise ConfigError(
                f"out: '{target / name}' is the input table, and would be replaced. Give another folder."
            )
    problems = Problems(cohort.source.name)
    names = cohort.names()
    of_file: dict[str, list[int]] = defaultdict(list)
    for row, stem in enumerate(stems):
        for each in [
            stem,
            *(imitated_stem(stem, number) for number in range(1, options.imitations + 1)),
        ]:
            of_file[unicodedata.normalize("NFC", each).casefold()].append(row)
    for rows in {tuple(rows): None for rows in of_file.values() if len(rows) > 1}:
        several = ", ".join(shown(names[row]) for row in rows)
        problems.add(
            f"{several} would be one file, images/{stems[rows[0]]}_brain.nii.gz; rename all but one"
        )
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
                    f"images/{place.name} is an input, and would be replaced",
                    name=inputs[os.path.realpath(place)],
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


def _refuse_another_cohort(
    cohort: Cohort, target: Path, stems: Sequence[str], options: PrepareOptions
) -> None:
    """Refuse images of other scans with the same names, before any work."""
    problems = Problems(f"out: '{target}' holds images of another cohort")
    paths = zip(cohort.table["path"].astype(str), cohort.paths_in("mask_path"), strict=True)
    for name, stem, (source, mask) in zip(cohort.names(), stems, paths, strict=True):
        if problem := problem_of_images(
            target / "images", stem, source, mask, str(cohort.root), options
        ):
            problems.add(problem, name=name)
    problems.raise_if_any()


def _write_record(target: Path, cohort: Cohort, options: PrepareOptions, *, n: int | None) -> None:
    """Write what the folder is made from; `n` is the number of prepared scans, None before the end."""
    table = {"name": cohort.source.name, "sha256": digest_of_file(cohort.source)}
    record = {"finished": n is not None, "n": n, "options": vars(options), "input": table}
    record |= {"code": recipe_of(options)["code"], "environment": describe_environment()}
    write_json(target / RECORD_NAME, record)


def _write_results(target: Path, made: _Prepared, progress: Progress) -> None:
    """Write the tables, that of the scans last."""
    keys = made.cohort.table[["participant_id", "session"]]
    quality = pd.DataFrame([{**keys.loc[row], **made.facts[row]} for row in made.done]).replace(
        "", "n/a"
    )
    write_table(target / "quality.tsv", quality.fillna("n/a"))
    if made.options.imitations:
        every = [_table(made, number) for number in range(made.options.imitations + 1)]
        write_table(target / IMITATIONS, pd.concat(every).sort_index(kind="stable"))
    write_table(target / "participants.tsv", _table(made))
    kept = [name for name in quality if name in VOLUMES and name not in _new_volumes(made)]
    if kept:
        progress.warning(
            f"The table's own {', '.join(kept)} is kept; the new measures are in quality.tsv."
        )


def _table(made: _Prepared, imitation: int | None = None) -> pd.DataFrame:
    """Return the table of what was prepared; with a number, of one imitated acquisition of every scan (0: the real)."""
    elsewhere = [
        "mask_path",
        *(IMAGES[1:] if made.options.registration else ()),
    ]  # maps of the head as it was
    table = made.cohort.table.iloc[list(made.done)].drop(columns=elsewhere, errors="ignore").copy()
    if imitation is not None:
        table["acquisition"] = f"imitated{imitation}" if imitation else "real"
    if imitation:
        table["session"] = [
            f"{session}imitated{imitation}" for session in table["session"].fillna("")
        ]
    stems = [
        imitated_stem(made.stems[row], imitation) if imitation else made.stems[row]
        for row in made.done
    ]
    for name in IMAGES if made.options.tissue else IMAGES[:1]:
        table["path" if name == "brain" else name] = [
            f"images/{stem}_{name}.nii.gz" for stem in stems
        ]
    table["space"] = "MNI152"
    table["stage"] = "stripped"
    for name in _new_volumes(made):
        table[name] = [made.facts[row].get(name) for row in made.done]
    return table.astype(object).where(table.notna() & (table != ""), "n/a")


def _new_volumes(made: _Prepared) -> list[str]:
    """Return the native volumes that were measured and that the table of the cohort does not have itself."""
    given = {str(name).lower() for name in made.cohort.table}
    return [
        name
        for name in VOLUMES
        if name not in given and any(name in made.facts[row] for row in made.done)
    ]


def _prepare(row: int, *given: Any) -> tuple[int, dict[str, Any]]:
    from neurocontrast.prepare.scan import prepare_scan

    return row, prepare_scan(*given)
