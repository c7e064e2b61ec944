"""A whole loss of a small batch in one step: its value and, derived by hand beside it, its gradient.

At 128 embeddings an operation costs microseconds whatever its size, so that their number decides. In a single process
two views of up to ``SMALL`` embeddings take this path with every loss that has a ``closed_form``; the numbers are those
of the sum of its ``parts``, which go through ``dense``. A larger pool is faster there, with passes over less memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from neurocontrast.kernels import Block
from neurocontrast.losses.dense import gradient_of_symmetric, similarities
from neurocontrast.losses.tiles import EMPTY, weight_mass

__all__ = [
    "SMALL",
    "ClosedForm",
    "find_twins",
    "fused",
    "log_sums_and_chances",
    "pool_gradient",
    "pool_similarities",
    "shares",
    "tangent",
    "to_unit_norm",
]

SMALL = 384
"""Embeddings up to which one step is faster than a sum of parts."""

ClosedForm = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Unit embeddings (V, n, d) to a loss and its gradient with respect to them."""


def fused(views: list[Tensor], form: ClosedForm) -> Tensor:
    """Return the loss of views (n, d) of any norm; its backward only scales the gradient that is there already."""
    return cast(Tensor, _Fused.apply(form, *views))


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, form: ClosedForm, *views: Tensor) -> Tensor:
        units, norms = to_unit_norm(views)
        value, gradient = form(units)
        ctx.save_for_backward(tangent(gradient, units, norms))
        ctx.dtype = views[0].dtype
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return None, *(gradient * upstream).to(ctx.dtype).unbind(0)


def to_unit_norm(views: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Stack views (n, d) to unit vectors (V, n, d), in at least float32, and their norms; a zero vector's norm is ∞."""
    stacked = torch.stack(views)
    if stacked.dtype != torch.float64:
        stacked = stacked.float()
    norms = torch.linalg.vector_norm(stacked, dim=2, keepdim=True)
    torch.threshold_(norms, 1e-12, torch.inf)
    return stacked.div_(norms), norms


def tangent(gradient: Tensor, units: Tensor, norms: Tensor) -> Tensor:
    """The gradient with respect to the vectors before they were divided by their norms; 0 for a zero vector."""
    radial = (gradient * units).sum(2, keepdim=True)
    return torch.addcmul(gradient, units, radial, value=-1).div_(norms)


def pool_similarities(units: Tensor, scale: float) -> Tensor:
    """All s_ij of the pool, (N, N), each embedding with itself at −1e30, whose exponential is 0."""
    return similarities(units, units, scale)[0].fill_diagonal_(EMPTY)


def pool_gradient(slopes: Tensor, units: Tensor, scale: float) -> Tensor:
    """The gradient with respect to the units, from ∂/∂s_ij of the pool."""
    return gradient_of_symmetric(slopes + slopes.T, units, scale)


def find_twins(scores: Tensor, units: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Cross-entropy of the twins among an anchor's candidates, and its gradient: ∂/∂s = softmax − 1 at twins."""
    n = units.shape[1]
    sums, slopes = log_sums_and_chances(scores)
    value = sums.mean() - scores.diagonal(n).mean()
    slopes.diagonal(n).sub_(2)
    return value, pool_gradient(slopes, units, 0.5 * scale / n)


def log_sums_and_chances(scores: Tensor, dim: int = 1) -> tuple[Tensor, Tensor]:
    """L_i = log Σ_j exp(s_ij), (N,), and exp(s_ij − L_i); with ``dim`` 0, summed over i."""
    chances = torch.softmax(scores, dim)
    return scores.amax(dim).sub_(chances.amax(dim).log_()), chances


def shares(block: Block) -> Tensor:
    """Each anchor's weights over both views of the others and its twin, (N, N), summing to 1; 0 where all are 0."""
    weights = block(slice(None), slice(None))
    mass = torch.threshold_(weight_mass(weights, 2, 0), 0, torch.inf)
    of_view = weights.div_(mass.unsqueeze(1))
    of_view = torch.cat((of_view, of_view), 1)
    return torch.cat((of_view, of_view)).fill_diagonal_(0)
