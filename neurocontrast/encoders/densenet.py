"""DenseNet121 in three dimensions, from MONAI."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import nn

__all__ = ["DenseNetFeatures"]

_NORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "batch": ("batch", {}),
    "group": ("group", {"num_groups": 32}),
    "instance": ("instance", {"affine": True}),
}
"""In MONAI's words; every layer of this network has a multiple of 32 channels."""


class DenseNetFeatures(nn.Module):
    """Feature maps of MONAI's DenseNet121, rectified as its classifier would see them.

    Parameters
    ----------
    final_norm : bool
        Keep the normalisation after the last dense block. The y-Aware authors' network
        has none there; ours keeps it by default (``benchmarks/README.md`` says what that changes).
    norm : {'batch', 'group', 'instance'}
        What all normalisations are; see `EncoderSettings`.

    Attributes
    ----------
    smallest_shape : int
        Fewest voxels of an axis: five halvings must leave one, and two where each channel of
        a volume is normalised over its voxels.
    """

    n_features = 1024

    def __init__(self, *, final_norm: bool = True, norm: Literal["batch", "group", "instance"] = "batch") -> None:
        # MONAI takes seconds to import, and only this network needs it.
        from monai.networks.nets.densenet import DenseNet121

        super().__init__()
        self.smallest_shape = 64 if norm == "instance" else 32
        self.layers = DenseNet121(spatial_dims=3, in_channels=1, out_channels=1, norm=_NORMS[norm]).features
        if not final_norm:
            self.layers.norm5 = nn.Identity()

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Map volumes (n, 1, D, H, W) to feature maps (n, 1024, d, h, w)."""
        return torch.relu(self.layers(volumes))
