"""Embeddings of a batch ("pool"), whose loss is computed in blocks of anchor embeddings.

An anchor is an embedding that a loss compares with all others, its candidates. A loss defines its
formula for a block of anchors (`neurocontrast.losses.pairs.Pairs`), and `Pool.each_anchor` applies
the formula to all anchors. Letters of shapes, here and in every loss::

    V  views of a batch              n    samples of all processes
    d  dimensions of an embedding    n_i  samples of one block of anchors

Embeddings have unit norm unless a loss takes raw inner products. The similarity of embeddings i and
j is s_ij = <z_i, z_j> / τ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from neurocontrast.exceptions import DataError
from neurocontrast.kernels import Block, Kernel, Metadata
from neurocontrast.losses.pairs import Pairs
from neurocontrast.losses.reductions import (
    EMPTY,
    Distances,
    LogSumExpOfAll,
    Similarities,
    compare,
)
from neurocontrast.parallel.collectives import Processes, gather_samples

Reduction = Literal["mean", "sum", "none"]
"""Way to combine the values of anchors: mean, sum, or "none" for the values themselves, (V, n)."""

AT_ONCE = 2**21
"""Largest number of similarities that is computed at once; a larger batch is divided into blocks of
anchors, so that memory grows with n instead of n²."""

ON_GPU = 16
"""Factor by which blocks are larger on a GPU, where launching operations can take most of the
time."""

FEWEST = 8
"""Smallest number of samples in a block of anchors."""


Formula = Callable[..., tuple[Tensor, ...]]
"""Function of the pairs of a block of anchors, which returns numbers for each anchor, (…, n_i)."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Embeddings (V, n, d) and metadata of a batch, of all processes, with the temperature.

    The embeddings are of V views of n samples, in d dimensions. Each is an anchor, which a loss
    compares with other embeddings, its candidates.
    """

    anchors: Tensor
    candidates: Tensor
    """Embeddings with which anchors are compared, mostly the anchors themselves; if `by_view` is
    True, each view of the anchors is compared with one view of the candidates."""
    metadata: Metadata
    """Metadata columns of the n samples, by name."""
    scale: float | Tensor = 1.0
    """Factor 1/τ of inner products; a tensor without gradient if the temperature is learned."""
    processes: Processes = field(default_factory=Processes)
    """Processes that hold the same embeddings, and divide blocks of anchors among themselves."""
    sample_weights: Tensor | None = None
    """Weight of each sample in means over anchors, (n,); None for equal weights."""
    reduction: Reduction = "mean"
    """Way to combine the values of anchors, see `mean`."""
    figures: dict[str, Tensor] = field(default_factory=dict)
    """Further quantities of a loss that training records, added by the loss's `parts`."""
    by_view: bool = False
    """Whether view number v of the anchors is compared with view v of the candidates alone."""
    _bound: dict[Kernel, Block] = field(default_factory=dict)

    @property
    def n_views(self) -> int:
        """Number of views of each sample with which an anchor is compared."""
        if self.by_view:
            return 1
        return len(self.anchors)

    @property
    def n_samples(self) -> int:
        """Number of samples of the batch, over all processes."""
        return self.candidates.shape[1]

    @property
    def n_candidates(self) -> int:
        """Number M = V n − 1 of embeddings with which an anchor is compared.

        V is the number of views in the comparison (`n_views`), and n the number of samples of all
        processes (`n_samples`).
        """
        return self.n_views * self.n_samples - 1

    @property
    def is_across(self) -> bool:
        """Whether anchors of one view are compared with candidates of another view."""
        return self.anchors is not self.candidates

    @property
    def other_candidates(self) -> Tensor | None:
        """Embeddings of the candidates; None if the anchors themselves are the candidates."""
        if self.is_across:
            return self.candidates
        return None

    def between(self, pairs: Sequence[tuple[int, int]]) -> Pool:
        """Return a `Pool` with one comparison of two views for each entry of `pairs`.

        An entry has the number of the view whose embeddings are the anchors, and the number of the
        view whose embeddings are the candidates; both may be the same view. Within an entry, each
        anchor is compared with the candidates of all samples.
        """
        firsts, seconds = zip(*pairs, strict=True)
        anchors = self._views(firsts)
        candidates = anchors
        if firsts != seconds:
            candidates = self._views(seconds)
        return replace(self, anchors=anchors, candidates=candidates, by_view=True)

    def _views(self, numbers: tuple[int, ...]) -> Tensor:
        """Return the anchors' embeddings of the views in `numbers`, (n_numbers, n, d).

        If `numbers` are all views in their order, the embeddings are not copied.
        """
        everything = tuple(range(len(self.anchors)))
        if numbers == everything:
            return self.anchors
        if numbers == everything[::-1]:
            return self.anchors.flip(0)
        return torch.stack([self.anchors[number] for number in numbers])

    def bind(self, kernel: Kernel) -> Block:
        """Return a function that computes blocks of a kernel's weights between samples.

        The function takes two slices of the batch, the samples in the rows and in the columns of a
        block. A weight below 0 is refused.
        """
        if kernel not in self._bound:
            block = kernel.bind(self.metadata, self.metadata, dtype=self.anchors.dtype)
            if not kernel.nonnegative:
                block = partial(_refuse_negative, block)
            self._bound[kernel] = block
        return self._bound[kernel]

    def supremum(self, kernel: Kernel) -> float | Tensor:
        """Return a kernel's largest weight ‖w‖∞ > 0: its upper bound, or the batch's maximum.

        The maximum is taken for a kernel whose weights have no finite upper bound.
        """
        supremum = kernel.supremum_over(self.metadata, dtype=self.anchors.dtype)
        if isinstance(supremum, Tensor):
            return supremum.clamp_min(torch.finfo(supremum.dtype).tiny)
        return supremum

    def each_anchor(self, formula: Formula, *learned: Tensor) -> tuple[Tensor, ...]:
        """Apply a loss's formula to all anchors, block by block, so that memory grows only with n.

        The similarities of a block are computed, reduced and dropped, and computed again for the
        gradient. If there are several blocks, processes divide the blocks among themselves.

        Parameters
        ----------
        formula : callable
            Function of the `Pairs` of a block and of the learned tensors.
        *learned : tensor
            Further tensors for which gradients are needed, such as a learned temperature.

        Returns
        -------
        tuple of tensor (…, n)
            Results of the formula for all anchors.
        """
        n = self.n_samples
        n_of_sample = len(self.anchors) * self.n_views * self.n_samples
        at_once = AT_ONCE
        if self.anchors.is_cuda:
            at_once *= ON_GPU
        if n * n_of_sample <= at_once:
            s = Similarities.apply(self.anchors, self.other_candidates, self.scale, self.by_view)
            return formula(Pairs(s, slice(0, n), self), *learned)
        step = min(max(FEWEST, at_once // n_of_sample), max(1, n // self.processes.size))
        blocks = []
        for start in range(0, n, step):
            blocks.append(slice(start, min(start + step, n)))
        shares = []
        sizes = []
        for rank in range(self.processes.size):
            share = replace(self.processes, rank=rank).share(blocks)
            shares.append(share)
            sizes.append(share[-1].stop - share[0].start)
        tensors = self.anchors, self.other_candidates, *learned
        joined = _InBlocks.apply(self, formula, shares[self.processes.rank], *tensors)
        if self.processes.size == 1:
            return cast(tuple[Tensor, ...], joined)
        of_all = []
        for values in cast(tuple[Tensor, ...], joined):
            samples_first = values.movedim(-1, 0).contiguous()
            of_all.append(gather_samples(samples_first, sizes).movedim(0, -1))
        return tuple(of_all)

    def _pairs(self, anchors: Tensor, candidates: Tensor | None, i: slice) -> Pairs:
        """Compute the similarities of the anchors at the slice `i` with all candidates, as `Pairs`.

        With `candidates` None, anchors are compared with all anchors.
        """
        if candidates is None:
            candidates = anchors
        return Pairs(compare(anchors[:, i], candidates, self.scale, by_view=self.by_view), i, self)

    def add_gradient(
        self, of_pairs: Tensor, i: slice, of_anchors: Tensor, of_candidates: Tensor | None
    ) -> None:
        """Add to the gradient of embeddings, in place, the part that flows through similarities.

        `of_pairs` is the gradient of the loss with respect to the similarities of some of the
        anchors, at the slice `i`. By the chain rule it gives the gradient with respect to the
        embeddings, which is added in place to `of_anchors` and `of_candidates`, or to `of_anchors`
        alone if `of_candidates` is None: the anchors are then the candidates.
        """
        if of_candidates is None:
            of_candidates = of_anchors
        if self.by_view:
            of_pairs = of_pairs.squeeze(2)
            rows = self.anchors[:, i] * self.scale
            of_anchors[:, i] += torch.bmm(of_pairs, self.candidates).mul_(self.scale)
            of_candidates.baddbmm_(of_pairs.mT, rows)
            return
        columns = self.candidates.flatten(0, 1)
        rows = self.anchors[:, i]
        of_pairs = of_pairs.reshape(-1, len(columns))
        of_anchors[:, i] += (of_pairs @ columns).mul_(self.scale).view_as(rows)
        of_candidates.view_as(columns).addmm_(of_pairs.T, rows.flatten(0, 1) * self.scale)

    def mean(self, values: Tensor, mass: Tensor | None = None) -> Tensor:
        """Reduce the values (V, n) of all anchors to the mean or sum, as `reduction` says.

        The anchors are the embeddings of n samples in V views. If the batch has a single view of
        each sample, an anchor can lack a positive. The mean is then over anchors whose `mass`, the
        sum (V, n) of the weights of positives, is above 0; without any such anchor, the mean is 0.
        """
        is_masked = mass is not None and self.n_views == 1
        if self.sample_weights is None and not is_masked and self.reduction == "mean":
            return values.mean()
        counts = torch.ones_like(values)
        if mass is not None and self.n_views == 1:
            absent = mass <= 0  # false for NaN, which stays
            values = torch.where(absent, 0, values)
            counts = (~absent).to(values)
        if self.sample_weights is not None:
            counts = counts * self.sample_weights.to(values)
            values = values * counts
        if self.reduction == "none":
            return values
        total = values.sum()
        if self.reduction == "sum":
            return total
        mass_of_all = counts.sum()
        return total / torch.where(mass_of_all > 0, mass_of_all, 1)

    def log_mean_exp(self, logarithms: Tensor, mass: Tensor | None = None) -> Tensor:
        """Compute log( mean_i exp x_i ) of `logarithms` x over anchors i whose `mass` is above 0.

        The logarithms are (V, n) for V views of n samples, and so is `mass`: for each anchor the
        sum of the weights of the embeddings with which it is compared. Without `mass`, all anchors
        count. If no anchor counts, the result is 0. Samples with `sample_weights` count by their
        weights.
        """
        if self.sample_weights is not None:
            return self._weighed_log_mean_exp(logarithms, mass, self.sample_weights)
        total = cast(Tensor, LogSumExpOfAll.apply(logarithms))
        if mass is None:
            return total - math.log(logarithms.numel())
        n_left = logarithms.numel() - (mass <= 0).sum(dtype=logarithms.dtype)  # NaN stays
        return (total - n_left.clamp_min(1).log()).masked_fill(n_left == 0, 0)

    def _weighed_log_mean_exp(
        self, logarithms: Tensor, mass: Tensor | None, sample_weights: Tensor
    ) -> Tensor:
        """Return log( Σ_i c_i exp x_i / Σ_i c_i ) of `logarithms` x, with `sample_weights` c.

        The logarithms are (V, n) for V views of n samples, and the sample weights (n,). The sums
        are over anchors i: over all, or, if `mass` (V, n) is given, over the anchors whose mass is
        above 0. The mass of an anchor is the sum of the weights of the embeddings with which the
        anchor is compared. Without any such anchor, or with weights c of 0 alone, the result is 0.
        """
        present = torch.ones_like(logarithms)
        if mass is not None:
            present = (~(mass <= 0)).to(logarithms)  # NaN stays
        counts = present * sample_weights.to(logarithms)
        smallest = torch.finfo(counts.dtype).tiny
        logarithms = torch.where(counts > 0, logarithms + counts.clamp_min(smallest).log(), EMPTY)
        total = counts.sum()
        value = logarithms.flatten().logsumexp(0) - torch.where(total > 0, total, 1).log()
        return torch.where(total > 0, value, 0.0)


class _InBlocks(torch.autograd.Function):
    """Operation that applies a loss's formula to anchors block by block, for `Pool.each_anchor`.

    A block has the anchors of some of the samples. Each block is computed again for the gradient,
    so that memory holds one block.
    """

    @staticmethod
    def forward(
        ctx: Any, pool: Pool, formula: Formula, blocks: list[slice], *tensors: Tensor | None
    ) -> Any:
        anchors, candidates, *learned = tensors
        ctx.pool = pool
        ctx.formula = formula
        ctx.blocks = blocks
        ctx.save_for_backward(*tensors)
        assert anchors is not None
        of_blocks = []
        for i in blocks:
            of_blocks.append(formula(pool._pairs(anchors, candidates, i), *learned))
        return tuple(map(_joined, zip(*of_blocks, strict=True)))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        anchors, candidates, *learned = ctx.saved_tensors
        pool = ctx.pool
        first = ctx.blocks[0].start
        of_anchors = torch.zeros_like(anchors)
        of_candidates = None
        if candidates is not None:
            of_candidates = torch.zeros_like(candidates)
        of_learned = list(map(torch.zeros_like, learned))
        with torch.autocast(anchors.device.type, enabled=False):
            for i in ctx.blocks:
                pairs = pool._pairs(anchors, candidates, i)
                inputs = [tensor.detach().requires_grad_() for tensor in (pairs.s, *learned)]
                with torch.enable_grad():
                    results = ctx.formula(replace(pairs, s=inputs[0]), *inputs[1:])
                outputs = []
                upstream = []
                for result, gradient in zip(results, gradients, strict=True):
                    if result.requires_grad:
                        outputs.append(result)
                        upstream.append(gradient[..., i.start - first : i.stop - first])
                of_s, *of_block = torch.autograd.grad(outputs, inputs, upstream)
                pool.add_gradient(of_s, i, of_anchors, of_candidates)
                for total, of_tensor in zip(of_learned, of_block, strict=True):
                    total += of_tensor
        return None, None, None, of_anchors, of_candidates, *of_learned


def _joined(of_blocks: tuple[Tensor, ...]) -> Tensor:
    """Concatenate a formula's results (…, n_i) for successive blocks of anchors to (…, n)."""
    return torch.cat(of_blocks, dim=-1)


def distances(cosines: Tensor) -> Tensor:
    """Return Euclidean distances of unit vectors, given `cosines`, as a tensor of the same shape.

    A distance as small as the rounding error of a cosine becomes 0, as of equal vectors.
    """
    return cast(Tensor, Distances.apply(cosines))


def _refuse_negative(block: Block, i: slice, j: slice) -> Tensor:
    """Return block (`i`, `j`) of a kernel's weights; raise a DataError if a weight is below 0.

    `block` is the function that computes the weights of the samples in slice `i` with the samples
    in slice `j`. On a GPU weights below 0 become NaN, so that the GPU is not waited for.
    """
    weights = block(i, j)
    if weights.device.type == "cpu" and not torch.compiler.is_compiling():
        if (weights < 0).any():
            raise DataError(
                f"The kernel goes down to {weights.min().item():.3g} on this batch, but this loss "
                "needs weights of at least 0. Use a Gaussian, Laplacian or categorical kernel, or "
                "shift the column."
            )
        return weights
    return weights.masked_fill_(weights < 0, torch.nan)
