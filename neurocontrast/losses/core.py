"""Compute what the losses share: similarities, weights and their sums of each anchor, by blocks.

A loss writes its formula for a block of anchors (`Pairs`), and `Pool.each_anchor` applies it to all
of them. Letters of shapes, here and in every loss::

    V  views of a batch              n    samples of all processes
    d  dimensions of an embedding    n_i  samples of one block of anchors

Embeddings have unit norm unless a loss takes raw inner products. s_ij = <z_i, z_j> / τ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from neurocontrast.exceptions import DataError
from neurocontrast.kernels import Block, Kernel, Metadata
from neurocontrast.losses.reductions import (
    EMPTY,
    Contrast,
    Distances,
    LogSumExp,
    LogSumExpOfAll,
    Mean,
    MeanAndLogSumExp,
    Similarities,
    Twins,
    compare,
)
from neurocontrast.parallel.collectives import Processes, gather_samples

Reduction = Literal["mean", "sum", "none"]
"""Mean of the values of the anchors, their sum, or the values themselves, (V, n)."""

AT_ONCE = 2**21
"""Largest number of similarities in a block; a larger pool is cut, so that memory grows with n."""

ON_GPU = 16
"""Factor of a GPU's blocks, where starting an operation can take longer than the operation."""

FEWEST = 8
"""Smallest number of samples whose views are the anchors of a block."""

_ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of a block of anchors with all candidates, in which the formula of a loss is written.

    Sums over candidates j leave the anchor i itself out. Weights between samples, (n_i, n), count
    for all their views.
    """

    s: Tensor
    """Similarities <z_i, z_j> / τ, (V, n_i, V, n)."""
    samples: slice
    """Samples of the anchors."""
    pool: Pool
    _weights: dict[Kernel, Tensor] = field(default_factory=dict)
    _sums: dict[int, _Sums] = field(default_factory=dict)

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
        """Return log Σ_j b_ij exp s_ij of each anchor, (V, n_i).

        It is −1e30, without gradient, where all b_ij are 0. `weights` are the b ≥ 0 between
        samples, 1 by default. The sum is `without` the anchor, or all views of its sample.
        """
        return cast(Tensor, LogSumExp.apply(self.s, weights, self, without))

    def mean(self, weights: Tensor) -> Tensor:
        """Return Σ_j w_ij s_ij / Σ_j w_ij of each anchor, (V, n_i); 0 where all w_ij are 0."""
        return cast(Tensor, Mean.apply(self.s, *self._of_mean(weights), self))

    def mean_and_log_sum_exp(self, weights: Tensor, repelling: Tensor) -> tuple[Tensor, Tensor]:
        """Return `mean` of the weights and `log_sum_exp` of the repelling ones, with one gradient."""
        both = MeanAndLogSumExp.apply(self.s, *self._of_mean(weights), repelling, self)
        return cast(tuple[Tensor, Tensor], both)

    def _of_mean(self, weights: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return weights, own weights of the samples, and masses, as `Mean` takes them."""
        sums = self._sums_of(weights)
        mass = sums.mass.masked_fill(sums.mass <= 0, torch.inf)  # NaN stays
        if self.pool.n_views == 1:
            return sums.others, None, mass
        return weights, sums.own, mass

    def mass(self, weights: Tensor) -> Tensor:
        """Return Σ_j w_ij of each anchor, (V, n_i)."""
        return self._sums_of(weights).mass.expand(self.s.shape[:2])

    def twins(self) -> Tensor:
        """Return the similarity of each anchor with the other view of its sample, (V, n_i).

        Of several other views it is the mean. Of one view against another, the similarity with the
        same sample, (1, n_i).
        """
        if self.has_one_twin:
            return cast(Tensor, Twins.apply(self.s, self))
        same = self.s.diagonal(self.samples.start, 1, 3)
        itself = torch.eye(len(same), dtype=torch.bool, device=same.device).unsqueeze(2)
        return same.masked_fill(itself, 0).sum(1) / (len(same) - 1)

    def find_twin(self, weights: Tensor | None = None) -> Tensor:
        """Return −t + log( exp t + Σ_j b_ij exp s_ij ) of each anchor, (V, n_i), in one piece.

        t is the similarity of the twin, and the sum is over the other samples; `weights` are the b
        ≥ 0 between samples, 1 by default. For anchors with one twin.
        """
        return cast(Tensor, Contrast.apply(self.s, weights, None, None, self))

    def contrast(self, weights: Tensor) -> Tensor:
        """Return Σ_j (w_ij / Σ_k w_ik) (−s_ij + log Σ_k exp s_ik) of each anchor, in one piece.

        With two views, similarities are relative to the twin's, whose own difference of 0 is left
        out of the sums: value and gradient keep their digits where the loss is close to 0. An
        anchor without weight counts with its log-sum-exp.
        """
        if self.pool.n_views != 2:
            return self.log_sum_exp() - self.mean(weights)
        sums = self._sums_of(weights)
        absent = sums.mass <= 0  # false for NaN, which stays
        mass = sums.mass.masked_fill(absent, 1)
        shares = sums.others / mass.unsqueeze(1)
        far = torch.div(sums.of_others, mass).mul_(2).masked_fill_(absent, 1)
        return cast(Tensor, Contrast.apply(self.s, None, shares, far, self))

    @property
    def has_one_twin(self) -> bool:
        """Whether an anchor has one twin: of two views, or of one view against another."""
        return self.pool.is_across or self.pool.n_views == 2

    @cached_property
    def itself(self) -> Tensor:
        """Whether a candidate is the anchor, (V, n_i, V, n)."""
        return self.leave_out(
            torch.zeros(self.s.shape, dtype=torch.bool, device=self.s.device), "anchor", True
        )

    def leave_out(self, values: Tensor, without: str, value: float) -> Tensor:
        """Set values (V, n_i, C, n) of an anchor with itself, or with all views of its sample."""
        if without == "sample" or (self.pool.by_view and not self.pool.is_across):
            values.diagonal(self.samples.start, 1, 3).fill_(value)
        elif not self.pool.is_across:
            self.selves(values).fill_(value)
        return values

    def selves(self, values: Tensor) -> Tensor:
        """Return a view of values (V, n_i, V, n) between the anchors and themselves, (V, n_i)."""
        return values.diagonal(0, 0, 2).diagonal(self.samples.start)

    def at_twins(self, values: Tensor) -> Tensor:
        """Return a view of values (V, n_i, C, n) between anchors and their only twins, (V, n_i)."""
        of_view, of_anchor, of_other, of_sample = values.stride()
        first = values.storage_offset() + self.samples.start * of_sample
        if self.pool.by_view:
            strides = (of_view, of_anchor + of_sample)
        else:  # the other view of two: 1 − v of v
            first = first + of_other
            strides = (of_view - of_other, of_anchor + of_sample)
        return values.as_strided(values.shape[:2], strides, first)

    def _sums_of(self, weights: Tensor) -> _Sums:
        """Return sums of weights, computed once for the same weights."""
        if id(weights) not in self._sums:
            self._sums[id(weights)] = _Sums(weights, self)
        return self._sums[id(weights)]


class _Sums:
    """Sums of weights (n_i, n) over the candidates of each anchor, computed when asked for."""

    def __init__(self, weights: Tensor, pairs: Pairs) -> None:
        self.weights = weights  # kept, and so is its id
        self.start = pairs.samples.start
        self.n_views = pairs.pool.n_views

    @cached_property
    def own(self) -> Tensor:
        """Weights of the samples with themselves, (n_i,)."""
        return self.weights.diagonal(self.start)

    @cached_property
    def others(self) -> Tensor:
        """Weights with 0 between a sample and itself, (n_i, n)."""
        others = self.weights.clone()
        others.diagonal(self.start).zero_()
        return others

    @cached_property
    def of_others(self) -> Tensor:
        """Sum of the weights with the other samples, (n_i,)."""
        return self.others.sum(1)

    @cached_property
    def mass(self) -> Tensor:
        """Sum of the weights with all candidates, (n_i,); the own weight counts one view fewer."""
        if self.n_views == 1:
            return self.of_others
        if "of_others" in self.__dict__:
            return self.own * (self.n_views - 1) + self.of_others * self.n_views
        # At least the own weight is left of the sum, so that no digits are lost.
        return self.weights.sum(1).mul_(self.n_views).sub_(self.own)


Formula = Callable[..., tuple[Tensor, ...]]
"""Numbers of each anchor of a block, (…, n_i)."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Embeddings (V, n, d) of all processes: anchors, and candidates, mostly the same tensor."""

    anchors: Tensor
    candidates: Tensor
    """Compared with the anchors in all views, or with `by_view` in the anchor's own."""
    metadata: Metadata
    """Columns of the n samples."""
    scale: float | Tensor = 1.0
    """1/τ, a tensor without gradient where τ learns."""
    processes: Processes = field(default_factory=Processes)
    """Processes that hold the same pool, and share its blocks."""
    sample_weights: Tensor | None = None
    """How much the anchors of a sample count in means over anchors, (n,)."""
    reduction: Reduction = "mean"
    """Mean, sum or values, as `mean` returns them."""
    figures: dict[str, Tensor] = field(default_factory=dict)
    """Further figures of a loss for the metrics of training, written by its `parts`."""
    by_view: bool = False
    """Whether each view of the anchors is compared with the candidates of one view alone."""
    _bound: dict[Kernel, Block] = field(default_factory=dict)

    @property
    def n_views(self) -> int:
        """Views of a sample among the candidates of an anchor."""
        return 1 if self.by_view else len(self.anchors)

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

    @property
    def other_candidates(self) -> Tensor | None:
        """Candidates, or None where they are the anchors."""
        return self.candidates if self.is_across else None

    def between(self, pairs: Sequence[tuple[int, int]]) -> Pool:
        """Return the pool of pairs of views: anchors of the first, candidates of the second."""
        firsts, seconds = zip(*pairs, strict=True)
        anchors = self._views(firsts)
        candidates = anchors
        if firsts != seconds:
            candidates = self._views(seconds)
        return replace(self, anchors=anchors, candidates=candidates, by_view=True)

    def _views(self, numbers: tuple[int, ...]) -> Tensor:
        """Return some views of the anchors, (n_numbers, n, d); all of them in order are no copy."""
        everything = tuple(range(len(self.anchors)))
        if numbers == everything:
            return self.anchors
        if numbers == everything[::-1]:
            return self.anchors.flip(0)
        return torch.stack([self.anchors[number] for number in numbers])

    def bind(self, kernel: Kernel) -> Block:
        """Return the function of blocks of weights w ≥ 0 of a kernel between the samples."""
        if kernel not in self._bound:
            block = kernel.bind(self.metadata, self.metadata, dtype=self.anchors.dtype)
            self._bound[kernel] = block if kernel.nonnegative else partial(_refuse_negative, block)
        return self._bound[kernel]

    def supremum(self, kernel: Kernel) -> float | Tensor:
        """Return ‖w‖∞ > 0, which of some kernels is the maximum over the batch."""
        supremum = kernel.supremum_over(self.metadata, dtype=self.anchors.dtype)
        if isinstance(supremum, Tensor):
            return supremum.clamp_min(torch.finfo(supremum.dtype).tiny)
        return supremum

    def each_anchor(self, formula: Formula, *learned: Tensor) -> tuple[Tensor, ...]:
        """Apply a formula to blocks of anchors, and join the results to (…, n).

        A block is computed, reduced and dropped, and computed again for the gradient. Processes
        share several blocks. The formula is given the pairs, and the `learned` tensors that it is
        differentiated by as well.
        """
        n = self.n_samples
        n_of_sample = len(self.anchors) * self.n_views * self.n_samples
        at_once = AT_ONCE * (ON_GPU if self.anchors.is_cuda else 1)
        if n * n_of_sample <= at_once:
            s = Similarities.apply(self.anchors, self.other_candidates, self.scale, self.by_view)
            return formula(Pairs(s, slice(0, n), self), *learned)
        step = min(max(FEWEST, at_once // n_of_sample), max(1, n // self.processes.size))
        blocks = [slice(start, min(start + step, n)) for start in range(0, n, step)]
        shares = [
            replace(self.processes, rank=rank).share(blocks) for rank in range(self.processes.size)
        ]
        tensors = self.anchors, self.other_candidates, *learned
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
        return Pairs(compare(anchors[:, i], candidates, self.scale, by_view=self.by_view), i, self)

    def add_gradient(
        self, of_pairs: Tensor, i: slice, of_anchors: Tensor, of_candidates: Tensor
    ) -> None:
        """Add the gradient of a block's similarities to that of anchors and of candidates."""
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
        """Return the mean over the anchors of values (V, n), their sum, or the values.

        With one view an anchor can be without a positive: the mean is then over the anchors whose
        `mass` of positives, (V, n), is above 0, and it is 0 without any.
        """
        is_masked = mass is not None and self.n_views == 1
        if self.sample_weights is None and not is_masked and self.reduction == "mean":
            return values.mean()
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
        """Return log mean_i exp of (V, n) over the anchors of a `mass` above 0; 0 without any."""
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
        """Return the mean of `log_mean_exp` with weights of the samples."""
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
                pool.add_gradient(of_s, i, of_anchors, of_candidates)
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
    """Return L2 distances of unit vectors; 0, without gradient, below the level of rounding."""
    return cast(Tensor, Distances.apply(cosines))


def _refuse_negative(block: Block, i: slice, j: slice) -> Tensor:
    """Refuse negative weights; on an accelerator, which is not waited for, make them NaN."""
    weights = block(i, j)
    if weights.device.type == "cpu" and not torch.compiler.is_compiling():
        if (weights < 0).any():
            raise DataError(
                f"The kernel goes down to {weights.min().item():.3g} on this batch, but this loss "
                "needs weights of at least 0. Use a Gaussian, Laplacian or categorical kernel, or shift the column."
            )
        return weights
    return weights.masked_fill_(weights < 0, torch.nan)
