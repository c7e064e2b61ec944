"""Sums over the pairs of a pool, streamed over tiles, with gradients derived by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from neurocontrast.losses.tiles import (
    EMPTY,
    LINEAR_FROM,
    Gradients,
    Groups,
    LogSums,
    Pairs,
    Tiles,
    full_precision,
    weight_mass,
)

__all__ = ["between_views", "log_sum_exp", "positives_against_negatives", "weighted_similarity"]


def log_sum_exp(rows: Tensor, cols: Tensor, pairs: Pairs) -> LogSums:
    """Return log Σ_j b_ij exp(s_ij) of every row, with ``both_ways`` log Σ_i of every column, with weights Σ_j b_ij."""
    return cast(LogSums, _LogSumExp.apply(rows, cols, pairs))


class _LogSumExp(torch.autograd.Function):
    """Where |s| ≤ 1/τ is small enough that exp(s) neither overflows nor vanishes, plain exponentials are summed.

    Elsewhere sums are kept as logarithms. With L_i the result, ∂L_i/∂s_ij = b_ij exp(s_ij − L_i).
    """

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
                mass[i] += weight_mass(weights, tiles.n_views, on_diagonal=i == j)
                if for_columns:
                    mass[j] += weights.sum(0).mul_(tiles.n_views)
            tile = _exponentials(tiles, i, j, weights) if tiles.plain else _scores(tiles, i, j, weights)
            _add(of_rows, i, tile, 1, tiles)
            if for_columns:
                _add(of_cols, j, tile, 0, tiles)
        of_rows, of_cols = _logs(of_rows, tiles), of_cols if pairs.symmetric else _logs(of_cols, tiles)
        if mass is not None:
            mass = pairs.total(mass)
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
            row_factors = _factors(of_rows, pairs.total(gradients[0]), tiles)
            col_factors: list[Tensor] = []
            if pairs.symmetric:
                col_factors = row_factors
            elif pairs.both_ways:
                col_factors = _factors(of_cols, pairs.total(gradients[1]), tiles)
            for i, j, _ in tiles.spans():
                factors = [part[:, i].reshape(-1, 1) for part in row_factors]
                factors += [part[:, j].reshape(-1) for part in col_factors]
                collect.add(tiles.damp(_derivatives(tiles, i, j, factors), i, j), i, j)
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


def _logs(sums: Tensor, tiles: Tiles) -> Tensor:
    """Logarithms of the sums over the tiles of all processes."""
    if tiles.plain:
        return tiles.pairs.total(sums).log_().clamp_min_(EMPTY)
    sums.clamp_min_(EMPTY)
    if tiles.pairs.processes.size == 1:
        return sums
    largest = tiles.pairs.total(sums, largest=True)
    return tiles.pairs.total(sums.sub_(largest).exp_()).log_().add_(largest)


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


def between_views(rows: Tensor, summed: Tensor) -> Tensor:
    """Return Σ_{u≠v} <z_u, z_v> of each sample, (n,), of its views (V, n, d) and their sum (n, d)."""
    if len(rows) == 2:
        return (rows[0] * rows[1]).sum(1).mul(2)
    return summed.square().sum(1) - rows.square().sum((0, 2))


def weighted_similarity(
    rows: Tensor, pairs: Pairs, groups: Groups | None = None, *, to_twin: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the mean over a sample's anchors of Σ_{j≠i} w_ij s_ij / Σ_{j≠i} w_ij, 0 without weight, and Σ_{j≠i} w_ij.

    All views of a sample have its weights, so that of the others only Σ_j w_ij m_j is needed, m_j the sum of their
    views. With `groups`, the weights of ``pairs`` are between groups, and on the diagonal between two samples of one.
    With `to_twin`, of two views, <z1, z2>/τ is subtracted without a difference of nearly equal numbers.
    """
    return cast(tuple[Tensor, Tensor], _WeightedSimilarity.apply(rows, pairs, groups, to_twin))


class _WeightedSimilarity(torch.autograd.Function):
    """With m = Σ_v z_v, P = W m without a sample's own weight o, and M = V Σ w + (V − 1) o:

    s = (<m, P> + o Σ_{u≠v} <z_u, z_v>) / (V M). Less the twin's similarity, o is o − M = −2 Σ w.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, pairs: Pairs, groups: Groups | None, to_twin: bool) -> tuple[Tensor, Tensor]:
        summed = rows.sum(0)
        grouped = summed if groups is None else groups.sum(summed)
        pulled, totals, same = torch.zeros_like(grouped), *grouped.new_zeros(2, len(grouped)).unbind(0)
        for i, j, for_columns in pairs.spans(len(grouped)):
            block = _off_diagonal(pairs, i, j, same)
            pulled[i].addmm_(block, grouped[j])
            totals[i] += block.sum(1) if groups is None else block @ groups.counts[j]
            if for_columns:
                pulled[j].addmm_(block.T, grouped[i])
                totals[j] += block.sum(0) if groups is None else groups.counts[i] @ block
        pulled, totals, own = pairs.total(pulled), pairs.total(totals), pairs.total(same)
        if groups is not None:
            within, own = own[groups.index], groups.own[groups.index]
            totals = totals[groups.index] + within * (groups.counts[groups.index] - 1)
            pulled = pulled[groups.index] + _from_own_group(summed, groups, within)
            ctx.within = within
        n_views = len(rows)
        totals = totals.mul_(n_views)
        mass = totals.add(own, alpha=n_views - 1)
        factors = torch.where(mass > 0, pairs.scale / (n_views * mass), 0)
        if to_twin:  # without weight, what is left is −<z1, z2>/τ
            own = torch.where(mass > 0, -totals, -1)
            factors = torch.where(mass > 0, factors, pairs.scale / 2)
        ctx.save_for_backward(rows, summed, pulled, own, factors)
        ctx.pairs, ctx.groups = pairs, groups
        ctx.mark_non_differentiable(mass)
        similarity = (summed * pulled).sum(1) + between_views(rows, summed).mul_(own)
        return similarity.mul_(factors), mass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        rows, summed, pulled, own, factors = ctx.saved_tensors
        pairs: Pairs = ctx.pairs
        groups: Groups | None = ctx.groups
        scaled = (gradients[0] * factors).unsqueeze(1)
        others = rows.flip(0) if len(rows) == 2 else summed - rows
        of_rows = others.mul_(2 * own.unsqueeze(1)).add_(pulled).mul_(scaled)
        pulling = summed * pairs.total(scaled)
        if groups is not None:
            of_rows += _from_own_group(summed * scaled, groups, ctx.within)
            pulling = groups.sum(pulling)
        of_cols = torch.zeros_like(pulling)
        with full_precision(rows):
            for i, j, for_columns in pairs.spans(len(pulling)):
                block = _off_diagonal(pairs, i, j, None)
                of_cols[j].addmm_(block.T, pulling[i])
                if for_columns:
                    of_cols[i].addmm_(block, pulling[j])
        return of_rows.add_(of_cols if groups is None else of_cols[groups.index]), None, None, None


def _from_own_group(values: Tensor, groups: Groups, within: Tensor) -> Tensor:
    """Σ_j w_ij x_j over the other samples of a sample's own group, of values (n, d)."""
    return groups.sum(values)[groups.index].sub_(values).mul_(within.unsqueeze(1))


def _off_diagonal(pairs: Pairs, i: slice, j: slice, diagonal: Tensor | None) -> Tensor:
    """A block of w with the diagonal moved out, to ``diagonal``."""
    assert pairs.weights is not None
    block = pairs.weights(i, j)
    if i == j:
        if diagonal is not None:
            diagonal[i] = block.diagonal()
        block.fill_diagonal_(0)
    return block


def positives_against_negatives(rows: Tensor, cols: Tensor, pairs: Pairs, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return Σ_p log(1 + exp(L_i + ε − s_ip)) of every row, and its number of negatives, (n,).

    Positives are pairs with w = 1, negatives those with w = 0, L_i = log Σ_negatives exp(s_ij). L is computed
    first, without gradient; its part of the gradient is added in the pass over positives.
    """
    same = pairs.weights
    assert same is not None
    with torch.no_grad():
        other = replace(pairs, weights=lambda i, j: same(i, j).neg_().add_(1))
        negatives, _, n_negatives = log_sum_exp(rows, cols, other)
    assert n_negatives is not None
    return cast(Tensor, _PositivesAgainst.apply(rows, cols, negatives, pairs, epsilon)), n_negatives


class _PositivesAgainst(torch.autograd.Function):
    """With x = L_i + ε − s_ip: ∂/∂s_ip = −σ(x) of a positive; through L_i, ∂/∂s_ij = exp(s_ij − L_i) Σ_p σ(x)."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, cols: Tensor, negatives: Tensor, pairs: Pairs, epsilon: float) -> Tensor:
        tiles = Tiles(rows, cols, pairs)
        sums, slopes = torch.zeros_like(negatives), torch.zeros_like(negatives)
        for i, j, for_columns in tiles.spans():
            scores = tiles.similarities(i, j)
            above = _above(tiles, scores, negatives[:, i].reshape(-1, 1) + epsilon, (i, j))
            _add_softplus(above, 1, (sums[:, i], slopes[:, i]))
            if for_columns:
                above = _above(tiles, scores, negatives[:, j].reshape(1, -1) + epsilon, (i, j))
                _add_softplus(above, 0, (sums[:, j], slopes[:, j]))
        sums, slopes = pairs.total(sums), pairs.total(slopes)
        ctx.save_for_backward(rows, cols, negatives, slopes)
        ctx.pairs, ctx.epsilon = pairs, epsilon
        return sums

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None, None, None]:
        rows, cols, negatives, slopes = ctx.saved_tensors
        pairs: Pairs = ctx.pairs
        gradient = pairs.total(gradients[0])
        with full_precision(rows):
            tiles = Tiles(rows, cols, pairs)
            collect = Gradients(tiles)
            for i, j, _ in tiles.spans():
                scores = tiles.similarities(i, j)
                positive = _positives(tiles, i, j)
                of_rows = [part[:, i].reshape(-1, 1) for part in (negatives, slopes, gradient)]
                tile = _slopes(tiles, scores, positive, of_rows, (i, j), ctx.epsilon)
                if pairs.symmetric:
                    of_cols = [part[:, j].reshape(1, -1) for part in (negatives, slopes, gradient)]
                    tile += _slopes(tiles, scores, positive, of_cols, (i, j), ctx.epsilon)
                collect.add(tile, i, j)
        return (*collect.result(), None, None, None)


def _positives(tiles: Tiles, i: slice, j: slice) -> Tensor:
    """Which pairs of samples are of one label, (n_i, 1, n_j)."""
    weights = tiles.weights(i, j)
    assert weights is not None
    return (weights > 0).unsqueeze(1)


def _above(tiles: Tiles, scores: Tensor, thresholds: Tensor, span: tuple[slice, slice]) -> Tensor:
    """The x = L + ε − s of a tile's positives, −inf elsewhere."""
    above = torch.sub(thresholds, scores, out=tiles.scratch(scores))
    tiles.by_sample(above, *span).masked_fill_(~_positives(tiles, *span), -torch.inf)
    tiles.exclude(above, *span, -torch.inf)
    return above


def _add_softplus(above: Tensor, dim: int, into: tuple[Tensor, Tensor]) -> None:
    """Add Σ log(1 + e^x) and Σ σ(x) of a tile; a pair that does not count has x = −inf."""
    sums, slopes = into
    sums += functional.softplus(above, threshold=LINEAR_FROM).sum(dim).view_as(sums)
    slopes += above.sigmoid_().sum(dim).view_as(slopes)


def _slopes(
    tiles: Tiles, scores: Tensor, positive: Tensor, factors: list[Tensor], span: tuple[slice, slice], epsilon: float
) -> Tensor:
    """∂/∂s of a tile, for the anchors along its rows or along its columns."""
    negatives, slopes, gradient = factors
    over = torch.sub(scores, negatives, out=tiles.scratch(scores))
    repelled = over.exp().mul_(slopes)
    attracted = over.neg_().add_(epsilon).sigmoid_().neg_()
    tile = torch.where(positive, tiles.by_sample(attracted, *span), tiles.by_sample(repelled, *span))
    tile = tile.view_as(scores)
    tiles.exclude(tile, *span, 0.0)
    return tile.mul_(gradient)
