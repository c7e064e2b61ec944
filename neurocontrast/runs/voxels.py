"""Models of voxels, to compare with an embedding: the evaluated scans read at 4 mm."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neurocontrast.data.cohort import columns_of, read_cohort
from neurocontrast.data.problems import Problems
from neurocontrast.documents.encoder import PreprocessingRecord
from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation import Plan
from neurocontrast.evaluation.plan.models import ProbeModel, voxels
from neurocontrast.evaluation.plan.models.beside import make_beside
from neurocontrast.evaluation.plan.models.kernel import make_second
from neurocontrast.evaluation.plan.models.own import keep_fitting
from neurocontrast.evaluation.rows import row_names
from neurocontrast.exceptions import DataError
from neurocontrast.files import files_of
from neurocontrast.parallel.workers import map_files
from neurocontrast.progress import Progress
from neurocontrast.transforms.preprocessing import Preprocessing

SPACING_MM = 4.0
"""Voxel size in mm of scans for the baseline of voxels, unless preprocessed as for the encoder."""
SHAPE = (48, 57, 48)
"""Voxels of the box around the centre of a scan: 192 × 228 × 192 mm hold every usual template."""
MAX_BYTES = 4 * 1024**3
"""Largest memory in bytes for the voxels (float32) and scalar products (float64) of all scans."""


def with_voxels(plan: Plan, progress: Progress) -> Plan:
    """Return an evaluation's plan with baseline models of the scans' voxels, unless switched off.

    Models are added if the files of the scans are found. A scan that cannot be read is a
    `DataError` if the user asks for the models: the setting ``voxels`` is ``on`` or ``input``, or
    the setting ``scans`` names a table of scans. By default it is a warning of the returned plan,
    which then has no such models.
    """
    settings = plan.settings
    run = plan.info.run
    asked = settings.voxels in ("on", "input") or settings.scans is not None
    unfit = plan.fixed or run.preprocessing.kind != "volumes"
    if settings.voxels == "off" or (unfit and not asked):
        return plan
    try:
        if unfit:
            raise DataError(
                "voxels: this baseline is for scans of brains in cross-validation. "
                "Leave voxels out."
            )
        scans = _find_scans(plan, columns_of(run.channels), asked=asked)
        if not scans:
            return plan
        return _with_both(plan, _read(scans, plan, run.preprocessing, progress))
    except DataError as error:
        if asked:
            raise
        explanation = "Whether a model of the scans themselves does as well was not asked."
        return plan.with_notices(
            [Notice("voxels_left_out", f"There is no baseline of voxels. {error}", explanation)]
        )


def _with_both(plan: Plan, model: ProbeModel) -> Plan:
    """Return an evaluation's plan with `model`, a linear model of voxels, and two more models.

    The second is a Gaussian kernel model of the voxels, the third a probe of voxels and embedding
    together. With the user's own estimator the second and third are left out, and `model` too if
    the estimator cannot fit the voxels. The third is left out as well for an encoder that does not
    keep principal components of the scans (linear components) in addition to its network.
    """
    outcome = keep_fitting(plan, model)
    second = make_second(plan, model)
    together = make_beside(plan, model)
    return plan.with_outcome(outcome).with_outcome(second).with_outcome(together)


def _find_scans(plan: Plan, channels: tuple[str, ...], *, asked: bool) -> list[tuple[str, ...]]:
    """Return the image files of each evaluated scan: for each scan one file for each of `channels`.

    Files are taken from the table of scans that the setting ``scans`` names, or else from the table
    of embeddings. Scans without files are a `DataError`. But if no scan has files, and the settings
    do not ask for a baseline model of voxels (`asked` is False), the list is empty.
    """
    table = plan.table
    if plan.settings.scans is not None:
        listed = read_cohort(plan.settings.scans, channels=channels)
        keys = zip(listed.table["participant_id"], listed.table["session"], strict=True)
        files_by_key = dict(zip(keys, map(files_of, listed.scans), strict=True))
        scans = []
        for key in zip(table["participant_id"], table["session"], strict=True):
            scans.append(files_by_key.get(key, ()))
        where = f"in scans '{Path(plan.settings.scans).name}'"
        remedy = "Add them, or leave them out with where."
    else:
        # A relative path would be taken from wherever the command happens to run.
        columns = [table[column] if column in table else [""] * len(table) for column in channels]
        scans = [
            files if all(map(_is_there, files)) else () for files in zip(*columns, strict=True)
        ]
        where = "where the embeddings table says"
        remedy = "Name a table of the same scans: scans=TABLE."
        if not any(scans) and not asked:
            return []
    absent = [row for row, files in enumerate(scans) if not files]
    if absent:
        first = ", ".join(row_names(table, absent[:5]))
        raise DataError(
            f"voxels: {len(absent)} of {len(scans)} scans are not {where} ({first}). {remedy}"
        )
    return scans


def _is_there(path: Any) -> bool:
    """Tell whether `path`, a cell of a table, is the absolute path of a file that exists."""
    return isinstance(path, str) and Path(path).is_absolute() and Path(path).is_file()


def _read(
    scans: list[tuple[str, ...]],
    plan: Plan,
    record: PreprocessingRecord,
    progress: Progress,
) -> ProbeModel:
    """Read the voxels of scans, and return a linear model of the voxels, a baseline for `plan`.

    `plan` is the plan of an evaluation, in whose folds the model is fitted later, to be compared
    with the probe of the embedding. `scans` has the files of each scan, `record` the preprocessing
    of the encoder. Unreadable scans, and voxels of more than `MAX_BYTES`, are a `DataError`.
    """
    preprocessing = _choose_preprocessing(scans, plan, record)
    n_voxels = int(np.prod(preprocessing.image_shape))
    n_bytes = 4 * n_voxels * len(scans) + 8 * len(scans) ** 2
    if n_bytes > MAX_BYTES:
        raise DataError(
            f"voxels: {len(scans)} scans of {n_voxels} voxels take {n_bytes / 1024**3:.1f} GiB of "
            f"memory, more than {MAX_BYTES / 1024**3:g}. Evaluate fewer scans (where), or set "
            "voxels=off."
        )
    values = np.empty((len(scans), n_voxels), dtype=np.float32)
    unreadable: dict[int, str] = {}
    tasks = [(row, files, preprocessing) for row, files in enumerate(scans)]
    with progress.task("Reading voxels", len(scans), "scans") as task:
        for row, voxels_of_scan in map_files(
            _read_scan, tasks, n_workers=plan.settings.n_jobs, option="evaluation.n_jobs"
        ):
            if isinstance(voxels_of_scan, str):
                unreadable[row] = voxels_of_scan
            else:
                values[row] = voxels_of_scan
            task.advance()
    problems = Problems("voxels: scans cannot be used")
    rows = sorted(unreadable)
    for name, row in zip(row_names(plan.table, rows), rows, strict=True):
        problems.add(unreadable[row], name=name)
    problems.raise_if_any()
    standardised: str | None = preprocessing.normalise
    if preprocessing.normalise == "none":
        standardised = None
    elif preprocessing.normalise == "zscore":
        standardised = "each scan over the box"
    description = {
        "spacing_mm": preprocessing.spacing_mm,
        "mask": "box of {} × {} × {} voxels around the centre".format(*preprocessing.shape),
        "n_voxels": n_voxels,
        "smooth_mm": preprocessing.smooth_mm or None,
        "standardised": standardised,
    }
    return voxels.make(plan, voxels.voxel_products(values), description)


def _choose_preprocessing(
    scans: list[tuple[str, ...]], plan: Plan, record: PreprocessingRecord
) -> Preprocessing:
    """Return the preprocessing of scans for the baseline of voxels: at 4 mm, or as for the encoder.

    `record` is the encoder's preprocessing. Arrays without a header have no voxel size, and are
    read as for the encoder.
    """
    as_encoder = plan.settings.voxels == "input"
    contract = record.content()
    if as_encoder or any(path.lower().endswith(".npy") for files in scans for path in files):
        if not contract:
            subject = "voxels: an array has no voxel size"
            if as_encoder:
                subject = "voxels=input"
            raise DataError(
                f"{subject}: the embeddings do not say how their run preprocessed its scans. "
                "Use voxels=off."
            )
        return Preprocessing.from_contract(contract)
    return Preprocessing(
        spacing_mm=SPACING_MM,
        shape=SHAPE,
        normalise="none" if record.normalise == "none" else "zscore",  # maps of tissue stay
        smooth_mm=record.smooth_mm,
        n_channels=len(scans[0]),
    )


def _read_scan(
    row: int, files: tuple[str, ...], how: Preprocessing
) -> tuple[int, npt.NDArray[np.float32] | str]:
    """Return `row`, and the preprocessed voxels of the scan in `files`, or the text of an error.

    The voxels are one vector, channel by channel. The text of the error names no folder.
    """
    # An evaluation without scans does without torch.
    from neurocontrast.transforms.compose import load_volume

    try:
        return row, load_volume(files if len(files) > 1 else files[0], how).ravel()
    except DataError as error:
        problem = str(error)
        for path in files:
            problem = problem.replace(f"{Path(path).parent}/", "")
        return row, problem
