"""LeNet-5, for images of digits and clothes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import nn
from torch.nn import functional

__all__ = ["LeNet5Features"]

_SIDE = 32
_NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm2d,
    "group": partial(nn.GroupNorm, 2),
    "instance": partial(nn.InstanceNorm2d, affine=True),
}


class LeNet5Features(nn.Module):
    """LeNet-5 (LeCun et al. 1998) up to its classifier, for colours, with rectifiers and normalised convolutions.

    Its layers make a vector of 32×32 pixels; images of another size are resized to that, bilinearly.

    Parameters
    ----------
    norm : {'batch', 'group', 'instance'}
        What the normalisations after its two convolutions are; see `EncoderSettings`.
    """

    n_dims = 2
    n_features = 84
    smallest_shape = 8
    layout = inference_layout = torch.contiguous_format

    def __init__(self, *, norm: Literal["batch", "group", "instance"] = "batch") -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 6, kernel_size=5),
            _NORMS[norm](6),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, kernel_size=5),
            _NORMS[norm](16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 120, kernel_size=5),
            nn.ReLU(),
            nn.Conv2d(120, self.n_features, kernel_size=1),
            nn.ReLU(),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map images (n, 3, H, W) to vectors (n, 84, 1, 1)."""
        if images.shape[2:] != (_SIDE, _SIDE):
            images = functional.interpolate(images, (_SIDE, _SIDE), mode="bilinear", antialias=True)
        return self.layers(images)
