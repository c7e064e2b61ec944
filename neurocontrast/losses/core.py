"""The one shared core: sums over pairs of embeddings, in memory that grows with n and not with n².

Letters of shapes, here and in every loss::

    V  views of a batch              n    samples of all processes
    d  dimensions of an embedding    n_i  samples of one block of anchors
    N  V·n embeddings, the pool

Every process holds the embeddings of all of them. What fits in one tile each computes for itself; the tiles of a larger
pool are shared among the processes. Embeddings have unit norm unless a loss takes raw inner products,
s_ij = <z_i, z_j>/τ, and ``scale`` is 1/τ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from neurocontrast.exceptions import DataError
from neurocontrast.kernels import Block, Kernel, Metadata
from neurocontrast.losses import pairwise
from neurocontrast.losses.tiles import Excluded, Groups, Pairs
from neurocontrast.parallel.collectives import Processes, gather_samples

__all__ = [
    "Pool",
    "by_anchors",
    "candidates_of",
    "dissimilar_to",
    "distances",
    "log_sum_exp",
    "log_sum_exp_both_ways",
    "positives_against_negatives",
    "similar_to",
    "similarity_and_mass",
    "unlikeness",
    "weighted_similarity",
]

AT_ONCE = 2**20
"""Similarities held at once."""
_ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Pool:
    """Anchors ``rows`` (V, n, d) and their candidates ``cols``: the same object, unless views are compared.

    ``of_units`` says that all embeddings have unit norm, ``processes`` are those that hold the same pool and share the
    work, ``bound`` holds kernels bound already, for two parts of a loss.
    """

    rows: Tensor
    cols: Tensor
    metadata: Metadata
    of_units: bool = True
    processes: Processes = field(default_factory=Processes)
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
        """Rows and columns of each view alone, (n, d)."""
        rows = self.rows.unbind(0)
        return rows, rows if self.rows is self.cols else self.cols.unbind(0)

    def between(self, view: int, other: int) -> Pool:
        """Anchors of one view with the candidates of one view."""
        rows, cols = self.views
        candidates = cols[other].unsqueeze(0)
        anchors = candidates if self.rows is self.cols and view == other else rows[view].unsqueeze(0)
        return replace(self, rows=anchors, cols=candidates)

    def alignment(self, scale: float, view: int, other: int) -> Tensor:
        """Mean similarity of two views of a sample."""
        rows, _ = self.views
        return torch.dot(rows[view].reshape(-1), rows[other].reshape(-1)) * (scale / self.n_samples)

    def twins(self, scale: float) -> Tensor:
        """Similarity of the two views of each sample, of more views the mean over their pairs, (n,)."""
        n_views = len(self.rows)
        return pairwise.between_views(self.rows, self.rows.sum(0)) * (scale / (n_views * (n_views - 1)))

    def mean(self, values: Tensor, mass: Tensor | None = None) -> Tensor:
        """Mean over the anchors, of values (V, n) or (n,).

        Of one view, where an anchor can be without a positive, only over those of which the `mass` of the positives,
        (n,), is above 0; 0 where none is.
        """
        if mass is None or len(self.rows) > 1:
            return values.mean()
        counted = (mass > 0).expand_as(values)
        return torch.where(counted, values, 0).sum() / counted.sum().clamp_min(1)


def similar_to(pool: Pool, kernel: Kernel) -> Block:
    """Bind a kernel to a pool's samples: ``block(i, j)`` of weights w ≥ 0."""
    if kernel not in pool.bound:
        block = _bind(pool, kernel, pool.metadata, pool.metadata)
        if pool.n_samples**2 <= AT_ONCE:
            block = partial(_part, block(_ALL, _ALL))
        pool.bound[kernel] = block
    return pool.bound[kernel]


def _bind(pool: Pool, kernel: Kernel, rows: Metadata, cols: Metadata) -> Block:
    block = kernel.bind(rows, cols, batch=pool.metadata, dtype=pool.rows.dtype)
    return block if kernel.nonnegative else partial(_refuse_negative, block)


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
    supremum = kernel.supremum_over(pool.metadata, dtype=pool.rows.dtype)
    rounding = supremum * (16 * torch.finfo(pool.rows.dtype).eps)

    def block(i: slice, j: slice) -> Tensor:
        apart = similar(i, j).neg_().add_(supremum)
        apart.masked_fill_(apart <= rounding, 0)
        return apart if among is None else apart.mul_(among(i, j))

    return block


def unlikeness(pool: Pool, kernel: Kernel) -> Block:
    """Bind 1 − w/‖w‖∞, from 0 of pairs that are as alike as can be to 1."""
    apart, supremum = dissimilar_to(pool, kernel), kernel.supremum_over(pool.metadata, dtype=pool.rows.dtype)
    if isinstance(supremum, Tensor):
        supremum = supremum.clamp_min(torch.finfo(pool.rows.dtype).tiny)
    return lambda i, j: apart(i, j).div_(supremum)


def candidates_of(pool: Pool, kernel: Kernel, negatives: Kernel) -> Block:
    """Bind max(v/‖v‖∞, w/‖w‖∞), the weight of a candidate that is one for being a negative (v) or a positive (w)."""
    parts = [similar_to(pool, each) for each in (negatives, kernel)]
    suprema = [each.supremum_over(pool.metadata, dtype=pool.rows.dtype) for each in (negatives, kernel)]
    tiny = torch.finfo(pool.rows.dtype).tiny
    suprema = [each.clamp_min(tiny) if isinstance(each, Tensor) else each for each in suprema]

    def block(i: slice, j: slice) -> Tensor:
        negative, positive = (part(i, j).div_(supremum) for part, supremum in zip(parts, suprema, strict=True))
        return torch.maximum(negative, positive, out=negative)

    return block


def log_sum_exp(
    pool: Pool,
    scale: float,
    weights: Block | None = None,
    *,
    damping: Block | None = None,
    excluded: Excluded = "self",
) -> tuple[Tensor, Tensor]:
    """Return log Σ_j b_ij exp(c_ij s_ij) of every anchor, (V, n), and Σ_j b_ij, (n,).

    `weights` are blocks of b ≥ 0 between samples: 1, and their sum 0, where none are given. Where all of an anchor's
    are 0 the logarithm is −1e30, without gradient. `damping` are blocks of c from 0 to 1: 1 where none are given.
    `excluded` are the anchor itself or all views of its sample.
    """
    pairs = replace(_pairs(pool, scale, weights, excluded), damping=damping)
    sums, _, mass = pairwise.log_sum_exp(pool.rows, pool.cols, pairs)
    return sums, sums.new_zeros(sums.shape[1]) if mass is None else mass


def log_sum_exp_both_ways(pool: Pool, scale: float) -> tuple[Tensor, Tensor]:
    """Return log Σ_j exp(s_ij) over all candidates of every row, and over all rows of every candidate.

    For one view against another; both from the same similarities.
    """
    pairs = replace(_pairs(pool, scale), both_ways=True)
    of_rows, of_cols, _ = pairwise.log_sum_exp(pool.rows, pool.cols, pairs)
    assert of_cols is not None
    return of_rows, of_cols


def weighted_similarity(pool: Pool, scale: float, weights: Kernel | Block) -> Tensor:
    """Return Σ_{j≠i} w_ij s_ij / Σ_{j≠i} w_ij, averaged over a sample's anchors, (n,); 0 without weight.

    Given a kernel, samples of equal metadata are summed first, so that u distinct rows of metadata take time of order
    n d + u² d and not n² d.
    """
    return similarity_and_mass(pool, scale, weights)[0]


def similarity_and_mass(
    pool: Pool, scale: float, weights: Kernel | Block, *, to_twin: bool = False
) -> tuple[Tensor, Tensor]:
    """Return `weighted_similarity` and Σ_{j≠i} w_ij, both (n,).

    With `to_twin`, of two views, the similarity of the two is subtracted from the first.
    """
    if not isinstance(weights, Kernel):
        return pairwise.weighted_similarity(pool.rows, _pairs(pool, scale, weights), to_twin=to_twin)
    groups, distinct = _equal_metadata(pool, weights)
    if groups is None:
        return similarity_and_mass(pool, scale, similar_to(pool, weights), to_twin=to_twin)
    # Rows and columns that are not the same object: the weights of two samples, though their metadata be equal.
    pairs = _pairs(pool, scale, _bind(pool, weights, distinct, dict(distinct)), n_groups=len(groups.counts))
    return pairwise.weighted_similarity(pool.rows, pairs, groups, to_twin=to_twin)


def _equal_metadata(pool: Pool, kernel: Kernel) -> tuple[Groups | None, Metadata]:
    """Group the samples of a large pool that a kernel cannot tell apart; none where most are distinct."""
    n, columns = pool.n_samples, {name: pool.metadata[name] for name in kernel.columns}
    if n**2 <= AT_ONCE:
        return None, columns
    bits = torch.cat([_bits(column).reshape(n, -1) for column in columns.values()], 1)
    _, index, counts = torch.unique(bits, dim=0, return_inverse=True, return_counts=True)
    if 2 * len(counts) > n:
        return None, columns
    if index.device.type == "cpu":
        kernel.check(pool.metadata)  # names the rows of the batch
    first = index.new_zeros(len(counts)).scatter_(0, index, torch.arange(n, device=index.device))
    distinct = {name: column[first] for name, column in columns.items()}
    with_itself = _bind(pool, kernel, distinct, distinct)
    step = math.isqrt(AT_ONCE)
    spans = [slice(start, min(start + step, len(counts))) for start in range(0, len(counts), step)]
    own = torch.cat([with_itself(i, i).diagonal() for i in spans])
    return Groups(index, counts.to(own.dtype), own), distinct


def _bits(column: Tensor) -> Tensor:
    """Integers that are equal where a column is, also where it is NaN."""
    sizes = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return (column.view(sizes[column.itemsize]) if column.is_floating_point() else column).to(torch.int64)


def positives_against_negatives(pool: Pool, scale: float, kernel: Kernel, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return Σ_p log(1 + exp(L_i + ε − s_ip)) of every anchor, (V, n), and its number of negatives, (n,).

    The kernel is 1 between positives and 0 between negatives; L_i is the log-sum-exp over the negatives.
    """
    pairs = _pairs(pool, scale, similar_to(pool, kernel), "self")
    return pairwise.positives_against_negatives(pool.rows, pool.cols, pairs, epsilon)


def _pairs(
    pool: Pool,
    scale: float,
    weights: Block | None = None,
    excluded: Excluded = None,
    n_groups: int | None = None,
) -> Pairs:
    """Describe the pairs that are summed over: all in one tile where they fit, else tiles of a processor's cache."""
    n_views, n = (len(pool.rows), pool.n_samples) if n_groups is None else (1, n_groups)
    fits = (n_views * n) ** 2 <= AT_ONCE
    return Pairs(
        scale,
        n if fits else max(1, math.isqrt(AT_ONCE) // 2 // n_views),
        excluded,
        weights,
        symmetric=pool.rows is pool.cols,
        bounded=pool.of_units,
        processes=Processes() if fits else pool.processes,
    )


OfBlock = Callable[[Tensor, Tensor, slice], tuple[Tensor, ...]]
"""Anchors (V, n_i, d), candidates (V, n, d) and the block's place to numbers of each anchor, (…, n_i)."""


def by_anchors(pool: Pool, function: OfBlock) -> tuple[Tensor, ...]:
    """Apply a function to blocks of anchors and all candidates, and join what it returns.

    A block is computed, reduced and dropped, and computed again for the gradient. Processes share several blocks.
    """
    # A quarter of what may be held: autograd keeps several tensors of a block.
    step = max(1, AT_ONCE // (4 * pool.rows.shape[0] * pool.cols.shape[0] * pool.n_samples))
    n, processes = pool.n_samples, pool.processes if step < pool.n_samples else Processes()
    step = min(step, n // processes.size)
    blocks = [slice(start, min(start + step, n)) for start in range(0, n, step)]
    found = [
        checkpoint(function, pool.rows[:, i], pool.cols, i, use_reentrant=False, preserve_rng_state=False)
        for i in processes.share(blocks)
    ]
    joined = tuple(torch.cat(each, -1) for each in zip(*found, strict=True))
    if processes.size == 1:
        return joined
    shares = [replace(processes, rank=rank).share(blocks) for rank in range(processes.size)]
    sizes = [share[-1].stop - share[0].start for share in shares]
    return tuple(gather_samples(each.movedim(-1, 0).contiguous(), sizes).movedim(0, -1) for each in joined)


def distances(anchors: Tensor, candidates: Tensor) -> Tensor:
    """Return L2 distances of unit vectors; 0, without gradient, below what rounding can tell apart."""
    squared = 2 - 2 * (anchors @ candidates.T)
    equal = squared <= 4 * torch.finfo(squared.dtype).eps
    return squared.masked_fill(equal, 1).sqrt().masked_fill(equal, 0)
