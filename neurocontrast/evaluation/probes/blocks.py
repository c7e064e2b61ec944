"""Standardise blocks of features once, and scale the blocks anew for each weight to try.

A block is a group of feature columns, such as the features of a network, or of its linear
components. A block's weight is its share of the total variance.
"""

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
    """Standardised training and test rows, whose blocks of features can still be scaled.

    A block is a group of feature columns, such as a network's features. Features are standardised
    one by one; the method `divided` then divides the features of each block by a number of the
    block, by which the block gets its share of the total variance.
    """

    def divided(self, divisors: Sequence[float]) -> tuple[Floats, Floats]:
        """Return training and test rows as two matrices, each block's features divided by a number.

        `divisors` has the number for each block; the smaller it is, the more the block counts.
        """


@dataclass(frozen=True, eq=False)
class BlockColumns:
    """Standardised columns of each block of features, one matrix a block.

    Used where all blocks together have at most as many columns as there are training rows.
    """

    train: Sequence[Floats]
    test: Sequence[Floats]

    def divided(self, divisors: Sequence[float]) -> tuple[Floats, Floats]:
        """Return training and test rows as two matrices, all blocks side by side.

        `divisors` has a number for each block, by which the block's columns are divided; a block
        divided by infinity is left out.
        """
        train = []
        test = []
        for of_train, of_test, divisor in zip(self.train, self.test, divisors, strict=True):
            if np.isfinite(divisor):
                train.append(of_train / of_train.dtype.type(divisor))
                test.append(of_test / of_train.dtype.type(divisor))
        return np.hstack(train), np.hstack(test)


@dataclass(frozen=True, eq=False)
class BlockProducts:
    """Inner products of rows with the training rows, for each block of features by itself.

    Used where the features of all blocks outnumber the training rows. Inner products are enough for
    principal axes: if blocks are scaled, the inner products of all features are weighted sums of
    the inner products of the blocks.
    """

    train: Sequence[Floats]
    test: Sequence[Floats]

    def divided(self, divisors: Sequence[float]) -> tuple[Floats, Floats]:
        """Return training and test rows as two matrices of coordinates on principal axes.

        The axes are those of the training rows. `divisors` has a number for each block, by which
        the block's features are first divided.
        """
        train = np.zeros_like(self.train[0])
        test = np.zeros_like(self.test[0])
        for of_train, of_test, divisor in zip(self.train, self.test, divisors, strict=True):
            train += of_train / train.dtype.type(divisor**2)
            test += of_test / train.dtype.type(divisor**2)
        directions, scores = principal_scores(train)
        return scores, test @ directions


@dataclass(frozen=True, eq=False)
class StandardisedBlocks:
    """Standardised training and test rows of several blocks of features, before blocks are scaled.

    `weighed` scales the blocks, so that each has its weight, a share of the total variance.
    """

    rows: WeighableRows
    n_varying: Sequence[int]
    """Number of features of each block that vary in the training rows."""
    n_columns: int

    def weighed(self, design: Design) -> tuple[Floats, Floats]:
        """Return training and test rows as two matrices, each block scaled to its weight.

        `design` has the weights. The matrices are those that `standardised` returns for `design`,
        but are made from `rows`, which are standardised already: features, or, if features
        outnumber the training rows, coordinates on the training rows' principal axes. An axis may
        have the opposite sign.
        """
        scaler = scaler_of(design, n_columns=self.n_columns)
        assert isinstance(scaler, BlockScaler)
        return self.rows.divided(block_divisors(scaler.weights, self.n_varying))


def standardised_blocks(design: Design, train: Rows, test: Rows) -> StandardisedBlocks:
    """Standardise the features that `design` returns of rows, and split their columns into blocks.

    `design` is a function of `train` and `test`. Means and standard deviations are of the rows
    `train`. In the result, blocks are not yet scaled to their weights.
    """
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
    """Return, for each block of columns, inner products of all rows with the training rows."""
    of_train = []
    of_test = []
    for x_train, x_test in zip(train, test, strict=True):
        of_train.append(x_train @ x_train.T)
        of_test.append(x_test @ x_train.T)
    return BlockProducts(of_train, of_test)
