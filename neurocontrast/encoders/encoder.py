"""From an image, of two or three dimensions, to its representation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from neurocontrast.encoders.settings import NAMES_OF_DIMS, EncoderSettings
from neurocontrast.exceptions import ConfigError, DataError

__all__ = ["Encoder", "Features", "check_shape"]

_COLOURS = 3


class Features(Protocol):
    """What an encoder asks of the network that makes its feature maps."""

    n_dims: int  # axes of an image, besides channels: 2 or 3
    n_features: int  # channels of the feature maps
    smallest_shape: int  # fewest voxels or pixels of each axis
    layout: torch.memory_format  # of images, quickest in training on a CPU
    inference_layout: torch.memory_format  # of weights, quickest where nothing is trained on a CPU


class Encoder(nn.Module):
    """A network and global average pooling: one representation a sample.

    Images of two dimensions are standardised here, so that whatever reads or changes them sees plain colours, and
    that the numbers it takes travel with the weights.

    Parameters
    ----------
    features : torch.nn.Module
        Maps samples to feature maps; has the attributes of `Features`.
    settings : EncoderSettings
        What the network was built from; travels with its weights.
    n_channels : int
        Channels of a volume.

    Attributes
    ----------
    n_dims, n_channels : int
        Axes of a sample, besides channels (2 or 3), and its channels: the three colours of an image, or a volume's.
    n_features : int
        Size of the representation.
    smallest_shape : int
        Fewest voxels or pixels that each axis of a sample must have.
    mean, std : Tensor (3,)
        Of two dimensions alone: what each colour's values, between 0 and 1, are standardised by.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, features: nn.Module, settings: EncoderSettings, *, n_channels: int = 1) -> None:
        super().__init__()
        asked = cast(Features, features)
        self.features = features
        self.settings = settings
        self.n_dims, self.n_features = asked.n_dims, asked.n_features
        self.n_channels = _COLOURS if self.n_dims == 2 else n_channels
        self.smallest_shape = asked.smallest_shape
        self.layout, self.inference_layout = asked.layout, asked.inference_layout
        if self.n_dims == 2:
            self.register_buffer("mean", torch.zeros(_COLOURS))
            self.register_buffer("std", torch.ones(_COLOURS))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map volumes (n, n_channels, D, H, W), or images (n, 3, H, W), to representations (n, n_features).

        Images are uint8, or floats between 0 and 1.
        """
        is_uint8 = images.dtype == torch.uint8
        # What is kept in half precision, or in bytes, is widened here, on the device that computes.
        images = images.to(next(self.parameters()).dtype)
        if self.n_dims == 2:
            images = images / 255 if is_uint8 else images
            images = (images - self.mean[:, None, None]) / self.std[:, None, None]
        if images.device.type == "cpu":
            images = images.contiguous(memory_format=self.layout)
        maps = self.features(images)
        # A mean, not adaptive pooling: its backward pass is deterministic on every device.
        return maps.mean(dim=tuple(range(2, maps.ndim)))

    def set_standardisation(self, mean: npt.ArrayLike, std: npt.ArrayLike) -> None:
        """Let each colour be standardised by these numbers, of the training images' values between 0 and 1.

        Raises
        ------
        DataError
            Where they are not three finite means and three positive deviations.
        ValueError
            For an encoder of volumes, which standardises nothing.
        """
        if self.n_dims != 2:
            raise ValueError(f"encoder '{self.settings.name}' has no standardisation: volumes come standardised.")
        made = [np.asarray(values, dtype=np.float64) for values in (mean, std)]
        whole = all(values.shape == (_COLOURS,) and np.isfinite(values).all() for values in made)
        if not whole or made[1].min() <= 0:
            raise DataError(
                "the images' colours cannot be standardised: three finite means and three standard deviations above 0 "
                f"are needed, found {made[0].tolist()} and {made[1].tolist()}. Is a colour the same in every image? "
                "Set data.standardise to none."
            )
        for buffer, values in zip((self.mean, self.std), made, strict=True):
            buffer.copy_(torch.from_numpy(values))


def check_shape(encoder: Encoder, shape: Sequence[int]) -> None:
    """Refuse samples of a `shape` (without channels) that the network cannot encode.

    Raises
    ------
    ConfigError
        Naming the setting, where dimensions are too many or too few, or an axis is too short for the halvings.
    """
    name = encoder.settings.name
    if len(shape) != encoder.n_dims:
        kind, made_for = ("images", "volumes") if len(shape) == 2 else ("volumes", "images")
        raise ConfigError(
            f"encoder.name: '{name}' encodes {made_for}, and these are {kind}, of shape {list(shape)} (data.kind: "
            f"{kind}). Choose {_or(NAMES_OF_DIMS[5 - encoder.n_dims])}, or set data.kind to {made_for}."
        )
    if min(shape) >= encoder.smallest_shape:
        return
    network = f"'{name}'"
    if encoder.settings.norm == "instance":  # it needs a larger one than the others do
        network += " with norm: instance"
    if encoder.n_dims == 3:
        raise ConfigError(
            f"data.shape: encoder {network} needs at least {encoder.smallest_shape} voxels on each "
            f"axis, got {list(shape)}. Use a larger shape (with a smaller spacing_mm), or another encoder."
        )
    raise ConfigError(
        f"encoder.name: {network} needs at least {encoder.smallest_shape} pixels on each axis, and the images have "
        f"{list(shape)}. Prepare them larger (images.size), or choose another encoder."
    )


def _or(names: Sequence[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]])
