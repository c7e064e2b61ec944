"""DenseNets in three dimensions, from MONAI."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import nn

__all__ = ["DenseNetFeatures"]

# The blocks of the second leave a multiple of 16 channels everywhere, so that groups of channels can be normalised.
_SIZES: dict[str, dict[str, Any]] = {
    "densenet121": {"init_features": 64, "growth_rate": 32, "block_config": (6, 12, 24, 16)},
    "densenet_small": {"init_features": 32, "growth_rate": 16, "block_config": (4, 5, 8, 6)},
}


class DenseNetFeatures(nn.Module):
    """Feature maps of MONAI's DenseNet, rectified as its classifier would see them.

    `final_norm` keeps the normalisation after the last dense block. The y-Aware authors' network has none there
    (``benchmarks/README.md`` says what that changes).
    """

    n_dims = 3
    # Channels last is quicker where nothing is trained, and slower where it is (benchmarks/training.py).
    layout, inference_layout = torch.contiguous_format, torch.channels_last_3d

    def __init__(
        self,
        *,
        size: Literal["densenet121", "densenet_small"] = "densenet121",
        final_norm: bool = True,
        norm: Literal["batch", "group", "instance"] = "batch",
        n_channels: int = 1,
    ) -> None:
        # MONAI takes seconds to import, and only this network needs it.
        from monai.networks.nets.densenet import DenseNet

        super().__init__()
        # Five halvings must leave a voxel, and two where each channel of a volume is normalised over its voxels.
        self.smallest_shape = 64 if norm == "instance" else 32
        of_norm = {"batch": {}, "group": {"num_groups": _SIZES[size]["growth_rate"]}, "instance": {"affine": True}}
        norms = norm, of_norm[norm]
        network = DenseNet(spatial_dims=3, in_channels=n_channels, out_channels=1, norm=norms, **_SIZES[size])
        self.n_features = network.class_layers.out.in_features
        self.layers = network.features
        if not final_norm:
            self.layers.norm5 = nn.Identity()

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Map volumes (n, n_channels, D, H, W) to feature maps (n, n_features, d, h, w)."""
        return torch.relu(self.layers(volumes))
