"""What one operation does to one volume ``x_CDHW``, given its parameters; nothing random but `add_noise_`'s generator.

MONAI's equivalents were measured first (``benchmarks/views.py``). Blur: a kernel of at most nine taps is
faster as shifted additions than as a 3D convolution, and no array is padded. Crop: only the box is resized.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from neurocontrast.exceptions import DataError

__all__ = ["add_noise_", "blur", "crop_resize", "cut_out_", "flip"]

_TRUNCATE = 4.0


def flip(x_CDHW: Tensor, *, axis: int) -> Tensor:
    """Return the volume mirrored along a spatial axis (0, 1 or 2)."""
    return x_CDHW.flip(axis + 1)


def blur(x_CDHW: Tensor, *, sigma_voxels: float) -> Tensor:
    """Return the volume under a Gaussian, cut at four σ; beyond the border the volume is reflected.

    The same as ``scipy.ndimage.gaussian_filter`` with its default settings.
    """
    radius = int(_TRUNCATE * sigma_voxels + 0.5)
    if radius == 0:
        return x_CDHW.clone()
    weights = [math.exp(-0.5 * (offset / sigma_voxels) ** 2) for offset in range(radius + 1)]
    total = weights[0] + 2.0 * sum(weights[1:])
    for axis in (1, 2, 3):
        x_CDHW = _blur_axis(x_CDHW, [weight / total for weight in weights], axis)
    return x_CDHW


def _blur_axis(x_CDHW: Tensor, weights: Sequence[float], axis: int) -> Tensor:
    side = x_CDHW.shape[axis]
    blurred = x_CDHW * weights[0]
    for offset, weight in enumerate(weights[1:], start=1):
        if offset > side:
            raise DataError(
                f"blur reaches {len(weights) - 1} voxels, further than the volume's {side} along axis {axis - 1}. "
                "Lower augment.blur.sigma_voxels."
            )
        kept = side - offset
        blurred.narrow(axis, offset, kept).add_(x_CDHW.narrow(axis, 0, kept), alpha=weight)
        blurred.narrow(axis, 0, kept).add_(x_CDHW.narrow(axis, offset, kept), alpha=weight)
        blurred.narrow(axis, 0, offset).add_(x_CDHW.narrow(axis, 0, offset).flip(axis), alpha=weight)
        blurred.narrow(axis, kept, offset).add_(x_CDHW.narrow(axis, kept, offset).flip(axis), alpha=weight)
    return blurred


def add_noise_(x_CDHW: Tensor, *, sigma: float, generator: torch.Generator) -> Tensor:
    """Add Gaussian noise from `generator`, which lives on the volume's device, to the volume itself."""
    noise = torch.randn(x_CDHW.shape, generator=generator, device=x_CDHW.device, dtype=x_CDHW.dtype)
    return x_CDHW.add_(noise, alpha=sigma)


def cut_out_(x_CDHW: Tensor, *, corner: Sequence[int], size: Sequence[int], value: float = 0.0) -> Tensor:
    """Set a box of the volume itself to `value`."""
    _box(x_CDHW, corner, size).fill_(value)
    return x_CDHW


def crop_resize(x_CDHW: Tensor, *, corner: Sequence[int], size: Sequence[int]) -> Tensor:
    """Return a box of the volume, resized to the whole volume's shape by trilinear interpolation."""
    box = _box(x_CDHW, corner, size)
    # Voxel centres at half integers, as scikit-image has them.
    shape = list(x_CDHW.shape[1:])
    return functional.interpolate(box[None], size=shape, mode="trilinear", align_corners=False)[0]


def _box(x_CDHW: Tensor, corner: Sequence[int], size: Sequence[int]) -> Tensor:
    for axis, (start, length) in enumerate(zip(corner, size, strict=True), start=1):
        x_CDHW = x_CDHW.narrow(axis, start, length)
    return x_CDHW
