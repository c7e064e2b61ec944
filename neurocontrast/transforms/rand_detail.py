"""Operations on fine detail: blur, sharpness, thick slices, ghosts.

A Gaussian of at most nine taps is faster as shifted additions than as MONAI's three convolutions
(``benchmarks/views.py``). `RandSimulateLowResolutiond` keeps single voxels along all three axes, where here a slice is
the mean of its width. MONAI has no ghosts (`RandKSpaceSpikeNoised` makes stripes).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.operation import Axes, Operation, Pair, Probability, Random, Span, one_of_axes

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


class BrainResolution(Operation):
    """Show the brain's signal as thick slices would, interpolated back to the voxels."""

    stage = "scanner"
    probability: Probability = 0.25
    factor: Annotated[Pair, Span("Thickness of a slice, in voxels.", ge=1.0, le=8.0)] = (1.0, 2.0)
    axes: Axes = (0, 1, 2)
    all_axes: Probability = Field(0.25, description="How often, of the times slices are made, all axes are treated.")

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the axes, the thickness in voxels, and where the first slice begins."""
        everywhere = random.random_sample() < self.all_axes
        axes = (0, 1, 2) if everywhere else (one_of_axes(random, self.axes),)
        return {"axes": axes, "factor": random.uniform(*self.factor), "phase": random.random_sample()}

    def change(self, s_CDHW: Tensor, *, axes: Sequence[int], factor: float, phase: float) -> Tensor:
        """Return the signal as slices along each of `axes` would show it; see `slice_matrix`."""
        import torch

        for axis in axes:
            weights = slice_matrix(s_CDHW.shape[axis + 1], factor=factor, phase=phase).astype(np.float32)
            matrix = torch.from_numpy(weights).to(s_CDHW.device)
            if axis == 0:
                s_CDHW = (matrix @ s_CDHW.flatten(2)).reshape(s_CDHW.shape)
            elif axis == 1:
                s_CDHW = matrix @ s_CDHW
            else:
                s_CDHW = s_CDHW @ matrix.T
        return s_CDHW


def slice_matrix(side: int, *, factor: float, phase: float) -> NDArray[np.float64]:
    """Return the effect on a line of `side` voxels of slices, `factor` voxels thick, interpolated back linearly.

    A slice is the mean of its width; the first begins at ``-phase · factor``, with `phase` below 1. Beyond the
    centres of the outermost slices their values go on.
    """
    starts = factor * (np.arange(math.ceil(side / factor + phase)) - phase)
    voxels = np.arange(side)
    covered = np.minimum(starts[:, None] + factor, voxels + 1.0) - np.maximum(starts[:, None], voxels)
    acquired = np.clip(covered, 0.0, None)
    acquired /= acquired.sum(1, keepdims=True)
    distance = np.abs(voxels[:, None] + 0.5 - (starts + factor / 2.0)) / factor
    interpolated = np.clip(1.0 - distance, 0.0, None)
    return interpolated / interpolated.sum(1, keepdims=True) @ acquired


class BrainGhosting(Operation):
    """Add two faint replicas of the brain to its signal, shifted to either side by a random distance."""

    stage = "scanner"
    probability: Probability = 0.15
    axes: Axes = (0, 1, 2)
    intensity: Annotated[Pair, Span("Height of a replica over the brain's.", ge=0.0, le=0.5)] = (0.02, 0.1)
    distance: Annotated[Pair, Span("Shift of a replica over the volume's side.", ge=0.05, le=0.5)] = (0.2, 0.5)

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw axis, shift over the volume's side, height and phase of the replicas."""
        drawn = {"axis": one_of_axes(random, self.axes), "distance": random.uniform(*self.distance)}
        return drawn | {"intensity": random.uniform(*self.intensity), "phase": random.uniform(0.0, 2.0 * math.pi)}

    def change(self, s_CDHW: Tensor, *, axis: int, distance: float, intensity: float, phase: float) -> Tensor:
        """Return the signal with its ghosts."""
        shift = max(1, round(distance * s_CDHW.shape[axis + 1]))
        return ghost(s_CDHW, axis=axis, shift=shift, intensity=intensity, phase=phase)


def ghost(s_CDHW: Tensor, *, axis: int, shift: int, intensity: float, phase: float) -> Tensor:
    """Return the magnitude when line k of k-space is scaled by ``1 + 2 · intensity · cos(2π k shift / side + phase)``.

    That makes a replica `shift` voxels to either side, of height `intensity`; beyond the border they come in again.
    """
    below, above = s_CDHW.roll(-shift, axis + 1), s_CDHW.roll(shift, axis + 1)
    real = s_CDHW.add(below + above, alpha=intensity * math.cos(phase))
    return real.hypot(below.sub_(above).mul_(intensity * math.sin(phase)))
