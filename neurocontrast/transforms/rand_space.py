"""Random boxes: one that is cut out, and one that is cropped and resized."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from monai.transforms import Resize, SpatialCrop
from torch import Tensor

from neurocontrast.transforms import augment
from neurocontrast.transforms.signal import Random, RandVolumed


class _RandBoxd(RandVolumed):
    """Base of the operations on a box whose sides are one share of the volume's sides."""

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw size and place of the box."""
        return {"fraction": random.uniform(*self.settings.fraction), "place": random.random_sample(3)}


class RandCutoutd(_RandBoxd):
    """Set one box, wholly inside the volume, to a constant.

    MONAI's `RandCoarseDropoutd` takes sizes in voxels, not as a share of the volume. Ranges are the fields of
    `neurocontrast.transforms.augment.Cutout`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandCutoutd
    >>> made = RandCutoutd("image", prob=1.0, fraction=(0.5, 0.5))({"image": torch.ones(1, 8, 8, 8)})["image"]
    >>> int((made == 0).sum())
    64
    """

    Settings = augment.Cutout

    def change(self, x_CDHW: Tensor, *, fraction: float, place: Sequence[float]) -> Tensor:
        """Return the volume without the box."""
        cut = x_CDHW.clone()
        cut[:, *box_of(x_CDHW.shape[1:], fraction=fraction, place=place)] = self.settings.value
        return cut


class RandResizedCropd(_RandBoxd):
    """Crop a box and resize it to the volume's shape, by trilinear interpolation.

    Ranges are the fields of `neurocontrast.transforms.augment.Crop`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandResizedCropd
    >>> RandResizedCropd("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    Settings = augment.Crop

    def change(self, x_CDHW: Tensor, *, fraction: float, place: Sequence[float]) -> Tensor:
        """Return the box in the volume's shape."""
        shape = x_CDHW.shape[1:]
        box = SpatialCrop(roi_slices=box_of(shape, fraction=fraction, place=place))(x_CDHW)
        resized: Tensor = Resize(shape, mode="trilinear")(box)
        return resized

    def change_item(self, d: dict[Any, Any], key: Any) -> None:
        """Put the crop in the place of the volume, with the affine of the crop."""
        d[key] = self.change(d[key], **self.drawn)


def box_of(shape: Sequence[int], *, fraction: float, place: Sequence[float]) -> tuple[slice, ...]:
    """Return a box whose sides are `fraction` of `shape`, rounded up; `place` goes from 0 to 1 along each axis."""
    # The small number takes back what rounding may have added: 0.75 of 4 is 3 voxels, never 4.
    sizes = [min(side, math.ceil(fraction * side - 1e-9)) for side in shape]
    corners = [int(p * (side - size + 1)) for p, side, size in zip(place, shape, sizes, strict=True)]
    return tuple(slice(corner, corner + size) for corner, size in zip(corners, sizes, strict=True))
