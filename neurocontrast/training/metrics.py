"""What is measured of embeddings while they are trained, and the file it is written to."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import normalize

from neurocontrast.files import atomic_path

__all__ = ["alignment", "effective_rank", "uniformity", "write_metrics"]


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
