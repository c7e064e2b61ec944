"""The one shared core: sums over pairs of embeddings, dense for small batches and tiled for large ones.

Shapes: ``V`` views of ``n`` samples with ``d`` dimensions make a pool of V·n embeddings (V, n, d), unit
norm. Rows are this process's anchors, columns the candidates of all processes; they are the same tensor
in a single process. Every function returns one number an anchor, (V, n), or one row a sample.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal

import torch
from torch import Tensor
from torch.distributed import get_world_size

from neurocontrast.collectives import gather_samples, sum_over_processes
from neurocontrast.exceptions import DataError
from neurocontrast.kernels import Block, Kernel, Metadata
from neurocontrast.losses import attraction, dense, repulsion
from neurocontrast.losses.tiles import LogSums, Pairs

__all__ = [
    "Pool",
    "candidates_of",
    "dissimilar_to",
    "log_sum_exp",
    "log_sum_exp_both_ways",
    "positives_against_negatives",
    "similar_to",
    "weighted_log_sum_exp",
    "weighted_similarity",
]

_ALL = slice(None)
_DENSE = 1024
"""Embeddings up to which holding all similarities is faster."""
_TILE = 512
"""Embeddings on the side of a tile: large enough for the matrix product, small enough for the cache."""


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
    bound : dict
        Kernels bound to the samples, so that two parts of a loss bind them once.
    """

    rows: Tensor
    cols: Tensor
    row_metadata: Metadata
    col_metadata: Metadata
    offset: int = 0
    distributed: bool = False
    tile: int | None = None
    bound: dict[Kernel, Block] = field(default_factory=dict)

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
        """Whether all similarities are held at once."""
        return self.cols.shape[0] * self.cols.shape[1] <= (self.tile or _DENSE)

    @cached_property
    def views(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Rows and columns of each view alone, (n, d)."""
        rows = self.rows.unbind(0)
        return rows, rows if self.is_symmetric else self.cols.unbind(0)

    def between(self, view: int, other: int) -> Pool:
        """Anchors of one view with the candidates of one view."""
        rows, cols = self.views
        candidates = cols[other].unsqueeze(0)
        anchors = candidates if self.is_symmetric and view == other else rows[view].unsqueeze(0)
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

    def pairs(
        self,
        scale: float,
        *,
        excluded: Literal["self", "sample"] | None = None,
        weights: Block | None = None,
        both_ways: bool = False,
    ) -> Pairs:
        """Describe the pairs that are summed over, in tiles."""
        side = max(1, (self.tile or _TILE) // self.rows.shape[0])
        return Pairs(scale, side, self.offset, excluded, weights, symmetric=self.is_symmetric, both_ways=both_ways)


def similar_to(pool: Pool, kernel: Kernel) -> Block:
    """Bind a kernel to a pool's samples: ``block(i, j)`` of weights w ≥ 0."""
    if kernel not in pool.bound:
        rows, cols = pool.row_metadata, pool.col_metadata
        block = kernel.bind(rows, cols, batch=cols, dtype=pool.rows.dtype, offset=pool.offset)
        if not kernel.nonnegative:
            block = partial(_refuse_negative, block)
        if pool.is_dense:
            block = partial(_part, block(_ALL, _ALL))
        pool.bound[kernel] = block
    return pool.bound[kernel]


def _part(weights: Tensor, i: slice, j: slice) -> Tensor:
    return weights[i, j].clone()


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
        if isinstance(rounding, float):
            torch.threshold_(apart, rounding, 0)
        else:
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


def log_sum_exp(pool: Pool, scale: float, *, excluded: Literal["self", "sample"] | None = "self") -> Tensor:
    """Return log Σ_j exp(s_ij) of every anchor, (V, n_rows); −1e30 where nothing is summed.

    Parameters
    ----------
    pool : Pool
        Anchors and candidates.
    scale : float
        1/τ.
    excluded : {"self", "sample", None}
        Leave out the anchor itself, all views of its sample, or nothing.
    """
    return _log_sum_exp(pool, pool.pairs(scale, excluded=excluded))[0]


def log_sum_exp_both_ways(pool: Pool, scale: float) -> tuple[Tensor, Tensor]:
    """Return log Σ_j exp(s_ij) over all candidates of every row, and over all rows of every candidate.

    For one view against one view in a single process; both from the same similarities.
    """
    of_rows, of_cols, _ = _log_sum_exp(pool, pool.pairs(scale, both_ways=True))
    assert of_cols is not None
    return of_rows, of_cols


def weighted_log_sum_exp(pool: Pool, scale: float, weights: Block) -> tuple[Tensor, Tensor]:
    """Return log Σ_{j≠i} b_ij exp(s_ij) of every anchor, (V, n_rows), and Σ_{j≠i} b_ij, (n_rows,).

    Parameters
    ----------
    pool : Pool
        Anchors and candidates.
    scale : float
        1/τ.
    weights : callable
        Blocks of b ≥ 0 between samples. Where all of an anchor's are 0 the result is −1e30, without gradient.
    """
    pairs = pool.pairs(scale, excluded="self", weights=weights)
    sums, _, mass = _log_sum_exp(pool, pairs)
    assert mass is not None
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
    path = dense if pool.is_dense else attraction
    return path.weighted_similarity(pool.rows, pool.cols, pool.pairs(scale, weights=weights))


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
    path = dense if pool.is_dense else attraction
    pairs = pool.pairs(scale, excluded="self", weights=similar_to(pool, kernel))
    return path.positives_against_negatives(pool.rows, pool.cols, pairs, epsilon)


def _log_sum_exp(pool: Pool, pairs: Pairs) -> LogSums:
    return (dense if pool.is_dense else repulsion).log_sum_exp(pool.rows, pool.cols, pairs)
