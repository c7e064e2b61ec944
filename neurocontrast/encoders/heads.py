"""What stands on the encoder while it is pretrained."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import nn

from neurocontrast.encoders.encoder import Encoder, build_encoder
from neurocontrast.encoders.settings import EncoderSettings
from neurocontrast.seeds import derive_seed

__all__ = ["ContrastiveModel", "ProjectionHead", "build_model"]


class ProjectionHead(nn.Sequential):
    """Linear layers with rectifiers between them, on features standardised over the batch.

    Pooled features of brains are nearly the same for everybody: what differs is a small part
    of their mean. Without standardising, the first steps turn all embeddings towards that mean,
    and short trainings spend their time on the way back (``benchmarks/recipe.py``).

    Parameters
    ----------
    n_features : int
        Number of the encoder's features.
    sizes : sequence of int
        Size of each layer; the last is the size of the embedding. None: the features are the embedding.
    norm : {'batch', 'none'}
        ``batch`` standardises each feature over the batch, without parameters of its own.

    Examples
    --------
    >>> import torch
    >>> ProjectionHead(1024, [512, 128])(torch.zeros(2, 1024)).shape
    torch.Size([2, 128])
    """

    def __init__(self, n_features: int, sizes: Sequence[int], *, norm: Literal["batch", "none"] = "batch") -> None:
        standardised: list[nn.Module] = [nn.BatchNorm1d(n_features, affine=False)] if norm == "batch" else []
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise([n_features, *sizes]):
            layers += [nn.Linear(n_in, n_out), nn.ReLU()]
        super().__init__(*standardised, *layers[:-1])


class ContrastiveModel(nn.Module):
    """An encoder with its projection head; the loss sees the head's output.

    Parameters
    ----------
    encoder : Encoder
        The network whose features are kept.
    head : torch.nn.Module
        Maps the features to the embedding; thrown away after pretraining.
    """

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Map volumes (n, 1, D, H, W) to embeddings (n, d), not normalised."""
        return self.head(self.encoder(volumes))


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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed("head weights", seed))
        return ContrastiveModel(
            encoder, ProjectionHead(encoder.n_features, settings.projection, norm=settings.projection_norm)
        )
