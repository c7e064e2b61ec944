"""The one shared core: sums over pairs of embeddings, in memory that grows with n and not with n².

Letters of shapes, here and in every loss::

    V  views of a batch              n    samples of all processes (n_rows: those of this process)
    d  dimensions of an embedding    n_i  samples of one block of anchors
    N  V·n embeddings, the pool

Rows are this process's anchors, columns the candidates of all processes; in a single process they are the same
tensor. Embeddings have unit norm unless a loss takes raw inner products, s_ij = <z_i, z_j>/τ, and ``scale`` is 1/τ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import torch
from torch import Tensor
from torch.distributed import get_world_size
from torch.utils.checkpoint import checkpoint

from neurocontrast.collectives import gather_samples, sum_over_processes
from neurocontrast.exceptions import DataError
from neurocontrast.kernels import Block, Kernel, Metadata
from neurocontrast.losses import pairwise
from neurocontrast.losses.tiles import Excluded, Pairs

__all__ = [
    "Pool",
    "by_anchors",
    "candidates_of",
    "dissimilar_to",
    "log_sum_exp",
    "log_sum_exp_both_ways",
    "positives_against_negatives",
    "similar_to",
    "weighted_similarity",
]

AT_ONCE = 2**20
"""Similarities held at once."""
_ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Pool:
    """Anchors of this process, ``rows`` (V, n_rows, d), and their candidates, ``cols`` (V, n, d) or the same object.

    ``offset`` is the place of the first anchor's sample among the candidates' samples, ``of_units`` says that all
    embeddings have unit norm, ``bound`` holds kernels bound already, for two parts of a loss.
    """

    rows: Tensor
    cols: Tensor
    row_metadata: Metadata
    col_metadata: Metadata
    offset: int = 0
    distributed: bool = False
    of_units: bool = True
    bound: dict[Kernel, Block] = field(default_factory=dict)

    @property
    def n_samples(self) -> int:
        """Samples of all processes."""
        return self.cols.shape[1]

    @property
    def n_candidates(self) -> int:
        """M = N − 1: all embeddings but the anchor."""
        return self.cols.shape[0] * self.cols.shape[1] - 1

    @cached_property
    def views(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Rows and columns of each view alone, (n_rows, d) and (n, d)."""
        rows = self.rows.unbind(0)
        return rows, rows if self.rows is self.cols else self.cols.unbind(0)

    def between(self, view: int, other: int) -> Pool:
        """Anchors of one view with the candidates of one view."""
        rows, cols = self.views
        candidates = cols[other].unsqueeze(0)
        anchors = candidates if self.rows is self.cols and view == other else rows[view].unsqueeze(0)
        return replace(self, rows=anchors, cols=candidates)

    def alignment(self, scale: float, view: int = 0, other: int = 1) -> Tensor:
        """Mean similarity of the two views of a sample."""
        rows, _ = self.views
        similarity = torch.dot(rows[view].reshape(-1), rows[other].reshape(-1)) * (scale / self.n_samples)
        return sum_over_processes(similarity) if self.distributed else similarity

    def twins(self, scale: float) -> Tensor:
        """Similarity of the two views of each sample, (n_rows,)."""
        rows, _ = self.views
        return (rows[0] * rows[1]).sum(1) * scale

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


def similar_to(pool: Pool, kernel: Kernel) -> Block:
    """Bind a kernel to a pool's samples: ``block(i, j)`` of weights w ≥ 0."""
    if kernel not in pool.bound:
        rows, cols = pool.row_metadata, pool.col_metadata
        block = kernel.bind(rows, cols, batch=cols, dtype=pool.rows.dtype, offset=pool.offset)
        if not kernel.nonnegative:
            block = partial(_refuse_negative, block)
        if pool.n_samples**2 <= AT_ONCE:
            block = partial(_part, block(_ALL, _ALL))
        pool.bound[kernel] = block
    return pool.bound[kernel]


def _part(weights: Tensor, i: slice, j: slice) -> Tensor:
    return weights[i, j].clone()


def _refuse_negative(block: Block, i: slice, j: slice) -> Tensor:
    """An error where weights are negative; on an accelerator, which is not asked, NaN: training stops there."""
    weights = block(i, j)
    if weights.device.type == "cpu" and not torch.compiler.is_compiling():
        if (weights < 0).any():
            raise DataError(
                f"The kernel goes down to {weights.min().item():.3g} on this batch, but this loss needs weights of at "
                "least 0. Use a Gaussian, Laplacian or categorical kernel, or shift the column."
            )
        return weights
    return weights.masked_fill_(weights < 0, torch.nan)


def dissimilar_to(pool: Pool, kernel: Kernel, negatives: Kernel | None = None) -> Block:
    """Bind (‖w‖∞ − w) v, the weight of a pair in conditional uniformity; rounding of ‖w‖∞ − w counts as 0.

    v is the kernel of the ``negatives``: 1 for every pair where there is none.
    """
    similar = similar_to(pool, kernel)
    among = None if negatives is None else similar_to(pool, negatives)
    supremum = kernel.supremum_over(pool.col_metadata, dtype=pool.rows.dtype)
    rounding = supremum * (16 * torch.finfo(pool.rows.dtype).eps)

    def block(i: slice, j: slice) -> Tensor:
        apart = similar(i, j).neg_().add_(supremum)
        apart.masked_fill_(apart <= rounding, 0)
        return apart if among is None else apart.mul_(among(i, j))

    return block


def candidates_of(pool: Pool, kernel: Kernel, negatives: Kernel) -> Block:
    """Bind max(v/‖v‖∞, w/‖w‖∞), the weight of a candidate that is one for being a negative (v) or a positive (w)."""
    parts = [similar_to(pool, each) for each in (negatives, kernel)]
    suprema = [each.supremum_over(pool.col_metadata, dtype=pool.rows.dtype) for each in (negatives, kernel)]
    tiny = torch.finfo(pool.rows.dtype).tiny
    suprema = [each.clamp_min(tiny) if isinstance(each, Tensor) else each for each in suprema]

    def block(i: slice, j: slice) -> Tensor:
        negative, positive = (part(i, j).div_(supremum) for part, supremum in zip(parts, suprema, strict=True))
        return torch.maximum(negative, positive, out=negative)

    return block


def log_sum_exp(
    pool: Pool, scale: float, weights: Block | None = None, *, excluded: Excluded = "self"
) -> tuple[Tensor, Tensor]:
    """Return log Σ_j b_ij exp(s_ij) of every anchor, (V, n_rows), and Σ_j b_ij, (n_rows,).

    `weights` are blocks of b ≥ 0 between samples: 1, and their sum 0, where none are given. Where all of an anchor's
    are 0 the logarithm is −1e30, without gradient. `excluded` are the anchor itself or all views of its sample.
    """
    sums, _, mass = pairwise.log_sum_exp(pool.rows, pool.cols, _pairs(pool, scale, weights, excluded))
    return sums, sums.new_zeros(sums.shape[1]) if mass is None else mass


def log_sum_exp_both_ways(pool: Pool, scale: float) -> tuple[Tensor, Tensor]:
    """Return log Σ_j exp(s_ij) over all candidates of every row, and over all rows of every candidate.

    For one view against one view in a single process; both from the same similarities.
    """
    pairs = replace(_pairs(pool, scale), both_ways=True)
    of_rows, of_cols, _ = pairwise.log_sum_exp(pool.rows, pool.cols, pairs)
    assert of_cols is not None
    return of_rows, of_cols


def weighted_similarity(pool: Pool, scale: float, weights: Block) -> Tensor:
    """Return Σ_{j≠i} w_ij s_ij / Σ_{j≠i} w_ij, averaged over a sample's two anchors, (n_rows,); 0 without weight."""
    return pairwise.weighted_similarity(pool.rows, pool.cols, _pairs(pool, scale, weights))


def positives_against_negatives(pool: Pool, scale: float, kernel: Kernel, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return Σ_p log(1 + exp(L_i + ε − s_ip)) of every anchor, (V, n_rows), and its number of negatives, (n_rows,).

    The kernel is 1 between positives and 0 between negatives; L_i is the log-sum-exp over the negatives.
    """
    pairs = _pairs(pool, scale, similar_to(pool, kernel), "self")
    return pairwise.positives_against_negatives(pool.rows, pool.cols, pairs, epsilon)


def _pairs(pool: Pool, scale: float, weights: Block | None = None, excluded: Excluded = None) -> Pairs:
    """Describe the pairs that are summed over: all in one tile where they fit, else tiles of a processor's cache."""
    n_views, n_rows, n_cols = len(pool.rows), pool.rows.shape[1], pool.cols.shape[1]
    fits = n_views * n_rows * n_views * n_cols <= AT_ONCE
    side = max(n_rows, n_cols) if fits else max(1, math.isqrt(AT_ONCE) // 2 // n_views)
    symmetric, bounded = pool.rows is pool.cols, pool.of_units
    return Pairs(scale, side, pool.offset, excluded, weights, symmetric=symmetric, bounded=bounded)


OfBlock = Callable[[Tensor, Tensor, slice], tuple[Tensor, ...]]
"""Anchors (V, n_i, d), candidates (V, n, d) and the block's place to numbers of each anchor, (…, n_i)."""


def by_anchors(pool: Pool, function: OfBlock) -> tuple[Tensor, ...]:
    """Apply a function to blocks of anchors and all candidates, and join what it returns.

    A block is computed, reduced and dropped, and computed again for the gradient.
    """
    # A quarter of what may be held: autograd keeps several tensors of a block.
    step = max(1, AT_ONCE // (4 * pool.rows.shape[0] * pool.cols.shape[0] * pool.n_samples))
    n = pool.rows.shape[1]
    found = [
        checkpoint(function, pool.rows[:, i], pool.cols, i, use_reentrant=False, preserve_rng_state=False)
        for i in (slice(start, min(start + step, n)) for start in range(0, n, step))
    ]
    return tuple(torch.cat(each, -1) for each in zip(*found, strict=True))
