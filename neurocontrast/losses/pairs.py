"""Pairs of a block of anchors with all candidates, for which a loss defines its formula.

An anchor is an embedding that a loss compares with all others, its candidates. Letters of shapes
are as in `neurocontrast.losses.core`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol, cast

import torch
from torch import Tensor

from neurocontrast.kernels import Block, Kernel
from neurocontrast.losses.reductions import Contrast, LogSumExp, Mean, MeanAndLogSumExp, Twins

_ALL = slice(None)


class Candidates(Protocol):
    """Protocol of the embeddings with which anchors are compared, as far as `Pairs` needs them.

    These embeddings are called candidates. An object of the protocol counts them and computes
    kernel weights between their samples; `Pool`, the embeddings of a batch, is one.
    """

    @property
    def by_view(self) -> bool:
        """Whether view number v of anchors is compared with view v of the candidates alone."""

    @property
    def is_across(self) -> bool:
        """Whether anchors of one view are compared with candidates of another view."""

    @property
    def n_views(self) -> int:
        """Number of views of each sample with which an anchor is compared."""

    @property
    def n_candidates(self) -> int:
        """Number of embeddings with which an anchor is compared."""

    def bind(self, kernel: Kernel) -> Block:
        """Return a function that computes blocks of `kernel`'s weights between samples.

        The function takes two slices of the batch, the samples in the rows and in the columns of a
        block.
        """

    def supremum(self, kernel: Kernel) -> float | Tensor:
        """Return a kernel's largest weight ‖w‖∞ > 0: its upper bound, or the batch's maximum."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of a block of anchors with all candidates, from which a loss computes its formula.

    An anchor i is one view of a sample. Sums over candidates j leave out only the anchor itself,
    and keep other views of its sample, unless a method's docstring says that more is left out.
    Weights between samples, (n_i, n), apply to all views of the samples.
    """

    s: Tensor
    """Similarities <z_i, z_j> / τ of V views of n_i samples as anchors with C views of n samples as
    candidates, (V, n_i, C, n); C is 1 if `pool.by_view` is True, or else V."""
    samples: slice
    """Slice of the batch's samples whose views are the anchors."""
    pool: Candidates
    _weights: dict[Kernel, Tensor] = field(default_factory=dict)
    _sums: dict[int, _Sums] = field(default_factory=dict)

    def weights(self, kernel: Kernel) -> Tensor:
        """Return a kernel's weights w ≥ 0 between the anchors' samples and all samples, (n_i, n).

        The n_i samples are those of the slice `samples`, whose views are the anchors of these
        pairs; n are all samples of the batch. The weights have no gradient.
        """
        if kernel not in self._weights:
            self._weights[kernel] = self.pool.bind(kernel)(self.samples, _ALL)
        return self._weights[kernel]

    def unlikeness(self, kernel: Kernel) -> Tensor:
        """Return ‖w‖∞ − w of a kernel between the anchors' samples and all samples, (n_i, n).

        w is the kernel's weight of two samples, and ‖w‖∞ its largest weight. The n_i samples are
        those of the slice `samples`, whose views are the anchors of these pairs; n are all samples
        of the batch. Differences as small as rounding errors become 0.
        """
        supremum = self.pool.supremum(kernel)
        w = self.weights(kernel)
        apart = supremum - w
        return apart.masked_fill_(apart <= supremum * (16 * torch.finfo(w.dtype).eps), 0)

    def log_sum_exp(
        self, weights: Tensor | None = None, *, without: Literal["anchor", "sample"] = "anchor"
    ) -> Tensor:
        """Compute log Σ_j b_ij exp s_ij of each anchor i, over similarities s_ij with candidates j.

        Parameters
        ----------
        weights : tensor (n_i, n), optional
            Weights b ≥ 0 between samples; 1 by default.
        without : {"anchor", "sample"}
            Candidates to leave out of the sum: the anchor alone, or all views of the anchor's
            sample.

        Returns
        -------
        tensor (V, n_i)
            Value of each anchor, for V views of n_i samples; −1e30, without gradient, where all
            b_ij of the sum are 0.
        """
        return cast(Tensor, LogSumExp.apply(self.s, weights, self, without))

    def mean(self, weights: Tensor) -> Tensor:
        """Return the mean of each anchor's similarities, Σ_j w_ij s_ij / Σ_j w_ij, (V, n_i).

        `weights` w are between samples, (n_i, n). The mean is 0 if all w_ij of an anchor are 0.
        """
        return cast(Tensor, Mean.apply(self.s, *self._of_mean(weights), self))

    def mean_and_log_sum_exp(self, weights: Tensor, repelling: Tensor) -> tuple[Tensor, Tensor]:
        """Return a weighted mean and a log-sum-exp of each anchor's similarities, (V, n_i) each.

        The mean is `mean` with the attracting `weights`, and the log-sum-exp is `log_sum_exp` with
        the weights `repelling`, both (n_i, n) between samples. One operation computes both, because
        one gradient is faster than two.
        """
        both = MeanAndLogSumExp.apply(self.s, *self._of_mean(weights), repelling, self)
        return cast(tuple[Tensor, Tensor], both)

    def _of_mean(self, weights: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return the three tensors that the operation `Mean` needs besides the similarities.

        They are the `weights` (n_i, n) between samples; the weights (n_i,) of samples with
        themselves; and the sums (n_i,) of each anchor's weights over its candidates, by which the
        mean divides. A sum of 0 becomes infinite, so that the mean is 0. If anchors are compared
        with one view of each sample, a sample is no candidate of itself: the first tensor is then a
        copy of `weights` with 0 for a sample with itself, and the second is None.
        """
        sums = self._sums_of(weights)
        mass = sums.mass.masked_fill(sums.mass <= 0, torch.inf)  # NaN stays
        if self.pool.n_views == 1:
            return sums.others, None, mass
        return weights, sums.own, mass

    def mass(self, weights: Tensor) -> Tensor:
        """Return the sum of `weights` (n_i, n) over all candidates of each anchor, (V, n_i).

        The weight of two samples counts once for each view of the candidate's sample. Of an
        anchor's own sample, only the other views count.
        """
        return self._sums_of(weights).mass.expand(self.s.shape[:2])

    def twins(self) -> Tensor:
        """Return the similarity of each anchor with the other view of the same sample, (V, n_i).

        With several other views, the mean similarity is returned. If one view is compared with
        another, the result has the shape (1, n_i).
        """
        if self.has_one_twin:
            return cast(Tensor, Twins.apply(self.s, self))
        same = self.s.diagonal(self.samples.start, 1, 3)
        itself = torch.eye(len(same), dtype=torch.bool, device=same.device).unsqueeze(2)
        return same.masked_fill(itself, 0).sum(1) / (len(same) - 1)

    def find_twin(self, weights: Tensor | None = None) -> Tensor:
        """Compute −t + log( exp t + Σ_j b_ij exp s_ij ), the loss of finding an anchor's twin.

        The twin is the only other view of the sample of anchor i, and t the similarity with the
        twin. The sum is over the embeddings j of all other samples, in each view with which the
        anchor is compared. One operation computes the losses (V, n_i) of all anchors.

        Parameters
        ----------
        weights : tensor (n_i, n), optional
            Weights b ≥ 0 between samples; 1 by default.
        """
        return cast(Tensor, Contrast.apply(self.s, weights, None, None, self))

    def contrast(self, weights: Tensor) -> Tensor:
        """Compute Σ_j (w_ij / Σ_k w_ik) (−s_ij + log Σ_k exp s_ik) of each anchor i, at once.

        `weights` w (n_i, n) are between samples, s_ij is the similarity of anchor i with candidate
        j, j and k run over all candidates, and the result is (V, n_i). With two views, similarities
        are computed relative to the similarity with the twin (the anchor's other view), whose
        difference of 0 is left out of the sums, so that value and gradient are exact even if the
        loss is close to 0. For an anchor whose weights are all 0, the result is log Σ_k exp s_ik.
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
        """Whether every anchor has exactly one twin, another view of the same sample."""
        return self.pool.is_across or self.pool.n_views == 2

    @cached_property
    def itself(self) -> Tensor:
        """Mask of the shape of `s`, (V, n_i, C, n), True where a candidate is the anchor itself."""
        return self.leave_out(
            torch.zeros(self.s.shape, dtype=torch.bool, device=self.s.device), "anchor", True
        )

    def leave_out(self, values: Tensor, without: str, value: float) -> Tensor:
        """Set entries of `values` (V, n_i, C, n) to `value` where a sum leaves out a candidate.

        The sum is over all candidates of an anchor. The entries belong to V views of n_i samples as
        anchors, and C views of n samples as candidates. With `without` "anchor" each anchor itself
        is left out, if the anchor is among the candidates; with "sample" every view of the anchor's
        sample. The tensor is changed in place and returned.
        """
        if without == "sample" or (self.pool.by_view and not self.pool.is_across):
            values.diagonal(self.samples.start, 1, 3).fill_(value)
        elif not self.pool.is_across:
            self.selves(values).fill_(value)
        return values

    def selves(self, values: Tensor) -> Tensor:
        """Return the entries of `values` (V, n_i, V, n) of each anchor with itself, (V, n_i).

        The result shares memory with `values`.
        """
        return values.diagonal(0, 0, 2).diagonal(self.samples.start)

    def at_twins(self, values: Tensor) -> Tensor:
        """Return the entries of `values` (V, n_i, C, n) of each anchor with its twin, (V, n_i).

        The entries belong to V views of n_i samples as anchors, and C views of n samples as
        candidates. The twin is the anchor's only other view. The result shares memory with
        `values`.
        """
        of_view, of_anchor, of_other, of_sample = values.stride()
        first = values.storage_offset() + self.samples.start * of_sample
        if self.pool.by_view:
            strides = (of_view, of_anchor + of_sample)
        else:  # the other view of two: 1 − v of v
            first = first + of_other
            strides = (of_view - of_other, of_anchor + of_sample)
        return values.as_strided(values.shape[:2], strides, first)

    def _sums_of(self, weights: Tensor) -> _Sums:
        """Return the sums of `weights` (n_i, n) over each anchor's candidates, as `_Sums`.

        A second call with the same tensor object returns the result of the first call, which is
        found by the object's id.
        """
        if id(weights) not in self._sums:
            self._sums[id(weights)] = _Sums(weights, self)
        return self._sums[id(weights)]


class _Sums:
    """Sums of a weight matrix (n_i, n) over candidates, each sum computed on first use."""

    def __init__(self, weights: Tensor, pairs: Pairs) -> None:
        self.weights = weights  # kept, and so is its id
        self.start = pairs.samples.start
        self.n_views = pairs.pool.n_views

    @cached_property
    def own(self) -> Tensor:
        """Weight of each anchor's sample with itself, the diagonal of the weight matrix, (n_i,)."""
        return self.weights.diagonal(self.start)

    @cached_property
    def others(self) -> Tensor:
        """Copy of the weights (n_i, n) with 0 for a sample with itself."""
        others = self.weights.clone()
        others.diagonal(self.start).zero_()
        return others

    @cached_property
    def of_others(self) -> Tensor:
        """Sum of the weights between each anchor's sample and the other samples, (n_i,)."""
        return self.others.sum(1)

    @cached_property
    def mass(self) -> Tensor:
        """Sum of an anchor's weights over all candidates, the anchor itself left out, (n_i,)."""
        if self.n_views == 1:
            return self.of_others
        if "of_others" in self.__dict__:
            return self.own * (self.n_views - 1) + self.of_others * self.n_views
        # The difference is at least the own weight, so that no digits are lost.
        return self.weights.sum(1).mul_(self.n_views).sub_(self.own)
