"""Leave out models to compare that the user's own estimator, chosen for the embedding, cannot fit.

A model to compare with the embedding, called a baseline, has features of its own, such as regional
measures. The user's estimator is fitted to such features on trial.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer

from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.plan.models.model import ProbeModel
from neurocontrast.evaluation.probes.estimators import EstimatorError, describe_own
from neurocontrast.evaluation.probes.fitting import fit_probe
from neurocontrast.evaluation.probes.members import designs_of
from neurocontrast.evaluation.splits import Split

if TYPE_CHECKING:
    from neurocontrast.evaluation.plan.plan import Plan
    from neurocontrast.evaluation.probes.members import Designs
    from neurocontrast.evaluation.rows import Rows

_BY_POSITION = ("categorical_features", "interaction_cst", "monotonic_cst")
"""Parameters of scikit-learn's estimators that name columns by their position."""


def why_unfit(plan: Plan, design: Designs, rows: Rows) -> str | None:
    """Return why the user's own estimator cannot fit a model's features; None if a trial succeeds.

    The trial is a fit of the features, which `design` makes, in the training rows `rows`. None also
    if the user gave no estimator.
    """
    if plan.estimator is None:
        return None
    picked = find_picked_columns(plan.estimator)
    if picked is not None:
        name = describe_own(plan.estimator)[0]
        return f"{name} takes columns by their position ({picked}), which is that in the embedding"
    split = Split(0, 0, rows, rows[:1])
    try:
        for of_member in designs_of(design):
            fit_probe(
                of_member, plan.target, split, plan.context, estimator=plan.estimator, pairs=[]
            )
    except EstimatorError as error:
        return str(error).removeprefix("probe: ").rstrip(".")
    return None


def keep_fitting(plan: Plan, model: ProbeModel) -> ProbeModel | Notice:
    """Return `model`, or a warning if the user's estimator cannot fit the model's features.

    The fit is tried here, on the first split. The warning says that the model is left out. The
    model does not get another estimator than the embedding has, since estimators would then be
    compared, not features.
    """
    why = why_unfit(plan, model.design, plan.splits[0].train)
    if why is None or model.baseline is None:
        return model
    return Notice.of("baseline_left_out", baseline=model.baseline.plural, why=why)


def find_picked_columns(estimator: BaseEstimator) -> str | None:
    """Return the name of the part of an estimator that picks columns by position; None without one.

    The name is that of a parameter, such as ``categorical_features``, or ``ColumnTransformer`` for
    a step of this class.
    """
    parameters = {"": estimator, **estimator.get_params(deep=True)}
    for path, value in parameters.items():
        name = path.rpartition("__")[2]
        if name in _BY_POSITION and not isinstance(value, str | None):
            return name
        if isinstance(value, ColumnTransformer) and _picks(value):
            return "ColumnTransformer"
    return None


def _picks(transformer: ColumnTransformer) -> bool:
    """Tell whether a column transformer picks some columns by position."""
    chosen = map(itemgetter(2), transformer.transformers)
    return any(not callable(columns) and columns != slice(None) for columns in chosen)
