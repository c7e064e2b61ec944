"""Operations that move, cut or resize: flip, position in the scanner, cutout, resized crop.

MONAI's own differ: `RandAffined` interpolates image and mask apart (``benchmarks/site_views.py``) and draws a scale
for each axis, never one for all; `RandCoarseDropoutd` and `RandSpatialCropd` take sizes in voxels, or draw them for
each axis apart, where here a box is a share of the volume; `RandZoomd` only zooms about the middle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from neurocontrast.transforms.operation import Axes, Operation, Pair, Random, Span

if TYPE_CHECKING:
    from torch import Tensor


class Flip(Operation):
    """Mirror along one axis."""

    stage = "first"
    axes: Axes = (0, 1, 2)

    def transforms(self, key: str) -> list[Any]:
        """Return MONAI's flips, of which one is taken; then a plain tensor, which is changed faster."""
        from monai.transforms import EnsureTyped, OneOf, RandFlipd

        flips = [RandFlipd(key, prob=self.probability, spatial_axis=axis) for axis in self.axes]
        return [OneOf(flips), EnsureTyped(key, track_meta=False)]


class BrainAffine(Operation):
    """Rotate, shift and, where asked, scale the brain: trilinear, in one pass, signal and mask together."""

    stage = "scanner"
    rotation_degrees: Annotated[Pair, Span("Angle about each axis.", ge=-45.0, le=45.0)] = (-3.0, 3.0)
    translation_voxels: Annotated[Pair, Span("Shift along each axis.", ge=-16.0, le=16.0)] = (-1.0, 1.0)
    scale: Annotated[Pair, Span("Factor on lengths; note that size tells age and sex.", ge=0.5, le=2.0)] = (1.0, 1.0)
    anisotropic: bool = Field(False, description="Whether each axis has a factor of its own.")

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the map from places in the view to places in the volume, in voxels about the centre."""
        from monai.transforms.utils import create_rotate

        angles = np.deg2rad(random.uniform(*self.rotation_degrees, 3))
        translation, scales = random.uniform(*self.translation_voxels, 3), random.uniform(*self.scale, 3)
        if not self.anisotropic:
            scales[:] = scales[0]
        return {"matrix": create_rotate(3, angles)[:3, :3] / scales, "translation": translation.tolist()}

    def change_brain(
        self, s_CDHW: Tensor, brain_CDHW: Tensor, *, matrix: NDArray[np.float64], translation: Sequence[float]
    ) -> tuple[Tensor, Tensor]:
        """Return signal and brain at ``matrix · (voxel − centre) + centre + translation``; nothing beyond the border.

        As in ``scipy.ndimage.affine_transform``. A voxel is brain where half of its sources are, so that no dim rim
        enlarges the brain.
        """
        import torch
        from monai.transforms import Affine

        affine = np.eye(4)
        affine[:3, :3], affine[:3, 3] = matrix, translation
        resample = Affine(affine=affine, padding_mode="zeros", device=s_CDHW.device, image_only=True)
        # Interpolated together: one grid, and one pass over it.
        moved = resample(torch.cat([s_CDHW, brain_CDHW.to(s_CDHW.dtype)])).as_tensor()
        n_channels = s_CDHW.shape[0]
        return moved[:n_channels], moved[n_channels:] >= 0.5

    def moved(
        self, shape: Sequence[int], /, *, matrix: NDArray[np.float64], translation: Sequence[float]
    ) -> NDArray[np.float64]:
        """Return where the voxels of the view are in the volume."""
        centre, found = (np.array(shape) - 1) / 2, np.eye(4)
        found[:3, :3], found[:3, 3] = matrix, centre + translation - matrix @ centre
        return found


class _Box(Operation):
    fraction: Annotated[Pair, Span(gt=0.0, le=1.0)]

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw size and place of the box."""
        return {"fraction": random.uniform(*self.fraction), "place": random.random_sample(3)}


class Cutout(_Box):
    """Set one box, wholly inside the volume, to a constant."""

    fraction: Annotated[Pair, Span("Side of the box over the volume's.", gt=0.0, le=1.0)] = (0.25, 0.25)
    value: float = Field(
        0.0, allow_inf_nan=False, description="What the box is set to; 0 is the mean of a z-scored volume."
    )

    def change(self, x_CDHW: Tensor, *, fraction: float, place: Sequence[float]) -> Tensor:
        """Return the volume without the box."""
        cut = x_CDHW.clone()
        cut[:, *box_of(x_CDHW.shape[1:], fraction=fraction, place=place)] = self.value
        return cut


class ResizedCrop(_Box):
    """Crop a box and resize it back to the volume's shape, by trilinear interpolation."""

    fraction: Annotated[Pair, Span("Side of the box over the volume's.", gt=0.0, le=1.0)] = (0.75, 0.75)

    def change(self, x_CDHW: Tensor, *, fraction: float, place: Sequence[float]) -> Tensor:
        """Return the box in the volume's shape."""
        return crop_resize(x_CDHW, box=box_of(x_CDHW.shape[1:], fraction=fraction, place=place))

    def moved(self, shape: Sequence[int], /, *, fraction: float, place: Sequence[float]) -> NDArray[np.float64]:
        """Return where the voxels of the view are in the volume; a voxel's centre is at a half."""
        found = np.eye(4)
        for axis, (side, part) in enumerate(zip(shape, box_of(shape, fraction=fraction, place=place), strict=True)):
            found[axis, axis] = (part.stop - part.start) / side
            found[axis, 3] = part.start + found[axis, axis] / 2 - 0.5
        return found


def box_of(shape: Sequence[int], *, fraction: float, place: Sequence[float]) -> tuple[slice, ...]:
    """Return a box whose sides are `fraction` of `shape`, rounded up; `place` goes from 0 to 1 along each axis."""
    # The small number takes back what rounding may have added: 0.75 of 4 is 3 voxels, never 4.
    sizes = [min(side, math.ceil(fraction * side - 1e-9)) for side in shape]
    corners = [int(p * (side - size + 1)) for p, side, size in zip(place, shape, sizes, strict=True)]
    return tuple(slice(corner, corner + size) for corner, size in zip(corners, sizes, strict=True))


def crop_resize(x_CDHW: Tensor, *, box: Sequence[slice]) -> Tensor:
    """Return a box of the volume in the whole volume's shape; voxel centres at half integers, as scikit-image's."""
    from torch.nn import functional

    shape = list(x_CDHW.shape[1:])
    return functional.interpolate(x_CDHW[None, :, *box], size=shape, mode="trilinear", align_corners=False)[0]
