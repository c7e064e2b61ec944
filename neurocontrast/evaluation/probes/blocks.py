"""Standardise blocks of features once, and weigh the blocks anew for each weight to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation.probes.designs import (
    BlockScaler,
    Design,
    block_divisors,
    count_varying,
    principal_scores,
    scaler_of,
)
from neurocontrast.evaluation.rows import Floats, Rows


class WeighableRows(Protocol):
    """Training and test rows of several blocks of features, standardised once, not yet weighed."""

    def divided(self, divisors: Sequence[float]) -> tuple[Floats, Floats]:
        """Return training and test rows, with the features of each block divided by its divisor."""


@dataclass(frozen=True, eq=False)
class BlockColumns:
    """Standardised columns of each block; used for at most as many columns as training rows."""

    train: Sequence[Floats]
    test: Sequence[Floats]

    def divided(self, divisors: Sequence[float]) -> tuple[Floats, Floats]:
        """Return the columns of all blocks side by side; a block divided by infinity is dropped."""
        train = []
        test = []
        for of_train, of_test, divisor in zip(self.train, self.test, divisors, strict=True):
            if np.isfinite(divisor):
                train.append(of_train / of_train.dtype.type(divisor))
                test.append(of_test / of_train.dtype.type(divisor))
        return np.hstack(train), np.hstack(test)


@dataclass(frozen=True, eq=False)
class BlockProducts:
    """Inner products of each block's rows with the training rows, in place of wide features.

    Inner products are enough for principal axes: the inner products of weighed blocks are weighted
    sums of the inner products of the blocks.
    """

    train: Sequence[Floats]
    test: Sequence[Floats]

    def divided(self, divisors: Sequence[float]) -> tuple[Floats, Floats]:
        """Return rows on the training rows' principal axes, each block divided by its divisor."""
        train = np.zeros_like(self.train[0])
        test = np.zeros_like(self.test[0])
        for of_train, of_test, divisor in zip(self.train, self.test, divisors, strict=True):
            train += of_train / train.dtype.type(divisor**2)
            test += of_test / train.dtype.type(divisor**2)
        directions, scores = principal_scores(train)
        return scores, test @ directions


@dataclass(frozen=True, eq=False)
class StandardisedBlocks:
    """Standardised training and test rows of several blocks of features, to be weighed."""

    rows: WeighableRows
    n_varying: Sequence[int]
    """Number of features of each block that vary in the training rows."""
    n_columns: int

    def weighed(self, design: Design) -> tuple[Floats, Floats]:
        """Return training and test rows with each block scaled to its weight in a design.

        The result is that of `standardised`, without standardising anew. If features
        outnumber the training rows, axes can have other signs than in `standardised`.
        """
        scaler = scaler_of(design, n_columns=self.n_columns)
        assert isinstance(scaler, BlockScaler)
        return self.rows.divided(block_divisors(scaler.weights, self.n_varying))


def standardised_blocks(design: Design, train: Rows, test: Rows) -> StandardisedBlocks:
    """Standardise each block of a design's features by the training rows' means and deviations."""
    x_train, x_test = design(train, test)
    n_rows, n_columns = x_train.shape
    sizes = scaler_of(design, n_columns=n_columns).sizes
    scaler = StandardScaler(copy=False)
    starts = np.cumsum(sizes)[:-1]
    of_train = np.split(scaler.fit_transform(x_train), starts, axis=1)
    of_test = np.split(scaler.transform(x_test), starts, axis=1)
    rows: WeighableRows = BlockColumns(of_train, of_test)
    if n_columns > n_rows:
        rows = _multiply(of_train, of_test)
    return StandardisedBlocks(rows, count_varying(scaler.var_, sizes), n_columns)


def _multiply(train: Sequence[Floats], test: Sequence[Floats]) -> BlockProducts:
    """Return inner products of each block's training and test rows with its training rows."""
    of_train = []
    of_test = []
    for x_train, x_test in zip(train, test, strict=True):
        of_train.append(x_train @ x_train.T)
        of_test.append(x_test @ x_train.T)
    return BlockProducts(of_train, of_test)
