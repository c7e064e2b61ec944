"""Matrices that a probe is given: the features of the embedding, adjusted on request, as a whole or block by block."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler
from threadpoolctl import ThreadpoolController

from neurocontrast.evaluation.blocks import Block
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.transformers import BlockScaler, SideColumnTransformer, SiteRecentring

__all__ = ["BlockDesign", "Design", "FeatureDesign", "in_single_precision", "one_thread", "probed_designs", "scaler_of"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Design = Callable[[Rows, Rows], tuple[Floats, Floats]]
"""Gives the matrices of training and test rows; everything in them is estimated on the training rows."""


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


@dataclass(frozen=True, eq=False)
class BlockDesign:
    """The features of one encoder among joined ones, which are adjusted together."""

    whole: FeatureDesign
    columns: slice

    def __call__(self, train: Rows, test: Rows) -> tuple[Floats, Floats]:
        """Return the matrices of training and test rows."""
        x_train, x_test = self.whole(train, test)
        return x_train[:, self.columns], x_test[:, self.columns]


def in_single_precision(design: Design) -> Design:
    """Return a design whose features are in single precision: half the memory, and twice as fast."""
    return replace(design, single=True) if isinstance(design, FeatureDesign) else design


def probed_designs(design: Design, settings: EvaluationSettings) -> list[Design]:
    """Return the designs that have a probe each: of averaged blocks one a block, else the design itself."""
    if settings.blocks != "averaged" or not isinstance(design, FeatureDesign) or len(design.blocks) < 2:
        return [design]
    ends = np.cumsum([block.n_features for block in design.blocks]).tolist()
    return [BlockDesign(design, slice(start, end)) for start, end in zip([0, *ends], ends, strict=False)]


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
