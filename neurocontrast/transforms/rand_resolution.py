"""Thick slices.

MONAI's `RandSimulateLowResolutiond` keeps single voxels along all three axes; a slice is the mean of what it covers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from neurocontrast.transforms.operation import Axes, Operation, Pair, Probability, Random, Span, one_of_axes, uniform

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BrainResolution", "slice_matrix"]


def slice_matrix(side: int, *, factor: float, phase: float) -> NDArray[np.float64]:
    """Return what acquiring slices, `factor` voxels thick, and interpolating back does to a line of `side` voxels.

    A slice is the mean of what it covers; the first begins at ``-phase · factor``, and `phase` is below 1.
    Between the slices' centres interpolation is linear; beyond the outermost their values go on.
    """
    starts = factor * (np.arange(math.ceil(side / factor + phase)) - phase)
    voxels = np.arange(side)
    covered = np.minimum(starts[:, None] + factor, voxels + 1.0) - np.maximum(starts[:, None], voxels)
    acquired = np.clip(covered, 0.0, None)
    acquired /= acquired.sum(1, keepdims=True)
    distance = np.abs(voxels[:, None] + 0.5 - (starts + factor / 2.0)) / factor
    interpolated = np.clip(1.0 - distance, 0.0, None)
    return interpolated / interpolated.sum(1, keepdims=True) @ acquired


class BrainResolution(Operation):
    """Show the brain's signal as thick slices would, interpolated back to the voxels.

    Parameters
    ----------
    probability : float
        How often.
    factor : tuple of float
        Range of a slice's thickness in voxels, drawn uniformly.
    axes : tuple of int
        Axes to choose among, each equally likely: 0 sagittal, 1 coronal, 2 axial slices.
    all_axes : float
        How often, of the times slices are made, all three axes are treated instead of one.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainResolutiond
    >>> RandBrainResolutiond("image", prob=1.0, factor=(2.0, 3.0))({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    stage = "scanner"
    probability: Probability = 0.25
    factor: Annotated[Pair, Span(ge=1.0, le=8.0)] = (1.0, 2.0)
    axes: Axes = (0, 1, 2)
    all_axes: Probability = 0.25

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the axes, the thickness in voxels, and where the first slice begins."""
        everywhere = random.random_sample() < self.all_axes
        axes = (0, 1, 2) if everywhere else (one_of_axes(random, self.axes),)
        return {"axes": axes, "factor": uniform(random, self.factor), "phase": random.random_sample()}

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
