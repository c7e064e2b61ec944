"""Matrices that a probe gets: covariates as numbers, or the embedding, adjusted in training folds on request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import clone

from neurocontrast.evaluation.rows import cell_texts
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.transformers import (
    ComBat,
    CovariateEncoder,
    Residualiser,
    SideColumnTransformer,
    SiteRecentring,
)
from neurocontrast.exceptions import suggestion

__all__ = ["CovariateDesign", "Design", "FeatureDesign", "adjustments", "choose_covariates", "kept_columns"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Design = Callable[[Rows, Rows], tuple[Floats, Floats]]
"""Gives the matrices of training and test rows; everything in them is estimated on the training rows."""

OPTIONAL = ("tiv",)
"""Covariates that are asked for by default and not missed where a table does not have them."""


@dataclass(frozen=True)
class CovariateDesign:
    """Covariates as numbers; without any, one constant column, of which a probe learns the average."""

    table: pd.DataFrame
    names: tuple[str, ...]

    def __call__(self, train: Rows, test: Rows) -> tuple[Floats, Floats]:
        """Return the matrices of training and test rows."""
        if not self.names:
            return np.zeros((len(train), 1)), np.zeros((len(test), 1))
        table = self.table[list(self.names)]
        encoder = CovariateEncoder()
        return encoder.fit_transform(table.iloc[train]), encoder.transform(table.iloc[test])


@dataclass(frozen=True, eq=False)
class FeatureDesign:
    """The embedding; `steps` are fitted on the training rows alone, in inner folds too, and see no label."""

    features: npt.NDArray[np.floating]
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    steps: tuple[SideColumnTransformer, ...] = ()

    def __call__(self, train: Rows, test: Rows) -> tuple[Floats, Floats]:
        """Return the matrices of training and test rows."""
        x_train, x_test = (self.features[rows].astype(np.float64) for rows in (train, test))
        for step in map(clone, self.steps):
            step.estimate(x_train, self.table.iloc[train])
            x_train, x_test = (step.adjust(x, self.table.iloc[rows]) for x, rows in ((x_train, train), (x_test, test)))
        return x_train, x_test

    @property
    def recentring(self) -> SiteRecentring | None:
        """The step that recentres, not fitted; None without one."""
        return next((clone(step) for step in self.steps if isinstance(step, SiteRecentring)), None)

    def within_sites(self, target: Target, train: Rows) -> Target:
        """Return the target to fit: with recentred features, numbers without the differences between sites.

        Recentred features cannot show those differences, which would be noise to the fit and drive the penalty up.
        """
        recentring = self.recentring
        if recentring is None or target.kind != "continuous":
            return target
        values = target.values.astype(float)
        recentring.estimate(values[train, None], self.table.iloc[train])
        values[train] = recentring.adjust(values[train, None], self.table.iloc[train])[:, 0]
        return replace(target, values=values)


def adjustments(
    table: pd.DataFrame, settings: EvaluationSettings, *, target: str, recentre: bool = True, predicted: str = ""
) -> tuple[SideColumnTransformer, ...]:
    """Return the steps that the settings ask for; none preserves the target, nor the column that is `predicted`."""
    steps: list[SideColumnTransformer] = []
    kept = {
        by: tuple(name for name in kept_columns(table, settings, by=by, target=target) if name != predicted)
        for by in ("harmonise", "recentre")
    }
    if settings.harmonise == "combat":
        steps.append(ComBat("site", preserve=kept["harmonise"], handle_unknown="ignore"))
    if settings.residualise:
        steps.append(Residualiser(settings.residualise))
    if recentre and settings.recentre != "none":
        steps.append(SiteRecentring("site", subject="subject_id", preserve=kept["recentre"]))
    return tuple(steps)


def kept_columns(
    table: pd.DataFrame, settings: EvaluationSettings, *, by: Literal["harmonise", "recentre"], target: str
) -> tuple[str, ...]:
    """Return the covariates whose effect an adjustment keeps: those that are there and vary, never the target."""
    if getattr(settings, by) == "none":
        return ()
    return choose_covariates(table, getattr(settings, f"{by}_preserve"), target=target, sites_held_out=True)[0]


def choose_covariates(
    table: pd.DataFrame, names: Sequence[str], *, target: str, sites_held_out: bool
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the covariates that can be used, and why the others cannot; `OPTIONAL` ones are dropped silently.

    The site is dropped where sites are held out: a site that was never seen has no coefficient.
    """
    used, dropped = [], {}
    for name in dict.fromkeys(names):
        if name == target:
            dropped[name] = "is the target"
        elif name == "site" and sites_held_out:
            dropped[name] = "is held out"
        elif name not in table:
            if name not in OPTIONAL:
                near = suggestion(name, table.columns).strip()
                dropped[name] = "is not in the table" + (f" ({near})" if near else "")
        elif len({text for text in cell_texts(table[name]) if text is not None}) < 2:
            dropped[name] = "has fewer than two values"
        else:
            used.append(name)
    return tuple(used), dropped
