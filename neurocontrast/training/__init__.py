"""Pretraining: the loop, its state on disk, and what it measures on the way."""

from neurocontrast.training.loop import FitResult, fit
from neurocontrast.training.metrics import alignment, effective_rank, uniformity
from neurocontrast.training.session import AnyObjective, TrainingData, accelerator_of, check_split
from neurocontrast.training.settings import TrainingSettings

__all__ = [
    "AnyObjective",
    "FitResult",
    "TrainingData",
    "TrainingSettings",
    "accelerator_of",
    "alignment",
    "check_split",
    "effective_rank",
    "fit",
    "uniformity",
]
