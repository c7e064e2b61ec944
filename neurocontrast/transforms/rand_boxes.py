"""Boxes of a volume: one that is set to a constant, and one that is resized to the whole volume.

MONAI's `RandCoarseDropoutd` and `RandSpatialCropd` take sizes in voxels, or draw them for each axis apart; here a box
is a share of the volume, the same along every axis. MONAI's `RandZoomd` only zooms about the middle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.nn import functional

from neurocontrast.transforms.rand_volume import RandVolumeTransform
from neurocontrast.transforms.settings import CropSettings, CutoutSettings

__all__ = ["RandCutoutd", "RandResizedCropd", "box_of", "crop_resize", "cut_out"]


def box_of(shape: Sequence[int], *, fraction: float, place: Sequence[float]) -> tuple[slice, ...]:
    """Return a box inside a volume.

    Parameters
    ----------
    shape : sequence of int
        The volume's sides.
    fraction : float
        The box's side over the volume's, along every axis; rounded up to voxels.
    place : sequence of float
        Where the box is along each axis: from 0, at the first border, to 1, exclusive, at the last.
    """
    # The small number takes back what rounding may have added: 0.75 of 4 is 3 voxels, never 4.
    sizes = [min(side, math.ceil(fraction * side - 1e-9)) for side in shape]
    corners = [int(p * (side - size + 1)) for p, side, size in zip(place, shape, sizes, strict=True)]
    return tuple(slice(corner, corner + size) for corner, size in zip(corners, sizes, strict=True))


def cut_out(x_CDHW: Tensor, *, box: Sequence[slice], value: float = 0.0) -> Tensor:
    """Return the volume with a box set to `value`."""
    cut = x_CDHW.clone()
    cut[:, *box] = value
    return cut


def crop_resize(x_CDHW: Tensor, *, box: Sequence[slice]) -> Tensor:
    """Return a box of the volume, resized to the whole volume's shape by trilinear interpolation."""
    # Voxel centres at half integers, as scikit-image has them.
    shape = list(x_CDHW.shape[1:])
    return functional.interpolate(x_CDHW[None, :, *box], size=shape, mode="trilinear", align_corners=False)[0]


class _RandBox(RandVolumeTransform):
    def draw(self) -> dict[str, Any]:
        """Draw size and place of the box."""
        return {"fraction": self.between(self.settings.fraction), "place": self.R.random_sample(3)}


class RandCutoutd(_RandBox):
    """Set one box, wholly inside the volume, to a constant.

    Parameters
    ----------
    keys, prob, allow_missing_keys, fraction, value
        As in MONAI's random transforms (`prob` is 0.5 by default), and as `CutoutSettings` says.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandCutoutd
    >>> transform = RandCutoutd("image", prob=1.0, fraction=(0.25, 0.5))
    >>> transform({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    operation = CutoutSettings

    def change(self, x_CDHW: Tensor, *, fraction: float, place: Sequence[float]) -> Tensor:
        """Return the volume without the box."""
        box = box_of(x_CDHW.shape[1:], fraction=fraction, place=place)
        return cut_out(x_CDHW, box=box, value=self.settings.value)


class RandResizedCropd(_RandBox):
    """Crop a box and resize it back to the volume's shape, by trilinear interpolation.

    Parameters
    ----------
    keys, prob, allow_missing_keys, fraction
        As in MONAI's random transforms (`prob` is 0.5 by default), and as `CropSettings` says.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandResizedCropd
    >>> transform = RandResizedCropd("image", prob=1.0, fraction=(0.75, 1.0))
    >>> transform({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    operation = CropSettings

    def change(self, x_CDHW: Tensor, *, fraction: float, place: Sequence[float]) -> Tensor:
        """Return the box in the volume's shape."""
        return crop_resize(x_CDHW, box=box_of(x_CDHW.shape[1:], fraction=fraction, place=place))
