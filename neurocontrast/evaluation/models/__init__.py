"""The models of an evaluation, one file each.

A new model is a file here with a function ``make(study)``, and a line of `MODELS`. What needs images, or a network, is
added to the study by the command that has them (`Study.with_model`).
"""

from neurocontrast.evaluation.models import covariates, embedding, regional
from neurocontrast.evaluation.models.model import (
    ConstantModel,
    GivenModel,
    Model,
    ProbeModel,
    Rival,
    cross_validate,
    split_seed,
)

__all__ = ["MODELS", "ConstantModel", "GivenModel", "Model", "ProbeModel", "Rival", "cross_validate", "split_seed"]

MODELS = (embedding.make, covariates.make, regional.make)
"""Each returns its model of a study, or None where the settings or the table have no use for it."""
