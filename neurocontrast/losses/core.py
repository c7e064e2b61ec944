"""The one shared core: sums over pairs of embeddings, dense for small batches and tiled for large ones.

Shapes: ``V`` views of ``n`` samples with ``d`` dimensions make a pool of V·n embeddings (V, n, d), unit
norm. Rows are this process's anchors, columns the candidates of all processes; they are the same tensor
in a single process. Every function returns one number an anchor, (V, n), or one row a sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.distributed import get_world_size

from neurocontrast.exceptions import DataError
from neurocontrast.kernels import Block, Kernel, Metadata
from neurocontrast.losses import attraction, repulsion
from neurocontrast.losses.gather import gather_samples, sum_over_processes
from neurocontrast.losses.tiles import Pairs

__all__ = [
    "Pool",
    "dissimilar_to",
    "log_sum_exp",
    "log_sum_exp_both_ways",
    "positives_against_negatives",
    "similar_to",
    "weighted_log_sum_exp",
    "weighted_similarity",
]

_KEPT = 1024
"""Embeddings up to which the whole pool is one tile, kept for the gradient."""
_TILE = 512
"""Embeddings on the side of a tile otherwise: large enough for the matrix product, small enough for the cache."""


@dataclass(frozen=True, eq=False)
class Pool:
    """The anchors of this process, and all their candidates.

    Attributes
    ----------
    rows : Tensor (V, n_rows, d)
        Anchors, unit norm.
    cols : Tensor (V, n_cols, d)
        Candidates of all processes, unit norm; the same object as ``rows`` in a single process.
    offset : int
        Place of the first anchor's sample among the candidates' samples.
    distributed : bool
        Whether means are taken over several processes.
    tile : int or None
        Embeddings on the side of a tile; None chooses.
    row_metadata, col_metadata : dict of Tensor
        Of the samples.
    """

    rows: Tensor
    cols: Tensor
    row_metadata: Metadata
    col_metadata: Metadata
    offset: int = 0
    distributed: bool = False
    tile: int | None = None

    @property
    def n_samples(self) -> int:
        """Samples of all processes."""
        return self.cols.shape[1]

    @property
    def n_candidates(self) -> int:
        """M: all embeddings but the anchor."""
        return self.cols.shape[0] * self.cols.shape[1] - 1

    @property
    def is_symmetric(self) -> bool:
        """Whether anchors and candidates are the same embeddings."""
        return self.rows is self.cols

    def between(self, view: int, other: int) -> Pool:
        """Anchors of one view with the candidates of one view."""
        cols = self.cols[other : other + 1]
        rows = cols if self.is_symmetric and view == other else self.rows[view : view + 1]
        return replace(self, rows=rows, cols=cols)

    def twins(self, scale: float) -> Tensor:
        """Similarity of the two views of each sample, (n_rows,)."""
        return (self.rows[0] * self.rows[1]).sum(1) * scale

    def total(self, values: Tensor) -> Tensor:
        """Sum over the anchors of all processes."""
        return sum_over_processes(values.sum()) if self.distributed else values.sum()

    def mean(self, values: Tensor) -> Tensor:
        """Mean over the anchors of all processes, of values (V, n_rows) or (n_rows,)."""
        n_anchors = values.numel() // values.shape[-1] * self.n_samples
        return self.total(values) / n_anchors if self.distributed else values.mean()

    def log_total(self, values: Tensor) -> Tensor:
        """Log of the sum of exp over the anchors of all processes."""
        local = values.flatten().logsumexp(0)
        return gather_samples(local.view(1), [1] * get_world_size()).logsumexp(0) if self.distributed else local

    def pairs(
        self,
        scale: float,
        *,
        excluded: Literal["self", "sample"] | None = None,
        weights: Block | None = None,
        both_ways: bool = False,
    ) -> Pairs:
        """Describe the pairs that are summed over, in tiles."""
        tile = self.tile
        if tile is None:
            tile = _KEPT if self.cols.shape[0] * self.cols.shape[1] <= _KEPT else _TILE
        side = max(1, tile // self.rows.shape[0])
        return Pairs(scale, side, self.offset, excluded, weights, symmetric=self.is_symmetric, both_ways=both_ways)


def similar_to(pool: Pool, kernel: Kernel) -> Block:
    """Bind a kernel to a pool's samples: ``block(i, j)`` of weights w ≥ 0."""
    block = kernel.bind(pool.row_metadata, pool.col_metadata, batch=pool.col_metadata, dtype=pool.rows.dtype)
    return block if kernel.nonnegative else lambda i, j: _refuse_negative(block(i, j))


def dissimilar_to(pool: Pool, kernel: Kernel) -> Block:
    """Bind ‖w‖∞ − w, the weight of a pair in conditional uniformity and among negatives; rounding counts as 0."""
    similar = similar_to(pool, kernel)
    supremum = kernel.supremum_over(pool.col_metadata, dtype=pool.rows.dtype)
    rounding = supremum * (16 * torch.finfo(pool.rows.dtype).eps)

    def block(i: slice, j: slice) -> Tensor:
        apart = similar(i, j).neg_().add_(supremum)
        return apart.masked_fill_(apart <= rounding, 0)

    return block


def _refuse_negative(weights: Tensor) -> Tensor:
    """An error where weights are negative; on an accelerator, which is not asked, NaN: training stops there."""
    if weights.device.type == "cpu" and not torch.compiler.is_compiling():
        if (weights < 0).any():
            raise DataError(
                f"The kernel goes down to {weights.min().item():.3g} on this batch, but this loss needs weights of at "
                "least 0. Use a Gaussian, Laplacian or categorical kernel, or shift the column."
            )
        return weights
    return weights.masked_fill_(weights < 0, torch.nan)


def log_sum_exp(pool: Pool, scale: float, *, excluded: Literal["self", "sample"] | None = "self") -> Tensor:
    """Return log Σ_j exp(s_ij) of every anchor, (V, n_rows); −inf where nothing is summed.

    Parameters
    ----------
    pool : Pool
        Anchors and candidates.
    scale : float
        1/τ.
    excluded : {"self", "sample", None}
        Leave out the anchor itself, all views of its sample, or nothing.
    """
    return repulsion.log_sum_exp(pool.rows, pool.cols, pool.pairs(scale, excluded=excluded))[0]


def log_sum_exp_both_ways(pool: Pool, scale: float) -> tuple[Tensor, Tensor]:
    """Return log Σ_j exp(s_ij) over all candidates of every row, and over all rows of every candidate.

    For one view against one view in a single process; both from the same similarities.
    """
    return repulsion.log_sum_exp(pool.rows, pool.cols, pool.pairs(scale, both_ways=True))[:2]


def weighted_log_sum_exp(pool: Pool, scale: float, weights: Block) -> tuple[Tensor, Tensor]:
    """Return log Σ_{j≠i} b_ij exp(s_ij) of every anchor, (V, n_rows), and Σ_{j≠i} b_ij, (n_rows,).

    Parameters
    ----------
    pool : Pool
        Anchors and candidates.
    scale : float
        1/τ.
    weights : callable
        Blocks of b ≥ 0 between samples. Where all of an anchor's are 0 the result is −inf, without gradient.
    """
    pairs = pool.pairs(scale, excluded="self", weights=weights)
    sums, _, mass = repulsion.log_sum_exp(pool.rows, pool.cols, pairs)
    return sums, mass


def weighted_similarity(pool: Pool, scale: float, weights: Block) -> Tensor:
    """Return Σ_{j≠i} w_ij s_ij / Σ_{j≠i} w_ij, averaged over the two anchors of every sample, (n_rows,).

    Parameters
    ----------
    pool : Pool
        Anchors and candidates, two views.
    scale : float
        1/τ.
    weights : callable
        Blocks of w ≥ 0 between samples. Where all of an anchor's are 0 the result is 0.
    """
    return attraction.weighted_similarity(pool.rows, pool.cols, pool.pairs(scale, weights=weights))


def positives_against_negatives(pool: Pool, scale: float, kernel: Kernel, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return Σ_p log(1 + exp(L_i + ε − s_ip)) of every anchor, (V, n_rows), and its number of negatives, (n_rows,).

    Parameters
    ----------
    pool : Pool
        Anchors and candidates.
    scale : float
        1/τ.
    kernel : Kernel
        1 between positives, 0 between negatives; L_i is the log-sum-exp over the negatives.
    epsilon : float
        ε.
    """
    with torch.no_grad():
        negatives, n_negatives = weighted_log_sum_exp(pool, scale, dissimilar_to(pool, kernel))
    pairs = pool.pairs(scale, excluded="self", weights=similar_to(pool, kernel))
    return attraction.positives_against(pool.rows, pool.cols, negatives, pairs, epsilon), n_negatives
