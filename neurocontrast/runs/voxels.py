"""The baseline of voxels: the scans of a plan, read by the package's own preprocessing."""

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
"""Voxel size at which scans are compared, unless they are taken as their encoder is given them."""
SHAPE = (48, 57, 48)
"""The box around the centre of each scan, in voxels: 192 × 228 × 192 mm, into which every usual template fits."""
MAX_BYTES = 4 * 1024**3
"""With more than this in memory, voxels (float32) and products of scans (float64), there is no such baseline."""


def with_voxels(plan: Plan, progress: Progress) -> Plan:
    """Return the plan with a model of its scans' voxels, if at hand and not switched off.

    Scans that are asked for (``voxels=on`` or ``input``, or `scans`) and cannot be read are a
    `DataError`, else a warning.
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
                "voxels: this baseline is for scans of brains in cross-validation. Leave voxels out."
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
    """Return the plan with models of its voxels: linear, of a kernel, the embedding beside."""
    outcome = keep_fitting(plan, model)
    second = make_second(plan, model)
    together = make_beside(plan, model)
    return plan.with_outcome(outcome).with_outcome(second).with_outcome(together)


def _find_scans(plan: Plan, channels: tuple[str, ...], *, asked: bool) -> list[tuple[str, ...]]:
    """Return the files of each scan.

    An empty list where the table's scans are absent and were not asked for.
    """
    table = plan.table
    if plan.settings.scans is not None:
        listed = read_cohort(plan.settings.scans, channels=channels)
        keys = zip(listed.table["participant_id"], listed.table["session"], strict=True)
        files_by_key = dict(zip(keys, map(files_of, listed.scans), strict=True))
        scans = [
            files_by_key.get(key, ())
            for key in zip(table["participant_id"], table["session"], strict=True)
        ]
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
        raise DataError(
            f"voxels: {len(absent)} of {len(scans)} scans are not {where} ({', '.join(row_names(table, absent[:5]))}). "
            + remedy
        )
    return scans


def _is_there(path: Any) -> bool:
    return isinstance(path, str) and Path(path).is_absolute() and Path(path).is_file()


def _read(
    scans: list[tuple[str, ...]],
    plan: Plan,
    preprocessing: PreprocessingRecord,
    progress: Progress,
) -> ProbeModel:
    """Read scans at 4 mm, or as their encoder is given them, which arrays without a header need.

    Return the model.
    """
    contract = preprocessing.content()
    as_encoder = plan.settings.voxels == "input"
    if as_encoder or any(path.lower().endswith(".npy") for files in scans for path in files):
        if not contract:
            what = "voxels=input" if as_encoder else "voxels: an array has no voxel size"
            raise DataError(
                f"{what}: the embeddings do not say how their run preprocessed its scans. Use voxels=off."
            )
        how = Preprocessing.from_contract(contract)
    else:
        how = Preprocessing(
            spacing_mm=SPACING_MM,
            shape=SHAPE,
            normalise="none"
            if preprocessing.normalise == "none"
            else "zscore",  # maps of tissue stay as they are
            smooth_mm=preprocessing.smooth_mm,
            n_channels=len(scans[0]),
        )
    n_voxels = int(np.prod(how.image_shape))
    n_bytes = 4 * n_voxels * len(scans) + 8 * len(scans) ** 2
    if n_bytes > MAX_BYTES:
        raise DataError(
            f"voxels: {len(scans)} scans of {n_voxels} voxels take {n_bytes / 1024**3:.1f} GiB of memory, more than "
            f"{MAX_BYTES / 1024**3:g}. Evaluate fewer scans (where), or set voxels=off."
        )
    values = np.empty((len(scans), n_voxels), dtype=np.float32)
    unreadable: dict[int, str] = {}
    tasks = [(row, files, how) for row, files in enumerate(scans)]
    with progress.task("Reading voxels", len(scans), "scans") as task:
        for row, found in map_files(
            _read_scan, tasks, n_workers=plan.settings.n_jobs, option="evaluation.n_jobs"
        ):
            if isinstance(found, str):
                unreadable[row] = found
            else:
                values[row] = found
            task.advance()
    problems = Problems("voxels: scans cannot be used")
    for name, row in zip(
        row_names(plan.table, sorted(unreadable)), sorted(unreadable), strict=True
    ):
        problems.add(unreadable[row], name=name)
    problems.raise_if_any()
    about = {
        "spacing_mm": how.spacing_mm,
        "mask": "box of {} × {} × {} voxels around the centre".format(*how.shape),
        "n_voxels": n_voxels,
        "smooth_mm": how.smooth_mm or None,
        "standardised": {"none": None, "zscore": "each scan over the box"}.get(
            how.normalise, how.normalise
        ),
    }
    return voxels.make(plan, voxels.voxel_products(values), about)


def _read_scan(
    row: int, files: tuple[str, ...], how: Preprocessing
) -> tuple[int, npt.NDArray[np.float32] | str]:
    """Return the voxels of a scan, channel by channel.

    Or why there are none, without naming folders.
    """
    from neurocontrast.transforms.compose import (
        load_volume,
    )  # needs torch, which an evaluation without scans does not

    try:
        return row, load_volume(files if len(files) > 1 else files[0], how).ravel()
    except DataError as error:
        text = str(error)
        for path in files:
            text = text.replace(f"{Path(path).parent}/", "")
        return row, text
