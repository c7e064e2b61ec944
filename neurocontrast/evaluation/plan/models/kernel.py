"""Kernel model: a probe with a Gaussian kernel, fitted to the features of a linear baseline.

An embedding can be ahead of a linear model because a network is not linear; the kernel model is not
linear either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd
from sklearn.impute import SimpleImputer

from neurocontrast.evaluation.plan.models.covariates import CovariateDesign
from neurocontrast.evaluation.plan.models.model import ProbeModel
from neurocontrast.evaluation.probe_kinds import kernel_probe
from neurocontrast.evaluation.rows import Floats, Rows

if TYPE_CHECKING:
    from neurocontrast.evaluation.plan.plan import Plan

OF_KERNEL = "_kernel"
"""End of a kernel model's name: ``regional`` is linear, ``regional_kernel`` is not."""


@dataclass(frozen=True)
class MeasureDesign:
    """Function that gives columns of numbers for a kernel model, without missing values.

    Missing values are filled with the training mean. Unlike for linear models, no column marks
    missing values: such a column would outweigh all other distances.
    """

    table: pd.DataFrame
    names: tuple[str, ...]

    def __call__(self, train: Rows, test: Rows) -> tuple[Floats, Floats]:
        """Return the columns of training rows and of test rows as two matrices of numbers."""
        values = self.table[list(self.names)].astype(float).to_numpy()
        imputer = SimpleImputer(keep_empty_features=True)
        return imputer.fit_transform(values[train]), imputer.transform(values[test])


def make_kernel(plan: Plan) -> ProbeModel | None:
    """Return a model with a Gaussian kernel of the regional measures that a linear model reads.

    None if the plan has no linear model of regional measures, or if the user gave an estimator.
    """
    for model in plan.models:
        if model.name == "regional" and isinstance(model, ProbeModel):
            return make_second(plan, model)
    return None


def make_second(plan: Plan, first: ProbeModel) -> ProbeModel | None:
    """Return a model with a Gaussian kernel of the features that the linear baseline `first` reads.

    The model is not fitted yet. None if the user gave an estimator for the plan's models, or if
    `first.baseline` is None.
    """
    if plan.estimator is not None or first.baseline is None:
        return None
    design = first.design
    if isinstance(design, CovariateDesign):
        design = MeasureDesign(design.table, design.names)
    baseline = first.baseline._replace(name=f"{first.baseline.name} (kernel)", of=first.name)
    probe = kernel_probe(plan.target.kind)
    return replace(
        first,
        name=f"{first.name}{OF_KERNEL}",
        design=design,
        estimator=probe,
        baseline=baseline,
        result_keys={},
        notices=(),
    )
