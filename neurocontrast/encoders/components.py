"""The linear encoders: principal components of voxels, or discriminants of subjects among them."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["LinearComponents"]


class LinearComponents(nn.Module):
    """Project volumes onto linear components of their voxels.

    Parameters
    ----------
    n_components : int
        Size of the representation.
    n_voxels : int
        Voxels, over all channels, that varied among the training scans; the others are not looked at.
    """

    places: torch.Tensor

    def __init__(self, n_components: int, n_voxels: int) -> None:
        super().__init__()
        self.register_buffer("places", torch.zeros(n_voxels, dtype=torch.int32))
        self.mean = nn.Parameter(torch.zeros(n_voxels), requires_grad=False)
        self.components = nn.Parameter(torch.zeros(n_components, n_voxels), requires_grad=False)

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Map volumes (n, C, D, H, W) to scores (n, n_components, 1, 1, 1)."""
        chosen = volumes.flatten(1).index_select(1, self.places)
        scores = (chosen - self.mean) @ self.components.T
        return scores[..., None, None, None]

    def set_components(self, places: torch.Tensor, mean: torch.Tensor, components: torch.Tensor) -> None:
        """Take over what was fitted: places of voxels, and over these the mean and the components."""
        self.places = places.to(torch.int32)
        self.mean = nn.Parameter(mean.float(), requires_grad=False)
        self.components = nn.Parameter(components.float(), requires_grad=False)
