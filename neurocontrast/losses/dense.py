"""The dense path: all similarities of a small pool at once, kept for the gradient, which is derived by hand.

The same functions as the tiled path of ``repulsion`` and ``attraction``, with the same numbers.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from neurocontrast.losses.tiles import (
    EMPTY,
    LINEAR_FROM,
    LogSums,
    Pairs,
    exclude,
    full_precision,
    is_plain,
    weight_mass,
)

__all__ = [
    "gradient_of_symmetric",
    "log_sum_exp",
    "positives_against_negatives",
    "similarities",
    "weighted_similarity",
]

_ALL = slice(None)


def log_sum_exp(rows: Tensor, cols: Tensor, pairs: Pairs) -> LogSums:
    """Return log Σ_j b_ij exp(s_ij) of every row, with ``both_ways`` log Σ_i of every column, with weights Σ_j b_ij."""
    return cast(LogSums, _LogSumExp.apply(rows, cols, pairs))


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, cols: Tensor, pairs: Pairs) -> LogSums:
        plain = is_plain(pairs.scale, rows.dtype)
        scores, by_sample = similarities(rows, cols, pairs.scale)
        if plain:
            scores.exp_()
        mass = None
        if pairs.weights is not None:
            weights = pairs.weights(_ALL, _ALL)
            mass = weight_mass(weights, rows.shape[0], pairs.offset)
            ctx.mark_non_differentiable(mass)
            _ = by_sample.mul_(weights.unsqueeze(1)) if plain else by_sample.add_(weights.log_().unsqueeze(1))
        exclude(by_sample, pairs.offset, pairs.excluded, 0.0 if plain else -torch.inf)
        of_rows = (scores.sum(1).log_() if plain else scores.logsumexp(1)).clamp_min_(EMPTY).view(rows.shape[:2])
        of_cols = None
        if pairs.both_ways:
            of_cols = (scores.sum(0).log_() if plain else scores.logsumexp(0)).view(cols.shape[:2])
        ctx.save_for_backward(rows, cols, of_rows, of_cols, scores)
        ctx.pairs, ctx.plain = pairs, plain
        return of_rows, of_cols, mass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None]:
        rows, cols, of_rows, of_cols, scores = ctx.saved_tensors
        pairs: Pairs = ctx.pairs
        if ctx.plain and pairs.symmetric:
            factors = _factors(of_rows, gradients[0])
            return gradient_of_symmetric(scores * (factors.unsqueeze(1) + factors), rows, pairs.scale), None, None
        tile = _slopes(scores, of_rows.view(-1, 1), gradients[0].reshape(-1, 1), ctx.plain)
        if pairs.both_ways:
            tile += _slopes(scores, of_cols.view(-1), gradients[1].reshape(-1), ctx.plain)
        return (*_gradients(tile, rows, cols, pairs), None)


def _slopes(scores: Tensor, sums: Tensor, gradient: Tensor, plain: bool) -> Tensor:
    """∂/∂s = b exp(s − L) g, where ``scores`` are b exp(s) (plain) or s + log b; 0 for an anchor without candidates."""
    if plain:
        return scores * _factors(sums, gradient).view_as(sums)
    return (scores - sums.masked_fill(sums == EMPTY, torch.inf)).exp_().mul_(gradient)


def _factors(sums: Tensor, gradient: Tensor) -> Tensor:
    """The factor g exp(−L), 0 for an anchor without candidates."""
    return sums.neg().exp_().mul_(gradient).masked_fill_(sums == EMPTY, 0).view(-1)


def weighted_similarity(rows: Tensor, cols: Tensor, pairs: Pairs) -> Tensor:
    """Return the mean over a sample's two anchors of Σ_{j≠i} w_ij s_ij / Σ_{j≠i} w_ij, (n_rows,); 0 without weight."""
    return cast(Tensor, _WeightedSimilarity.apply(rows, cols, pairs))


class _WeightedSimilarity(torch.autograd.Function):
    """With m = z1 + z2, P = W m without a sample's own weight o: s = (<m, P> + 2 o <z1, z2>) / (2 (2 Σ w + o))."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, cols: Tensor, pairs: Pairs) -> Tensor:
        assert pairs.weights is not None
        weights = pairs.weights(_ALL, _ALL)
        diagonal = weights.diagonal(pairs.offset)
        own = diagonal.clone()
        diagonal.zero_()
        summed = rows[0] + rows[1]
        pulled = weights @ (summed if pairs.symmetric else cols[0] + cols[1])
        mass = weights.sum(1).mul_(2).add_(own)
        factors = (0.5 * pairs.scale / mass).masked_fill_(mass <= 0, 0)
        own = own.mul_(2).unsqueeze(1)
        ctx.save_for_backward(rows, summed, pulled, own, factors, weights)
        ctx.pairs = pairs
        return (summed * pulled).addcmul_(rows[0] * rows[1], own.expand_as(pulled)).sum(1).mul_(factors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None]:
        rows, summed, pulled, own, factors, weights = ctx.saved_tensors
        scaled = (gradients[0] * factors).unsqueeze(1)
        with full_precision(rows):
            of_cols = weights.T @ (summed * scaled)
        pulled = pulled * scaled
        twins = rows.flip(0).mul_(own * scaled)
        if ctx.pairs.symmetric:
            return twins.add_(pulled.add_(of_cols)), None, None
        return twins.add_(pulled), of_cols.expand(2, *of_cols.shape), None


def positives_against_negatives(rows: Tensor, cols: Tensor, pairs: Pairs, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return Σ_p log(1 + exp(L_i + ε − s_ip)) of every row, and its number of negatives, (n_rows,).

    Positives are pairs with w = 1, negatives those with w = 0, L_i = log Σ_negatives exp(s_ij).
    """
    return cast(tuple[Tensor, Tensor], _PositivesAgainstNegatives.apply(rows, cols, pairs, epsilon))


class _PositivesAgainstNegatives(torch.autograd.Function):
    """With x = L_i + ε − s_ip: ∂/∂s_ip = −σ(x) of a positive; through L_i, ∂/∂s_ij = exp(s_ij − L_i) Σ_p σ(x)."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, cols: Tensor, pairs: Pairs, epsilon: float) -> tuple[Tensor, Tensor]:
        assert pairs.weights is not None
        weights = pairs.weights(_ALL, _ALL)
        n_negatives = (1 - weights).sum(1).mul_(rows.shape[0])
        positive = (weights > 0).unsqueeze(1)
        scores, by_sample = similarities(rows, cols, pairs.scale)
        repelled = by_sample.masked_fill(positive, -torch.inf).view_as(scores)
        negatives = repelled.logsumexp(1, keepdim=True)
        above = torch.sub(negatives + epsilon, scores)
        shown = above.view_as(by_sample)
        exclude(shown.masked_fill_(~positive, -torch.inf), pairs.offset, "self", -torch.inf)
        sums = functional.softplus(above, threshold=LINEAR_FROM).sum(1).view(rows.shape[:2])
        attracted = above.sigmoid_()
        repelled = repelled.sub_(negatives.masked_fill_(negatives == -torch.inf, 0)).exp_()
        slopes = repelled.mul_(attracted.sum(1, keepdim=True)).sub_(attracted)
        ctx.save_for_backward(rows, cols, slopes)
        ctx.pairs = pairs
        ctx.mark_non_differentiable(n_negatives)
        return sums, n_negatives

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        rows, cols, slopes = ctx.saved_tensors
        return (*_gradients(slopes * gradients[0].reshape(-1, 1), rows, cols, ctx.pairs), None, None)


def similarities(rows: Tensor, cols: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """All s_ij as (V·n_rows, V·n_cols), and the same as (V, n_rows, V, n_cols)."""
    (n_views, n_rows, d), n_cols = rows.shape, cols.shape[1]
    out = rows.new_empty(n_views * n_rows, n_views * n_cols)
    with full_precision(rows):
        torch.addmm(out, rows.view(-1, d), cols.view(-1, d).T, beta=0, alpha=scale, out=out)
    return out, out.view(n_views, n_rows, n_views, n_cols)


def _gradients(tile: Tensor, rows: Tensor, cols: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor | None]:
    """∂/∂rows and ∂/∂cols from ∂/∂s; all in the first for a symmetric pool."""
    if pairs.symmetric:
        return gradient_of_symmetric(tile + tile.T, rows, pairs.scale), None
    d = rows.shape[2]
    with full_precision(rows):
        of_rows = _product(tile, cols.view(-1, d), pairs.scale).view_as(rows)
        return of_rows, _product(tile.T, rows.view(-1, d), pairs.scale).view_as(cols)


def gradient_of_symmetric(tile: Tensor, rows: Tensor, scale: float) -> Tensor:
    """∂/∂rows from ∂/∂s_ij + ∂/∂s_ji."""
    with full_precision(rows):
        return _product(tile, rows.view(-1, rows.shape[2]), scale).view_as(rows)


def _product(a: Tensor, b: Tensor, scale: float) -> Tensor:
    out = a.new_empty(a.shape[0], b.shape[1])
    return torch.addmm(out, a, b, beta=0, alpha=scale, out=out)
