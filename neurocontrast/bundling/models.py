"""The encoder and the probe of a bundle, built from the plain settings that its configuration holds."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import nn

from neurocontrast.encoders.encoder import Encoder
from neurocontrast.encoders.networks import build_network
from neurocontrast.evaluation.distances import TrainingDistribution

__all__ = ["Probe", "build_encoder", "load_probe"]


def build_encoder(
    settings: Mapping[str, Any], weights: str | os.PathLike[str], *, n_channels: int = 1, n_voxels: int = 0
) -> Encoder:
    """Build the encoder and load its weights, in evaluation mode.

    Parameters
    ----------
    settings : mapping
        Settings of the encoder but those of its projection head.
    weights : path
        File of the state dictionary; it is read without running what a pickle may hold.
    n_channels, n_voxels : int
        Channels of a volume; voxels that a linear encoder looks at.
    """
    read_out = _ReadOut(settings["read_out"]["blocks"], tuple(settings["read_out"]["grid"]))
    is_linear = settings["name"] in ("pca", "lda")
    known = cast(Any, SimpleNamespace(**{**settings, "read_out": read_out, "is_linear": is_linear, "n_dims": 3}))
    encoder = Encoder(build_network(known, n_channels, n_voxels), known, n_channels=n_channels)
    encoder.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return encoder.eval()


class _ReadOut:
    """Blocks and grid that features are read out at, which were checked when the encoder was trained."""

    def __init__(self, blocks: Any, grid: tuple[int, ...]) -> None:
        self.blocks, self.grid = None if blocks is None else tuple(blocks), grid
        self.n_cells = math.prod(grid)

    def check(self, name: str) -> None:
        """Find nothing to refuse."""
        del name


class Probe(nn.Module):
    """Predict from features: standardisation and coefficients as one linear layer in float64, and its link.

    Parameters
    ----------
    n_features : int
        Number of features.
    kind : {"binary", "multiclass", "continuous"}
        What is predicted.
    classes : sequence of str
        Names of the classes, of two the positive one last.
    threshold : float or str
        Probability from which a scan is positive; ``half`` or ``prevalence`` of several classes.
    outside_percentile : float
        Percentile of training scans' distances beyond which a scan is outside.
    limits : pair of float, optional
        Range in which predicted numbers are kept.

    Attributes
    ----------
    linear : torch.nn.Linear
        Margins of the classes, or the number.
    distribution : TrainingDistribution or None
        Where the training scans lie.
    """

    def __init__(
        self,
        n_features: int,
        *,
        kind: str,
        classes: Sequence[str] = (),
        threshold: float | str = 0.5,
        outside_percentile: float = 97.5,
        limits: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.kind, self.classes, self.threshold = kind, list(classes), threshold
        self.outside_percentile, self.limits = outside_percentile, limits
        self.linear = nn.Linear(n_features, len(classes) if kind == "multiclass" else 1, dtype=torch.float64)
        self.register_buffer("shares", torch.ones(len(classes), dtype=torch.float64))
        self.distribution: TrainingDistribution | None = None

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map features (n, n_features) to probabilities of the positive class, or numbers (n,), or (n, n_classes)."""
        margins = self.linear(features.double())
        if self.kind == "multiclass":
            return torch.softmax(margins, dim=1)
        if self.kind == "binary":
            return torch.sigmoid(margins[:, 0])
        return margins[:, 0] if self.limits is None else margins[:, 0].clamp(*self.limits)

    @torch.no_grad()
    def describe(self, features: torch.Tensor) -> dict[str, Any]:
        """Return what is predicted for one scan (1, n_features), as JSON has it."""
        scores = self(features)[0]
        if self.kind == "continuous":
            found: dict[str, Any] = {"y_score": float(scores), "y_pred": float(scores)}
        elif self.kind == "binary":
            found = {"y_score": float(scores), "y_pred": self.classes[int(float(scores) >= float(self.threshold))]}
        else:
            found = {f"score_{name}": float(score) for name, score in zip(self.classes, scores, strict=True)}
            relative = scores / self.shares if self.threshold == "prevalence" else scores
            found["y_pred"] = self.classes[int(relative.argmax())]
        if self.distribution is None:
            return found
        distances, percentiles = self.distribution.percentiles(features.double().numpy())
        outside = bool(percentiles[0] > self.outside_percentile)
        place = {"mahalanobis": float(distances[0]), "mahalanobis_percentile": float(percentiles[0])}
        return found | place | {"outside": outside}


def load_probe(weights: str | os.PathLike[str], **settings: Any) -> Probe:
    """Build a probe and load its numbers; the file is read without running what a pickle may hold."""
    arrays = torch.load(weights, map_location="cpu", weights_only=True)
    probe = Probe(arrays["linear.weight"].shape[1], **settings)
    geometry = {name.removeprefix("inside_"): arrays.pop(name) for name in list(arrays) if name.startswith("inside_")}
    probe.load_state_dict(arrays)
    if geometry:
        found = {name: values.numpy() for name, values in geometry.items()}
        found["remainder"] = float(found["remainder"])
        probe.distribution = TrainingDistribution(tuple(map(str, range(len(found["centres"])))), **found)
    return probe.eval()
