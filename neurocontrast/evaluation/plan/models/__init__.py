"""The models of an evaluation.

A new model is a function of a plan that makes it, and a place in `MODELS`. What needs images, or a
network, is added to the plan by the command that has them (`Plan.with_model`).
"""

from neurocontrast.evaluation.plan.models.beside import make_regional_beside
from neurocontrast.evaluation.plan.models.components import make_components
from neurocontrast.evaluation.plan.models.covariates import make_baseline
from neurocontrast.evaluation.plan.models.kernel import make_kernel
from neurocontrast.evaluation.plan.models.model import (
    ConstantModel,
    GivenModel,
    Model,
    OutOfFold,
    ProbeModel,
    Rival,
    cross_validate,
    gather,
    split_seed,
)
from neurocontrast.evaluation.plan.models.network import make_network
from neurocontrast.evaluation.plan.models.regional import make_regional
from neurocontrast.evaluation.probes.fitting import (
    Prediction,
    average_members,
    decide_scores,
    fit_probe,
)

__all__ = [
    "MODELS",
    "ConstantModel",
    "GivenModel",
    "Model",
    "OutOfFold",
    "Prediction",
    "ProbeModel",
    "Rival",
    "average_members",
    "cross_validate",
    "decide_scores",
    "fit_probe",
    "gather",
    "split_seed",
]

MODELS = (
    make_baseline,
    make_components,
    make_network,
    make_regional,
    make_kernel,
    make_regional_beside,
)
"""What the embedding is compared with: each returns its model of a plan, None without a use for it,
or the warning that says why there is none."""
