"""The baseline of voxels: the scans of a study, read on one coarse grid or as their encoder is given them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import nibabel as nib
import numpy as np
import numpy.typing as npt

from neurocontrast.data.cohort import columns_of, read_cohort
from neurocontrast.data.privacy import IMAGE_DAMAGE
from neurocontrast.data.problems import shown
from neurocontrast.evaluation import Study
from neurocontrast.evaluation.models import Model, voxels
from neurocontrast.evaluation.rows import row_names
from neurocontrast.evaluation.schema import Notice
from neurocontrast.exceptions import DataError
from neurocontrast.files import files_of
from neurocontrast.lazy import load
from neurocontrast.parallel.workers import map_files
from neurocontrast.progress import Progress
from neurocontrast.reading import check_place, problem_of_place, read_array

__all__ = ["with_voxels"]

SPACING_MM = 4
"""Voxel size of the grid on which scans are compared."""
BOX_MM = (192.0, 228.0, 192.0)
"""Around the centre of scans that are not in MNI space; every usual template fits."""
MAX_BYTES = 4 * 1024**3
"""With more than this in memory, voxels (float32) and products of scans (float64), there is no such baseline."""
MAX_VOXELS = 2**29
"""Largest scan that is read."""
_MNI = 4
"""The code by which a NIfTI header says that its coordinates are those of the MNI152 template."""


def with_voxels(study: Study, info: Mapping[str, Any], progress: Progress) -> Study:
    """Return the study with the voxels of its scans, where these are at hand and not switched off.

    Scans that are asked for (``voxels=on``, or `scans`) and cannot be read are a `DataError`, else a warning.
    """
    settings = study.settings
    asked = settings.voxels in ("on", "input") or settings.scans is not None
    preprocessing = (info.get("run") or {}).get("preprocessing") or {}
    trained_on = preprocessing.get("kind", "volumes")
    if settings.voxels == "off" or (not asked and (study.fixed or trained_on != "volumes")):
        return study
    try:
        if study.fixed or trained_on != "volumes":
            raise DataError("voxels: this baseline is for scans of brains in cross-validation. Leave voxels out.")
        scans = _find_scans(study, columns_of((info.get("run") or {}).get("channels")), asked=asked)
        if not scans:
            return study
        if settings.voxels == "input":
            return study.with_model(_read_input(scans, study, info.get("run") or {}, progress))
        return study.with_model(_read(scans, study, _how(scans, preprocessing), progress))
    except DataError as error:
        if asked:
            raise
        explanation = "Whether a linear model of the scans themselves does as well was not asked."
        notice = Notice("voxels_left_out", f"There is no baseline of voxels. {error}", explanation)
        return replace(study, notices=[*study.notices, notice])


def _read_input(scans: list[tuple[str, ...]], study: Study, run: Mapping[str, Any], progress: Progress) -> Model:
    if "preprocessing" not in run:
        raise DataError("voxels=input: the embeddings do not say how their run preprocessed its scans. Use voxels=on.")
    # By its path: what preprocesses scans needs torch, and every other evaluation does without.
    read = load("neurocontrast.stages.encoder_input:read_encoder_input")
    values, about = read(scans, run, max_bytes=MAX_BYTES, n_workers=study.settings.n_jobs, progress=progress)
    return voxels.make(study, voxels.voxel_products(values), about)


class _How(NamedTuple):
    """How scans are read: the mask, and what follows from the preprocessing of the encoder."""

    in_mni: bool
    spacing_mm: tuple[float, ...] | None  # of .npy arrays, which the run took as they are
    smooth_mm: float | None
    standardised: bool  # maps of tissue, which the run takes as they are, are so here

    def masker(self) -> Any:
        return _masker(self.in_mni, self.smooth_mm)


def _how(scans: list[tuple[str, ...]], preprocessing: Mapping[str, Any]) -> _How:
    in_mni = all(_read_header(path) == _MNI for files in scans for path in files)
    spacing = preprocessing.get("spacing_mm")
    spacing = None if spacing is None else tuple(np.broadcast_to(np.asarray(spacing, dtype=float), 3).tolist())
    return _How(in_mni, spacing, preprocessing.get("smooth_mm"), preprocessing.get("normalise") != "none")


def _find_scans(study: Study, channels: tuple[str, ...], *, asked: bool) -> list[tuple[str, ...]]:
    """Return the files of each scan; an empty list where the table's scans are absent and were not asked for."""
    table = study.table
    if study.settings.scans is not None:
        listed = read_cohort(study.settings.scans, channels=channels)
        keys = zip(listed.table["participant_id"], listed.table["session"], strict=True)
        files_by_key = dict(zip(keys, map(files_of, listed.scans), strict=True))
        scans = [files_by_key.get(key, ()) for key in zip(table["participant_id"], table["session"], strict=True)]
        where, remedy = f"in scans '{Path(study.settings.scans).name}'", "Add them, or leave them out with where."
    else:
        # A relative path would be taken from wherever the command happens to run.
        columns = [table[column] if column in table else [""] * len(table) for column in channels]
        scans = [files if all(map(_is_there, files)) else () for files in zip(*columns, strict=True)]
        where, remedy = "where the embeddings table says", "Name a table of the same scans (--scans)."
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


def _read(scans: list[tuple[str, ...]], study: Study, how: _How, progress: Progress) -> Model:
    n_voxels = len(scans[0]) * int(np.asarray(how.masker().mask_img_.dataobj).astype(bool).sum())
    n_bytes = 4 * n_voxels * len(scans) + 8 * len(scans) ** 2
    if n_bytes > MAX_BYTES:
        raise DataError(
            f"voxels: {len(scans)} scans of {n_voxels} voxels at {SPACING_MM:g} mm take {n_bytes / 1024**3:.1f} GiB of "
            f"memory, more than {MAX_BYTES / 1024**3:g}. Evaluate fewer scans (where), or set voxels=off."
        )
    values = np.empty((len(scans), n_voxels), dtype=np.float32)
    problems: dict[int, str] = {}
    tasks = [(row, files, how) for row, files in enumerate(scans)]
    with progress.task("Reading voxels", len(scans), "scans") as task:
        for row, found in map_files(_read_row, tasks, n_workers=study.settings.n_jobs, option="evaluation.n_jobs"):
            if isinstance(found, str):
                problems[row] = found
            else:
                values[row] = found
            task.advance()
    if problems:
        names = row_names(study.table, sorted(problems))
        listed = [f"{name}: {problems[row]}" for name, row in zip(names, sorted(problems), strict=True)]
        more = f"\n  … and {len(listed) - 20} more" if len(listed) > 20 else ""
        raise DataError(f"voxels: {len(listed)} scans cannot be used:\n  " + "\n  ".join(listed[:20]) + more)
    about = {
        "spacing_mm": SPACING_MM,
        "mask": "MNI152 brain" if how.in_mni else "box of {:g} × {:g} × {:g} mm around the centre".format(*BOX_MM),
        "n_voxels": n_voxels,
        "smooth_mm": how.smooth_mm,
        "standardised": "each scan over its voxels" if how.standardised else None,
    }
    return voxels.make(study, voxels.voxel_products(values), about)


def _read_header(path: str) -> int:
    """Return the code of a scan's space; 0 for one that says none, or is reported when its voxels cannot be read."""
    if problem_of_place(path) or path.lower().endswith(".npy"):
        return 0
    try:
        header = nib.load(path).header
        return int(header["sform_code"] or header["qform_code"]) if "sform_code" in header else 0
    except IMAGE_DAMAGE:
        return 0


def _read_row(row: int, files: tuple[str, ...], how: _How) -> tuple[int, npt.NDArray[np.float32] | str]:
    """Return a scan's voxels in the mask, channel by channel; or why there are none, without naming folders."""
    channels = []
    for path in files:
        try:
            values = _voxels_of(path, how)
        except DataError as error:
            return row, str(error)
        except IMAGE_DAMAGE as error:
            return row, f"not readable ({shown(str(error).replace(str(Path(path).parent), ''), 120)})"
        spread = float(values.std())
        if not np.isfinite(spread) or spread == 0:
            return row, "the voxels on the grid are all alike, or not all finite"
        channels.append((values - values.mean()) / spread if how.standardised else values)
    return row, np.concatenate(channels)


def _voxels_of(path: str, how: _How) -> npt.NDArray[np.float32]:
    from nilearn.image import resample_img

    data, affine = _load(path, how.spacing_mm)
    if not how.in_mni:
        affine[:3, 3] = -affine[:3, :3] @ ((np.array(data.shape) - 1) / 2)  # as the encoder's own preprocessing centres
    coarse, affine = _averaged(data, affine)
    masker = how.masker()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a scan is resampled is what is wanted
        grid = resample_img(
            nib.Nifti1Image(coarse, affine),
            target_affine=masker.mask_img_.affine,
            target_shape=masker.mask_img_.shape,
            interpolation="linear",
            copy_header=True,
            force_resample=True,
        )
        return np.asarray(masker.transform(grid), dtype=np.float32).ravel()


def _load(path: str, spacing: tuple[float, ...] | None) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    if path.lower().endswith(".npy"):
        if spacing is None:
            raise DataError("an array has no voxel size, and the embeddings do not say that of their run")
        data, affine = read_array(path), np.diag([*spacing, 1.0])
    else:
        check_place(path)
        image = nib.load(path)
        if (n_voxels := math.prod(map(int, image.shape))) > MAX_VOXELS:
            raise DataError(f"its header announces {n_voxels:,} voxels; at most {MAX_VOXELS:,} are read")
        data, affine = np.asarray(image.dataobj), np.array(image.affine, dtype=float)
    volume = np.squeeze(data)
    if volume.ndim != 3:
        raise DataError(f"the image is {volume.ndim}D; give one 3D volume")
    return volume.astype(np.float32), affine


def _averaged(
    data: npt.NDArray[np.float32], affine: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """Return means over blocks of voxels that fit into one voxel of the grid, against aliasing."""
    factors = np.maximum(1, np.floor(SPACING_MM / nib.affines.voxel_sizes(affine) + 1e-6).astype(int))
    if (factors == 1).all():
        return data, affine
    sizes = [length // factor for length, factor in zip(data.shape, factors, strict=True)]
    kept = data[tuple(slice(size * factor) for size, factor in zip(sizes, factors, strict=True))]
    blocks = kept.reshape(sizes[0], factors[0], sizes[1], factors[1], sizes[2], factors[2])
    scaled = affine @ np.diag([*factors.astype(float), 1.0])
    scaled[:3, 3] = nib.affines.apply_affine(affine, (factors - 1) / 2)
    return blocks.mean(axis=(1, 3, 5)), scaled


@cache
def _masker(in_mni: bool, smooth_mm: float | None) -> Any:
    """Return nilearn's masker of the template's brain, or of a whole box; neither depends on the scans."""
    from nilearn.datasets import load_mni152_brain_mask
    from nilearn.maskers import NiftiMasker

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if in_mni:
            mask = load_mni152_brain_mask(resolution=SPACING_MM)
        else:
            shape = np.array(BOX_MM) / SPACING_MM
            affine = np.diag([SPACING_MM] * 3 + [1.0])
            affine[:3, 3] = -SPACING_MM * (shape - 1) / 2
            mask = nib.Nifti1Image(np.ones(shape.astype(int), dtype=np.uint8), affine)
        return NiftiMasker(mask_img=mask, smoothing_fwhm=smooth_mm, standardize=None, dtype="float32").fit()
