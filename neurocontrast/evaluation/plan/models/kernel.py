"""A kernel model of the measures or components of a linear baseline."""

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
"""End of the name of a kernel model, after that of the linear one."""


@dataclass(frozen=True)
class MeasureDesign:
    """Columns of numbers, gaps filled with the training mean.

    Marks of rare gaps, which linear models get, would outweigh all other distances.
    """

    table: pd.DataFrame
    names: tuple[str, ...]

    def __call__(self, train: Rows, test: Rows) -> tuple[Floats, Floats]:
        """Return the matrices of training and test rows."""
        values = self.table[list(self.names)].astype(float).to_numpy()
        imputer = SimpleImputer(keep_empty_features=True)
        return imputer.fit_transform(values[train]), imputer.transform(values[test])


def make_kernel(plan: Plan) -> ProbeModel | None:
    """Return a kernel model of the regional measures; None without them, or beside an own estimator."""
    for model in plan.models:
        if model.name == "regional" and isinstance(model, ProbeModel):
            return make_second(plan, model)
    return None


def make_second(plan: Plan, first: ProbeModel) -> ProbeModel | None:
    """Return a kernel model beside a linear baseline; None where the user gave the estimator."""
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
