"""ResNets in two dimensions, from MONAI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn

from neurocontrast.encoders.lenet import Norm, norm_layer

__all__ = ["ResNetFeatures"]

_SIZES: dict[str, tuple[str, list[int], list[int], int]] = {
    "resnet18": ("basic", [2, 2, 2, 2], [64, 128, 256, 512], 32),
    "resnet50": ("bottleneck", [3, 4, 6, 3], [64, 128, 256, 512], 32),
    "resnet_small": ("basic", [2, 2, 2, 2], [16, 32, 64, 128], 8),
}
"""Block, layers and widths, and groups of a group normalisation."""

_STEMS: dict[str, dict[str, Any]] = {
    "cifar": {"conv1_t_size": 3, "conv1_t_stride": 1, "no_max_pool": True},
    "imagenet": {"conv1_t_size": 7, "conv1_t_stride": 2, "no_max_pool": False},
    # Of a fifth of the time of `cifar` (benchmarks/encoders.py); its last halving may leave a pixel as it is.
    "small": {"conv1_t_size": 3, "conv1_t_stride": 2, "no_max_pool": True},
}


class ResNetFeatures(nn.Module):
    """Feature maps of MONAI's ResNet (He et al. 2016), without its pooling and its classifier.

    `stem` says what the first layers are; ``resnet_small`` has its own.
    """

    n_dims = 2
    layout = inference_layout = torch.channels_last

    def __init__(
        self,
        *,
        size: Literal["resnet18", "resnet50", "resnet_small"] = "resnet18",
        stem: Literal["cifar", "imagenet"] = "cifar",
        norm: Norm = "batch",
    ) -> None:
        # MONAI takes seconds to import, and only this network needs it.
        from monai.networks.nets.resnet import ResNet

        super().__init__()
        block, layers, widths, n_groups = _SIZES[size]
        first = _STEMS["small" if size == "resnet_small" else stem]
        # `bias_downsample` as published: normalisation would take a bias out again.
        network = ResNet(
            block,
            layers,
            widths,
            spatial_dims=2,
            n_input_channels=3,
            feed_forward=False,
            bias_downsample=False,
            **first,
        )
        self.n_features = network.in_planes
        has_pool = not first["no_max_pool"]
        # Instance normalisation needs more than one pixel after the last halving.
        halved = 16 * first["conv1_t_stride"] * (1 + has_pool)
        self.smallest_shape = halved if norm == "instance" else 32 if has_pool else 8
        names = ["conv1", "bn1", "act", *(["maxpool"] if has_pool else []), *(f"layer{i}" for i in (1, 2, 3, 4))]
        self.layers = nn.Sequential()
        for name in names:
            self.layers.add_module(name, getattr(network, name))
        if norm != "batch":
            _normalise(self.layers, norm_layer(norm, n_dims=2, n_groups=n_groups))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map images (n, 3, H, W) to feature maps (n, n_features, h, w)."""
        return self.layers(images)


def _normalise(module: nn.Module, norm: Callable[[int], nn.Module]) -> None:
    """Replace batch normalisations; MONAI's ResNet gives its own `norm` to the first layer alone."""
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, norm(child.num_features))
        else:
            _normalise(child, norm)
