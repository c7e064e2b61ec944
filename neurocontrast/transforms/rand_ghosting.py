"""Ghosts: replicas of the brain, shifted. MONAI has none (its `RandKSpaceSpikeNoised` makes stripes)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from neurocontrast.transforms.operation import Axes, Operation, Pair, Probability, Random, Span, one_of_axes, uniform

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BrainGhosting", "ghost"]


def ghost(s_CDHW: Tensor, *, axis: int, shift: int, intensity: float, phase: float) -> Tensor:
    """Return the magnitude when line k of k-space is scaled by ``1 + 2 · intensity · cos(2π k shift / side + phase)``.

    That makes a replica `shift` voxels to either side, of height `intensity`; beyond the border they come in again.
    """
    below, above = s_CDHW.roll(-shift, axis + 1), s_CDHW.roll(shift, axis + 1)
    real = s_CDHW.add(below + above, alpha=intensity * math.cos(phase))
    return real.hypot(below.sub_(above).mul_(intensity * math.sin(phase)))


class BrainGhosting(Operation):
    """Add two faint replicas of the brain to its signal, shifted to either side by a random distance.

    Parameters
    ----------
    probability : float
        How often.
    axes : tuple of int
        Axes to choose among, each equally likely.
    intensity : tuple of float
        Range of a replica's height over the brain's, drawn uniformly.
    distance : tuple of float
        Range of a replica's shift over the volume's side, drawn uniformly.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainGhostingd
    >>> RandBrainGhostingd("image", prob=1.0, axes=(1,))({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    stage = "scanner"
    probability: Probability = 0.15
    axes: Axes = (0, 1, 2)
    intensity: Annotated[Pair, Span(ge=0.0, le=0.5)] = (0.02, 0.1)
    distance: Annotated[Pair, Span(ge=0.05, le=0.5)] = (0.2, 0.5)

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw axis, shift over the volume's side, height and phase of the replicas."""
        drawn = {"axis": one_of_axes(random, self.axes), "distance": uniform(random, self.distance)}
        return drawn | {
            "intensity": uniform(random, self.intensity),
            "phase": uniform(random, (0.0, 2.0 * math.pi)),
        }

    def change(self, s_CDHW: Tensor, *, axis: int, distance: float, intensity: float, phase: float) -> Tensor:
        """Return the signal with its ghosts."""
        shift = max(1, round(distance * s_CDHW.shape[axis + 1]))
        return ghost(s_CDHW, axis=axis, shift=shift, intensity=intensity, phase=phase)
