"""LeNet-sized networks: of volumes, for tests and first steps, and of images of digits and clothes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import nn
from torch.nn import functional

__all__ = ["LeNet5Features", "LeNetFeatures", "norm_layer"]

_SIDE = 32
Norm = Literal["batch", "group", "instance"]


def norm_layer(norm: Norm, *, n_dims: Literal[2, 3], n_groups: int) -> Callable[[int], nn.Module]:
    """Return what makes a normalisation of so many channels."""
    made: dict[str, Callable[[int], nn.Module]] = {
        "batch": nn.BatchNorm2d if n_dims == 2 else nn.BatchNorm3d,
        "group": partial(nn.GroupNorm, n_groups),
        "instance": partial(nn.InstanceNorm2d if n_dims == 2 else nn.InstanceNorm3d, affine=True),
    }
    return made[norm]


class LeNetFeatures(nn.Module):
    """Three normalised convolutions: an epoch of tiny volumes takes milliseconds."""

    n_dims = 3
    n_features = 32
    layout, inference_layout = torch.contiguous_format, torch.channels_last_3d

    def __init__(self, *, norm: Norm = "batch", n_channels: int = 1) -> None:
        super().__init__()
        # Instance normalisation needs more than one voxel after three halvings.
        self.smallest_shape = 16 if norm == "instance" else 8
        made, layers = norm_layer(norm, n_dims=3, n_groups=4), []
        for n_in, n_out in ((n_channels, 8), (8, 16), (16, self.n_features)):
            convolution = nn.Conv3d(n_in, n_out, kernel_size=3, stride=2, padding=1, bias=False)
            layers += [convolution, made(n_out), nn.ReLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Map volumes (n, n_channels, D, H, W) to feature maps (n, 32, d, h, w)."""
        return self.layers(volumes)


class LeNet5Features(nn.Module):
    """LeNet-5 (LeCun et al. 1998) up to its classifier, for colours, with rectifiers and normalised convolutions.

    Its layers make a vector of 32×32 pixels; images of another size are resized to that, bilinearly.
    """

    n_dims = 2
    n_features = 84
    smallest_shape = 8
    layout = inference_layout = torch.contiguous_format

    def __init__(self, *, norm: Norm = "batch") -> None:
        super().__init__()
        made = norm_layer(norm, n_dims=2, n_groups=2)
        self.layers = nn.Sequential(
            *[nn.Conv2d(3, 6, kernel_size=5), made(6), nn.ReLU(), nn.MaxPool2d(2)],
            *[nn.Conv2d(6, 16, kernel_size=5), made(16), nn.ReLU(), nn.MaxPool2d(2)],
            *[nn.Conv2d(16, 120, kernel_size=5), nn.ReLU()],
            *[nn.Conv2d(120, self.n_features, kernel_size=1), nn.ReLU()],
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map images (n, 3, H, W) to vectors (n, 84, 1, 1)."""
        if images.shape[2:] != (_SIDE, _SIDE):
            images = functional.interpolate(images, (_SIDE, _SIDE), mode="bilinear", antialias=True)
        return self.layers(images)
