"""A LeNet-sized network for tests and first steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import nn

__all__ = ["LeNetFeatures"]

_NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm3d,
    "group": partial(nn.GroupNorm, 4),
    "instance": partial(nn.InstanceNorm3d, affine=True),
}


class LeNetFeatures(nn.Module):
    """Three normalised convolutions: an epoch of tiny volumes takes milliseconds.

    Parameters
    ----------
    norm : {'batch', 'group', 'instance'}
        What the normalisations are; see `EncoderSettings`.

    Attributes
    ----------
    smallest_shape : int
        Fewest voxels of an axis; instance normalisation needs more than one after three halvings.
    """

    n_dims = 3
    n_features = 32
    layout, inference_layout = torch.contiguous_format, torch.channels_last_3d

    def __init__(self, *, norm: Literal["batch", "group", "instance"] = "batch") -> None:
        super().__init__()
        self.smallest_shape = 16 if norm == "instance" else 8
        layers: list[nn.Module] = []
        for n_in, n_out in ((1, 8), (8, 16), (16, self.n_features)):
            layers += [
                nn.Conv3d(n_in, n_out, kernel_size=3, stride=2, padding=1, bias=False),
                _NORMS[norm](n_out),
                nn.ReLU(),
            ]
        self.layers = nn.Sequential(*layers)

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Map volumes (n, 1, D, H, W) to feature maps (n, 32, d, h, w)."""
        return self.layers(volumes)
