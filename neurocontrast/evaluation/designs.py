"""Matrices that a probe is given: features, adjusted on request, standardised, along principal axes, once a fold."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.linalg
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler
from threadpoolctl import ThreadpoolController

from neurocontrast.evaluation.probes import Probe
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.transformers import BlockScaler, SideColumnTransformer, SiteRecentring
from neurocontrast.exceptions import DataError

__all__ = ["Block", "Design", "FeatureDesign", "FoldFeatures", "blocks_of", "check_same_blocks", "one_thread",
           "principal_axes", "probe_features", "scaler_of"]  # fmt: skip

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Design = Callable[[Rows, Rows], tuple[Floats, Floats]]
"""Gives the matrices of training and test rows; everything in them is estimated on the training rows."""


RANK_TOLERANCE, SINGLE_TOLERANCE = 1e-13, 1e-6
"""Axes with a smaller share of the largest one's variance are rounding, in double and in single precision."""


class Block(NamedTuple):
    """The features of one encoder in a joined table."""

    name: str
    n_features: int
    encoder: str | None = None


@dataclass(frozen=True, eq=False)
class FeatureDesign:
    """The embedding; `steps` are fitted on the training rows alone, in inner folds too, and see no label.

    `blocks` are those of joined features, and empty for features of one encoder. With `single`, matrices are in single
    precision, whatever the steps compute in.
    """

    features: npt.NDArray[np.floating]
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    steps: tuple[SideColumnTransformer, ...] = ()
    blocks: tuple[Block, ...] = ()
    single: bool = False

    def __call__(self, train: Rows, test: Rows) -> tuple[Floats, Floats]:
        """Return the matrices of training and test rows."""
        precision = np.float32 if self.single else np.float64
        computed = np.float64 if self.steps else precision
        x_train, x_test = (self.features[rows].astype(computed, copy=False) for rows in (train, test))
        for step in map(clone, self.steps):
            step.estimate(x_train, self.table.iloc[train])
            x_train, x_test = (step.adjust(x, self.table.iloc[rows]) for x, rows in ((x_train, train), (x_test, test)))
        return x_train.astype(precision, copy=False), x_test.astype(precision, copy=False)

    @property
    def recentring(self) -> SiteRecentring | None:
        """The step that recentres, not fitted; None without one."""
        return next((clone(step) for step in self.steps if isinstance(step, SiteRecentring)), None)

    def within_sites(self, target: Target, train: Rows) -> Target:
        """Return the target to fit: with recentred features, numbers without the differences between sites."""
        recentring = self.recentring
        if recentring is None or target.kind != "continuous":
            return target
        values = target.values.astype(float)
        recentring.estimate(values[train, None], self.table.iloc[train])
        values[train] = recentring.adjust(values[train, None], self.table.iloc[train])[:, 0]
        return replace(target, values=values)


def scaler_of(design: Design) -> StandardScaler:
    """Return what standardises the features of a design; blocks of joined ones get the same total variance."""
    sizes = tuple(block.n_features for block in design.blocks) if isinstance(design, FeatureDesign) else ()
    return BlockScaler(sizes) if len(sizes) > 1 else StandardScaler()


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()  # looks at every loaded library, which takes longer than a small fit


def one_thread() -> AbstractContextManager[object]:
    """Return a context of one thread: more cost time on matrices of this size, and change the last digits."""
    return _threads().limit(limits=1)


def blocks_of(info: Mapping[str, Any], n_features: int) -> tuple[Block, ...]:
    """Return the blocks of joined embeddings in the order of their columns; none for features of a single encoder."""
    run = info.get("run")
    found = run.get("blocks") if isinstance(run, Mapping) else None
    if not found:
        return ()
    try:
        blocks = tuple(Block(name, int(each["n_features"]), each.get("encoder")) for name, each in found.items())
    except (AttributeError, KeyError, TypeError, ValueError):
        raise DataError("embeddings: their description of blocks is damaged. Join the tables again.") from None
    total = sum(block.n_features for block in blocks)
    if total != n_features or min(block.n_features for block in blocks) < 1:
        raise DataError(
            f"embeddings: blocks {_listed(blocks)} are {total} features, and the table has {n_features}. Join the "
            "tables again."
        )
    return blocks


def check_same_blocks(expected: Sequence[Block], found: Sequence[Block], *, parameter: str) -> None:
    """Refuse features of other blocks than those that a probe was fitted on; their names may differ."""
    if [block[1:] for block in expected] == [block[1:] for block in found]:
        return
    remedy = "Embed the scans with the same run."
    if expected:
        names = ",".join(block.name for block in expected)
        remedy = f"Embed the scans with each of these runs, and join the tables in this order (--names {names})."
    raise DataError(
        f"{parameter}: the probe was fitted on {_listed(expected)}, and this table has {_listed(found)}. {remedy}"
    )


def _listed(blocks: Sequence[Block]) -> str:
    texts = [
        f"{block.name} ({block.n_features} features{'' if block.encoder is None else f', {block.encoder[:12]}…'})"
        for block in blocks
    ]
    return " + ".join(texts) or "features of one encoder"


class Matrices(NamedTuple):
    """Features of training and test rows, and the scaling and axes that the training rows gave."""

    train: Floats
    test: Floats
    scaler: StandardScaler | None = None
    axes: Floats | None = None


class FoldFeatures:
    """Features of training and test rows by a design, computed once for each pair; on request standardised.

    `views` are the same features reduced to each of `n_components`, numbers of their first principal components.
    """

    def __init__(
        self, design: Design, *, standardise: bool = False, rotate: bool = False, n_components: Sequence[int] = ()
    ) -> None:
        self._design, self._standardise, self._rotate = design, standardise, rotate
        self._seen: dict[tuple[bytes, bytes], Matrices] = {}
        self._choices, self.n_components = n_components, float("nan")

    def views(self) -> list[FoldFeatures]:
        """Return the features with each number of principal components; where none is asked for, as they are."""
        found = [copy.copy(self) for _ in self._choices]  # each has the same memory of what was computed
        for view, number in zip(found, self._choices, strict=True):
            view.n_components = number
        return found or [self]

    def __call__(self, train: Rows, test: Rows) -> Matrices:
        """Return the features, with everything estimated on the training rows."""
        whole = self._whole(train, test)
        if np.isnan(self.n_components) or whole.axes is None:
            return whole
        first = slice(-int(self.n_components), None)  # the variances of axes rise
        return whole._replace(train=whole.train[:, first], test=whole.test[:, first], axes=whole.axes[:, first])

    def _whole(self, train: Rows, test: Rows) -> Matrices:
        key = train.tobytes(), test.tobytes()
        if key in self._seen:
            return self._seen[key]
        (x_train, x_test), scaler, axes = self._design(train, test), None, None
        if self._standardise:
            scaler = scaler_of(self._design).set_params(copy=False)
            x_train, x_test = scaler.fit_transform(x_train), scaler.transform(x_test)
        if self._choices or (self._rotate and x_train.shape[1] > x_train.shape[0]):
            axes, x_train = principal_axes(x_train)
            x_test = x_test @ axes
        self._seen[key] = Matrices(x_train, x_test, scaler, axes)
        return self._seen[key]


def principal_axes(x: Floats) -> tuple[Floats, Floats]:
    """Return the directions (p, k) along which rows (n, p) extend, as columns, and the rows along these: (n, k)."""
    n, p = x.shape
    wide = p > n  # then the n × n matrix of inner products holds all there is to know
    variances, axes = scipy.linalg.eigh(x @ x.T if wide else x.T @ x, check_finite=False, driver="evd")
    kept = variances > variances[-1] * (RANK_TOLERANCE if x.dtype == np.float64 else SINGLE_TOLERANCE)
    axes = np.ascontiguousarray(axes[:, kept])
    if not wide:
        return axes, x @ axes
    lengths = np.sqrt(variances[kept])
    return x.T @ (axes / lengths), axes * lengths


def probe_features(probe: Probe, design: Design, settings: EvaluationSettings, *, n_train: int) -> FoldFeatures:
    """Return features as a built-in probe takes them; principal components are chosen of an embedding only.

    Of more training rows (`n_train`) than a large table has, they are in single precision.
    """
    if not isinstance(design, FeatureDesign):
        return FoldFeatures(design, standardise=True, rotate=probe.rotates)
    precise = replace(design, single=n_train > settings.large_table)
    return FoldFeatures(precise, standardise=True, rotate=probe.rotates, n_components=settings.n_components)
