"""Another contrast: gamma, and a piecewise linear map of the histogram.

MONAI's `AdjustContrast` keeps the volume's brightest voxel in its place, where here the signal's 1 stays;
`RandAdjustContrastd` draws the exponent uniformly. `RandHistogramShiftd` moves knots, not slopes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn import functional

from neurocontrast.transforms.rand_volume import RandBrainTransform
from neurocontrast.transforms.site_settings import ContrastSettings, HistogramSettings

__all__ = ["RandBrainContrastd", "RandBrainHistogramd", "adjust_gamma", "remap_histogram"]


def adjust_gamma(s_CDHW: Tensor, *, gamma: float) -> Tensor:
    """Return the volume to a power; nothing is below 0."""
    return s_CDHW.clamp(min=0.0).pow_(gamma)


def remap_histogram(s_CDHW: Tensor, *, slopes: Sequence[float]) -> Tensor:
    """Return the volume under a piecewise linear map from 0 to 0 and 1 to 1, whose pieces are equally wide.

    Slopes count relative to one another; above 1 the last one goes on.
    """
    relative = [slope * len(slopes) / math.fsum(slopes) for slope in slopes]
    mapped = s_CDHW * relative[0]
    for i in range(1, len(relative)):
        mapped.add_(functional.relu(s_CDHW - i / len(relative)), alpha=relative[i] - relative[i - 1])
    return mapped


class RandBrainContrastd(RandBrainTransform):
    """Raise the brain's signal to a random power (gamma).

    Parameters
    ----------
    keys, prob, allow_missing_keys, gamma
        As in MONAI's random transforms (`prob` is 0.5 by default), and as `ContrastSettings` says.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainContrastd
    >>> transform = RandBrainContrastd("image", prob=1.0, gamma=(0.8, 1.25))
    >>> transform({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    operation = ContrastSettings

    def draw(self) -> dict[str, Any]:
        """Draw the exponent, uniformly in its logarithm."""
        return {"gamma": math.exp(self.between(np.log(self.settings.gamma)))}

    def change(self, s_CDHW: Tensor, *, gamma: float) -> Tensor:
        """Return the signal to the power."""
        return adjust_gamma(s_CDHW, gamma=gamma)


class RandBrainHistogramd(RandBrainTransform):
    """Map the brain's signal by a rising, piecewise linear function of random slopes.

    Parameters
    ----------
    keys, prob, allow_missing_keys, n_pieces, strength
        As in MONAI's random transforms (`prob` is 0.5 by default), and as `HistogramSettings` says.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainHistogramd
    >>> transform = RandBrainHistogramd("image", prob=1.0, n_pieces=4)
    >>> transform({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    operation = HistogramSettings

    def draw(self) -> dict[str, Any]:
        """Draw the slopes; their logarithms are normally distributed."""
        strength = self.between(self.settings.strength)
        return {"slopes": np.exp(strength * self.R.standard_normal(self.settings.n_pieces)).tolist()}

    def change(self, s_CDHW: Tensor, *, slopes: Sequence[float]) -> Tensor:
        """Return the mapped signal."""
        return remap_histogram(s_CDHW, slopes=slopes)
