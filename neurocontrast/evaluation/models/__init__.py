"""The models of an evaluation.

A new model is a function of a study that makes it, and a place in `MODELS`. What needs images, or a
network, is added to the study by the command that has them (`Study.with_model`).
"""

from neurocontrast.evaluation.models.beside import make_regional_beside
from neurocontrast.evaluation.models.components import make_components
from neurocontrast.evaluation.models.covariates import make_baseline
from neurocontrast.evaluation.models.fitting import (
    Prediction,
    average_members,
    decide_scores,
    fit_probe,
)
from neurocontrast.evaluation.models.kernel import make_kernel
from neurocontrast.evaluation.models.model import (
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
from neurocontrast.evaluation.models.network import make_network
from neurocontrast.evaluation.models.regional import make_regional

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
"""What the embedding is compared with: each returns its model of a study, None without a use for it,
or the warning that says why there is none."""
