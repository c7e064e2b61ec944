"""From a volume to its representation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, cast

import torch
from torch import nn

from neurocontrast.encoders.densenet import DenseNetFeatures
from neurocontrast.encoders.lenet import LeNetFeatures
from neurocontrast.encoders.settings import EncoderSettings
from neurocontrast.exceptions import ConfigError
from neurocontrast.seeds import derive_seed

__all__ = ["Encoder", "build_encoder", "check_shape"]


def _densenet(size: Literal["densenet121", "densenet_small"], settings: EncoderSettings) -> nn.Module:
    return DenseNetFeatures(size=size, final_norm=settings.final_norm, norm=settings.norm)


_NETWORKS: dict[str, Callable[[EncoderSettings], nn.Module]] = {
    "densenet121": lambda settings: _densenet("densenet121", settings),
    "densenet_small": lambda settings: _densenet("densenet_small", settings),
    "lenet": lambda settings: LeNetFeatures(norm=settings.norm),
}


class Encoder(nn.Module):
    """A network and global average pooling: one representation a volume.

    Parameters
    ----------
    features : torch.nn.Module
        Maps volumes to feature maps; has `n_features` and `smallest_shape`.
    settings : EncoderSettings
        What it was built from; travels with its weights.

    Attributes
    ----------
    n_features : int
        Size of the representation.
    smallest_shape : int
        Fewest voxels that each axis of a volume must have.
    """

    def __init__(self, features: nn.Module, settings: EncoderSettings) -> None:
        super().__init__()
        self.features = features
        self.settings = settings
        self.n_features = cast(int, features.n_features)
        self.smallest_shape = cast(int, features.smallest_shape)

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Map volumes (n, 1, D, H, W) to representations (n, n_features)."""
        # The cache keeps volumes in half precision; they are widened here, on the device that computes.
        volumes = volumes.to(next(self.parameters()).dtype)
        # A mean, not adaptive pooling: its backward pass is deterministic on every device.
        return self.features(volumes).mean(dim=(2, 3, 4))


def build_encoder(settings: EncoderSettings, *, seed: int = 0) -> Encoder:
    """Build an encoder with weights drawn from `seed` alone.

    Parameters
    ----------
    settings : EncoderSettings
        Which network.
    seed : int
        The run's seed; the global random state is neither read nor changed.

    Returns
    -------
    Encoder
        In training mode.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed("encoder weights", seed))
        return Encoder(_NETWORKS[settings.name](settings), settings)


def check_shape(encoder: Encoder, shape: Sequence[int]) -> None:
    """Refuse volumes too small for the network's halvings.

    Raises
    ------
    ConfigError
        Naming the axis and the smallest shape.
    """
    if min(shape) < encoder.smallest_shape:
        network = f"'{encoder.settings.name}'"
        if encoder.settings.norm == "instance":  # it needs a larger one than the others do
            network += " with norm: instance"
        raise ConfigError(
            f"data.shape: encoder {network} needs at least {encoder.smallest_shape} voxels on each "
            f"axis, got {list(shape)}. Use a larger shape (with a smaller spacing_mm), or another encoder."
        )
