"""How the pairs of a pool are cut in tiles, so that nothing n × n is stored.

A tile of similarities is computed, reduced and dropped, and computed again for the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor

from neurocontrast.kernels import Block
from neurocontrast.parallel.collectives import Processes

__all__ = [
    "EMPTY",
    "LINEAR_FROM",
    "Excluded",
    "Gradients",
    "Groups",
    "LogSums",
    "Pairs",
    "Tiles",
    "full_precision",
    "weight_mass",
]

Excluded = Literal["self", "sample"] | None

Span = tuple[slice, slice, bool]
"""Row samples, column samples, and whether the tile also counts for its columns' sums."""

LogSums = tuple[Tensor, Tensor | None, Tensor | None]
"""Log-sum-exp of every row (V, n), where asked of every column, and with weights their sums, (n,)."""

LINEAR_FROM = 40.0
"""Above this, log(1 + exp(x)) is x in double precision."""

EMPTY = -1e30
"""The logarithm of a sum over nothing: as good as −∞, without its NaN."""

_PLAIN_UP_TO = {torch.float32: 40.0, torch.float64: 300.0}
"""Largest 1/τ for which exp(s) and weighted sums of it stay well inside the range of the dtype."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Which pairs are summed over, and how they are cut in tiles of ``side`` × ``side`` samples."""

    scale: float
    side: int
    excluded: Excluded = None
    weights: Block | None = None
    damping: Block | None = None
    """Factors from 0 to 1 between samples that multiply the similarities."""
    symmetric: bool = False
    both_ways: bool = False
    bounded: bool = True
    """Whether |s| ≤ ``scale``, which holds for unit embeddings."""
    processes: Processes = field(default_factory=Processes)
    """Those that share the tiles."""

    def spans(self, n: int) -> Iterator[Span]:
        """Yield this process's share of the tiles; of a symmetric pool, of those on and above the diagonal."""
        return islice(self._all_spans(n), self.processes.rank, None, self.processes.size)

    def _all_spans(self, n: int) -> Iterator[Span]:
        for start in range(0, n, self.side):
            i = slice(start, min(start + self.side, n))
            for first in range(start if self.symmetric else 0, n, self.side):
                j = slice(first, min(first + self.side, n))
                yield i, j, self.both_ways or (self.symmetric and first > start)

    def total(self, values: Tensor, *, largest: bool = False) -> Tensor:
        """Sum over the processes that share the tiles, or take the largest value."""
        if self.processes.size > 1:
            values = values.clone(memory_format=torch.contiguous_format)
            dist.all_reduce(values, op=dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM)
        return values


@dataclass(frozen=True, eq=False)
class Groups:
    """Samples of equal metadata."""

    index: Tensor
    """Group of every sample, (n,)."""
    counts: Tensor
    """Samples of every group, (u,)."""
    own: Tensor
    """Weight of a sample with itself, by group."""

    def sum(self, values: Tensor) -> Tensor:
        """Sum values (n, d) within groups, (u, d)."""
        return values.new_zeros(len(self.counts), values.shape[1]).index_add_(0, self.index, values)


def is_plain(scale: float, dtype: torch.dtype) -> bool:
    """Say whether exp(s) can be summed as it is, for all |s| ≤ ``scale``."""
    return scale <= _PLAIN_UP_TO[dtype]


def exclude(block: Tensor, excluded: Excluded, value: float) -> None:
    """Write ``value`` where a (V, n_i, V, n_i) block on the diagonal pairs an anchor with itself, or its sample."""
    if excluded == "sample":
        block.diagonal(0, 1, 3).fill_(value)
    elif excluded == "self":
        block.view(block.shape[0] * block.shape[1], -1).fill_diagonal_(value)


def weight_mass(block: Tensor, n_views: int, *, on_diagonal: bool) -> Tensor:
    """Σ_j b_ij over the columns' embeddings of a block (n_i, n_j) between samples, the anchor itself left out."""
    mass = block.sum(1).mul_(n_views)
    return mass.sub_(block.diagonal()) if on_diagonal else mass


def full_precision(tensor: Tensor) -> AbstractContextManager[None]:
    """Switch autocast off: similarities of 1/τ times a product need all of float32."""
    device = tensor.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


class Tiles:
    """Computes one tile of similarities at a time, in memory that is used again."""

    def __init__(self, rows: Tensor, cols: Tensor, pairs: Pairs) -> None:
        self.rows, self.cols, self.pairs = rows, cols, pairs
        self.n_views, self.n, self.d = rows.shape
        self.plain = pairs.bounded and is_plain(pairs.scale, rows.dtype)

    def spans(self) -> Iterator[Span]:
        return self.pairs.spans(self.n)

    def _empty(self) -> Tensor:
        return self.rows.new_empty((self.n_views * min(self.pairs.side, self.n)) ** 2)

    _buffer = cached_property(_empty)
    _scratch = cached_property(_empty)

    def row_vectors(self, i: slice) -> Tensor:
        return self.rows[:, i].reshape(-1, self.d)

    def col_vectors(self, j: slice) -> Tensor:
        return self.cols[:, j].reshape(-1, self.d)

    def similarities(self, i: slice, j: slice) -> Tensor:
        """s_ij, written over the last tile."""
        a, b = self.row_vectors(i), self.col_vectors(j)
        out = self._buffer[: len(a) * len(b)].view(len(a), len(b))
        torch.addmm(out, a, b.T, beta=0, alpha=self.pairs.scale, out=out)
        return self.damp(out, i, j)

    def damp(self, tile: Tensor, i: slice, j: slice) -> Tensor:
        """Multiply a tile of similarities, or of their gradient, by the factors of the pairs, in place."""
        if self.pairs.damping is not None:
            self.by_sample(tile, i, j).mul_(self.pairs.damping(i, j).unsqueeze(1))
        return tile

    def scratch(self, tile: Tensor) -> Tensor:
        """Memory for a second tile of the same shape."""
        return self._scratch[: tile.numel()].view(tile.shape)

    def by_sample(self, tile: Tensor, i: slice, j: slice) -> Tensor:
        """The tile as (V, n_i, V, n_j)."""
        return tile.view(self.n_views, i.stop - i.start, self.n_views, j.stop - j.start)

    def exclude(self, tile: Tensor, i: slice, j: slice, value: float) -> None:
        """Write ``value`` on the excluded pairs of the tile."""
        if i == j:
            exclude(self.by_sample(tile, i, j), self.pairs.excluded, value)

    def weights(self, i: slice, j: slice) -> Tensor | None:
        """Weights between the samples of a tile, (n_i, n_j)."""
        return None if self.pairs.weights is None else self.pairs.weights(i, j)


class Gradients:
    """Collects ∂/∂rows and ∂/∂cols from tiles of ∂/∂s.

    Of a symmetric pool, a tile above the diagonal holds ∂/∂s_ij + ∂/∂s_ji, and so does one on it.
    """

    def __init__(self, tiles: Tiles) -> None:
        self.tiles = tiles
        self._of_rows = torch.zeros_like(tiles.rows)
        self._of_cols = self._of_rows if tiles.pairs.symmetric else torch.zeros_like(tiles.cols)

    def add(self, tile: Tensor, i: slice, j: slice) -> None:
        """Add what a tile of ∂/∂s gives to the embeddings of its rows and columns."""
        tiles = self.tiles
        self._of_rows[:, i] += (tile @ tiles.col_vectors(j)).view(tiles.n_views, -1, tiles.d)
        if not (tiles.pairs.symmetric and i == j):
            self._of_cols[:, j] += (tile.T @ tiles.row_vectors(i)).view(tiles.n_views, -1, tiles.d)

    def result(self) -> tuple[Tensor, Tensor | None]:
        """Return ∂/∂rows and ∂/∂cols; all in the first for a symmetric pool."""
        scale = self.tiles.pairs.scale
        of_rows = self._of_rows.mul_(scale)
        return of_rows, None if self.tiles.pairs.symmetric else self._of_cols.mul_(scale)
