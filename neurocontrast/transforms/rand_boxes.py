"""Boxes of a volume: one that is set to a constant, and one that is resized to the whole volume.

MONAI's `RandCoarseDropoutd` and `RandSpatialCropd` take sizes in voxels, or draw them for each axis apart; here a box
is a share of the volume, the same along every axis. MONAI's `RandZoomd` only zooms about the middle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from neurocontrast.transforms.operation import Operation, Pair, Random, Span, uniform

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Cutout", "ResizedCrop", "box_of", "crop_resize", "cut_out"]


def box_of(shape: Sequence[int], *, fraction: float, place: Sequence[float]) -> tuple[slice, ...]:
    """Return a box inside a volume of sides `shape`.

    The box's sides are `fraction` of the volume's, rounded up to voxels; `place` says for each axis where the box is,
    from 0, at the first border, to 1, exclusive, at the last.
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
    from torch.nn import functional

    # Voxel centres at half integers, as scikit-image has them.
    shape = list(x_CDHW.shape[1:])
    return functional.interpolate(x_CDHW[None, :, *box], size=shape, mode="trilinear", align_corners=False)[0]


class _Box(Operation):
    fraction: Annotated[Pair, Span(gt=0.0, le=1.0)]

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw size and place of the box."""
        return {"fraction": uniform(random, self.fraction), "place": random.random_sample(3)}


class Cutout(_Box):
    """Set one box, wholly inside the volume, to a constant.

    Parameters
    ----------
    probability : float
        How often.
    fraction : tuple of float
        Range of the box's side over the volume's, along every axis, drawn uniformly; sides are rounded up.
    value : float
        What the box is set to; 0 is the mean of a z-scored volume.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandCutoutd
    >>> RandCutoutd("image", prob=1.0, fraction=(0.5, 0.5))({"image": torch.ones(1, 8, 8, 8)})["image"].sum()
    tensor(448.)
    """

    fraction: Annotated[Pair, Span(gt=0.0, le=1.0)] = (0.25, 0.25)
    value: float = Field(0.0, allow_inf_nan=False)

    def change(self, x_CDHW: Tensor, *, fraction: float, place: Sequence[float]) -> Tensor:
        """Return the volume without the box."""
        return cut_out(x_CDHW, box=box_of(x_CDHW.shape[1:], fraction=fraction, place=place), value=self.value)


class ResizedCrop(_Box):
    """Crop a box and resize it back to the volume's shape, by trilinear interpolation.

    Parameters
    ----------
    probability : float
        How often.
    fraction : tuple of float
        Range of the box's side over the volume's, along every axis, drawn uniformly; sides are rounded up.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandResizedCropd
    >>> RandResizedCropd("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    fraction: Annotated[Pair, Span(gt=0.0, le=1.0)] = (0.75, 0.75)

    def change(self, x_CDHW: Tensor, *, fraction: float, place: Sequence[float]) -> Tensor:
        """Return the box in the volume's shape."""
        return crop_resize(x_CDHW, box=box_of(x_CDHW.shape[1:], fraction=fraction, place=place))
