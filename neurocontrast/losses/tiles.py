"""Sums over pairs with nothing n × n stored: tiles are computed, reduced, dropped, and computed again for gradients.

Where |s| ≤ 1/τ is small enough that exp(s) neither overflows nor vanishes, plain exponentials are summed
and a tile serves its rows and (the pool being symmetric) its columns with one exponential; elsewhere sums
are kept as logarithms. Gradients are derived by hand: with L_i = log Σ_j b_ij exp(s_ij),
∂L_i/∂s_ij = b_ij exp(s_ij − L_i).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor
from torch.nn import functional

from neurocontrast.kernels import Block

__all__ = ["LINEAR_FROM", "Pairs", "exclude", "log_sum_exp", "softplus_sum", "weighted_neighbours"]

LINEAR_FROM = 40.0
"""Above this, log(1 + exp(x)) is x in double precision."""

_PLAIN_UP_TO = {torch.float32: 40.0, torch.float64: 300.0}
"""Largest 1/τ for which exponentials and their weighted sums stay well inside the range of the dtype."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Which pairs are summed over, and how they are cut in tiles of ``side`` × ``side`` samples."""

    scale: float
    side: int
    offset: int
    excluded: Literal["self", "sample"] | None
    weights: Block | None
    symmetric: bool
    both_ways: bool = False

    def tiles(self, n_rows: int, n_cols: int) -> Iterator[tuple[slice, slice, bool]]:
        """Yield row samples, column samples, and whether the tile also counts for its columns' sums."""
        for start in range(0, n_rows, self.side):
            i = slice(start, min(start + self.side, n_rows))
            for first in range(start if self.symmetric else 0, n_cols, self.side):
                j = slice(first, min(first + self.side, n_cols))
                yield i, j, self.both_ways or (self.symmetric and first > start)


def exclude(block: Tensor, offset: int, excluded: Literal["self", "sample"] | None, value: float) -> None:
    """Write ``value`` where a (V, n_i, V, n_j) block pairs an anchor with itself, or with any view of its sample."""
    if excluded == "sample":
        block.diagonal(offset, 1, 3).fill_(value)
    elif excluded == "self":
        for view in range(block.shape[0]):
            block[view, :, view].diagonal(offset).fill_(value)


class _Tiles:
    """Computes one tile at a time in a buffer that is used again."""

    def __init__(self, rows: Tensor, cols: Tensor, pairs: Pairs) -> None:
        self.rows, self.cols, self.pairs = rows, cols, pairs
        n_views, n_rows, self.d = rows.shape
        self.shape = (n_rows, cols.shape[1])
        self.n_views = n_views
        self.plain = pairs.scale <= _PLAIN_UP_TO[rows.dtype]
        side = pairs.side * n_views
        self._buffer = rows.new_empty(side * min(side, n_views * cols.shape[1]))
        self._other = torch.empty_like(self._buffer)

    def __iter__(self) -> Iterator[tuple[slice, slice, bool]]:
        return self.pairs.tiles(*self.shape)

    def row_vectors(self, i: slice) -> Tensor:
        return self.rows[:, i].reshape(-1, self.d)

    def col_vectors(self, j: slice) -> Tensor:
        return self.cols[:, j].reshape(-1, self.d)

    def similarities(self, a: Tensor, b: Tensor) -> Tensor:
        out = self._buffer[: len(a) * len(b)].view(len(a), len(b))
        return torch.addmm(out, a, b.T, beta=0, alpha=self.pairs.scale, out=out)

    def like(self, tile: Tensor) -> Tensor:
        """A second buffer of the tile's shape."""
        return self._other[: tile.numel()].view(tile.shape)

    def by_sample(self, tile: Tensor, i: slice, j: slice) -> Tensor:
        return tile.view(self.n_views, i.stop - i.start, self.n_views, j.stop - j.start)

    def exclude(self, tile: Tensor, i: slice, j: slice, value: float) -> None:
        exclude(self.by_sample(tile, i, j), self.pairs.offset + i.start - j.start, self.pairs.excluded, value)

    def exponentials(self, a: Tensor, b: Tensor, i: slice, j: slice, weights: Tensor | None) -> Tensor:
        """b_ij exp(s_ij), 0 where excluded."""
        tile = self.similarities(a, b).exp_()
        if weights is not None:
            self.by_sample(tile, i, j).mul_(weights.unsqueeze(1))
        self.exclude(tile, i, j, 0.0)
        return tile

    def scores(self, a: Tensor, b: Tensor, i: slice, j: slice, weights: Tensor | None) -> Tensor:
        """s_ij + log b_ij, −inf where excluded."""
        tile = self.similarities(a, b)
        if weights is not None:
            self.by_sample(tile, i, j).add_(weights.log_().unsqueeze(1))
        self.exclude(tile, i, j, -torch.inf)
        return tile

    def weights(self, i: slice, j: slice) -> Tensor | None:
        return None if self.pairs.weights is None else self.pairs.weights(i, j)


def weight_mass(block: Tensor, n_views: int, offset: int) -> Tensor:
    """Σ_j b_ij over the columns' embeddings of a block (n_i, n_j) between samples, the anchor itself left out."""
    mass = block.sum(1).mul_(n_views)
    diagonal = block.diagonal(offset)
    first = max(0, -offset)
    mass[first : first + len(diagonal)] -= diagonal
    return mass


def log_sum_exp(rows: Tensor, cols: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
    """Return log Σ_j b_ij exp(s_ij) of every row, with ``both_ways`` log Σ_i of every column, and Σ_j b_ij."""
    with _full_precision(rows):
        return cast(tuple[Tensor, Tensor, Tensor], _LogSumExp.apply(rows, cols, pairs))


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, cols: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
        tiles = _Tiles(rows, cols, pairs)
        add = _add_sums if tiles.plain else _add_logarithms
        start = 0.0 if tiles.plain else -torch.inf
        of_rows = rows.new_full(rows.shape[:2], start)
        of_cols = of_rows if pairs.symmetric else cols.new_full(cols.shape[:2], start)
        mass = rows.new_zeros(rows.shape[1] if pairs.weights else 0)
        for i, j, for_columns in tiles:
            weights = tiles.weights(i, j)
            if weights is not None:
                mass[i] += weight_mass(weights, tiles.n_views, pairs.offset + i.start - j.start)
                if for_columns:
                    mass[j] += weights.sum(0).mul_(tiles.n_views)
            add(tiles, i, j, weights, of_rows, of_cols if for_columns else None)
        if tiles.plain:
            of_rows.log_()
            if not pairs.symmetric:
                of_cols.log_()
        ctx.save_for_backward(rows, cols, of_rows, of_cols)
        ctx.pairs = pairs
        second = of_cols if pairs.both_ways else of_cols.new_empty(0)
        ctx.mark_non_differentiable(mass, *(() if pairs.both_ways else (second,)))
        return of_rows, second, mass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None]:
        rows, cols, of_rows, of_cols = ctx.saved_tensors
        pairs: Pairs = ctx.pairs
        with _full_precision(rows):
            tiles = _Tiles(rows, cols, pairs)
            collect = _Gradients(tiles)
            row_factors = _factors(of_rows, gradients[0], tiles.plain)
            col_factors: list[Tensor] = []
            if pairs.symmetric:
                col_factors = row_factors
            elif pairs.both_ways:
                col_factors = _factors(of_cols, gradients[1], tiles.plain)
            for i, j, _ in tiles:
                a, b = tiles.row_vectors(i), tiles.col_vectors(j)
                factors = [part[:, i].reshape(-1, 1) for part in row_factors]
                factors += [part[:, j].reshape(-1) for part in col_factors]
                collect.add(_derivatives(tiles, a, b, i, j, factors), a, b, i, j)
        return (*collect.result(), None)


def _add_sums(
    tiles: _Tiles, i: slice, j: slice, weights: Tensor | None, of_rows: Tensor, of_cols: Tensor | None
) -> None:
    tile = tiles.exponentials(tiles.row_vectors(i), tiles.col_vectors(j), i, j, weights)
    of_rows[:, i] += tile.sum(1).view(tiles.n_views, -1)
    if of_cols is not None:
        of_cols[:, j] += tile.sum(0).view(tiles.n_views, -1)


def _add_logarithms(
    tiles: _Tiles, i: slice, j: slice, weights: Tensor | None, of_rows: Tensor, of_cols: Tensor | None
) -> None:
    tile = tiles.scores(tiles.row_vectors(i), tiles.col_vectors(j), i, j, weights)
    of_rows[:, i] = torch.logaddexp(of_rows[:, i], tile.logsumexp(1).view(tiles.n_views, -1))
    if of_cols is not None:
        of_cols[:, j] = torch.logaddexp(of_cols[:, j], tile.logsumexp(0).view(tiles.n_views, -1))


def _factors(sums: Tensor, gradient: Tensor, plain: bool) -> list[Tensor]:
    """What exp(s) is multiplied with: g exp(−L) alone, or L and g apart where exp(−L) could overflow."""
    empty = sums == -torch.inf
    if plain:
        return [torch.where(empty, 0.0, gradient * (-sums).exp())]
    return [sums.masked_fill(empty, torch.inf), gradient]


def _derivatives(tiles: _Tiles, a: Tensor, b: Tensor, i: slice, j: slice, factors: list[Tensor]) -> Tensor:
    """b_ij exp(s_ij − L_i) g_i, plus the same for the columns where the tile counts for them."""
    weights = tiles.weights(i, j)
    if tiles.plain:
        tile = tiles.exponentials(a, b, i, j, weights)
        if len(factors) == 1:
            return tile.mul_(factors[0])
        return tile.mul_(torch.add(*factors, out=tiles.like(tile)))
    tile = tiles.scores(a, b, i, j, weights)
    by_row = torch.sub(tile, factors[0], out=tiles.like(tile)).exp_().mul_(factors[1])
    if len(factors) == 2:
        return by_row
    return tile.sub_(factors[2]).exp_().mul_(factors[3]).add_(by_row)


class _Gradients:
    """Collects ∂/∂rows and ∂/∂cols from tiles of ∂/∂s."""

    def __init__(self, tiles: _Tiles) -> None:
        self.tiles = tiles
        self.of_rows = torch.zeros_like(tiles.rows)
        self.of_cols = self.of_rows if tiles.pairs.symmetric else torch.zeros_like(tiles.cols)

    def add(self, tile: Tensor, a: Tensor, b: Tensor, i: slice, j: slice) -> None:
        n_views = self.tiles.n_views
        self.of_rows[:, i] += (tile @ b).view(n_views, -1, self.tiles.d)
        if not (self.tiles.pairs.symmetric and i == j):
            self.of_cols[:, j] += (tile.T @ a).view(n_views, -1, self.tiles.d)

    def result(self) -> tuple[Tensor, Tensor | None]:
        scale = self.tiles.pairs.scale
        of_rows = self.of_rows.mul_(scale)
        return of_rows, None if self.tiles.pairs.symmetric else self.of_cols.mul_(scale)


def softplus_sum(rows: Tensor, cols: Tensor, thresholds: Tensor, pairs: Pairs) -> Tensor:
    """Return Σ_j w_ij log(1 + exp(c_i − s_ij)) of every row."""
    with _full_precision(rows):
        return cast(Tensor, _SoftplusSum.apply(rows, cols, thresholds, pairs))


class _SoftplusSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, cols: Tensor, thresholds: Tensor, pairs: Pairs) -> Tensor:
        tiles = _Tiles(rows, cols, pairs)
        sums = torch.zeros_like(thresholds)
        for i, j, for_columns in tiles:
            scores = tiles.similarities(tiles.row_vectors(i), tiles.col_vectors(j))
            weights = _pair_weights(tiles, i, j)
            above = torch.sub(thresholds[:, i].reshape(-1, 1), scores, out=tiles.like(scores))
            above = functional.softplus(above, threshold=LINEAR_FROM)
            sums[:, i] += (tiles.by_sample(above, i, j) * weights).sum((2, 3))
            if for_columns:
                above = functional.softplus(scores.neg_().add_(thresholds[:, j].reshape(-1)), threshold=LINEAR_FROM)
                sums[:, j] += (tiles.by_sample(above, i, j) * weights).sum((0, 1))
        ctx.save_for_backward(rows, cols, thresholds)
        ctx.pairs = pairs
        return sums

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, Tensor, None]:
        rows, cols, thresholds = ctx.saved_tensors
        pairs: Pairs = ctx.pairs
        (gradient,) = gradients
        with _full_precision(rows):
            tiles = _Tiles(rows, cols, pairs)
            collect = _Gradients(tiles)
            of_thresholds = torch.zeros_like(thresholds)
            for i, j, for_columns in tiles:
                a, b = tiles.row_vectors(i), tiles.col_vectors(j)
                scores = tiles.similarities(a, b)
                weights = _pair_weights(tiles, i, j)
                slopes = torch.sub(thresholds[:, i].reshape(-1, 1), scores, out=tiles.like(scores)).sigmoid_()
                tiles.by_sample(slopes, i, j).mul_(weights)
                slopes.mul_(gradient[:, i].reshape(-1, 1))
                of_thresholds[:, i] += slopes.sum(1).view(tiles.n_views, -1)
                if for_columns:
                    scores.neg_().add_(thresholds[:, j].reshape(-1)).sigmoid_()
                    tiles.by_sample(scores, i, j).mul_(weights)
                    scores.mul_(gradient[:, j].reshape(-1))
                    of_thresholds[:, j] += scores.sum(0).view(tiles.n_views, -1)
                    slopes.add_(scores)
                elif pairs.symmetric:
                    slopes = slopes + slopes.T
                collect.add(slopes.neg_(), a, b, i, j)
        return (*collect.result(), of_thresholds, None)


def _pair_weights(tiles: _Tiles, i: slice, j: slice) -> Tensor:
    """The weights between samples as (1 or V, n_i, 1 or V, n_j), 0 where excluded."""
    assert tiles.pairs.weights is not None
    weights = tiles.pairs.weights(i, j).unsqueeze(1)
    offset = tiles.pairs.offset + i.start - j.start
    if -weights.shape[0] < offset < weights.shape[2]:
        weights = weights.repeat(tiles.n_views, 1, tiles.n_views, 1)
        exclude(weights, offset, tiles.pairs.excluded, 0.0)
    return weights


def weighted_neighbours(summed: Tensor, n_rows: int, pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
    """Return W z, its row sums and its diagonal, where W leaves out a sample's own row."""
    with _full_precision(summed):
        return cast(tuple[Tensor, Tensor, Tensor], _Neighbours.apply(summed, n_rows, pairs))


class _Neighbours(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, summed: Tensor, n_rows: int, pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
        neighbours = summed.new_zeros(n_rows, summed.shape[1])
        totals, own = summed.new_zeros(n_rows), summed.new_zeros(n_rows)
        for i, j, for_columns in pairs.tiles(n_rows, len(summed)):
            block = _other_samples(pairs, i, j, own)
            neighbours[i].addmm_(block, summed[j])
            totals[i] += block.sum(1)
            if for_columns:
                neighbours[j].addmm_(block.T, summed[i])
                totals[j] += block.sum(0)
        ctx.pairs, ctx.n_cols = pairs, len(summed)
        ctx.mark_non_differentiable(totals, own)
        return neighbours, totals, own

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        gradient = gradients[0]
        pairs: Pairs = ctx.pairs
        of_summed = gradient.new_zeros(ctx.n_cols, gradient.shape[1])
        with _full_precision(gradient):
            for i, j, for_columns in pairs.tiles(len(gradient), ctx.n_cols):
                block = _other_samples(pairs, i, j, None)
                of_summed[j].addmm_(block.T, gradient[i])
                if for_columns:
                    of_summed[i].addmm_(block, gradient[j])
        return of_summed, None, None


def _other_samples(pairs: Pairs, i: slice, j: slice, own: Tensor | None) -> Tensor:
    """A block of w with a sample's own weight moved out, to ``own``."""
    assert pairs.weights is not None
    block = pairs.weights(i, j)
    diagonal = block.diagonal(pairs.offset + i.start - j.start)
    if own is not None and len(diagonal):
        first = max(i.start, j.start - pairs.offset)
        own[first : first + len(diagonal)] = diagonal
    diagonal.zero_()
    return block


def _full_precision(tensor: Tensor) -> torch.autocast:
    """Switch autocast off: similarities of 1/τ times a product need all of float32."""
    return torch.autocast(tensor.device.type, enabled=False)
