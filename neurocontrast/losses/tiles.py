"""log Σ_j b_ij exp(s_ij) of every anchor in tiles, with the gradient derived by hand; ``core`` explains the letters.

A tile of similarities is computed, reduced and dropped, and computed again for the gradient. Of a symmetric pool only
the tiles on and above the diagonal are computed. With L_i the result, ∂L_i/∂s_ij = b_ij exp(s_ij − L_i).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from neurocontrast.kernels import Block

__all__ = ["EMPTY", "Excluded", "Pairs", "exclude", "tiled_log_sum_exp"]

Excluded = Literal["self", "sample"] | None

EMPTY = -1e30
"""The logarithm of a sum over nothing: as good as −∞, without its NaN."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Which pairs are summed over, and how many similarities are held at once."""

    scale: float
    at_once: int
    offset: int = 0
    excluded: Excluded = None
    weights: Block | None = None
    symmetric: bool = False

    def tiles(self, rows: Tensor, cols: Tensor) -> Iterator[tuple[slice, slice]]:
        """Yield row and column samples; all in one tile where they fit, else tiles that fit in a processor's cache."""
        n_views, n_rows, n_cols = len(rows), rows.shape[1], cols.shape[1]
        fits = n_views * n_rows * n_views * n_cols <= self.at_once
        side = max(n_rows, n_cols) if fits else max(1, math.isqrt(self.at_once) // 2 // n_views)
        for start in range(0, n_rows, side):
            for first in range(start if self.symmetric else 0, n_cols, side):
                yield slice(start, min(start + side, n_rows)), slice(first, min(first + side, n_cols))

    def scores(self, rows: Tensor, cols: Tensor, i: slice, j: slice) -> tuple[Tensor, Tensor | None]:
        """S + log b of a tile, (V·n_i, V·n_j) and −∞ where excluded, and b, (n_i, n_j)."""
        a, b = rows[:, i].flatten(0, 1), cols[:, j].flatten(0, 1)
        out = rows.new_empty(len(a), len(b))
        torch.addmm(out, a, b.T, beta=0, alpha=self.scale, out=out)
        by_sample = out.view(len(rows), i.stop - i.start, len(cols), j.stop - j.start)
        weights = None if self.weights is None else self.weights(i, j)
        if weights is not None:
            by_sample.add_(weights.log().unsqueeze(1))
        exclude(by_sample, self.offset + i.start - j.start, self.excluded, -torch.inf)
        return out, weights

    def mass(self, weights: Tensor, n_views: int, i: slice, j: slice) -> Tensor:
        """Σ_j b_ij over the embeddings of a tile's columns, the anchor itself left out, (n_i,)."""
        mass = weights.sum(1).mul_(n_views)
        offset = self.offset + i.start - j.start
        if self.excluded == "self" and -weights.shape[0] < offset < weights.shape[1]:
            diagonal = weights.diagonal(offset)
            first = max(0, -offset)
            mass[first : first + len(diagonal)] -= diagonal
        return mass


def exclude(block: Tensor, offset: int, excluded: Excluded, value: float) -> None:
    """Write ``value`` where a (V, n_i, V, n_j) block pairs an anchor with itself, or with any view of its sample."""
    if excluded is None or not -block.shape[1] < offset < block.shape[3]:
        return
    if excluded == "sample":
        block.diagonal(offset, 1, 3).fill_(value)
        return
    for view in range(block.shape[0]):
        block[view, :, view].diagonal(offset).fill_(value)


def tiled_log_sum_exp(rows: Tensor, cols: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """Return log Σ_j b_ij exp(s_ij) of every row, (V, n_rows), and Σ_j b_ij, (n_rows,), 0 without weights."""
    sums, mass = _LogSumExp.apply(rows, cols, pairs)
    return sums, mass


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, cols: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
        sums, mass = rows.new_full(rows.shape[:2], -torch.inf), rows.new_zeros(rows.shape[1])
        for i, j in pairs.tiles(rows, cols):
            scores, weights = pairs.scores(rows, cols, i, j)
            mirrored = pairs.symmetric and i != j
            _add(sums[:, i], scores.logsumexp(1))
            if mirrored:
                _add(sums[:, j], scores.logsumexp(0))
            if weights is not None:
                mass[i] += pairs.mass(weights, len(rows), i, j)
                if mirrored:
                    mass[j] += weights.sum(0).mul_(len(rows))
        sums.clamp_min_(EMPTY)
        ctx.save_for_backward(rows, cols, sums)
        ctx.pairs = pairs
        ctx.mark_non_differentiable(mass)
        return sums, mass

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None]:
        rows, cols, sums = ctx.saved_tensors
        pairs: Pairs = ctx.pairs
        sums = sums.masked_fill(sums == EMPTY, torch.inf)
        of_rows = torch.zeros_like(rows)
        of_cols = of_rows if pairs.symmetric else torch.zeros_like(cols)
        with torch.autocast(rows.device.type, enabled=False):
            for i, j in pairs.tiles(rows, cols):
                scores, _ = pairs.scores(rows, cols, i, j)
                slopes = (scores - sums[:, i].reshape(-1, 1)).exp_().mul_(gradients[0][:, i].reshape(-1, 1))
                if pairs.symmetric:
                    slopes += scores.sub_(sums[:, j].reshape(-1)).exp_().mul_(gradients[0][:, j].reshape(-1))
                of_rows[:, i] += (slopes @ cols[:, j].flatten(0, 1)).view_as(rows[:, i])
                if not (pairs.symmetric and i == j):
                    of_cols[:, j] += (slopes.T @ rows[:, i].flatten(0, 1)).view_as(cols[:, j])
        of_rows *= pairs.scale
        return of_rows, None if pairs.symmetric else of_cols.mul_(pairs.scale), None


def _add(sums: Tensor, more: Tensor) -> None:
    torch.logaddexp(sums, more.view_as(sums), out=sums)
