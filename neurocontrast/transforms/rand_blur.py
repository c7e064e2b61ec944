"""Gaussian blur, and the unsharp mask made of it.

A kernel of at most nine taps is faster as shifted additions than as MONAI's three convolutions, and no array is
padded (``benchmarks/views.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.rand_volume import RandBrainTransform, RandVolumeTransform
from neurocontrast.transforms.settings import BlurSettings
from neurocontrast.transforms.site_settings import SharpnessSettings

__all__ = ["RandBlurd", "RandBrainSharpnessd", "blur", "sharpen", "widest_sigma"]


_TRUNCATE = 4.0


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


def sharpen(s_CDHW: Tensor, *, amount: float, sigma_voxels: float) -> Tensor:
    """Return the volume plus `amount` times what a Gaussian takes from it.

    No voxel falls below a quarter of what it was: the dim edge of a brain stays of the brain.
    """
    smooth = blur(s_CDHW, sigma_voxels=min(sigma_voxels, widest_sigma(s_CDHW)))
    return torch.lerp(s_CDHW, smooth, -amount).maximum(0.25 * s_CDHW)


def widest_sigma(s_CDHW: Tensor) -> float:
    """Return the widest Gaussian whose four deviations a volume holds."""
    return (min(s_CDHW.shape[1:]) - 1) / 4.0


class RandBlurd(RandVolumeTransform):
    """Blur volumes by a Gaussian of random width; beyond the border they are reflected.

    Parameters
    ----------
    keys, prob, allow_missing_keys, sigma_voxels
        As in MONAI's random transforms (`prob` is 0.5 by default), and as `BlurSettings` says.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBlurd
    >>> transform = RandBlurd("image", prob=1.0, sigma_voxels=(0.1, 1.0))
    >>> transform({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    operation = BlurSettings

    def draw(self) -> dict[str, Any]:
        """Draw the Gaussian's standard deviation."""
        return {"sigma_voxels": self.between(self.settings.sigma_voxels)}

    def change(self, x_CDHW: Tensor, *, sigma_voxels: float) -> Tensor:
        """Return the blurred volume."""
        return blur(x_CDHW, sigma_voxels=sigma_voxels)


class RandBrainSharpnessd(RandBrainTransform):
    """Make the brain's signal sharper or smoother: an unsharp mask of random strength.

    Parameters
    ----------
    keys, prob, allow_missing_keys, amount, sigma_voxels
        As in MONAI's random transforms (`prob` is 0.5 by default), and as `SharpnessSettings` says.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainSharpnessd
    >>> transform = RandBrainSharpnessd("image", prob=1.0, amount=(-0.5, 1.0))
    >>> transform({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    operation = SharpnessSettings

    def draw(self) -> dict[str, Any]:
        """Draw how many times the difference is added."""
        return {"amount": self.between(self.settings.amount), "sigma_voxels": self.settings.sigma_voxels}

    def change(self, s_CDHW: Tensor, *, amount: float, sigma_voxels: float) -> Tensor:
        """Return the signal, sharper or smoother."""
        return sharpen(s_CDHW, amount=amount, sigma_voxels=sigma_voxels)
