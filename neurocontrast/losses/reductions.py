"""Reduce similarities of anchors to one number an anchor, with gradients in closed form.

For batches of a hundred scans, a loss takes as long as launching its operators. A gradient in
closed form launches a third of autograd's operators, and keeps one copy of the similarities.
Letters of shapes are as in `neurocontrast.losses.core`, and C is the number of views of each
candidate sample.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

EMPTY = -1e30
"""Value used for the logarithm of an empty sum, in place of −∞, whose gradients would be NaN."""


class Unit(torch.autograd.Function):
    """Stack views (n, d) to (V, n, d), and scale embeddings to unit norm; a zero vector stays 0."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *views: Tensor) -> Tensor:
        stacked = torch.stack(views).to(dtype)
        norms = torch.linalg.vector_norm(stacked, dim=2, keepdim=True)
        divisors = norms.masked_fill(norms <= 1e-12, torch.inf)
        unit = stacked / divisors
        ctx.dtype = views[0].dtype
        ctx.save_for_backward(unit, divisors)
        return unit

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        unit, divisors = ctx.saved_tensors
        along = (gradient * unit).sum(2, keepdim=True)
        across = torch.addcmul(gradient, unit, along, value=-1).div_(divisors)
        return None, *across.to(ctx.dtype).unbind()


def compare(anchors: Tensor, candidates: Tensor, scale: float | Tensor, *, by_view: bool) -> Tensor:
    """Compute the similarities of a block of anchors with all candidates.

    Parameters
    ----------
    anchors : tensor (V, n_i, d)
        Embeddings of a block of samples.
    candidates : tensor (V, n, d)
        Embeddings of all samples.
    scale : float or tensor
        Factor 1/τ of the inner products.
    by_view : bool
        Whether to compare each view of the anchors with the same view of the candidates alone, C =
        1, instead of all views, C = V.

    Returns
    -------
    tensor (V, n_i, C, n)
        Inner products times the scale.
    """
    if by_view:
        return torch.bmm(anchors * scale, candidates.mT).unsqueeze(2)
    s = (anchors.flatten(0, 1) * scale) @ candidates.flatten(0, 1).T
    return s.view(len(anchors), -1, *candidates.shape[:2])


class Similarities(torch.autograd.Function):
    """Compute the similarities of `anchors` with `candidates`, as the function `compare` does.

    An anchor is an embedding that a loss compares with other embeddings, its candidates. If
    `candidates` is None, they are the anchors themselves.
    """

    @staticmethod
    def forward(
        ctx: Any, anchors: Tensor, candidates: Tensor | None, scale: float | Tensor, by_view: bool
    ) -> Tensor:
        ctx.scale = scale
        ctx.by_view = by_view
        ctx.save_for_backward(anchors, candidates)
        if candidates is None:
            candidates = anchors
        return compare(anchors, candidates, scale, by_view=by_view)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        anchors, candidates = ctx.saved_tensors
        with torch.autocast(anchors.device.type, enabled=False):
            if not ctx.by_view:
                of_pairs = gradient.reshape(-1, anchors.shape[0] * anchors.shape[1])
                return _of_symmetric(of_pairs, anchors, ctx.scale), None, None, None
            of_pairs = gradient.squeeze(2)
            if candidates is None:
                return _of_symmetric(of_pairs, anchors, ctx.scale), None, None, None
            of_anchors = torch.bmm(of_pairs, candidates).mul_(ctx.scale)
            of_candidates = torch.bmm(of_pairs.mT, anchors).mul_(ctx.scale)
            return of_anchors, of_candidates, None, None


def _of_symmetric(of_pairs: Tensor, z: Tensor, scale: float | Tensor) -> Tensor:
    """Return the gradient (G + Gᵀ) z · scale of embeddings z that are anchors and candidates.

    G, `of_pairs`, is the gradient of the similarities.
    """
    if isinstance(scale, Tensor):
        return _of_symmetric(of_pairs, z, 1.0).mul_(scale)
    if of_pairs.ndim == 3:
        return torch.bmm(of_pairs, z).baddbmm_(of_pairs.mT, z, beta=scale, alpha=scale)
    rows = z.flatten(0, 1)
    of_all = (of_pairs @ rows).addmm_(of_pairs.T, rows, beta=scale, alpha=scale)
    return of_all.view_as(z)


class LogSumExp(torch.autograd.Function):
    """Compute L_i = log Σ_j b_ij exp s_ij of similarities, with the gradient b_ij exp(s_ij − L_i).

    The sum is over the candidates j of anchor i; b are the weights between samples, 1 if None.
    Value and gradient need memory for one copy of s each.
    """

    @staticmethod
    def forward(ctx: Any, s: Tensor, weights: Tensor | None, pairs: Any, without: str) -> Tensor:
        logarithms = _logarithms(weights)
        sums = _sum_up(pairs.leave_out(_plus(s, logarithms), without, EMPTY))
        ctx.pairs = pairs
        ctx.without = without
        ctx.may_be_empty = weights is not None or s.shape[3] == 1
        ctx.save_for_backward(s, logarithms, sums)
        return sums.view(s.shape[:2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        s, logarithms, sums = ctx.saved_tensors
        if ctx.may_be_empty:
            sums = _without_empty(sums)
        shares = ctx.pairs.leave_out(_shares(s, logarithms, sums), ctx.without, 0)
        return shares.mul_(gradient.reshape_as(sums)), None, None, None


class Mean(torch.autograd.Function):
    """Compute the weighted mean Σ_j w_ij s_ij / Σ_j w_ij of each anchor's similarities s_ij.

    Further inputs are the weights w between samples (n_i, n); the weights of samples with
    themselves (n_i,), which count once for each other view, or None for weights of 0; and the sums
    Σ_j w_ij (n_i,), by which to divide. If such a sum is given as infinite, the mean is 0, without
    gradient.
    """

    @staticmethod
    def forward(
        ctx: Any, s: Tensor, weights: Tensor, own: Tensor | None, mass: Tensor, pairs: Any
    ) -> Tensor:
        ctx.pairs = pairs
        ctx.shape = s.shape
        ctx.save_for_backward(weights, mass)
        return _mean(s, weights, own, mass, pairs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        weights, mass = ctx.saved_tensors
        of_anchors = (gradient / mass).view(*gradient.shape, 1, 1)
        of_pairs = of_anchors * weights.unsqueeze(1).expand(ctx.shape[1:])
        return ctx.pairs.leave_out(of_pairs, "anchor", 0), None, None, None, None


class MeanAndLogSumExp(torch.autograd.Function):
    """Compute `Mean` and `LogSumExp` of the same similarities, with one gradient for both.

    The mean has the weights `weights`, and the log-sum-exp the weights `repelling`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        s: Tensor,
        weights: Tensor,
        own: Tensor | None,
        mass: Tensor,
        repelling: Tensor,
        pairs: Any,
    ) -> tuple[Tensor, Tensor]:
        logarithms = _logarithms(repelling)
        sums = _sum_up(pairs.leave_out(_plus(s, logarithms), "anchor", EMPTY))
        ctx.pairs = pairs
        ctx.save_for_backward(s, weights, mass, logarithms, sums)
        return _mean(s, weights, own, mass, pairs), sums.view(s.shape[:2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_means: Tensor, of_sums: Tensor) -> tuple[Tensor | None, ...]:
        s, weights, mass, logarithms, sums = ctx.saved_tensors
        of_pairs = _shares(s, logarithms, _without_empty(sums)).mul_(of_sums.reshape_as(sums))
        of_pairs.addcmul_((of_means / mass).view_as(sums), weights.unsqueeze(1))
        return ctx.pairs.leave_out(of_pairs, "anchor", 0), None, None, None, None, None


class Twins(torch.autograd.Function):
    """Take the similarity of each anchor embedding with its twin, (V, n_i).

    The anchors are the embeddings of n_i samples in V views. The twin of an anchor is the other
    view of the same sample.
    """

    @staticmethod
    def forward(ctx: Any, s: Tensor, pairs: Any) -> Tensor:
        ctx.pairs = pairs
        ctx.shape = s.shape
        twins: Tensor = pairs.at_twins(s).clone()
        return twins

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        of_pairs = gradient.new_zeros(ctx.shape)
        ctx.pairs.at_twins(of_pairs).copy_(gradient)
        return of_pairs, None


class Contrast(torch.autograd.Function):
    """Compute Σ_j a_ij (−s_ij + log Σ_k b_ik exp s_ik), exact even if the value is close to 0.

    The twin of an anchor is the other view of the same sample. With s_ij the similarities, b_ik the
    weights of candidates, a_ij the weights of positives and t_i the similarity of the twin, the
    value is log(1 + Σ_k b_ik exp(s_ik − t_i)) − Σ_j a_ij (s_ij − t_i) over pairs of different
    samples. Inputs are b between samples (n_i, n), None for ones; a with 0 between a sample and
    itself, and the sum of a over all candidates (n_i,), both None where the twin is the only
    positive.
    """

    @staticmethod
    def forward(
        ctx: Any,
        s: Tensor,
        weights: Tensor | None,
        shares: Tensor | None,
        far: Tensor | None,
        pairs: Any,
    ) -> Tensor:
        logarithms = _logarithms(weights)
        twins = pairs.at_twins(s)
        sums = _sum_up(pairs.leave_out(_plus(s, logarithms), "sample", EMPTY))
        above = sums.view(twins.shape) - twins
        values = softplus_of(above)
        if shares is not None and far is not None:
            nearer = (s.sum(2) * shares).sum(2)
            values.sub_(torch.addcmul(nearer, far, twins, value=-1))
        ctx.pairs = pairs
        ctx.save_for_backward(s, logarithms, sums, above, shares, far)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        s, logarithms, sums, above, shares, far = ctx.saved_tensors
        pairs = ctx.pairs
        pushes = above.sigmoid().mul_(gradient)
        of_pairs = _shares(s, logarithms, sums).mul_(pushes.view_as(sums))
        if shares is None:
            of_twins = pushes.neg_()
        else:
            of_pairs.addcmul_(gradient.reshape_as(sums), shares.unsqueeze(1), value=-1)
            of_twins = torch.mul(gradient, far).sub_(pushes)
        pairs.leave_out(of_pairs, "sample", 0)
        pairs.at_twins(of_pairs).copy_(of_twins)
        return of_pairs, None, None, None, None


class LogSumExpOfAll(torch.autograd.Function):
    """Compute log Σ exp over all numbers of a tensor (V, n), V views of n samples."""

    @staticmethod
    def forward(ctx: Any, logarithms: Tensor) -> Tensor:
        total = logarithms.logsumexp((0, 1), keepdim=True)
        ctx.save_for_backward(logarithms, total)
        return total.view(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        logarithms, total = ctx.saved_tensors
        return (logarithms - total).exp_().mul_(gradient)


class Distances(torch.autograd.Function):
    """Compute Euclidean distances of unit vectors from cosines, with tiny distances set to 0.

    A squared distance 2 − 2·cosine of at most 4 machine epsilons may be mere rounding, as for two
    equal vectors; its distance becomes 0, without gradient.
    """

    @staticmethod
    def forward(ctx: Any, cosines: Tensor) -> Tensor:
        squared = 2 - 2 * cosines
        equal = squared <= 4 * torch.finfo(squared.dtype).eps
        apart = squared.masked_fill_(equal, 0).sqrt_()
        ctx.save_for_backward(apart)
        return apart

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (apart,) = ctx.saved_tensors
        return torch.div(gradient, apart).neg_().masked_fill_(apart == 0, 0)


def softplus_of(x: Tensor) -> Tensor:
    """Return log(1 + exp x) of each number in `x`, as accurate as float64; x itself above 40."""
    return softplus(x, threshold=40.0)


def _mean(s: Tensor, weights: Tensor, own: Tensor | None, mass: Tensor, pairs: Any) -> Tensor:
    """Return the weighted mean of each anchor's similarities `s`, (V, n_i); see `Mean`.

    The anchors are the embeddings of n_i samples in V views.
    """
    summed = (s.sum(2) * weights).sum(2)
    if own is not None:
        summed = summed.addcmul_(own, pairs.selves(s), value=-1)
    return summed.div_(mass)


def _without_empty(sums: Tensor) -> Tensor:
    """Return `sums`, logarithms, with that of an empty sum replaced by ∞.

    The terms of an empty sum then get a gradient of 0.
    """
    return sums.masked_fill(sums <= EMPTY / 2, torch.inf)  # NaN stays


def _logarithms(weights: Tensor | None) -> Tensor | None:
    if weights is None:
        return None
    return weights.log().clamp_min_(EMPTY)


def _plus(s: Tensor, logarithms: Tensor | None) -> Tensor:
    """Return similarities `s` (V, n_i, C, n) plus log weights (n_i, n), or a copy of `s`.

    V views of n_i samples, the anchors, are compared with C views of all n samples. `logarithms`
    are the log weights between samples, or None for weights of 1.
    """
    if logarithms is None:
        return s.clone()
    return s + logarithms.unsqueeze(1)


def _sum_up(scores: Tensor) -> Tensor:
    """Return the log-sum-exp of `scores` (V, n_i, C, n) over each anchor's candidates.

    The anchors are the embeddings of n_i samples in V views, and their candidates, the last two
    axes, those of all n samples in C views. The sum is over the last two axes, and the result has
    the shape (V, n_i, 1, 1); the scores are overwritten.
    """
    largest = scores.amax((2, 3), keepdim=True)
    return scores.sub_(largest).exp_().sum((2, 3), keepdim=True).log_().add_(largest)


def _shares(s: Tensor, logarithms: Tensor | None, sums: Tensor) -> Tensor:
    """Return b_ij exp s_ij / Σ_k b_ik exp s_ik of similarities `s`, the gradient of a log-sum-exp.

    `logarithms` are log b, or None for b = 1, and `sums` the logarithms of the denominators.
    """
    if logarithms is None:
        return torch.sub(s, sums).exp_()
    return torch.add(s, logarithms.unsqueeze(1)).sub_(sums).exp_()
