"""The shared core of the losses: similarities, weights, and weighted log-sum-exp of each anchor, block by block.

A loss writes its formula for a block of anchors (`Pairs`), and `Pool.each_anchor` applies it to all
of them. Letters of shapes, here and in every loss::

    V  views of a batch              n    samples of all processes
    d  dimensions of an embedding    n_i  samples of one block of anchors

Embeddings have unit norm unless a loss takes raw inner products. s_ij = <z_i, z_j> / τ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

from neurocontrast.exceptions import DataError
from neurocontrast.kernels import Block, Kernel, Metadata
from neurocontrast.parallel.collectives import Processes, gather_samples

Reduction = Literal["mean", "sum", "none"]
"""What becomes of the values of the anchors: their mean, their sum, or the values themselves, (V, n)."""

AT_ONCE = 2**21
"""Largest number of similarities in a block; a larger pool is cut in blocks, so that memory grows with n, not n²."""

ON_GPU = 16
"""How many times as many a block of a GPU has, where starting an operation can take longer than the operation."""

FEWEST = 8
"""Smallest number of samples whose views are the anchors of a block."""

EMPTY = -1e30
"""The logarithm of a sum over nothing: a finite number in place of −∞, which would give NaN gradients."""

_ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of a block of anchors with all candidates: what the formula of a loss is written in.

    Sums over candidates j leave the anchor i itself out. Weights between samples, (n_i, n), count
    for all their views.
    """

    s: Tensor
    """Similarities <z_i, z_j> / τ, (V, n_i, V, n)."""
    samples: slice
    """Samples of the anchors."""
    pool: Pool
    _weights: dict[Kernel, Tensor] = field(default_factory=dict)
    _others: dict[int, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)

    def weights(self, kernel: Kernel) -> Tensor:
        """Return the weights w ≥ 0 between the samples, (n_i, n), without gradient."""
        if kernel not in self._weights:
            self._weights[kernel] = self.pool.bind(kernel)(self.samples, _ALL)
        return self._weights[kernel]

    def unlikeness(self, kernel: Kernel) -> Tensor:
        """Return ‖w‖∞ − w between the samples, (n_i, n); a difference within rounding is 0."""
        supremum = self.pool.supremum(kernel)
        w = self.weights(kernel)
        apart = supremum - w
        return apart.masked_fill_(apart <= supremum * (16 * torch.finfo(w.dtype).eps), 0)

    def log_sum_exp(
        self, weights: Tensor | None = None, *, without: Literal["anchor", "sample"] = "anchor"
    ) -> Tensor:
        """Return log Σ_j b_ij exp s_ij of each anchor, (V, n_i); −1e30 without gradient where all b_ij are 0.

        `weights` are the b ≥ 0 between samples, 1 by default. The sum is `without` the anchor, or
        all views of its sample.
        """
        return cast(Tensor, _LogSumExp.apply(self.s, weights, self, without))

    def mean(self, weights: Tensor) -> Tensor:
        """Return Σ_j w_ij s_ij / Σ_j w_ij of each anchor, (V, n_i); 0 where all w_ij are 0."""
        others = self._of_others(weights)[0]
        own = weights.diagonal(self.samples.start)
        mass = self.mass(weights)
        summed = (self.s.sum(2) * others).sum(2)
        if self.pool.n_views > 1:
            summed = summed + (self.pool.n_views - 1) * own * self.twins()
        return torch.where(mass <= 0, 0, summed / torch.where(mass <= 0, 1, mass))  # NaN stays

    def mass(self, weights: Tensor) -> Tensor:
        """Return Σ_j w_ij of each anchor, (V, n_i)."""
        n_views = self.pool.n_views
        own = weights.diagonal(self.samples.start)
        return (n_views * self._of_others(weights)[1] + (n_views - 1) * own).expand(
            self.s.shape[:2]
        )

    def twins(self) -> Tensor:
        """Return the similarity of each anchor with the other view of its sample, or the mean over several, (V, n_i).

        Of one view against another, the similarity with the same sample, (1, n_i).
        """
        same = self.s.diagonal(self.samples.start, 1, 3)
        if self.pool.is_across:
            return same[:, 0]
        itself = torch.eye(len(same), dtype=torch.bool, device=same.device).unsqueeze(2)
        return same.masked_fill(itself, 0).sum(1) / (len(same) - 1)

    def contrast(self, weights: Tensor) -> Tensor:
        """Return Σ_j (w_ij / Σ_k w_ik) (−s_ij + log Σ_k exp s_ik) of each anchor, (V, n_i), in one piece.

        With two views, similarities are relative to the twin's, whose own difference of 0 is left
        out of the sums: value and gradient keep their digits where the loss is close to 0. An
        anchor without weight counts with its log-sum-exp.
        """
        if self.pool.n_views != 2:
            return self.log_sum_exp() - self.mean(weights)
        (others, total), twins, mass = self._of_others(weights), self.twins(), self.mass(weights)
        nearer = (self.s.sum(2) * others).sum(2) - twins * (2 * total)
        nearer = torch.where(
            mass <= 0, -twins, nearer / torch.where(mass <= 0, 1, mass)
        )  # NaN stays
        return softplus_of(self.log_sum_exp(without="sample") - twins) - nearer

    @cached_property
    def itself(self) -> Tensor:
        """Whether a candidate is the anchor, (V, n_i, V, n)."""
        return self.leave_out(
            torch.zeros(self.s.shape, dtype=torch.bool, device=self.s.device), "anchor", True
        )

    def _of_others(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return weights with 0 between a sample and itself, and their sums, computed once for the same weights."""
        if id(weights) not in self._others:
            others = weights.clone()
            others.diagonal(self.samples.start).zero_()
            self._others[id(weights)] = (
                weights,
                others,
                others.sum(1),
            )  # the weights are kept, and so is their id
        return self._others[id(weights)][1:]

    def leave_out(self, values: Tensor, without: str, value: float) -> Tensor:
        """Set values (V, n_i, V, n) between an anchor and itself, or all views of its sample, in place."""
        if without == "sample":
            values.diagonal(self.samples.start, 1, 3).fill_(value)
        elif not self.pool.is_across:
            values.diagonal(0, 0, 2).diagonal(self.samples.start).fill_(value)
        return values


class _LogSumExp(torch.autograd.Function):
    """log Σ_j b_ij exp s_ij, whose gradient is b_ij exp(s_ij − log Σ_j b_ij exp s_ij): each in one copy of s."""

    @staticmethod
    def forward(ctx: Any, s: Tensor, weights: Tensor | None, pairs: Pairs, without: str) -> Tensor:
        logarithms = None if weights is None else weights.log().clamp_min_(EMPTY)
        scores = pairs.leave_out(_plus(s, logarithms), without, EMPTY)
        largest = scores.amax((2, 3), keepdim=True)
        total = scores.sub_(largest).exp_().sum((2, 3))
        sums = total.log() + largest[..., 0, 0]
        sums = torch.where(sums <= EMPTY / 2, EMPTY, sums)  # NaN stays
        ctx.pairs = pairs
        ctx.without = without
        ctx.save_for_backward(s, logarithms, sums)
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        s, logarithms, sums = ctx.saved_tensors
        sums = torch.where(sums <= EMPTY / 2, torch.inf, sums)
        terms = _plus(s, logarithms).sub_(sums[..., None, None]).exp_()
        return (
            ctx.pairs.leave_out(terms, ctx.without, 0).mul_(gradient[..., None, None]),
            None,
            None,
            None,
        )


def _plus(s: Tensor, logarithms: Tensor | None) -> Tensor:
    """Return a copy of similarities (V, n_i, V, n), with logarithms of weights (n_i, n) added."""
    return s.clone() if logarithms is None else s + logarithms.unsqueeze(1)


Formula = Callable[..., tuple[Tensor, ...]]
"""Numbers of each anchor of a block, (…, n_i)."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Embeddings (V, n, d) of all processes: anchors, and candidates, which are the same tensor unless views differ."""

    anchors: Tensor
    candidates: Tensor
    metadata: Metadata
    """Columns of the n samples."""
    scale: float = 1.0
    """1/τ."""
    processes: Processes = field(default_factory=Processes)
    """Those that hold the same pool, and share its blocks."""
    sample_weights: Tensor | None = None
    """How much the anchors of a sample count in means over anchors, (n,)."""
    reduction: Reduction = "mean"
    """What `mean` returns."""
    figures: dict[str, Tensor] = field(default_factory=dict)
    """Further figures of a loss for the metrics of training, written by its `parts`."""
    _bound: dict[Kernel, Block] = field(default_factory=dict)

    @property
    def n_views(self) -> int:
        """Views of a sample."""
        return len(self.anchors)

    @property
    def n_samples(self) -> int:
        """Samples of all processes."""
        return self.candidates.shape[1]

    @property
    def n_candidates(self) -> int:
        """M = V n − 1: all embeddings but the anchor."""
        return self.n_views * self.n_samples - 1

    @property
    def is_across(self) -> bool:
        """Whether anchors of one view are compared with candidates of another."""
        return self.anchors is not self.candidates

    def between(self, view: int, other: int) -> Pool:
        """Return the pool of the anchors of one view, and the candidates of one view."""
        anchors = self.anchors[view : view + 1]
        return replace(
            self,
            anchors=anchors,
            candidates=anchors if view == other else self.anchors[other : other + 1],
        )

    def bind(self, kernel: Kernel) -> Block:
        """Return the function of blocks of weights w ≥ 0 of a kernel between the samples."""
        if kernel not in self._bound:
            block = kernel.bind(self.metadata, self.metadata, dtype=self.anchors.dtype)
            self._bound[kernel] = block if kernel.nonnegative else partial(_refuse_negative, block)
        return self._bound[kernel]

    def supremum(self, kernel: Kernel) -> float | Tensor:
        """Return ‖w‖∞ > 0, which of some kernels is the maximum over the batch."""
        supremum = kernel.supremum_over(self.metadata, dtype=self.anchors.dtype)
        return (
            supremum.clamp_min(torch.finfo(supremum.dtype).tiny)
            if isinstance(supremum, Tensor)
            else supremum
        )

    def each_anchor(self, formula: Formula, *learned: Tensor) -> tuple[Tensor, ...]:
        """Apply a formula to blocks of anchors, and join what it returns for each to (…, n).

        A block is computed, reduced and dropped, and computed again for the gradient. Processes
        share several blocks. The formula is given the pairs, and the `learned` tensors that it is
        differentiated by as well.
        """
        n = self.n_samples
        n_of_sample = self.n_views * len(self.candidates) * self.n_samples
        at_once = AT_ONCE * (ON_GPU if self.anchors.is_cuda else 1)
        if n * n_of_sample <= at_once:
            return formula(self._pairs(self.anchors, self.candidates, slice(0, n)), *learned)
        step = min(max(FEWEST, at_once // n_of_sample), max(1, n // self.processes.size))
        blocks = [slice(start, min(start + step, n)) for start in range(0, n, step)]
        shares = [
            replace(self.processes, rank=rank).share(blocks) for rank in range(self.processes.size)
        ]
        tensors = self.anchors, self.candidates if self.is_across else None, *learned
        joined = cast(
            tuple[Tensor, ...],
            _InBlocks.apply(self, formula, shares[self.processes.rank], *tensors),
        )
        if self.processes.size == 1:
            return joined
        sizes = [share[-1].stop - share[0].start for share in shares]
        return tuple(
            gather_samples(each.movedim(-1, 0).contiguous(), sizes).movedim(0, -1)
            for each in joined
        )

    def _pairs(self, anchors: Tensor, candidates: Tensor, i: slice) -> Pairs:
        """Return the pairs of the anchors of some samples."""
        s = (anchors[:, i].flatten(0, 1) * self.scale) @ candidates.flatten(0, 1).T
        return Pairs(s.view(len(anchors), -1, *candidates.shape[:2]), i, self)

    def mean(self, values: Tensor, mass: Tensor | None = None) -> Tensor:
        """Return the mean over the anchors, of values (V, n), or what `reduction` asks for in its place.

        With one view an anchor can be without a positive: the mean is then over the anchors whose
        `mass` of positives, (V, n), is above 0, and it is 0 without any.
        """
        counts = torch.ones_like(values)
        if mass is not None and self.n_views == 1:
            absent = mass <= 0  # false for NaN, which stays
            values, counts = torch.where(absent, 0, values), (~absent).to(values)
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
        """Return log mean_i exp of logarithms (V, n) over the anchors, those whose `mass` is above 0; 0 without any."""
        counts = (
            torch.ones_like(logarithms) if mass is None else (~(mass <= 0)).to(logarithms)
        )  # NaN stays
        if self.sample_weights is not None:
            counts = counts * self.sample_weights.to(logarithms)
            smallest = torch.finfo(counts.dtype).tiny
            logarithms = torch.where(
                counts > 0, logarithms + counts.clamp_min(smallest).log(), EMPTY
            )
        total = counts.sum()
        value = logarithms.flatten().logsumexp(0) - torch.where(total > 0, total, 1).log()
        return torch.where(total > 0, value, 0.0)


class _InBlocks(torch.autograd.Function):
    """A formula of anchors, block by block, each computed again for its gradient."""

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
        first = blocks[0].start
        joined = list[Tensor]()
        for i in blocks:
            found = formula(
                pool._pairs(anchors, anchors if candidates is None else candidates, i), *learned
            )
            joined = joined or [
                each.new_empty(*each.shape[:-1], blocks[-1].stop - first) for each in found
            ]
            for whole, part in zip(joined, found, strict=True):
                whole[..., i.start - first : i.stop - first] = part
        return tuple(joined)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        anchors, candidates, *learned = ctx.saved_tensors
        pool = ctx.pool
        first = ctx.blocks[0].start
        of_anchors = torch.zeros_like(anchors)
        of_candidates = of_anchors if candidates is None else torch.zeros_like(candidates)
        columns = (anchors if candidates is None else candidates).flatten(0, 1)
        of_learned = [torch.zeros_like(each) for each in learned]
        with torch.autocast(anchors.device.type, enabled=False):
            for i in ctx.blocks:
                pairs = pool._pairs(anchors, anchors if candidates is None else candidates, i)
                inputs = [each.detach().requires_grad_() for each in (pairs.s, *learned)]
                with torch.enable_grad():
                    found = ctx.formula(replace(pairs, s=inputs[0]), *inputs[1:])
                parts = [each[..., i.start - first : i.stop - first] for each in gradients]
                kept = [
                    (each, part)
                    for each, part in zip(found, parts, strict=True)
                    if each.requires_grad
                ]
                outputs, upstream = zip(*kept, strict=True)
                of_s, *of_rest = torch.autograd.grad(outputs, inputs, upstream)
                of_s = of_s.reshape(-1, len(columns))
                of_anchors[:, i] += (of_s @ columns).mul_(pool.scale).view_as(anchors[:, i])
                of_candidates.view_as(columns).addmm_(
                    of_s.T, anchors[:, i].flatten(0, 1) * pool.scale
                )
                for total, part in zip(of_learned, of_rest, strict=True):
                    total += part
        return (
            None,
            None,
            None,
            of_anchors,
            None if candidates is None else of_candidates,
            *of_learned,
        )


def distances(cosines: Tensor) -> Tensor:
    """Return the L2 distances of unit vectors; 0, without gradient, below what rounding can tell apart."""
    squared = 2 - 2 * cosines
    equal = squared <= 4 * torch.finfo(squared.dtype).eps
    return squared.masked_fill(equal, 1).sqrt().masked_fill(equal, 0)


def softplus_of(x: Tensor) -> Tensor:
    """Return log(1 + exp x), which is x to the last digit of float64 from 40 on."""
    return softplus(x, threshold=40.0)


def _refuse_negative(block: Block, i: slice, j: slice) -> Tensor:
    """Raise an error where weights are negative; on an accelerator, which is not waited for, make them NaN."""
    weights = block(i, j)
    if weights.device.type == "cpu" and not torch.compiler.is_compiling():
        if (weights < 0).any():
            raise DataError(
                f"The kernel goes down to {weights.min().item():.3g} on this batch, but this loss needs weights of at "
                "least 0. Use a Gaussian, Laplacian or categorical kernel, or shift the column."
            )
        return weights
    return weights.masked_fill_(weights < 0, torch.nan)
