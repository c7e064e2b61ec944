"""Encoders, and models of pretraining, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import nn

from neurocontrast.encoders.densenet import DenseNetFeatures
from neurocontrast.encoders.encoder import Encoder
from neurocontrast.encoders.heads import ContrastiveModel, ProjectionHead
from neurocontrast.encoders.lenet import LeNetFeatures
from neurocontrast.encoders.lenet5 import LeNet5Features
from neurocontrast.encoders.resnet import ResNetFeatures
from neurocontrast.encoders.settings import EncoderSettings
from neurocontrast.seeds import derive_seed

__all__ = ["build_encoder", "build_head", "build_model"]


def _densenet(size: Literal["densenet121", "densenet_small"], settings: EncoderSettings) -> nn.Module:
    return DenseNetFeatures(size=size, final_norm=settings.final_norm, norm=settings.norm)


def _resnet(size: Literal["resnet18", "resnet50", "resnet_small"], settings: EncoderSettings) -> nn.Module:
    return ResNetFeatures(size=size, stem=settings.stem or "cifar", norm=settings.norm)


_NETWORKS: dict[str, Callable[[EncoderSettings], nn.Module]] = {
    "densenet121": lambda settings: _densenet("densenet121", settings),
    "densenet_small": lambda settings: _densenet("densenet_small", settings),
    "lenet": lambda settings: LeNetFeatures(norm=settings.norm),
    "resnet18": lambda settings: _resnet("resnet18", settings),
    "resnet50": lambda settings: _resnet("resnet50", settings),
    "resnet_small": lambda settings: _resnet("resnet_small", settings),
    "lenet5": lambda settings: LeNet5Features(norm=settings.norm),
}


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


def build_head(settings: EncoderSettings, n_features: int, *, seed: int = 0) -> ProjectionHead:
    """Build the projection head that is put on an encoder, with weights drawn from `seed` alone.

    Parameters
    ----------
    settings : EncoderSettings
        Which head.
    n_features : int
        Number of the encoder's features.
    seed : int
        The run's seed.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed("head weights", seed))
        return ProjectionHead(n_features, settings.projection, norm=settings.projection_norm)


def build_model(settings: EncoderSettings, *, seed: int = 0) -> ContrastiveModel:
    """Build an encoder and its projection head, with weights drawn from `seed` alone.

    Parameters
    ----------
    settings : EncoderSettings
        Which network and which head.
    seed : int
        The run's seed; the global random state is neither read nor changed.

    Returns
    -------
    ContrastiveModel
        In training mode.
    """
    encoder = build_encoder(settings, seed=seed)
    return ContrastiveModel(encoder, build_head(settings, encoder.n_features, seed=seed))
