"""Operations on fine detail: blur and sharpness.

A Gaussian of at most nine taps is faster as shifted additions than as MONAI's three convolutions
(``benchmarks/views.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.operation import Operation, Pair, Random, Span

if TYPE_CHECKING:
    from torch import Tensor

_TRUNCATE = 4.0


def blur(x_CDHW: Tensor, *, sigma_voxels: float) -> Tensor:
    """Return the volume under a Gaussian, as ``scipy.ndimage.gaussian_filter`` by its default settings."""
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


def widest_sigma(s_CDHW: Tensor) -> float:
    """Return the widest Gaussian whose four deviations a volume holds."""
    return (min(s_CDHW.shape[1:]) - 1) / 4.0


class Blur(Operation):
    """Blur volumes by a Gaussian of random width; beyond the border they are reflected."""

    sigma_voxels: Annotated[Pair, Span("Standard deviation of the Gaussian.", ge=0.0, le=10.0)] = (0.1, 1.0)

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the Gaussian's standard deviation."""
        return {"sigma_voxels": random.uniform(*self.sigma_voxels)}

    def change(self, x_CDHW: Tensor, *, sigma_voxels: float) -> Tensor:
        """Return the blurred volume."""
        return blur(x_CDHW, sigma_voxels=sigma_voxels)


class BrainSharpness(Operation):
    """Make the brain sharper or smoother: what a Gaussian takes away is added, or taken away in part (unsharp mask)."""

    stage = "scanner"
    amount: Annotated[
        Pair, Span("How many times the difference is added; −1 leaves the Gaussian.", ge=-1.0, le=5.0)
    ] = (-0.5, 1.0)
    sigma_voxels: float = Field(
        1.0, gt=0.0, le=3.0, allow_inf_nan=False, description="Standard deviation of the Gaussian."
    )

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw how many times the difference is added."""
        return {"amount": random.uniform(*self.amount)}

    def change(self, s_CDHW: Tensor, *, amount: float) -> Tensor:
        """Return the signal, sharper or smoother, and nowhere below a quarter: a dim edge stays part of the brain."""
        smooth = blur(s_CDHW, sigma_voxels=min(self.sigma_voxels, widest_sigma(s_CDHW)))
        return s_CDHW.lerp(smooth, -amount).maximum(0.25 * s_CDHW)
