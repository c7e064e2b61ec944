"""The models of an evaluation.

To add a model, write a function that makes the model of a plan, and put the function into `MODELS`.
A model that needs images or a network is added to the plan by the command that has read them
(`Plan.with_model`). On an external test set only models of columns are tested (a `CovariateDesign`
or a `MeasureDesign`), and a warning names the models that are not.
"""

from neurocontrast.evaluation.plan.models.beside import make_regional_beside
from neurocontrast.evaluation.plan.models.components import make_components
from neurocontrast.evaluation.plan.models.covariates import make_baseline
from neurocontrast.evaluation.plan.models.kernel import make_kernel
from neurocontrast.evaluation.plan.models.model import (
    Baseline,
    ConstantModel,
    GivenModel,
    Model,
    ProbeModel,
)
from neurocontrast.evaluation.plan.models.network import make_network
from neurocontrast.evaluation.plan.models.regional import make_regional

__all__ = [
    "MODELS",
    "Baseline",
    "ConstantModel",
    "GivenModel",
    "Model",
    "ProbeModel",
]

MODELS = (
    make_baseline,
    make_components,
    make_network,
    make_regional,
    make_kernel,
    make_regional_beside,
)
"""Functions that make the models that the embedding is compared with. Each takes a plan and returns
a model, None where the plan has no use for the model, or the warning that says why the model is
left out."""
