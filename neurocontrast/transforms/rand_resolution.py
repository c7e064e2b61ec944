"""Thick slices.

MONAI's `RandSimulateLowResolutiond` keeps single voxels along all three axes; a slice is the mean of what it covers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from neurocontrast.transforms.rand_volume import RandBrainTransform
from neurocontrast.transforms.site_settings import ResolutionSettings

__all__ = ["RandBrainResolutiond", "lower_resolution", "slice_matrix"]


Array = NDArray[np.float64]


def slice_matrix(side: int, *, factor: float, phase: float) -> Array:
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


def lower_resolution(s_CDHW: Tensor, *, axes: Sequence[int], factor: float, phase: float) -> Tensor:
    """Return the volume as slices along each of `axes` would show it; see `slice_matrix`."""
    for axis in axes:
        side = s_CDHW.shape[axis + 1]
        matrix = torch.from_numpy(slice_matrix(side, factor=factor, phase=phase).astype(np.float32)).to(s_CDHW.device)
        if axis == 0:
            s_CDHW = (matrix @ s_CDHW.flatten(2)).reshape(s_CDHW.shape)
        elif axis == 1:
            s_CDHW = matrix @ s_CDHW
        else:
            s_CDHW = s_CDHW @ matrix.T
    return s_CDHW


class RandBrainResolutiond(RandBrainTransform):
    """Show the brain's signal as slices of random thickness would, interpolated back to voxels.

    Parameters
    ----------
    keys, prob, allow_missing_keys, factor, axes, all_axes
        As in MONAI's random transforms (`prob` is 0.25 by default), and as `ResolutionSettings` says.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainResolutiond
    >>> transform = RandBrainResolutiond("image", prob=1.0, factor=(1.5, 3.0))
    >>> transform({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    operation = ResolutionSettings

    def draw(self) -> dict[str, Any]:
        """Draw the axes, the thickness in voxels, and where the first slice begins."""
        chosen = self.settings
        everywhere = self.R.random_sample() < chosen.all_axes
        axes = (0, 1, 2) if everywhere else (self.one_of(chosen.axes),)
        return {"axes": axes, "factor": self.between(chosen.factor), "phase": self.R.random_sample()}

    def change(self, s_CDHW: Tensor, *, axes: Sequence[int], factor: float, phase: float) -> Tensor:
        """Return the signal in slices."""
        return lower_resolution(s_CDHW, axes=axes, factor=factor, phase=phase)
