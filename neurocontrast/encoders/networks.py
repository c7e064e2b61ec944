"""Build networks: MONAI's DenseNets and ResNets, small LeNets, and an MLP for measures."""

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
from neurocontrast.encoders.norms import norm_layer

if TYPE_CHECKING:
    from neurocontrast.encoders.settings import EncoderSettings

_DENSENETS = {"densenet121": (64, 32, (6, 12, 24, 16)), "densenet_small": (32, 16, (4, 5, 8, 6))}
"""First features, growth and layers of each block, by network; with group normalisation, the growth
is the number of groups too."""
_RESNETS = {
    "resnet18": ("basic", [2, 2, 2, 2], 64, "B"),
    "resnet50": ("bottleneck", [3, 4, 6, 3], 64, "B"),
    "resnet_small": ("basic", [2, 2, 2, 2], 16, "B"),
    "resnet10_3d": ("basic", [1, 1, 1, 1], 64, "B"),
    "resnet18_3d": ("basic", [2, 2, 2, 2], 64, "A"),
    "resnet34_3d": ("basic", [3, 4, 6, 3], 64, "A"),
    "resnet50_3d": ("bottleneck", [3, 4, 6, 3], 64, "B"),
}
"""Kind of block, layers of each stage, width of the first stage, and kind of shortcuts, by network.

Each stage doubles the width. Shortcuts A have no weights, shortcuts B are convolutions.
"""
_STEMS = {"cifar": (3, 1, False), "imagenet": (7, 2, True), "small": (3, 2, False)}
"""Size and stride of the first convolution, and whether max-pooling follows, by kind of stem.

``small`` takes a fifth of the time of ``cifar`` (benchmarks/encoders.py).
"""
_LENET5_SIDE = 32
_N_COMPONENTS = 60
_WIDTHS = (512, 128)


def build_network(settings: EncoderSettings, n_channels: int, n_voxels: int) -> FeatureMaps:
    """Build the network that the settings name, with random weights.

    Parameters
    ----------
    settings : EncoderSettings
        Name of the network, and settings of its layers.
    n_channels : int
        Channels of a volume, or number of measures.
    n_voxels : int
        Number of voxels that a linear encoder reads; ignored by other networks.
    """
    if settings.is_linear:
        layers = LinearComponents(settings.n_components or _N_COMPONENTS, n_voxels)
        return FeatureMaps(layers, n_dims=3, n_features=len(layers.components), smallest_shape=1)
    return NETWORKS[settings.name](settings, n_channels)


def _densenet(settings: EncoderSettings, n_channels: int) -> FeatureMaps:
    """Return MONAI's 3D DenseNet that the settings name, up to the ReLU before the classifier."""
    from monai.networks.nets.densenet import DenseNet  # takes seconds

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
        layer = f"denseblock{number}"
        if number == len(blocks):
            layer = "relu5"
        widths[layer] = n_maps
        n_maps //= 2  # by the transition to the next block
    return FeatureMaps(
        network.features,
        blocks=widths,
        n_dims=3,
        n_features=network.class_layers.out.in_features,
        smallest_shape=32,  # five halvings must leave a voxel
        # Channels last is quicker in inference, and slower in training (benchmarks/training).
        inference_layout=torch.channels_last_3d,
    )


def _resnet(settings: EncoderSettings, n_channels: int) -> FeatureMaps:
    """Return MONAI's ResNet (He et al. 2016) that the settings name, for images or volumes.

    Global pooling and classifier are left out.
    """
    if settings.n_dims == 3:
        return _resnet_of_volumes(settings, n_channels)
    stem: str = settings.stem or "cifar"
    if settings.name == "resnet_small":
        stem = "small"
    layers = _layers_of_resnet(settings, n_channels=3, stem=stem)
    smallest_shape = 8
    if "maxpool" in layers:
        smallest_shape = 32
    network = nn.Sequential(layers)
    _set_norms(network, settings)
    return FeatureMaps(
        network,
        n_dims=2,
        n_features=_width_of_resnet(settings, 4),
        smallest_shape=smallest_shape,
        layout=torch.channels_last,
        inference_layout=torch.channels_last,
    )


def _resnet_of_volumes(settings: EncoderSettings, n_channels: int) -> FeatureMaps:
    """Return the 3D ResNet that the settings name, dilated in stages 3 and 4 like MedicalNet's."""
    layers = _layers_of_resnet(settings, n_channels=n_channels, stem="imagenet")
    _dilate(layers["layer3"], 2)
    _dilate(layers["layer4"], 4)
    widths = {}
    for stage in (1, 2, 3, 4):
        widths[f"layer{stage}"] = _width_of_resnet(settings, stage)
    network = nn.Sequential(layers)
    _set_norms(network, settings)
    return FeatureMaps(
        network,
        blocks=widths,
        n_dims=3,
        n_features=widths["layer4"],
        smallest_shape=8,
        inference_layout=torch.channels_last_3d,
    )


def _layers_of_resnet(
    settings: EncoderSettings, *, n_channels: int, stem: str
) -> OrderedDict[str, nn.Module]:
    """Return the layers of the ResNet that the settings name: MONAI's name of each layer → module.

    The layers are in order, and the last gives the last feature maps. `stem` is a key of `_STEMS`,
    by which size and stride of the first convolution are chosen, and whether max-pooling follows.
    """
    from monai.networks.nets.resnet import ResNet  # takes seconds

    block, depths, width, shortcut = _RESNETS[settings.name]
    size, stride, has_pool = _STEMS[stem]
    network = ResNet(
        block,
        depths,
        [width, 2 * width, 4 * width, 8 * width],
        spatial_dims=settings.n_dims,
        n_input_channels=n_channels,
        conv1_t_size=size,
        conv1_t_stride=stride,
        no_max_pool=not has_pool,
        shortcut_type=shortcut,
        feed_forward=False,
        bias_downsample=False,  # as published: normalisation would remove a bias
    )
    names = ["conv1", "bn1", "act"]
    if has_pool:
        names.append("maxpool")
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for name in (*names, "layer1", "layer2", "layer3", "layer4"):
        layers[name] = getattr(network, name)
    return layers


def _width_of_resnet(settings: EncoderSettings, stage: int) -> int:
    """Return the number of feature maps after one stage of a ResNet.

    `stage` is the number of the stage, from 1 to 4. The setting `name` says which ResNet.
    """
    block, _, width, _ = _RESNETS[settings.name]
    expansion = {"basic": 1, "bottleneck": 4}[block]
    return width * expansion * 2 ** (stage - 1)


def _set_norms(layers: nn.Module, settings: EncoderSettings) -> None:
    """Replace a ResNet's batch normalisation by group normalisation if the settings ask so.

    `layers` are changed in place.
    """
    if settings.norm != "batch":
        _replace_norms(layers, norm_layer(settings, _RESNETS[settings.name][2] // 2))


def _dilate(stage: nn.Module, dilation: int) -> None:
    """Replace the strides of a ResNet's `stage`, in place, by dilation (Chen et al. 2019).

    The stage's feature maps are then as fine as the maps of the stage before.
    """
    for block in stage.children():
        for layer in block.modules():
            if isinstance(layer, nn.Conv3d):
                layer.stride = (1, 1, 1)
                if layer.kernel_size == (3, 3, 3):
                    layer.dilation = layer.padding = (dilation,) * 3
        if isinstance(block.downsample, partial):
            block.downsample.keywords["stride"] = 1


def _replace_norms(module: nn.Module, norm: Callable[[int], nn.Module]) -> None:
    """Replace each batch normalisation inside `module`, in place, by the layer that `norm` makes.

    `norm` maps a number of channels to a layer. MONAI's ResNet applies its option `norm` to the
    first layer alone.
    """
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d | nn.BatchNorm3d):
            setattr(module, name, norm(child.num_features))
        else:
            _replace_norms(child, norm)


def _lenet(settings: EncoderSettings, n_channels: int) -> FeatureMaps:
    """Return a network of three 3D convolutions with normalisation, for tests on tiny volumes."""
    norm = norm_layer(settings, 4)
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


def _lenet5(settings: EncoderSettings, _n_channels: int) -> FeatureMaps:
    """Return LeNet-5 (LeCun et al. 1998) for colour images, with normalisation and no classifier.

    The first layer resizes images to 32 × 32 pixels.
    """
    norm = norm_layer(settings, 2)
    convolutions = [
        nn.Conv2d(3, 6, kernel_size=5),
        norm(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, kernel_size=5),
        norm(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 120, kernel_size=5),
        nn.ReLU(),
        nn.Conv2d(120, 84, kernel_size=1),
        nn.ReLU(),
    ]
    # Weights are named by the number of their layer; resizing has none.
    layers: OrderedDict[str, nn.Module] = OrderedDict(resize=_Resize())
    for number, layer in enumerate(convolutions):
        layers[str(number)] = layer
    return FeatureMaps(nn.Sequential(layers), n_dims=2, n_features=84, smallest_shape=8)


def _mlp(settings: EncoderSettings, n_measures: int) -> FeatureMaps:
    """Return a multilayer perceptron that reads `n_measures` regional measures of each person.

    Measures are read as channels of samples of one voxel.
    """
    widths = settings.widths or _WIDTHS
    layers = nn.Sequential(nn.Flatten())
    norm = norm_layer(settings, 1)
    for n_in, n_out in pairwise([n_measures, *widths]):
        layers.extend([nn.Linear(n_in, n_out, bias=False), norm(n_out), nn.ReLU()])
    layers.append(nn.Unflatten(1, (widths[-1], 1)))
    return FeatureMaps(layers, n_dims=1, n_features=widths[-1], smallest_shape=1)


NETWORKS: dict[str, Callable[[EncoderSettings, int], FeatureMaps]] = {
    **dict.fromkeys(_DENSENETS, _densenet),
    **dict.fromkeys(_RESNETS, _resnet),
    "lenet": _lenet,
    "lenet5": _lenet5,
    "mlp": _mlp,
}
"""Name → function that builds the network for a number of channels, with random weights.

A name is allowed in configurations by `EncoderSettings.name`, whose module loads no PyTorch.
"""
