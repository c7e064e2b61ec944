"""Figures of embeddings during training, the file of figures, and signs of collapse."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import normalize

from neurocontrast.files import atomic_path

__all__ = ["alignment", "collapse_of", "collapse_warning", "effective_rank", "uniformity", "write_metrics"]

_UNIFORMITY_OF_A_POINT = -0.02
"""Embeddings spread over the sphere have −2 and less; above −0.02 their typical distance is below 0.1 (6 degrees)."""
_RANK_OF_A_LINE = 1.2
"""At this effective rank all directions but the first have 4 % of the singular values' sum together."""


def alignment(z1: torch.Tensor, z2: torch.Tensor) -> torch.Tensor:
    """Return the mean squared distance of two views on the sphere (Wang & Isola 2020, alpha = 2); 0 is best."""
    return (normalize(z1, dim=1) - normalize(z2, dim=1)).square().sum(dim=1).mean()


def uniformity(z: torch.Tensor) -> torch.Tensor:
    """Return log E exp(-2 distance²) over pairs on the sphere (Wang & Isola 2020, t = 2); lower is more uniform."""
    n_pairs = len(z) * (len(z) - 1) / 2
    return (-2 * torch.pdist(normalize(z, dim=1)).square()).logsumexp(dim=0) - torch.tensor(n_pairs).log()


def effective_rank(z: torch.Tensor) -> torch.Tensor:
    """Return the exponential of the entropy of the centred embeddings' normalised singular values.

    It falls to 1 where all embeddings lie on a line, which a loss alone does not show.
    """
    z = normalize(z, dim=1).double()
    values = torch.linalg.svdvals(z - z.mean(dim=0))
    shares = values / values.sum().clamp_min(torch.finfo(values.dtype).tiny)
    return torch.special.entr(shares).sum().exp()


def write_metrics(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write one row an epoch as CSV, atomically; a value that was not measured is an empty cell.

    Floats are written with all their digits, so that equal runs give equal files.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row)) or ["epoch"]
    with atomic_path(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def collapse_of(row: Mapping[str, Any]) -> str | None:
    """Return how the representation has collapsed by a row of ``metrics.csv``: to a point or a line, or None."""
    side = "val" if "val_uniformity" in row else "train"
    on = "validation samples" if side == "val" else "training samples"
    spread = row.get(f"{side}_uniformity")
    if spread is not None and spread > _UNIFORMITY_OF_A_POINT:
        return f"all embeddings of {on} are nearly the same point (uniformity {spread:.3g}; spread ones have −2)"
    for what, name in (("embeddings", f"{side}_effective_rank"), ("features", f"{side}_features_effective_rank")):
        rank = row.get(name)
        if rank is not None and rank < _RANK_OF_A_LINE:
            return f"the {what} of {on} lie on a line (effective rank {rank:.3g})"
    return None


def collapse_warning(row: Mapping[str, Any], previous: Mapping[str, Any] | None) -> str | None:
    """Return the warning of an epoch with which a collapse begins; None where nothing is new."""
    found = collapse_of(row)
    if found is None or (previous is not None and collapse_of(previous) is not None):
        return None
    return (
        f"epoch {row['epoch']}: the representation has collapsed: {found}. Nothing tells the samples apart then. "
        "Lower training.learning_rate or add training.warmup_epochs, use a larger training.batch_size, or another "
        "objective.temperature. In the first epochs it may pass; with a loss that only separates two classes, "
        "a line is its minimum."
    )
