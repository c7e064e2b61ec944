"""A LeNet-sized network for tests and first steps."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["LeNetFeatures"]


class LeNetFeatures(nn.Module):
    """Three convolutions with batch normalisation: an epoch of tiny volumes takes milliseconds."""

    n_features = 32
    smallest_shape = 8

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for n_in, n_out in ((1, 8), (8, 16), (16, self.n_features)):
            layers += [
                nn.Conv3d(n_in, n_out, kernel_size=3, stride=2, padding=1, bias=False),
                nn.BatchNorm3d(n_out),
                nn.ReLU(),
            ]
        self.layers = nn.Sequential(*layers)

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Map volumes (n, 1, D, H, W) to feature maps (n, 32, d, h, w)."""
        return self.layers(volumes)
