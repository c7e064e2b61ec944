"""Brain extraction without a network: a head is registered to a template of a head, whose brain is known."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt

from neurocontrast.exceptions import DataError
from neurocontrast.prepare.registration import align, resample_to_grid, to_itk

__all__ = ["extract_brain_by_template"]

SHELLS_MM = ((3.0, 0.3), (9.0, 0.15), (15.0, 0.9))
"""What is around the template's brain: up to so many millimetres away, so bright beside its median."""
MARGINS_MM = (24.0, 12.0, 4.0)
"""How much around the brain counts, from coarse to fine: scalps and what is left of faces differ, brains less."""
WORST_METRIC = -0.3
"""Heads that are found reach -0.43 to -0.58, one that was missed -0.24, noise -0.02."""
CROWN_TO_CENTRE_MM = 75.0
HEAD_MM = 150.0
"""Height of a head; what is lower is neck."""

Affine = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def extract_brain_by_template(voxels: npt.NDArray[np.float32], affine: Affine) -> Mask:
    """Return the mask of the brain of a T1-weighted head in RAS order: the template's, brought to the head.

    The template is nilearn's MNI152 brain in three shells that look as fluid, skull and scalp do.
    """
    head, brain, grid = _head()
    moving = to_itk(np.nan_to_num(voxels).astype(np.float32), affine)
    found = align(to_itk(head, grid), to_itk(brain, grid), moving, _centre(voxels, affine), MARGINS_MM)
    if found.metric > WORST_METRIC:
        raise DataError(
            f"no brain was found by the template (mutual information {-found.metric:.2f}, below {-WORST_METRIC:.2f}); "
            "is this a T1-weighted head, in the right orientation? deepbet, or a mask in mask_path, may help."
        )
    mask: Mask = resample_to_grid(brain, grid, found.inverted(), affine, voxels.shape) > 0.5
    return mask


def _centre(voxels: npt.NDArray[np.float32], affine: Affine) -> npt.NDArray[np.float64]:
    """Return about where the brain's centre is: below the crown, amid what is bright above the neck."""
    bright = voxels > np.median(voxels[voxels > 0]) if (voxels > 0).any() else voxels > 0
    if not bright.any():
        raise DataError("no brain was found: the image has no positive voxels of different intensity.")
    points = np.argwhere(bright) @ affine[:3, :3].T + affine[:3, 3]
    crown = np.quantile(points[:, 2], 0.999)
    above = points[points[:, 2] > crown - HEAD_MM]
    x, y, _ = (np.quantile(above, 0.02, axis=0) + np.quantile(above, 0.98, axis=0)) / 2
    return np.array([x, y, crown - CROWN_TO_CENTRE_MM])


@cache
def _head() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8], Affine]:
    """Return the template of a head at 2 mm, its brain, and the affine of both."""
    from nilearn.datasets import load_mni152_brain_mask, load_mni152_template

    image, n_around = load_mni152_template(resolution=2), 12
    brain = np.pad(load_mni152_brain_mask(resolution=2).get_fdata() > 0, n_around)
    head = np.where(brain, np.pad(image.get_fdata(dtype=np.float32), n_around), 0)
    grid = image.affine.copy()
    grid[:3, 3] -= grid[:3, :3] @ np.full(3, n_around)
    away, median, low = 2 * distance_transform_edt(~brain), np.median(head[brain]), 0.0
    for high, brightness in SHELLS_MM:
        head[(away > low) & (away <= high)] = brightness * median
        low = high
    return head.astype(np.float32), brain.astype(np.uint8), grid
