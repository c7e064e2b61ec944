"""Checks of an image that refuse by name what would not fit, or has nothing in it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import nibabel as nib
import numpy as np
import numpy.typing as npt
from monai.config import KeysCollection
from monai.transforms import MapTransform

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.images import affine_of, name_of, spacing_of, times, voxels_of
from neurocontrast.transforms.intensity import mean_of
from neurocontrast.transforms.reading import in_memory_order

__all__ = [
    "EXTENT_FILLED_MIN",
    "FOREGROUND_LOST_MAX",
    "CheckFieldOfViewd",
    "CheckVariesd",
    "nothing_varies",
]

FOREGROUND_LOST_MAX = {"brain": 0.10, "head": 0.20}
"""A scan is refused when cropping takes away more than this part of its voxels above its mean.

More than half of the voxels of a skull-stripped brain are 0; any other scan counts as a head,
which may lose its neck.
"""

EXTENT_FILLED_MIN = 0.5
"""A scan is refused when it covers less than this part of the box along an axis: the rest would be padding."""


class CheckFieldOfViewd(MapTransform):
    """Refuse an image whose field of view differs too much from the box it is to fill.

    Parameters
    ----------
    keys : str or sequence of str
        Items that are images (C, D, H, W).
    shape : sequence of 3 int
        Voxels of the box along the axes to the right, to the front and upwards.
    spacing_mm : float or None
        Voxel size of the box; None for the image's own.
    allow_missing_keys : bool
        Whether an item may lack a key.

    Raises
    ------
    DataError
        When called, naming the image, where less than half of the box would be filled along an axis, or where cropping
        would take more than 10 % of a brain, or 20 % of a head.

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

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the item as it is."""
        item = dict(data)
        for key in self.key_iterator(item):
            affine = affine_of(item[key])
            # Box and axes are compared along the axes of the patient.
            axes = np.argsort(nib.io_orientation(affine)[:, 0])
            own = np.array(spacing_of(affine))[axes]
            spacing = own if self.spacing_mm is None else np.full(3, self.spacing_mm)
            for channel in voxels_of(item[key]):
                _check_fit(channel.transpose(axes), own, self.shape, spacing, name_of(item[key]))
        return item


class CheckVariesd(MapTransform):
    """Refuse an image in which nothing varies, which `monai.transforms.NormalizeIntensityd` would turn into zeros.

    Parameters
    ----------
    keys : str or sequence of str
        Items that are images (C, D, H, W).
    allow_missing_keys : bool
        Whether an item may lack a key.

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

    def __init__(self, keys: KeysCollection, *, allow_missing_keys: bool = False) -> None:
        super().__init__(keys, allow_missing_keys)

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the item as it is."""
        item = dict(data)
        for key in self.key_iterator(item):
            voxels = voxels_of(item[key])
            if voxels.min() == voxels.max():
                raise nothing_varies(item[key])
        return item


def nothing_varies(image: Any) -> DataError:
    """Return the error that refuses an image in which nothing varies."""
    shape = times(voxels_of(image).shape[1:])
    return DataError(f"{name_of(image)}: nothing varies in the {shape} box around the scan's centre.")


def _check_fit(
    voxels: npt.NDArray[np.float32],
    own_mm: npt.NDArray[np.float64],
    shape: tuple[int, ...],
    spacing_mm: npt.NDArray[np.float64],
    name: str,
) -> None:
    extent = np.array(voxels.shape) * own_mm
    box = np.array(shape) * spacing_mm
    what = f"the scan covers {times(extent.round())} mm and the box of {times(shape)} voxels {times(box.round())} mm"
    if (extent < EXTENT_FILLED_MIN * box).any():
        raise DataError(
            f"{name}: {what}; along an axis less than {EXTENT_FILLED_MIN:.0%} of the box would be filled. "
            "Change data.shape or data.spacing_mm, or leave the scan out."
        )
    if (extent <= box).all():
        return
    stored, axes, _ = in_memory_order(voxels)
    inside = []
    for axis in axes:
        away = np.abs(np.arange(voxels.shape[axis]) - (voxels.shape[axis] - 1) / 2) * own_mm[axis]
        kept = np.flatnonzero(away <= box[axis] / 2)
        inside.append(slice(kept[0], kept[-1] + 1))
    foreground = stored > mean_of(stored)
    if not foreground.any():  # nothing varies
        return
    lost = 1 - np.count_nonzero(foreground[tuple(inside)]) / np.count_nonzero(foreground)
    if lost <= min(FOREGROUND_LOST_MAX.values()):
        return
    kind = "brain" if np.count_nonzero(stored) < 0.5 * stored.size else "head"
    if lost > FOREGROUND_LOST_MAX[kind]:
        raise DataError(
            f"{name}: {what}; {lost:.0%} of the voxels above its mean would be cropped away, at most "
            f"{FOREGROUND_LOST_MAX[kind]:.0%} of a {kind} may. "
            "Change data.shape or data.spacing_mm, or leave the scan out."
        )
