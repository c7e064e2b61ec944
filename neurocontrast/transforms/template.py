"""Compare an image with the brain of MNI152, to find scans with skull and unregistered brains."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from neurocontrast.transforms.images import corner_median
from neurocontrast.transforms.preprocessing import mni_grid

_GRID_MM = 4.0
_FAINT = 0.05
"""Largest difference from the background that counts as noise, as a share of the difference of
bright voxels from the background."""
_BRIGHT_PERCENTILE = 99.5
BRAIN_LITRES_MIN = 0.7
BRAIN_LITRES_MAX = 3.0
"""Largest volume of a skull-stripped brain, in litres; a brain in MNI space has up to 2.7."""
OVERLAP_MIN = 0.8
"""Smallest Dice coefficient with the template's brain of a registered scan, as in `neurocontrast
qc`."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Extent:
    """Volume of an image's foreground, in litres, and its overlap with the MNI152 brain.

    The overlap is a Dice coefficient. `extent_of` makes an instance.
    """

    litres: float
    overlap: float

    @property
    def is_head(self) -> bool:
        """Whether the image's foreground is larger than any brain, as in a scan with skull."""
        return self.litres > BRAIN_LITRES_MAX

    @property
    def is_unregistered(self) -> bool:
        """Whether the foreground is as large as a brain, but overlaps the template too little."""
        is_brain = BRAIN_LITRES_MIN <= self.litres <= BRAIN_LITRES_MAX
        return is_brain and self.overlap < OVERLAP_MIN


def extent_of(voxels: npt.NDArray[np.floating], affine: npt.NDArray[np.floating]) -> Extent:
    """Measure a volume's foreground in litres, and its overlap with the MNI152 template's brain.

    Returned is an `Extent`; the overlap is a Dice coefficient, from 0 to 1. `voxels` have the shape
    (D, H, W), and `affine` must lead to millimetres of MNI152 space.
    """
    foreground = _foreground_of(voxels)
    litres = np.count_nonzero(foreground) * abs(np.linalg.det(affine[:3, :3])) / 1e6
    content = _on_grid(foreground, affine)
    brain = _template_brain()
    n_shared = np.count_nonzero(content & brain)
    n_both = np.count_nonzero(content) + np.count_nonzero(brain)
    return Extent(float(litres), float(2 * n_shared / n_both))


def _foreground_of(voxels: npt.NDArray[np.floating]) -> Mask:
    """Return a mask of the voxels of a volume that clearly differ from the volume's corners."""
    distance = np.abs(voxels - corner_median(voxels))
    foreground: Mask = distance > 0
    if foreground.any():
        bright = np.percentile(distance[foreground], _BRIGHT_PERCENTILE)
        foreground = distance > _FAINT * bright
    return foreground


@cache
def _template_brain() -> Mask:
    """Return the brain mask of the MNI152 template on a grid of 4 mm."""
    from nilearn.datasets import load_mni152_brain_mask

    image = load_mni152_brain_mask(resolution=2)
    return _on_grid(image.get_fdata() > 0, image.affine)


def _on_grid(mask: Mask, affine: npt.NDArray[np.floating]) -> Mask:
    """Return `mask` on the MNI152 grid of 4 mm, by the nearest voxel; False beyond the array.

    The array is the given mask's. `affine` leads from voxels of the mask to millimetres.
    """
    grid, shape = mni_grid(_GRID_MM)
    to_voxels = np.linalg.inv(affine) @ grid
    indices = np.indices(shape).reshape(3, -1)
    places = np.rint(to_voxels[:3, :3] @ indices + to_voxels[:3, 3:]).astype(int)
    is_within = ((places >= 0) & (mask.shape > places.T).T).all(axis=0)
    content = np.zeros(indices.shape[1], dtype=bool)
    content[is_within] = mask[tuple(places[:, is_within])]
    return content.reshape(shape)
