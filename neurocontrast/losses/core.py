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
from torch.nn import functional

from neurocontrast.exceptions import DataError
from neurocontrast.kernels import Block, Kernel, Metadata
from neurocontrast.losses import tiles
from neurocontrast.losses.gather import gather_samples, sum_over_processes
from neurocontrast.losses.tiles import Pairs

__all__ = [
    "Pool",
    "dissimilar_to",
    "log_sum_exp",
    "log_sum_exp_both_ways",
    "similar_to",
    "softplus_sum",
    "weighted_log_sum_exp",
    "weighted_neighbours",
]

_WHOLE = slice(None)
_DENSE_EMBEDDINGS = 1024
_TILE_EMBEDDINGS = 1024


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

    @property
    def is_dense(self) -> bool:
        """Whether all similarities are held at once: the pool fits in one tile."""
        return self.cols.shape[0] * self.cols.shape[1] <= (self.tile or _DENSE_EMBEDDINGS)

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

    def pairs(self, scale: float, weights: Block | None, excluded: Literal["self", "sample"] | None) -> Pairs:
        """Describe the pairs that are summed over, in tiles."""
        side = max(1, (self.tile or _TILE_EMBEDDINGS) // self.rows.shape[0])
        return Pairs(scale, side, self.offset, excluded, weights, symmetric=self.is_symmetric)


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
    if not pool.is_dense:
        return tiles.log_sum_exp(pool.rows, pool.cols, pool.pairs(scale, None, excluded))[0]
    scores = _similarities(pool, scale)
    if excluded == "self" and pool.is_symmetric:
        scores.fill_diagonal_(-torch.inf)
    elif excluded is not None:
        tiles.exclude(_by_sample(scores, pool), pool.offset, excluded, -torch.inf)
    if (excluded == "self" and pool.n_candidates == 0) or (excluded == "sample" and pool.n_samples == 1):
        return torch.zeros_like(scores).sum(1).view(pool.rows.shape[:2]) - torch.inf
    return scores.logsumexp(1).view(pool.rows.shape[:2])


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
    if not pool.is_dense:
        sums, _, mass = tiles.log_sum_exp(pool.rows, pool.cols, pool.pairs(scale, weights, "self"))
        return sums, mass
    block = weights(_WHOLE, _WHOLE)
    mass = tiles.weight_mass(block, pool.rows.shape[0], pool.offset)
    scores = _by_sample(_similarities(pool, scale), pool) + block.log_().unsqueeze(1)
    tiles.exclude(scores, pool.offset, "self", -torch.inf)
    empty = mass <= 0
    sums = scores.masked_fill(empty[:, None, None], 0).logsumexp((2, 3))
    return sums.masked_fill(empty, -torch.inf), mass


def log_sum_exp_both_ways(pool: Pool, scale: float) -> tuple[Tensor, Tensor]:
    """Return log Σ_j exp(s_ij) over all candidates of every row, and over all rows of every candidate.

    For one view against one view in a single process; both from the same similarities.
    """
    if not pool.is_dense:
        pairs = replace(pool.pairs(scale, None, None), both_ways=True)
        return tiles.log_sum_exp(pool.rows, pool.cols, pairs)[:2]
    scores = _similarities(pool, scale)
    return scores.logsumexp(1), scores.logsumexp(0)


def weighted_neighbours(pool: Pool, weights: Block) -> tuple[Tensor, Tensor, Tensor]:
    """Return Σ_j w_ij (z_j, summed over views), Σ_j w_ij, both over the *other* samples, and w_ii.

    Parameters
    ----------
    pool : Pool
        Anchors and candidates.
    weights : callable
        Blocks of w between samples.

    Returns
    -------
    Tensor (n_rows, d), Tensor (n_rows,), Tensor (n_rows,)
        The first carries gradient to the candidates.
    """
    summed = pool.cols.sum(0)
    if not pool.is_dense:
        return tiles.weighted_neighbours(summed, pool.rows.shape[1], pool.pairs(1.0, weights, "sample"))
    block = weights(_WHOLE, _WHOLE)
    own = block.diagonal(pool.offset)[: pool.rows.shape[1]].clone()
    block.diagonal(pool.offset).zero_()
    return block @ summed, block.sum(1), own


def softplus_sum(pool: Pool, scale: float, thresholds: Tensor, weights: Block) -> Tensor:
    """Return Σ_{j≠i} w_ij log(1 + exp(c_i − s_ij)) of every anchor, (V, n_rows).

    Parameters
    ----------
    pool : Pool
        Anchors and candidates.
    scale : float
        1/τ.
    thresholds : Tensor (V, n_rows)
        c, of every anchor; carries gradient.
    weights : callable
        Blocks of w between samples.
    """
    if not pool.is_dense:
        return tiles.softplus_sum(pool.rows, pool.cols, thresholds, pool.pairs(scale, weights, "self"))
    scores = _by_sample(_similarities(pool, scale), pool)
    terms = functional.softplus(thresholds[:, :, None, None] - scores, threshold=tiles.LINEAR_FROM)
    n_views = len(pool.rows)
    factors = weights(_WHOLE, _WHOLE).unsqueeze(1).repeat(n_views, 1, n_views, 1)
    tiles.exclude(factors, pool.offset, "self", 0.0)
    return (terms * factors).sum((2, 3))


def _similarities(pool: Pool, scale: float) -> Tensor:
    """All s_ij, (V·n_rows, V·n_cols)."""
    cols = pool.cols.flatten(0, 1)
    rows = cols if pool.is_symmetric else pool.rows.flatten(0, 1)
    return (rows * scale) @ cols.T


def _by_sample(scores: Tensor, pool: Pool) -> Tensor:
    """View (V·n_rows, V·n_cols) as (V, n_rows, V, n_cols)."""
    n_views, n_rows, _ = pool.rows.shape
    return scores.view(n_views, n_rows, n_views, -1)
