"""Matrices that a probe is fitted to in a fold: adjusted, standardised, on principal axes.

A design is a function of training and test rows that returns the two matrices of features. Blocks
are groups of feature columns, such as the columns of each of several encoders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.linalg
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler
from threadpoolctl import ThreadpoolController

from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.evaluation.probes.encoding import new_levels_allowed
from neurocontrast.evaluation.probes.transformers import SideColumnTransformer
from neurocontrast.evaluation.rows import Floats, Rows
from neurocontrast.exceptions import DataError

Design = Callable[[Rows, Rows], tuple[Floats, Floats]]
"""Function of training and test rows that returns a matrix of each. Means and the like are
estimated on the training rows alone."""


RANK_TOLERANCE = 1e-13
SINGLE_TOLERANCE = 1e-6
"""Share of the largest variance below which a principal axis is rounding error, in single
precision."""

EQUAL = 0.5
WEIGHTS = (EQUAL, 0.25, 0.75, 0.0, 1.0)
"""Shares in the total variance to try for the first of two blocks. With equal losses the earliest
share is chosen; without inner folds, the first."""


class Block(NamedTuple):
    """Group of neighbouring columns of an embedding, by name, number of columns and encoder.

    The columns are those of one of several joined encoders, of an encoder's network, or of the
    principal components that an encoder returns besides its network's features.
    """

    name: str
    n_features: int
    encoder: str | None = None


@dataclass(frozen=True, eq=False)
class FeatureDesign:
    """Function that gives features of the embedding, with sites or covariates taken out of them.

    Sites and covariates are taken out as estimated on the training rows. `steps` are transformers
    such as ComBat, which learn from features and covariates, not from labels, and are fitted anew
    to the training rows of every fold and inner fold. `blocks` divide the columns by encoder, or
    into a network's features and principal components; empty for features of a network alone. With
    `single`, matrices are in single precision. `weight` is the share that the network's block gets
    of the total variance when the matrices are standardised; the components get the rest.
    """

    features: npt.NDArray[np.floating]
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    steps: tuple[SideColumnTransformer, ...] = ()
    blocks: tuple[Block, ...] = ()
    single: bool = False
    weight: float | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of columns of each of `blocks`; empty for features of a network alone."""
        return tuple(map(attrgetter("n_features"), self.blocks))

    def __call__(self, train: Rows, test: Rows) -> tuple[Floats, Floats]:
        """Return the features of training rows and of test rows as two matrices.

        Each of `steps`, such as ComBat, takes sites or covariates out of the features; without
        steps, features are unchanged.
        """
        precision = np.float32 if self.single else np.float64
        computed = np.float64 if self.steps else precision
        x_train, x_test = (
            self.features[rows].astype(computed, copy=False) for rows in (train, test)
        )
        for step in map(clone, self.steps):
            with new_levels_allowed():
                step.estimate(x_train, self.table.iloc[train])
                x_train = step.adjust(x_train, self.table.iloc[train])
                x_test = step.adjust(x_test, self.table.iloc[test])
        return x_train.astype(precision, copy=False), x_test.astype(precision, copy=False)


@dataclass(frozen=True, eq=False)
class PairDesign:
    """Function that gives features of no encoder, such as regional measures, and of the embedding.

    `first` gives the features that no encoder makes, and `embedding` those of the embedding.
    `weight` is the share of the features of `first` in the total variance.
    """

    first: Design
    embedding: FeatureDesign
    weight: float | None = None

    def __call__(self, train: Rows, test: Rows) -> tuple[Floats, Floats]:
        """Return two matrices of features, of training rows and of test rows.

        Each has the features of `first` in its first columns, such as regional measures, and the
        features of the embedding after them.
        """
        first_train, first_test = self.first(train, test)
        own_train, own_test = self.embedding(train, test)
        return np.hstack([first_train, own_train]), np.hstack([first_test, own_test])


def weighed(design: Design) -> list[tuple[float | None, Design]]:
    """Return pairs (weight, design) to try, where `design` gives the features of each fold.

    A weight is the share of the first of two groups of features (blocks) in the total variance. A
    design of two blocks is paired with each of `WEIGHTS`, or, if it has a weight already, with this
    one alone. Any other design gives one pair, with None as its weight: the blocks of several
    joined encoders have equal variances, and no weight to choose.
    """
    is_pair = isinstance(design, PairDesign)
    if not is_pair and not (isinstance(design, FeatureDesign) and has_own_blocks(design.blocks)):
        return [(None, design)]
    assert isinstance(design, PairDesign | FeatureDesign)
    if design.weight is not None:
        return [(design.weight, design)]
    designs: list[tuple[float | None, Design]] = []
    for weight in WEIGHTS:
        designs.append((weight, replace(design, weight=weight)))
    return designs


class BlockScaler(StandardScaler):
    """Standardise features, and give each block of columns its share of the total variance.

    A standardised feature of a block with p_b features that vary in training is multiplied by
    sqrt(w_b p / p_b), with p the number of all features that vary and w_b the block's weight, 1/B
    for each of B blocks unless `weights` are given: 6,912 features of a network then weigh as much
    as 60 principal components, and the total variance stays p, so that penalties keep their
    meaning. This is the scaling of multiple factor analysis by total variance (Westerhuis et al.,
    J Chemometrics 1998;12:301-321). Features of a block with weight 0 become 0.

    Parameters
    ----------
    sizes : sequence of int
        Number of columns of each block, in their order; together all columns. Empty: all columns
        are one block.
    weights : sequence of float, default=()
        Share of each block in the total variance, together 1. Empty: the same for all blocks.
    copy : bool, default=True
        Whether to scale a copy of the features; with False, features are scaled in place.

    Attributes
    ----------
    mean_, scale_ : array (p,)
        Number subtracted from each feature, and number that the feature is then divided by, with
        the factor of the feature's block included; infinite in a block with weight 0.

    Examples
    --------
    >>> features = np.random.default_rng(0).normal(size=(50, 10)) * 7
    >>> scaled = BlockScaler(sizes=[8, 2]).fit_transform(features)
    >>> variances = scaled.var(axis=0)
    >>> round(float(variances[:8].sum()), 6), round(float(variances[8:].sum()), 6)
    (5.0, 5.0)
    """

    def __init__(
        self, sizes: Sequence[int] = (), *, weights: Sequence[float] = (), copy: bool = True
    ) -> None:
        super().__init__(copy=copy)
        self.sizes = sizes
        self.weights = weights

    def fit(
        self, X: npt.ArrayLike, y: object = None, sample_weight: npt.ArrayLike | None = None
    ) -> BlockScaler:
        """Learn means and scales of features (n, p) and return the scaler.

        A feature's scale is its standard deviation times a number for its block of columns, by
        which the block gets its share of the total variance.
        """
        super().fit(X, y, sample_weight)
        sizes = list(self.sizes) or [self.n_features_in_]
        if sum(sizes) != self.n_features_in_:
            raise ValueError(
                f"sizes: {sizes} are {sum(sizes)} columns, and X has {self.n_features_in_}."
            )
        weights = list(self.weights) or [1 / len(sizes)] * len(sizes)
        if len(weights) != len(sizes):
            raise ValueError(f"weights: {len(weights)} are given for {len(sizes)} blocks.")
        divisors = block_divisors(weights, count_varying(self.var_, sizes))
        self.scale_ *= np.repeat(divisors, sizes)
        return self


def count_varying(variances: Floats, sizes: Sequence[int]) -> list[int]:
    """Return, for each block of columns, the number of features whose variance is above 0.

    `variances` has the variance of each column, and `sizes` are the numbers of columns of the
    blocks.
    """
    starts = np.cumsum([0, *sizes[:-1]])
    return np.add.reduceat(variances > 0, starts, dtype=int).tolist()


def block_divisors(weights: Sequence[float], n_varying: Sequence[int]) -> list[float]:
    """Return, for each block of columns, the number by which its standardised features are divided.

    A block then has its entry in `weights` as its share of the total variance. `n_varying` are the
    numbers of features that vary in training, by block. The divisor of a weight of 0 is infinite.
    """
    n_blocks = len(n_varying)
    divisors = []
    for weight, n_features in zip(weights, n_varying, strict=True):
        share = max(1, n_features) * n_blocks / max(1, sum(n_varying))
        relative = weight * n_blocks
        divisor = np.inf
        if relative > 0:
            divisor = float(np.sqrt(share / relative))
        divisors.append(divisor)
    return divisors


def scaler_of(design: Design, *, n_columns: int | None = None) -> StandardScaler:
    """Return the scaler of a design, which gives each block its share of the total variance.

    The scaler is not fitted yet. `n_columns` is the number of columns of the design's matrices, and
    is read only for a `PairDesign`. If the number is None, the scaler of a `PairDesign` has the
    blocks' weights without their sizes: such a scaler can be described by ``repr``, not fitted.
    """
    if isinstance(design, PairDesign):
        return _scaler_of_pair(design, n_columns)
    if not isinstance(design, FeatureDesign) or len(design.blocks) < 2:
        return StandardScaler()
    if design.weight is None:
        return BlockScaler(design.sizes)
    return BlockScaler(design.sizes, weights=(design.weight, 1 - design.weight))


def _scaler_of_pair(design: PairDesign, n_columns: int | None) -> BlockScaler:
    """Return the scaler of a `PairDesign`: features such as regional measures, and the embedding.

    The first features get the share `design.weight` of the total variance, or 0.5 if that is None.
    The embedding gets the rest, in equal parts for its blocks of columns. Without `n_columns`, the
    number of all columns, the scaler does not know the sizes of the blocks and cannot be fitted.
    """
    n_own = design.embedding.features.shape[1]
    sizes = design.embedding.sizes or (n_own,)
    weight = design.weight
    if weight is None:
        weight = EQUAL
    weights = (weight, *[(1 - weight) / len(sizes)] * len(sizes))
    if n_columns is None:
        return BlockScaler(weights=weights)
    return BlockScaler((n_columns - n_own, *sizes), weights=weights)


@cache
def _threads() -> ThreadpoolController:
    """Return a controller of the thread pools of loaded libraries, searched once a process.

    The first call searches, which takes longer than a small fit; later calls return the same
    object.
    """
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[object]:
    """Return a context that keeps linear algebra to one thread.

    On small matrices more threads cost time, and change the last digits.
    """
    return _threads().limit(limits=1)


def blocks_of(info: EmbeddingsInfo, n_features: int) -> tuple[Block, ...]:
    """Return the groups of an embedding's columns, each by name, number of columns and encoder.

    If embeddings of several encoders were joined into one table, to which one probe is fitted,
    there is a block for each encoder. If an encoder keeps principal components besides its
    network's features, there are two blocks. Empty for features of a network alone, and for a run
    whose several encoders get a probe each: `members_of` lists such encoders. `info` describes the
    embedding, and `n_features` is the number of its columns.
    """
    if info.run.members:
        return ()
    if not info.run.blocks:
        return own_blocks(info, n_features)
    blocks = tuple(
        Block(name, block.n_features, block.encoder) for name, block in info.run.blocks.items()
    )
    total = sum(block.n_features for block in blocks)
    if total != n_features or min(block.n_features for block in blocks) < 1:
        raise DataError(
            f"embeddings: blocks {_listed(blocks)} are {total} features, and the table has "
            f"{n_features}. Join the "
            "tables again."
        )
    return blocks


def own_blocks(info: EmbeddingsInfo, n_features: int) -> tuple[Block, ...]:
    """Return two `Block` entries: the columns of a network, and of principal components.

    Some encoders return principal components of the scans after their network's features; for other
    encoders the tuple is empty. A `Block` has a name (``network`` or ``components``), a number of
    columns, and the encoder's digest. `info` describes the embedding, and `n_features` is the
    number of its columns.
    """
    beside = info.run.beside
    if beside is None or not info.of_network:
        return ()
    n_components = beside.n_components
    if n_components >= n_features:
        return ()
    sha256 = info.run.weights.sha256
    return (
        Block("network", n_features - n_components, sha256),
        Block("components", n_components, sha256),
    )


def is_joined(blocks: Sequence[Block]) -> bool:
    """Tell whether blocks of columns are of several encoders."""
    encoders = set(map(attrgetter("encoder"), blocks))
    return len(encoders) > 1 or None in encoders


def has_own_blocks(blocks: Sequence[Block]) -> bool:
    """Tell whether two blocks hold the features of one encoder's network and of its components.

    Components are principal components. Blocks of several joined encoders give False.
    """
    return len(blocks) == 2 and not is_joined(blocks)


def check_same_blocks(expected: Sequence[Block], found: Sequence[Block], *, parameter: str) -> None:
    """Refuse features whose blocks of columns differ from a probe's in size or encoder."""
    if [block[1:] for block in expected] == [block[1:] for block in found]:
        return
    remedy = "Embed the scans with the same run."
    if expected:
        names = ",".join(block.name for block in expected)
        remedy = (
            "Embed the scans with each of these runs, and join the tables in this order, "
            f"names={names}."
        )
    raise DataError(
        f"{parameter}: the probe was fitted on {_listed(expected)}, and this table has "
        f"{_listed(found)}. {remedy}"
    )


def _listed(blocks: Sequence[Block]) -> str:
    """Return one text that lists blocks of feature columns, for a message.

    For each block the text has its name, its number of features, and the digest of the encoder that
    the block is from, if known. Without blocks, the text says that the features are of one encoder.
    """
    texts = [
        f"{block.name} ({block.n_features} "
        f"features{'' if block.encoder is None else f', {block.encoder[:12]}…'})"
        for block in blocks
    ]
    return " + ".join(texts) or "features of one encoder"


class Matrices(NamedTuple):
    """Standardised features of training and test rows, with the scaler fitted to the training rows.

    If features outnumber the training rows, `train` and `test` (n, k) are coordinates on the k
    principal axes of the standardised training rows, and `axes` (p, k) holds the axes. If not,
    `axes` is None, and `train` and `test` have a column for each feature.
    """

    train: Floats
    test: Floats
    scaler: StandardScaler
    axes: Floats | None = None


def standardised(design: Design, train: Rows, test: Rows) -> Matrices:
    """Standardise features of training and test rows by the training rows' means and deviations.

    Returned are two matrices, the fitted scaler and axes, as `Matrices`. `design` gives the
    features of the rows. With more features than training rows, features are projected onto the
    training rows' principal axes: a linear probe fits the same to the smaller matrices.
    """
    x_train, x_test = design(train, test)
    scaler = scaler_of(design, n_columns=x_train.shape[1]).set_params(copy=False)
    axes = None
    x_train = scaler.fit_transform(x_train)
    x_test = scaler.transform(x_test)
    if x_train.shape[1] > x_train.shape[0]:
        axes, x_train = principal_axes(x_train)
        x_test = x_test @ axes
    return Matrices(x_train, x_test, scaler, axes)


def principal_axes(x: Floats) -> tuple[Floats, Floats]:
    """Return the principal axes (p, k) of rows (n, p), and the rows' coordinates (n, k) on them."""
    directions, scores = principal_scores(x @ x.T)
    return x.T @ directions, scores


def principal_scores(products: Floats) -> tuple[Floats, Floats]:
    """Compute principal axes, and the rows' coordinates (n, k), from inner products of the rows.

    The axes are returned as coefficients (n, k): an axis is the sum of the rows times its
    coefficients.
    """
    variances, axes = scipy.linalg.eigh(products, check_finite=False, driver="evd")
    tolerance = SINGLE_TOLERANCE
    if products.dtype == np.float64:
        tolerance = RANK_TOLERANCE
    kept = variances > variances[-1] * tolerance
    axes = np.ascontiguousarray(axes[:, kept])
    lengths = np.sqrt(variances[kept])
    return axes / lengths, axes * lengths
