"""DenseNet121 in three dimensions, from MONAI."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["DenseNetFeatures"]


class DenseNetFeatures(nn.Module):
    """Feature maps of MONAI's DenseNet121, rectified as its classifier would see them.

    Parameters
    ----------
    final_norm : bool
        Keep the batch normalisation after the last dense block. The y-Aware authors' network
        has none there; ours keeps it by default (``benchmarks/README.md`` says what that changes).
    """

    n_features = 1024
    smallest_shape = 32
    """Five halvings: a shorter axis would leave no voxel."""

    def __init__(self, *, final_norm: bool = True) -> None:
        # MONAI takes seconds to import, and only this network needs it.
        from monai.networks.nets.densenet import DenseNet121

        super().__init__()
        self.layers = DenseNet121(spatial_dims=3, in_channels=1, out_channels=1).features
        if not final_norm:
            self.layers.norm5 = nn.Identity()

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Map volumes (n, 1, D, H, W) to feature maps (n, 1024, d, h, w)."""
        return torch.relu(self.layers(volumes))
