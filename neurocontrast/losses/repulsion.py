"""log Σ_j b_ij exp(s_ij) of every anchor, streamed over tiles, with its gradient derived by hand.

Where |s| ≤ 1/τ is small enough that exp(s) neither overflows nor vanishes, plain exponentials are summed;
elsewhere sums are kept as logarithms. With L_i the result, ∂L_i/∂s_ij = b_ij exp(s_ij − L_i).
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from neurocontrast.losses.tiles import EMPTY, Gradients, LogSums, Pairs, Tiles, full_precision, weight_mass

__all__ = ["log_sum_exp"]


def log_sum_exp(rows: Tensor, cols: Tensor, pairs: Pairs) -> LogSums:
    """Return log Σ_j b_ij exp(s_ij) of every row, with ``both_ways`` log Σ_i of every column, with weights Σ_j b_ij."""
    return cast(LogSums, _LogSumExp.apply(rows, cols, pairs))


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, cols: Tensor, pairs: Pairs) -> LogSums:
        tiles = Tiles(rows, cols, pairs)
        start = 0.0 if tiles.plain else -torch.inf
        of_rows = rows.new_full(rows.shape[:2], start)
        of_cols = of_rows if pairs.symmetric else cols.new_full(cols.shape[:2], start)
        mass = None if pairs.weights is None else rows.new_zeros(rows.shape[1])
        for i, j, for_columns in tiles.spans():
            weights = tiles.weights(i, j)
            if weights is not None and mass is not None:
                mass[i] += weight_mass(weights, tiles.n_views, tiles.offset(i, j))
                if for_columns:
                    mass[j] += weights.sum(0).mul_(tiles.n_views)
            tile = _exponentials(tiles, i, j, weights) if tiles.plain else _scores(tiles, i, j, weights)
            _add(of_rows, i, tile, 1, tiles)
            if for_columns:
                _add(of_cols, j, tile, 0, tiles)
        if tiles.plain:
            of_rows.log_()
            if not pairs.symmetric:
                of_cols.log_()
        of_rows.clamp_min_(EMPTY)
        ctx.save_for_backward(rows, cols, of_rows, of_cols)
        ctx.pairs = pairs
        if mass is not None:
            ctx.mark_non_differentiable(mass)
        return of_rows, of_cols if pairs.both_ways else None, mass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None]:
        rows, cols, of_rows, of_cols = ctx.saved_tensors
        pairs: Pairs = ctx.pairs
        with full_precision(rows):
            tiles = Tiles(rows, cols, pairs)
            collect = Gradients(tiles)
            row_factors = _factors(of_rows, gradients[0], tiles)
            col_factors: list[Tensor] = []
            if pairs.symmetric:
                col_factors = row_factors
            elif pairs.both_ways:
                col_factors = _factors(of_cols, gradients[1], tiles)
            for i, j, _ in tiles.spans():
                factors = [part[:, i].reshape(-1, 1) for part in row_factors]
                factors += [part[:, j].reshape(-1) for part in col_factors]
                collect.add(_derivatives(tiles, i, j, factors), i, j)
        return (*collect.result(), None)


def _exponentials(tiles: Tiles, i: slice, j: slice, weights: Tensor | None) -> Tensor:
    """b_ij exp(s_ij), 0 where excluded."""
    tile = tiles.similarities(i, j).exp_()
    if weights is not None:
        tiles.by_sample(tile, i, j).mul_(weights.unsqueeze(1))
    tiles.exclude(tile, i, j, 0.0)
    return tile


def _scores(tiles: Tiles, i: slice, j: slice, weights: Tensor | None) -> Tensor:
    """s_ij + log b_ij, −inf where excluded."""
    tile = tiles.similarities(i, j)
    if weights is not None:
        tiles.by_sample(tile, i, j).add_(weights.log_().unsqueeze(1))
    tiles.exclude(tile, i, j, -torch.inf)
    return tile


def _add(sums: Tensor, samples: slice, tile: Tensor, dim: int, tiles: Tiles) -> None:
    part = sums[:, samples]
    if tiles.plain:
        part += tile.sum(dim).view(tiles.n_views, -1)
    else:
        torch.logaddexp(part, tile.logsumexp(dim).view(tiles.n_views, -1), out=part)


def _factors(sums: Tensor, gradient: Tensor, tiles: Tiles) -> list[Tensor]:
    """What exp(s) is multiplied with: g exp(−L) alone, or L and g apart where exp(−L) could overflow."""
    empty = sums == EMPTY
    if tiles.plain:
        return [(-sums).exp_().mul_(gradient).masked_fill_(empty, 0)]
    return [sums.masked_fill(empty, torch.inf), gradient]


def _derivatives(tiles: Tiles, i: slice, j: slice, factors: list[Tensor]) -> Tensor:
    """b_ij exp(s_ij − L_i) g_i, plus the same for the columns where there are factors for them."""
    if tiles.plain:
        tile = _exponentials(tiles, i, j, tiles.weights(i, j))
        if len(factors) == 1:
            return tile.mul_(factors[0])
        return tile.mul_(torch.add(*factors, out=tiles.scratch(tile)))
    tile = _scores(tiles, i, j, tiles.weights(i, j))
    by_row = torch.sub(tile, factors[0], out=tiles.scratch(tile)).exp_().mul_(factors[1])
    if len(factors) == 2:
        return by_row
    return by_row.add_(tile.sub_(factors[2]).exp_().mul_(factors[3]))
