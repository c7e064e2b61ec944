"""Checks of an image that refuse by name what would not fit, or has nothing in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nibabel as nib
import numpy as np
import numpy.typing as npt
from monai.config import KeysCollection

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.images import EachImage, affine_of, in_memory_order, name_of, spacing_of, times, voxels_of
from neurocontrast.transforms.intensity import mean_of

__all__ = ["CheckFieldOfViewd", "CheckVariesd", "nothing_varies"]

_FOREGROUND_LOST_MAX = {"brain": 0.10, "head": 0.20}
_EXTENT_FILLED_MIN = 0.5


class CheckFieldOfViewd(EachImage):
    """Refuse an image whose field of view differs too much from the box it is to fill.

    An image is refused where less than half of the box would be filled along an axis, or where cropping would take
    away more than 10 % of the voxels above the mean of a brain, or 20 % of those of a head, which may lose its neck.
    More than half of the voxels of a skull-stripped brain are 0; any other image counts as a head.

    Parameters
    ----------
    keys, allow_missing_keys : as of `monai.transforms.MapTransform`
        Items that are images (C, D, H, W).
    shape : sequence of 3 int
        Voxels of the box along the axes to the right, to the front and upwards.
    spacing_mm : float or None
        Voxel size of the box; None for the image's own.

    Raises
    ------
    DataError
        When called, naming the image.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import CheckFieldOfViewd
    >>> image = torch.rand(1, 20, 24, 16)
    >>> same = CheckFieldOfViewd("image", shape=(20, 24, 16))({"image": image})["image"] is image
    """

    def __init__(
        self,
        keys: KeysCollection,
        *,
        shape: Sequence[int],
        spacing_mm: float | None = None,
        allow_missing_keys: bool = False,
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        self.shape = tuple(shape)
        self.spacing_mm = spacing_mm

    def made_of(self, image: Any) -> Any:
        """Return the image as it is."""
        affine = affine_of(image)
        # Box and axes are compared along the axes of the patient.
        axes = np.argsort(nib.io_orientation(affine)[:, 0])
        own = np.array(spacing_of(affine))[axes]
        box = np.array(self.shape) * (own if self.spacing_mm is None else self.spacing_mm)
        for channel in voxels_of(image):
            self._check_channel(channel.transpose(axes), own, box, name_of(image))
        return image

    def _check_channel(
        self, voxels: npt.NDArray[Any], own_mm: npt.NDArray[Any], box_mm: npt.NDArray[Any], name: str
    ) -> None:
        extent = np.array(voxels.shape) * own_mm
        what = (
            f"{name}: the scan covers {times(extent.round())} mm and the box of {times(self.shape)} voxels "
            f"{times(box_mm.round())} mm; "
        )
        advice = "Change data.shape or data.spacing_mm, or leave the scan out."
        if (extent < _EXTENT_FILLED_MIN * box_mm).any():
            raise DataError(
                f"{what}along an axis less than {_EXTENT_FILLED_MIN:.0%} of the box would be filled. {advice}"
            )
        if (extent <= box_mm).all():
            return
        stored, axes, _ = in_memory_order(voxels)
        inside = []
        for axis in axes:
            away = np.abs(np.arange(voxels.shape[axis]) - (voxels.shape[axis] - 1) / 2) * own_mm[axis]
            kept = np.flatnonzero(away <= box_mm[axis] / 2)
            inside.append(slice(kept[0], kept[-1] + 1))
        foreground = stored > mean_of(stored)
        if not foreground.any():  # nothing varies
            return
        lost = 1 - np.count_nonzero(foreground[tuple(inside)]) / np.count_nonzero(foreground)
        kind = "brain" if np.count_nonzero(stored) < 0.5 * stored.size else "head"
        if lost > _FOREGROUND_LOST_MAX[kind]:
            raise DataError(
                f"{what}{lost:.0%} of the voxels above its mean would be cropped away, at most "
                f"{_FOREGROUND_LOST_MAX[kind]:.0%} of a {kind} may. {advice}"
            )


class CheckVariesd(EachImage):
    """Refuse an image in which nothing varies, which `monai.transforms.NormalizeIntensityd` would turn into zeros.

    Parameters
    ----------
    keys, allow_missing_keys : as of `monai.transforms.MapTransform`
        Items that are images (C, D, H, W).

    Raises
    ------
    DataError
        When called, naming the image.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import CheckVariesd
    >>> image = torch.rand(1, 20, 24, 16)
    >>> same = CheckVariesd("image")({"image": image})["image"] is image
    """

    def made_of(self, image: Any) -> Any:
        """Return the image as it is."""
        voxels = voxels_of(image)
        if voxels.min() == voxels.max():
            raise nothing_varies(image)
        return image


def nothing_varies(image: Any) -> DataError:
    """Return the error that refuses an image in which nothing varies."""
    shape = times(voxels_of(image).shape[1:])
    return DataError(f"{name_of(image)}: nothing varies in the {shape} box around the scan's centre.")
