"""The models of an evaluation, one file each.

A new model is a file here with a function ``make(study)``, and a line of `MODELS`. What needs images, or a network, is
added to the study by the command that has them (`Study.with_model`).
"""

from neurocontrast.evaluation.models import covariates, regional
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

MODELS = (covariates.make, regional.make)
"""What the embedding is compared with: each returns its model of a study, or None without a use for it."""
