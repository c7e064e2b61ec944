"""Transforms that compute brain masks of skull-stripped scans, and remove all voxels outside."""

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

N_BRAIN_VOXELS_MIN = 500
"""Smallest number of brain voxels of a usable scan; a scan with fewer is refused."""
_HALF_COVERED = 0.499
"""Share of a resampled voxel that must lie in the brain mask: one half, less rounding errors."""
_ROUNDING = 1e-6

Mask = npt.NDArray[np.bool_]


class MarkBraind(EachImage):
    """Add a brain mask of a skull-stripped image: the voxels that are not 0.

    The mask is then resampled together with the image. If more than 3 litres are not 0, the image
    shows a whole head, and a DataError names the image.

    Parameters
    ----------
    keys, allow_missing_keys : see `monai.transforms.MapTransform`
        Key of a skull-stripped image (C, D, H, W).
    mask_key : str
        Key of the added mask (1, D, H, W): 1 where any channel of the image is not 0, float32.

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
        """Add to dictionary `item` the brain mask of the image under `key`.

        The mask's own key is the transform's parameter `mask_key`. A DataError refuses an image
        that shows a whole head.
        """
        affine = affine_of(item[key])
        present = (voxels_of(item[key]) != 0).any(axis=0, keepdims=True)
        litres = np.count_nonzero(present) * float(np.prod(spacing_of(affine))) / 1e6
        if litres > BRAIN_LITRES_MAX:
            raise DataError(
                f"{name_of(item[key])}: {litres:.1f} litres of it are not 0, and a brain has less "
                f"than {BRAIN_LITRES_MAX:g}: this is a whole head, or its background is not 0. "
                "What was chosen in data.normalise or data.erode_mm works inside the brain: strip "
                "the skulls first (neurocontrast prepare, which registers too, SynthStrip or "
                "HD-BET), or use zscore and no erosion."
            )
        item[self.mask_key] = image_like(item[key], present.astype(np.float32), affine)


class KeepBraind(EachImage):
    """Set all voxels outside the brain to 0, and optionally the voxels of the brain's edge too.

    The brain is the largest connected component of the mask, with holes filled. After resampling, a
    voxel counts as brain if at least half of the voxel lies in the mask, so that interpolation does
    not widen the brain. A DataError names an image with fewer than 500 remaining voxels.

    Parameters
    ----------
    keys, allow_missing_keys : see `monai.transforms.MapTransform`
        Key of an image (C, D, H, W).
    mask_key : str
        Key of the image's mask (`MarkBraind`), resampled with the image; becomes the mask of the
        kept voxels, of 0 and 1.
    erode_mm : float
        Width of the brain's edge that is taken away, in mm from 0 to 30; 0 for none.

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
        """Set voxels outside the brain to 0 in the image under `key`, and renew its mask in `item`.

        The mask, whose key is the transform's parameter `mask_key`, becomes the mask of the kept
        voxels, of 0 and 1.
        """
        voxels = voxels_of(item[key])
        affine = affine_of(item[key])
        name = name_of(item[key])
        brain = fill_largest(voxels_of(item[self.mask_key])[0] >= _HALF_COVERED)
        inside = brain
        if self.erode_mm:
            try:
                check_erosion(self.erode_mm, min(spacing_of(affine)))
            except ValueError as error:  # of a scan that keeps its own spacing
                raise DataError(f"{name}: {error}.") from error
            inside = erode(brain, self.erode_mm, spacing_of(affine))
        n_inside = np.count_nonzero(inside)
        if n_inside < N_BRAIN_VOXELS_MIN:
            lost = ""
            if self.erode_mm:
                lost = f" {np.count_nonzero(brain)} before data.erode_mm: {self.erode_mm:g},"
            raise DataError(
                f"{name}: {n_inside} voxels of its brain are in the {times(brain.shape)} box,"
                f"{lost} and at least {N_BRAIN_VOXELS_MIN} are needed. Is it skull-stripped and "
                "whole?"
            )
        item[key] = image_like(item[key], np.where(inside, voxels, np.float32(0)), affine)
        item[self.mask_key] = image_like(item[key], inside[np.newaxis].astype(np.uint8), affine)


def _check_one(transform: EachImage, mask_key: str) -> None:
    """Raise a ConfigError if `transform` has several image keys, or `mask_key` is one of them."""
    if len(transform.keys) != 1 or mask_key in transform.keys:
        raise ConfigError(
            f"{type(transform).__name__}: keys must be one image, and mask_key another item; "
            f"got {list(transform.keys)!r} and {mask_key!r}."
        )


def fill_largest(mask: Mask) -> Mask:
    """Return a mask of the largest face-connected component of `mask`, with holes filled."""
    filled = np.zeros_like(mask)
    for within in _bounds(mask):
        # A rim of one voxel: the surroundings of the piece are then one component, the first one.
        piece = np.pad(mask[within], 1)
        labels, n_pieces = scipy.ndimage.label(piece)
        if n_pieces > 1:
            piece = labels == np.bincount(labels.ravel())[1:].argmax() + 1
        around, _ = scipy.ndimage.label(~piece)
        filled[within] = (around != around[0, 0, 0])[1:-1, 1:-1, 1:-1]
    return filled


def erode(mask: Mask, radius_mm: float, spacing_mm: Sequence[float]) -> Mask:
    """Return the voxels of a mask further than `radius_mm` from every voxel outside the mask.

    Beyond the border of the array, the mask is taken to go on.
    """
    eroded = mask.copy()
    for within in _bounds(mask):
        # A rim of one voxel where the box goes on beyond the mask: the nearest voxel outside is
        # in the rim or nearer.
        wide = tuple(slice(max(0, along.start - 1), along.stop + 1) for along in within)
        if not mask[wide].all():
            distance = scipy.ndimage.distance_transform_edt(mask[wide], sampling=spacing_mm)
            eroded[wide] = mask[wide] & (distance > radius_mm * (1 + _ROUNDING))
    return eroded


def _bounds(mask: Mask) -> list[tuple[slice, ...]]:
    """Return the smallest box that contains a mask, as slices along all axes, in a list.

    The list is empty for an empty mask.
    """
    return list(scipy.ndimage.find_objects(mask.view(np.uint8)))
