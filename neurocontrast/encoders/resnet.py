"""ResNets in two dimensions, from MONAI."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import nn

__all__ = ["ResNetFeatures"]


@dataclass(frozen=True)
class _Size:
    block: str
    layers: tuple[int, int, int, int]
    widths: tuple[int, int, int, int]
    n_groups: int = 32


_SIZES = {
    "resnet18": _Size("basic", (2, 2, 2, 2), (64, 128, 256, 512)),
    "resnet50": _Size("bottleneck", (3, 4, 6, 3), (64, 128, 256, 512)),
    "resnet_small": _Size("basic", (2, 2, 2, 2), (16, 32, 64, 128), n_groups=8),
}


@dataclass(frozen=True)
class _Stem:
    kernel: int
    stride: int
    max_pool: bool
    smallest_shape: int


_STEMS = {
    "cifar": _Stem(kernel=3, stride=1, max_pool=False, smallest_shape=8),
    "imagenet": _Stem(kernel=7, stride=2, max_pool=True, smallest_shape=32),
    # Of a fifth of the time of `cifar` (benchmarks/encoders.py); its last halving may leave a pixel as it is.
    "small": _Stem(kernel=3, stride=2, max_pool=False, smallest_shape=8),
}


class ResNetFeatures(nn.Module):
    """Feature maps of MONAI's ResNet (He et al. 2016), without its pooling and its classifier.

    Parameters
    ----------
    size : {'resnet18', 'resnet50', 'resnet_small'}
        See `EncoderSettings`.
    stem : {'cifar', 'imagenet'}
        What the first layers are; ``resnet_small`` has its own.
    norm : {'batch', 'group', 'instance'}
        What all normalisations are; see `EncoderSettings`.

    Attributes
    ----------
    n_features : int
        Channels of the last maps: 512, 2048 or 128.
    smallest_shape : int
        Fewest pixels of an axis; more where each channel of an image is normalised over its pixels.
    """

    n_dims = 2
    layout = inference_layout = torch.channels_last

    def __init__(
        self,
        *,
        size: Literal["resnet18", "resnet50", "resnet_small"] = "resnet18",
        stem: Literal["cifar", "imagenet"] = "cifar",
        norm: Literal["batch", "group", "instance"] = "batch",
    ) -> None:
        # MONAI takes seconds to import, and only this network needs it.
        from monai.networks.nets.resnet import ResNet

        super().__init__()
        made, first = _SIZES[size], _STEMS["small" if size == "resnet_small" else stem]
        network = ResNet(
            made.block,
            list(made.layers),
            list(made.widths),
            spatial_dims=2,
            n_input_channels=3,
            conv1_t_size=first.kernel,
            conv1_t_stride=first.stride,
            no_max_pool=not first.max_pool,
            feed_forward=False,
            bias_downsample=False,  # as published; normalisation would take a bias out again
        )
        self.n_features = network.in_planes
        # Instance normalisation needs more than one pixel after the last halving.
        self.smallest_shape = first.smallest_shape if norm != "instance" else 16 * first.stride * (1 + first.max_pool)
        names = ["conv1", "bn1", "act", *(["maxpool"] if first.max_pool else []), *(f"layer{i}" for i in (1, 2, 3, 4))]
        self.layers = nn.Sequential()
        for name in names:
            self.layers.add_module(name, getattr(network, name))
        if norm != "batch":
            _normalise(self.layers, _norm(norm, made.n_groups))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map images (n, 3, H, W) to feature maps (n, n_features, h, w)."""
        return self.layers(images)


def _norm(norm: Literal["group", "instance"], n_groups: int) -> Callable[[int], nn.Module]:
    return partial(nn.GroupNorm, n_groups) if norm == "group" else partial(nn.InstanceNorm2d, affine=True)


def _normalise(module: nn.Module, norm: Callable[[int], nn.Module]) -> None:
    """Replace batch normalisations; MONAI's ResNet gives its own `norm` to the first layer alone."""
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, norm(child.num_features))
        else:
            _normalise(child, norm)
