"""Another contrast: gamma, and a piecewise linear map of the histogram.

MONAI's `AdjustContrast` keeps the volume's brightest voxel in its place, where here the signal's 1 stays;
`RandAdjustContrastd` draws the exponent uniformly. `RandHistogramShiftd` moves knots, not slopes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from neurocontrast.transforms.operation import Operation, Pair, Random, Span, uniform

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BrainContrast", "BrainHistogram"]


class BrainContrast(Operation):
    """Raise the brain's signal, from its darkest voxel (0) to the 99th percentile (1), to a random power (gamma).

    Parameters
    ----------
    probability : float
        How often.
    gamma : tuple of float
        Range of the exponent; its logarithm is drawn uniformly. Below 1 dark tissue grows brighter.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainContrastd
    >>> RandBrainContrastd("image", prob=1.0, gamma=(0.5, 2.0))({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    stage = "scanner"
    gamma: Annotated[Pair, Span(ge=0.2, le=5.0)] = (0.8, 1.25)

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the exponent, uniformly in its logarithm."""
        return {"gamma": math.exp(uniform(random, np.log(self.gamma)))}

    def change(self, s_CDHW: Tensor, *, gamma: float) -> Tensor:
        """Return the signal to the power; nothing is below 0."""
        return s_CDHW.clamp(min=0.0).pow_(gamma)


class BrainHistogram(Operation):
    """Map the brain's signal, on the scale of `BrainContrast`, by a rising, piecewise linear function.

    Parameters
    ----------
    probability : float
        How often.
    n_pieces : int
        Number of equally wide pieces, each with a slope of its own.
    strength : tuple of float
        Range of the standard deviation of the slopes' logarithms, drawn uniformly.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainHistogramd
    >>> RandBrainHistogramd("image", prob=1.0, n_pieces=4)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    stage = "scanner"
    n_pieces: int = Field(5, ge=2, le=32)
    strength: Annotated[Pair, Span(ge=0.0, le=1.0)] = (0.05, 0.2)

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the slopes; their logarithms are normally distributed."""
        strength = uniform(random, self.strength)
        return {"slopes": np.exp(strength * random.standard_normal(self.n_pieces)).tolist()}

    def change(self, s_CDHW: Tensor, *, slopes: Sequence[float]) -> Tensor:
        """Return the signal under a map from 0 to 0 and 1 to 1 whose pieces are equally wide.

        Slopes count relative to one another; above 1 the last one goes on.
        """
        relative = [slope * len(slopes) / math.fsum(slopes) for slope in slopes]
        mapped = s_CDHW * relative[0]
        for i in range(1, len(relative)):
            mapped.add_((s_CDHW - i / len(relative)).relu(), alpha=relative[i] - relative[i - 1])
        return mapped
