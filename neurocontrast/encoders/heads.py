"""What stands on the encoder while it is pretrained."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, cast

import torch
from torch import nn

from neurocontrast.encoders.encoder import Encoder

__all__ = ["ContrastiveModel", "ProjectionHead"]


class ProjectionHead(nn.Sequential):
    """Linear layers with rectifiers between them, on features standardised over the batch.

    Pooled features of brains are nearly the same for everybody: what differs is a small part of their mean. Without
    standardising, the first steps turn all embeddings towards that mean, and short trainings spend their time on the
    way back (``benchmarks/recipe.py``).

    Parameters
    ----------
    n_features : int
        Number of the encoder's features.
    sizes : sequence of int
        Size of each layer; the last is the size of the embedding, `n_features` of the head. Without any, the features
        are the embedding.
    norm : {'batch', 'layers', 'none'}
        ``batch`` standardises each feature over the batch, without parameters of its own; ``layers`` has
        batch normalisation after each layer but the last (Chen et al. 2020).

    Examples
    --------
    >>> import torch
    >>> ProjectionHead(1024, [512, 128])(torch.zeros(2, 1024)).shape
    torch.Size([2, 128])
    """

    def __init__(
        self, n_features: int, sizes: Sequence[int], *, norm: Literal["batch", "layers", "none"] = "batch"
    ) -> None:
        layers: list[nn.Module] = [nn.BatchNorm1d(n_features, affine=False)] if norm == "batch" else []
        for n_in, n_out in pairwise([n_features, *sizes[:-1]]):
            # Normalisation would take a bias out again.
            normalised: list[nn.Module] = [nn.BatchNorm1d(n_out)] if norm == "layers" else []
            layers += [nn.Linear(n_in, n_out, bias=not normalised), *normalised, nn.ReLU()]
        if sizes:
            layers.append(nn.Linear([n_features, *sizes][-2], sizes[-1]))
        super().__init__(*layers)
        self.n_features = sizes[-1] if sizes else n_features


class ContrastiveModel(nn.Module):
    """An encoder with its projection head; the loss sees the head's output.

    Parameters
    ----------
    encoder : Encoder
        The network whose features are kept.
    head : torch.nn.Module
        Maps the features to the embedding; evaluation does without the head by default.
    """

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    @property
    def n_features(self) -> int:
        """Size of the embedding."""
        return cast(int, self.head.n_features)

    @property
    def inference_layout(self) -> torch.memory_format:
        """Layout of the encoder's weights that is quickest where nothing is trained."""
        return self.encoder.inference_layout

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map volumes (n, 1, D, H, W), or images (n, 3, H, W), to embeddings (n, d), not normalised."""
        return self.head(self.encoder(images))
