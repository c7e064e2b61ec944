"""Prepare raw scans of heads: extract brains and tissue maps, and register them to MNI152."""

import os
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import pandas as pd

from neurocontrast.data.cohort import Cohort, read_cohort
from neurocontrast.data.people import check_not_described
from neurocontrast.data.problems import Problems, first_names, shown
from neurocontrast.data.quality import warn_of_headers
from neurocontrast.display import as_progress
from neurocontrast.documents.environment import Environment
from neurocontrast.documents.prepared import CohortTable, PrepareRecord, ScanMeasures
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.files import check_writable, digest_of_file, write_json, write_table
from neurocontrast.lazy import require
from neurocontrast.locks import hold
from neurocontrast.parallel.workers import check_n_workers, map_files
from neurocontrast.prepare.records import (
    IMAGES,
    MOST_IMITATIONS,
    TABLES,
    PrepareOptions,
    ScanOutcome,
    files_of_scan,
    imitated_stem,
    problem_of_images,
    recipe_of,
    stems_of,
)
from neurocontrast.progress import Progress
from neurocontrast.provenance import describe_environment
from neurocontrast.torch_state import in_default_torch_state

RECORD_NAME = "prepare.json"
IMITATIONS = "imitations.tsv"
VOLUMES = ("tiv", "gm_ml", "wm_ml", "csf_ml")
"""Columns of volumes in native space, in mL; columns ``gm``, ``wm`` and ``csf`` are paths of
maps."""
SPACINGS_MM = (0.5, 8.0)
_N_LISTED = 20
"""Number of failed scans whose reasons a message lists."""


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
    """Extract brains, correct their bias field, register them to MNI152, make tissue maps.

    Return the new table's path.

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
        Whether scans are registered. False is for scans that lie in MNI152 already, as fMRIPrep's
        do, and are only resampled; ``quality.tsv`` has the overlap with the template's brain. With
        True, rows whose column ``space`` begins with MNI are refused: their head size is gone.
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
        Receives progress messages; True shows them on standard error, False nothing. With None,
        lines appear in a terminal or notebook alone, and warnings (`NeurocontrastWarning`) always.
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
    _refuse_tissue_maps(cohort)
    if registration:
        _refuse_registered(cohort)
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
        _remove_unfinished(target)
        _refuse_another_cohort(cohort, target, stems, options)
        _write_record(target, cohort, options, n=None)
        outcomes = _prepare_all(cohort, target, stems, options, n_workers, progress)
        prepared = _Prepared.of(cohort, stems, options, outcomes)
        _report_problems(cohort, outcomes, progress, skip=skip and bool(prepared.rows))
        _write_results(target, prepared, progress)
        _write_record(target, cohort, options, n=len(prepared.rows))
    return target / "participants.tsv"


def _refuse_tissue_maps(cohort: Cohort) -> None:
    """Refuse tissue maps, by ``tissue`` in the table's column ``stage``."""
    n_maps = int(cohort.table.get("stage", pd.Series(dtype=str)).eq("tissue").sum())
    if n_maps:
        raise DataError(
            f"{cohort.source.name}: {n_maps} images are tissue maps, which pretrain takes as they "
            "are."
        )


def _refuse_registered(cohort: Cohort) -> None:
    """Refuse scans that lie in MNI space, by the table's column ``space`` in upper or lower case.

    Registered once more, all heads would have the size of the template's.
    """
    columns = {str(column).lower(): str(column) for column in cohort.table}
    if "space" not in columns:
        return
    column = columns["space"]
    spaces = cohort.table[column].fillna("").astype(str)
    names = []
    for name, space in zip(cohort.names(), spaces, strict=True):
        if space.strip().lower().startswith("mni"):
            names.append(f"{name} ({shown(space.strip())})")
    if names:
        raise DataError(
            f"{cohort.source.name}: {len(names)} of {len(cohort)} scans lie in MNI space already "
            f"by the column '{column}': {first_names(names)}. Their head size is gone: tiv and the "
            "volumes of tissues would be the template's. Give registration=False "
            "(--no-registration), which resamples them alone, or native images (index --choose "
            "space=native)."
        )


def _remove_unfinished(target: Path) -> None:
    """Remove temporary files that an interrupted call of `prepare` left in the folder `target`."""
    for pattern in (".tmp-*", "images/.tmp-*"):
        for path in target.glob(pattern):
            if path.is_file():
                path.unlink(missing_ok=True)


def _report_problems(
    cohort: Cohort, outcomes: Sequence[ScanOutcome], progress: Progress, *, skip: bool
) -> None:
    """Raise an error that lists the scans that could not be prepared, or warn if `skip`."""
    problems = []
    for name, outcome in zip(cohort.names(), outcomes, strict=True):
        if outcome.problem:
            problems.append(f"{name}: {outcome.problem}")
    if not problems:
        return
    listed = "\n  ".join(problems[:_N_LISTED])
    summary = f"{len(problems)} of {len(outcomes)} scans could not be prepared:\n  {listed}"
    if not skip:
        raise DataError(
            f"{cohort.source.name}: {summary}\nThe others are kept. Leave these out with skip=True."
        )
    progress.warning(summary)


@dataclass(frozen=True, eq=False)
class _Prepared:
    """Scans of a cohort that `prepare` could prepare, with the image measures of each scan."""

    table: pd.DataFrame
    """Rows of the cohort's table that belong to the prepared scans."""
    stems: Sequence[str]
    """Beginning of the names of each prepared scan's images."""
    options: PrepareOptions
    measures: Sequence[ScanMeasures]
    rows: Sequence[int]
    """Number of each prepared scan's row in the table of the whole cohort."""

    @classmethod
    def of(
        cls,
        cohort: Cohort,
        stems: Sequence[str],
        options: PrepareOptions,
        outcomes: Sequence[ScanOutcome],
    ) -> Self:
        """Return a `_Prepared` of the scans of `cohort` that were prepared without a problem.

        The arguments `stems` and `outcomes` have an entry for each row of the cohort's table: the
        beginning of the names of the scan's images, and the measures of the prepared scan, such as
        the volume of the brain, or its problem.
        """
        rows = [row for row, outcome in enumerate(outcomes) if not outcome.problem]
        return cls(
            cohort.table.iloc[rows],
            [stems[row] for row in rows],
            options,
            [outcomes[row].measures for row in rows],
            rows,
        )

    def volumes(self, column: str) -> list[float | None]:
        """Return a volume of each prepared scan in mL, such as that of grey matter, as a list.

        `column` is one of `VOLUMES`. An entry is None if that volume of the scan was not measured.
        """
        return [getattr(measures, column) for measures in self.measures]

    def new_volumes(self) -> list[str]:
        """List the columns of `VOLUMES` that were measured, and that the cohort's table lacks."""
        columns = {str(name).lower() for name in self.table}
        names = []
        for name in VOLUMES:
            is_measured = any(measures.has(name) for measures in self.measures)
            if is_measured and name not in columns:
                names.append(name)
        return names


def _prepare_all(
    cohort: Cohort,
    target: Path,
    stems: Sequence[str],
    options: PrepareOptions,
    n_workers: int,
    progress: Progress,
) -> list[ScanOutcome]:
    """Prepare the scans that were not prepared before; return measures or problem of every scan.

    The outcomes are in the order of the cohort's table. Images are written to the folder ``images``
    in `target`; `stems` has the beginning of the names of each scan's images.
    """
    folder = target / "images"
    folder.mkdir(exist_ok=True)
    paths = zip(cohort.table["path"].astype(str), cohort.paths_in("mask_path"), strict=True)
    work = []
    for row, (source, mask) in enumerate(paths):
        work.append((row, source, mask, str(cohort.root), stems[row], str(folder), options))
    outcomes: dict[int, ScanOutcome] = {}
    with progress.task("Preparing scans", total=len(work), unit="scan") as task:
        for row, outcome in map_files(
            _prepare, work, n_workers=n_workers, option="n_workers", n_per_worker=1
        ):
            outcomes[row] = outcome
            task.advance(1)
    return [outcomes[row] for row in range(len(work))]


def _refuse_outputs(
    cohort: Cohort, target: Path, stems: Sequence[str], options: PrepareOptions
) -> None:
    """Refuse, before any work, results that would replace inputs or files of unknown origin.

    `target` is the folder of the results, and `stems` has the beginning of the names of each scan's
    new images. The origin of files in `target` is unknown if there is no ``prepare.json``.
    """
    for name in (*TABLES, RECORD_NAME):
        if (target / name).exists() and (target / name).samefile(cohort.source):
            raise ConfigError(
                f"out: '{target / name}' is the input table, and would be replaced. "
                "Give another folder."
            )
    problems = Problems(cohort.source.name)
    _find_shared_files(cohort, stems, options.imitations, problems)
    _find_inputs_replaced(cohort, target, stems, problems)
    problems.raise_if_any()
    if (target / RECORD_NAME).is_file():
        return
    names = list(TABLES)
    for stem in stems:
        names.extend(map("images/{}".format, files_of_scan(stem)))
    for name in names:
        if os.path.lexists(target / name):
            raise ConfigError(
                f"out: '{target}' holds {name} and no {RECORD_NAME}, so it is not known what it "
                "was made from. Give another folder."
            )


def _find_shared_files(
    cohort: Cohort, stems: Sequence[str], n_imitations: int, problems: Problems
) -> None:
    """Add to `problems` the scans whose prepared images would be written to the same file.

    `stems` has the beginning of each scan's file names. Names that differ only in case are the
    same, since some disks ignore case.
    """
    names = cohort.names()
    rows_of_file: dict[str, list[int]] = defaultdict(list)
    for row, stem in enumerate(stems):
        for file in stems_of(stem, n_imitations):
            rows_of_file[unicodedata.normalize("NFC", file).casefold()].append(row)
    for rows in dict.fromkeys(map(tuple, rows_of_file.values())):
        if len(rows) == 1:
            continue
        several = ", ".join(shown(names[row]) for row in rows)
        problems.add(
            f"{several} would be one file, images/{stems[rows[0]]}_brain.nii.gz; rename all but one"
        )


def _find_inputs_replaced(
    cohort: Cohort, target: Path, stems: Sequence[str], problems: Problems
) -> None:
    """Add to `problems` each input image or mask that a result in `target` would replace."""
    inputs = {}
    for paths in (cohort.table["path"], cohort.paths_in("mask_path")):
        for path, name in zip(paths, cohort.names(), strict=True):
            if path:
                inputs[os.path.realpath(path)] = name
    for stem in stems:
        for file in files_of_scan(stem):
            path = os.path.realpath(target / "images" / file)
            if path in inputs:
                problems.add(f"images/{file} is an input, and would be replaced", name=inputs[path])


def _refuse_another_cohort(
    cohort: Cohort, target: Path, stems: Sequence[str], options: PrepareOptions
) -> None:
    """Refuse, before any work, a folder `target` that holds images of another cohort's scans.

    Such images have names that this call would write, and were made from other files.
    """
    problems = Problems(f"out: '{target}' holds images of another cohort")
    paths = zip(cohort.table["path"].astype(str), cohort.paths_in("mask_path"), strict=True)
    for name, stem, (source, mask) in zip(cohort.names(), stems, paths, strict=True):
        if problem := problem_of_images(
            target / "images", stem, source, mask, str(cohort.root), options
        ):
            problems.add(problem, name=name)
    problems.raise_if_any()


def _write_record(target: Path, cohort: Cohort, options: PrepareOptions, *, n: int | None) -> None:
    """Write ``prepare.json``; `n` is the number of prepared scans, None before the end."""
    record = PrepareRecord(
        finished=n is not None,
        n=n,
        options=asdict(options),
        input=CohortTable(name=cohort.source.name, sha256=digest_of_file(cohort.source)),
        code=recipe_of(options).code,
        environment=Environment.model_validate(describe_environment()),
    )
    write_json(target / RECORD_NAME, record.content())


def _write_results(target: Path, prepared: _Prepared, progress: Progress) -> None:
    """Write ``quality.tsv``, ``imitations.tsv`` if asked for and, last, ``participants.tsv``.

    The files are written to the folder `target`. ``imitations.tsv`` lists the prepared scans
    together with their imitations: images of the same brains as other scanners would have shown
    them.
    """
    measures = pd.DataFrame(list(map(ScanMeasures.content, prepared.measures)))
    keys = prepared.table[["participant_id", "session"]].reset_index(drop=True)
    quality = keys.join(measures).replace("", "n/a")
    write_table(target / "quality.tsv", quality.fillna("n/a"))
    n_imitations = prepared.options.imitations
    if n_imitations:
        tables = [_table(prepared, number) for number in range(n_imitations + 1)]
        write_table(target / IMITATIONS, pd.concat(tables).sort_index(kind="stable"))
    write_table(target / "participants.tsv", _table(prepared))
    new = prepared.new_volumes()
    kept = [name for name in quality if name in VOLUMES and name not in new]
    if kept:
        progress.warning(
            f"The table's own {', '.join(kept)} is kept; the new measures are in quality.tsv."
        )


def _table(prepared: _Prepared, imitation: int | None = None) -> pd.DataFrame:
    """Return the new table of the prepared scans, or of one imitated acquisition of each scan.

    An imitated acquisition is the brain as another scanner would have shown it. `imitation` is the
    number of the acquisition; 0 means the real scans, with a column ``acquisition``, and None the
    table ``participants.tsv`` without that column.
    """
    outdated = ["mask_path"]
    if prepared.options.registration:
        outdated.extend(IMAGES[1:])  # maps of the head as it was
    table = prepared.table.drop(columns=outdated, errors="ignore").copy()
    stems = list(prepared.stems)
    if imitation is not None:
        table["acquisition"] = "real"
    if imitation:
        table["acquisition"] = f"imitated{imitation}"
        table["session"] = table["session"].fillna("").map(f"{{}}imitated{imitation}".format)
        stems = [imitated_stem(stem, imitation) for stem in stems]
    images = IMAGES if prepared.options.tissue else IMAGES[:1]
    for image in images:
        column = "path" if image == "brain" else image
        table[column] = list(map(f"images/{{}}_{image}.nii.gz".format, stems))
    table["space"] = "MNI152"
    table["stage"] = "stripped"
    for name in prepared.new_volumes():
        table[name] = prepared.volumes(name)
    return table.astype(object).where(table.notna() & (table != ""), "n/a")


def _prepare(
    row: int,
    source: str,
    mask_path: str,
    root: str,
    stem: str,
    folder: str,
    options: PrepareOptions,
) -> tuple[int, ScanOutcome]:
    """Prepare one scan in a worker process; return `row`, and the scan's outcome (`ScanOutcome`).

    The outcome has measures, such as the volume of the brain, or the text of a problem. `row` is
    the number of the scan in the cohort's table. The images are written to `folder`, with names
    that begin with `stem`. Libraries for images are imported here, so that the main process does
    not load them.
    """
    from neurocontrast.prepare.scan import prepare_scan

    return row, prepare_scan(source, mask_path, root, stem, folder, options)
