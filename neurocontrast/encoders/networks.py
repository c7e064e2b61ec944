"""The networks that make feature maps: MONAI's DenseNets and ResNets, small LeNets, and layers for measures."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from neurocontrast.encoders.encoder import FeatureMaps, LinearComponents

if TYPE_CHECKING:
    from neurocontrast.encoders.settings import EncoderSettings

# First features, growth (also the groups of a group normalisation) and layers of each block.
_DENSENETS = {"densenet121": (64, 32, (6, 12, 24, 16)), "densenet_small": (32, 16, (4, 5, 8, 6))}
# Block, layers, width of the first stage (the next ones double it), and shortcuts: A without
# weights, B by convolution.
_RESNETS = {
    "resnet18": ("basic", [2, 2, 2, 2], 64, "B"),
    "resnet50": ("bottleneck", [3, 4, 6, 3], 64, "B"),
    "resnet_small": ("basic", [2, 2, 2, 2], 16, "B"),
    "resnet10_3d": ("basic", [1, 1, 1, 1], 64, "B"),
    "resnet18_3d": ("basic", [2, 2, 2, 2], 64, "A"),
    "resnet34_3d": ("basic", [3, 4, 6, 3], 64, "A"),
    "resnet50_3d": ("bottleneck", [3, 4, 6, 3], 64, "B"),
}
# Size and stride of the first convolution, and whether max-pooling follows. The last takes a fifth
# of the time of the first (benchmarks/encoders.py).
_STEMS = {"cifar": (3, 1, False), "imagenet": (7, 2, True), "small": (3, 2, False)}
_LENET5_SIDE = 32
_N_COMPONENTS = 60
_WIDTHS = (512, 128)


def build_network(settings: EncoderSettings, n_channels: int, n_voxels: int) -> FeatureMaps:
    """Build the network that the settings name, with random weights; `n_voxels` are those of a linear encoder."""
    if settings.is_linear:
        layers = LinearComponents(settings.n_components or _N_COMPONENTS, n_voxels)
        return FeatureMaps(layers, n_dims=3, n_features=len(layers.components), smallest_shape=1)
    if settings.name == "mlp":
        return _mlp(settings, n_channels)
    if settings.name in _DENSENETS:
        return _densenet(settings, n_channels)
    if settings.name in _RESNETS:
        return _resnet(settings, n_channels)
    return _lenet(settings, n_channels) if settings.name == "lenet" else _lenet5(settings)


def _densenet(settings: EncoderSettings, n_channels: int) -> FeatureMaps:
    """MONAI's DenseNet, its last feature maps rectified as its classifier would see them."""
    # MONAI takes seconds to import, and only these networks need it.
    from monai.networks.nets.densenet import DenseNet

    n_first, growth, blocks = _DENSENETS[settings.name]
    norm = {"batch": {}, "group": {"num_groups": growth}}[settings.norm]
    network = DenseNet(3, n_channels, 1, n_first, growth, blocks, norm=(settings.norm, norm))
    if not settings.final_norm:
        network.features.norm5 = nn.Identity()
    network.features.add_module("relu5", nn.ReLU())
    widths = {}
    n_maps = n_first
    for number, n_layers in enumerate(blocks, start=1):
        n_maps += growth * n_layers
        widths["relu5" if number == len(blocks) else f"denseblock{number}"] = n_maps
        n_maps //= 2  # the transition to the next block halves them
    return FeatureMaps(
        network.features,
        blocks=widths,
        n_dims=3,
        n_features=network.class_layers.out.in_features,
        smallest_shape=32,  # five halvings must leave a voxel
        # Channels last is quicker where nothing is trained, and slower where it is
        # (benchmarks/training).
        inference_layout=torch.channels_last_3d,
    )


def _resnet(settings: EncoderSettings, n_channels: int) -> FeatureMaps:
    """MONAI's ResNet (He et al. 2016), without its pooling and its classifier; of volumes, dilated as MedicalNet's."""
    from monai.networks.nets.resnet import ResNet

    is_flat = settings.n_dims == 2
    block, depths, width, shortcut = _RESNETS[settings.name]
    stem = "small" if settings.name == "resnet_small" else settings.stem or "cifar"
    size, stride, has_pool = _STEMS[stem if is_flat else "imagenet"]
    network = ResNet(
        block,
        depths,
        [width * 2**number for number in range(4)],
        spatial_dims=settings.n_dims,
        n_input_channels=3 if is_flat else n_channels,
        conv1_t_size=size,
        conv1_t_stride=stride,
        no_max_pool=not has_pool,
        shortcut_type=shortcut,
        feed_forward=False,
        bias_downsample=False,  # as published: normalisation would take a bias out again
    )
    stages = {f"layer{number}": getattr(network, f"layer{number}") for number in (1, 2, 3, 4)}
    if not is_flat:
        _dilate(stages["layer3"], 2)
        _dilate(stages["layer4"], 4)
    names = ["conv1", "bn1", "act", *(["maxpool"] if has_pool else [])]
    layers = nn.Sequential(OrderedDict((name, getattr(network, name)) for name in names) | stages)
    if settings.norm != "batch":
        _replace_norms(layers, _norm_layer(settings, width // 2))
    return FeatureMaps(
        layers,
        blocks={}
        if is_flat
        else {name: network.in_planes >> (3 - at) for at, name in enumerate(stages)},
        n_dims=2 if is_flat else 3,
        n_features=network.in_planes,
        smallest_shape=32 if is_flat and has_pool else 8,
        layout=torch.channels_last if is_flat else torch.contiguous_format,
        inference_layout=torch.channels_last if is_flat else torch.channels_last_3d,
    )


def _dilate(stage: nn.Sequential, dilation: int) -> None:
    """Let a stage keep its resolution, and see as far by dilated convolutions (MedicalNet, Chen et al. 2019)."""
    for block in stage:
        for layer in block.modules():
            if isinstance(layer, nn.Conv3d):
                layer.stride = (1, 1, 1)
                if layer.kernel_size == (3, 3, 3):
                    layer.dilation = layer.padding = (dilation,) * 3
        if isinstance(block.downsample, partial):
            block.downsample.keywords["stride"] = 1


def _replace_norms(module: nn.Module, norm: Callable[[int], nn.Module]) -> None:
    """Replace batch normalisations; MONAI's ResNet gives its own `norm` to the first layer alone."""
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d | nn.BatchNorm3d):
            setattr(module, name, norm(child.num_features))
        else:
            _replace_norms(child, norm)


def _lenet(settings: EncoderSettings, n_channels: int) -> FeatureMaps:
    """Three normalised convolutions of volumes: an epoch of tiny ones takes milliseconds."""
    norm = _norm_layer(settings, 4)
    layers = nn.Sequential()
    for n_in, n_out in ((n_channels, 8), (8, 16), (16, 32)):
        layers.extend(
            [nn.Conv3d(n_in, n_out, 3, stride=2, padding=1, bias=False), norm(n_out), nn.ReLU()]
        )
    return FeatureMaps(
        layers,
        blocks={"2": 8, "5": 16, "8": 32},
        n_dims=3,
        n_features=32,
        smallest_shape=8,
        inference_layout=torch.channels_last_3d,
    )


class _Resize(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if images.shape[2:] == (_LENET5_SIDE, _LENET5_SIDE):
            return images
        return functional.interpolate(
            images, (_LENET5_SIDE, _LENET5_SIDE), mode="bilinear", antialias=True
        )


def _lenet5(settings: EncoderSettings) -> FeatureMaps:
    """LeNet-5 (LeCun et al. 1998) up to its classifier, for colours, with rectifiers and normalised convolutions."""
    norm = _norm_layer(settings, 2)
    made = [
        *[nn.Conv2d(3, 6, kernel_size=5), norm(6), nn.ReLU(), nn.MaxPool2d(2)],
        *[nn.Conv2d(6, 16, kernel_size=5), norm(16), nn.ReLU(), nn.MaxPool2d(2)],
        *[
            nn.Conv2d(16, 120, kernel_size=5),
            nn.ReLU(),
            nn.Conv2d(120, 84, kernel_size=1),
            nn.ReLU(),
        ],
    ]
    # Weights are named by the number of their layer; resizing has none.
    layers = nn.Sequential(
        OrderedDict([("resize", _Resize()), *((str(i), layer) for i, layer in enumerate(made))])
    )
    return FeatureMaps(layers, n_dims=2, n_features=84, smallest_shape=8)


def _mlp(settings: EncoderSettings, n_measures: int) -> FeatureMaps:
    """Linear layers for measures, which come as channels of one place."""
    widths = settings.widths or _WIDTHS
    layers = nn.Sequential(nn.Flatten())
    for n_in, n_out in pairwise([n_measures, *widths]):
        norm = nn.GroupNorm(1, n_out) if settings.norm == "group" else nn.BatchNorm1d(n_out)
        layers.extend([nn.Linear(n_in, n_out, bias=False), norm, nn.ReLU()])
    layers.append(nn.Unflatten(1, (widths[-1], 1)))
    return FeatureMaps(layers, n_dims=1, n_features=widths[-1], smallest_shape=1)


def _norm_layer(settings: EncoderSettings, n_groups: int) -> Callable[[int], nn.Module]:
    """Return what makes a normalisation of a number of channels."""
    if settings.norm == "group":
        return partial(nn.GroupNorm, n_groups)
    return nn.BatchNorm2d if settings.n_dims == 2 else nn.BatchNorm3d
