"""Which voxels of an image are brain: found before resampling, kept after it; and parts of a mask."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.ndimage
from monai.config import KeysCollection

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.transforms.images import (
    EachImage,
    affine_of,
    image_like,
    name_of,
    spacing_of,
    times,
    voxels_of,
)
from neurocontrast.transforms.preprocessing import check_erosion
from neurocontrast.transforms.template import BRAIN_LITRES_MAX

N_BRAIN_VOXELS_MIN = 500  # a scan with fewer is refused by what is computed inside the brain
_HALF_COVERED = 0.499  # of a voxel of a new grid that is brain; a little less, since sums of weights are rounded
_ROUNDING = 1e-6

Mask = npt.NDArray[np.bool_]


class MarkBraind(EachImage):
    """Add a mask of the voxels that are not 0, which is resampled together with the image.

    Where more than 3 litres are not 0, a whole head, a DataError names the image.

    Parameters
    ----------
    keys, allow_missing_keys : see `monai.transforms.MapTransform`
        The item that is a skull-stripped image (C, D, H, W).
    mask_key : str
        Item to add: 1 where any channel of the image is not 0, float32.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import MarkBraind
    >>> image = torch.zeros(1, 4, 4, 4)
    >>> image[0, 1, 2, 3] = 7
    >>> float(MarkBraind("image", mask_key="brain")({"image": image})["brain"].sum())
    1.0
    """

    def __init__(
        self, keys: KeysCollection, *, mask_key: str = "brain", allow_missing_keys: bool = False
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        _check_one(self, mask_key)
        self.mask_key = mask_key

    def change_item(self, item: dict[Hashable, Any], key: Hashable) -> None:
        """Add the mask."""
        affine = affine_of(item[key])
        present = (voxels_of(item[key]) != 0).any(axis=0, keepdims=True)
        litres = np.count_nonzero(present) * float(np.prod(spacing_of(affine))) / 1e6
        if litres > BRAIN_LITRES_MAX:
            raise DataError(
                f"{name_of(item[key])}: {litres:.1f} litres of it are not 0, and a brain has less than "
                f"{BRAIN_LITRES_MAX:g}: this is a whole head, or its background is not 0. What was chosen in "
                "data.normalise or data.erode_mm works inside the brain: strip the skulls first "
                "(neurocontrast prepare, which registers too, SynthStrip or HD-BET), or use zscore "
                "and no erosion."
            )
        item[self.mask_key] = image_like(item[key], present.astype(np.float32), affine)


class KeepBraind(EachImage):
    """Keep the brain, less its edge; all else becomes 0.

    The brain is the largest piece of the mask, its holes filled. After resampling a voxel is brain
    when half of it is, so that the edge does not depend on how far interpolation smears it. An
    image with fewer than 500 voxels left is refused by name.

    Parameters
    ----------
    keys, allow_missing_keys : see `monai.transforms.MapTransform`
        The item that is an image (C, D, H, W).
    mask_key : str
        Item that is its mask (`MarkBraind`), resampled with it; becomes the mask of what is kept,
        of 0 and 1.
    erode_mm : float
        How much of the brain's edge is taken away, from 0 to 30; 0 for none.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import KeepBraind, MarkBraind
    >>> image = torch.zeros(1, 24, 24, 24)
    >>> image[0, 2:22, 2:22, 2:22] = 100
    >>> item = KeepBraind("image", erode_mm=2.0)(MarkBraind("image")({"image": image}))
    >>> int((item["image"] != 0).sum()) == 16**3
    True
    """

    def __init__(
        self,
        keys: KeysCollection,
        *,
        mask_key: str = "brain",
        erode_mm: float = 0.0,
        allow_missing_keys: bool = False,
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        _check_one(self, mask_key)
        if not 0 <= erode_mm <= 30:
            raise ConfigError(f"KeepBraind: erode_mm must be between 0 and 30, got {erode_mm!r}.")
        self.mask_key = mask_key
        self.erode_mm = erode_mm

    def change_item(self, item: dict[Hashable, Any], key: Hashable) -> None:
        """Put the image and the mask of what is kept in their places."""
        voxels = voxels_of(item[key])
        affine = affine_of(item[key])
        name = name_of(item[key])
        inside = brain = fill_largest(voxels_of(item[self.mask_key])[0] >= _HALF_COVERED)
        if self.erode_mm:
            try:
                check_erosion(self.erode_mm, min(spacing_of(affine)))
            except ValueError as error:  # of a scan that keeps its own spacing
                raise DataError(f"{name}: {error}.") from error
            inside = erode(brain, self.erode_mm, spacing_of(affine))
        if np.count_nonzero(inside) < N_BRAIN_VOXELS_MIN:
            lost = (
                f" {np.count_nonzero(brain)} before data.erode_mm: {self.erode_mm:g},"
                if self.erode_mm
                else ""
            )
            raise DataError(
                f"{name}: {np.count_nonzero(inside)} voxels of its brain are in the {times(brain.shape)} box,{lost} "
                f"and at least {N_BRAIN_VOXELS_MIN} are needed. Is it skull-stripped and whole?"
            )
        item[key] = image_like(item[key], np.where(inside, voxels, np.float32(0)), affine)
        item[self.mask_key] = image_like(item[key], inside[np.newaxis].astype(np.uint8), affine)


def _check_one(transform: EachImage, mask_key: str) -> None:
    if len(transform.keys) != 1 or mask_key in transform.keys:
        raise ConfigError(
            f"{type(transform).__name__}: keys must be one image, and mask_key another item; "
            f"got {list(transform.keys)!r} and {mask_key!r}."
        )


def fill_largest(mask: Mask) -> Mask:
    """Return the largest piece of a mask (by faces), its holes filled."""
    filled = np.zeros_like(mask)
    for within in _bounds(mask):
        # A rim of one voxel: what lies around the piece is then one component, and its first.
        piece = np.pad(mask[within], 1)
        labels, n_pieces = scipy.ndimage.label(piece)
        if n_pieces > 1:
            piece = labels == np.bincount(labels.ravel())[1:].argmax() + 1
        around, _ = scipy.ndimage.label(~piece)
        filled[within] = (around != around[0, 0, 0])[1:-1, 1:-1, 1:-1]
    return filled


def erode(mask: Mask, radius_mm: float, spacing_mm: Sequence[float]) -> Mask:
    """Return the voxels of a mask further than `radius_mm` from all voxels outside it; the box has no edge."""
    eroded = mask.copy()
    for within in _bounds(mask):
        # A rim of one voxel where the box goes on beyond the mask: the nearest voxel outside is
        # within it or nearer.
        wide = tuple(slice(max(0, part.start - 1), part.stop + 1) for part in within)
        if not mask[wide].all():
            distance = scipy.ndimage.distance_transform_edt(mask[wide], sampling=spacing_mm)
            eroded[wide] = mask[wide] & (distance > radius_mm * (1 + _ROUNDING))
    return eroded


def _bounds(mask: Mask) -> list[tuple[slice, ...]]:
    """Return the smallest box around a mask, as a list; an empty one where the mask is."""
    return list(scipy.ndimage.find_objects(mask.view(np.uint8)))
