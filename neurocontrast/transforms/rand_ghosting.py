"""Ghosts: replicas of the brain, shifted. MONAI has none (its `RandKSpaceSpikeNoised` makes stripes)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from neurocontrast.transforms.rand_volume import RandBrainTransform
from neurocontrast.transforms.site_settings import GhostingSettings

__all__ = ["RandBrainGhostingd", "ghost"]


def ghost(s_CDHW: Tensor, *, axis: int, shift: int, intensity: float, phase: float) -> Tensor:
    """Return the magnitude when line k of k-space is scaled by ``1 + 2 · intensity · cos(2π k shift / side + phase)``.

    That makes a replica `shift` voxels to either side, of height `intensity`; beyond the border they come in again.
    """
    below, above = s_CDHW.roll(-shift, axis + 1), s_CDHW.roll(shift, axis + 1)
    real = torch.add(s_CDHW, below + above, alpha=intensity * math.cos(phase))
    return torch.hypot(real, below.sub_(above).mul_(intensity * math.sin(phase)))


class RandBrainGhostingd(RandBrainTransform):
    """Add two faint replicas of the brain to its signal, shifted to either side by a random distance.

    Parameters
    ----------
    keys, prob, allow_missing_keys, axes, intensity, distance
        As in MONAI's random transforms (`prob` is 0.15 by default), and as `GhostingSettings` says.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainGhostingd
    >>> transform = RandBrainGhostingd("image", prob=1.0, intensity=(0.05, 0.1))
    >>> transform({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    operation = GhostingSettings

    def draw(self) -> dict[str, Any]:
        """Draw axis, shift over the volume's side, height and phase of the replicas."""
        chosen = self.settings
        drawn = {"axis": self.one_of(chosen.axes), "distance": self.between(chosen.distance)}
        return drawn | {"intensity": self.between(chosen.intensity), "phase": self.between((0.0, 2.0 * math.pi))}

    def change(self, s_CDHW: Tensor, *, axis: int, distance: float, intensity: float, phase: float) -> Tensor:
        """Return the signal with its ghosts."""
        shift = max(1, round(distance * s_CDHW.shape[axis + 1]))
        return ghost(s_CDHW, axis=axis, shift=shift, intensity=intensity, phase=phase)
