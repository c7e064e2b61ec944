"""Pretraining: the loop, its state on disk, and what it measures on the way."""

from neurocontrast.training.loop import FitResult, fit
from neurocontrast.training.metrics import alignment, effective_rank, uniformity
from neurocontrast.training.session import TrainingData
from neurocontrast.training.settings import TrainingSettings

__all__ = ["FitResult", "TrainingData", "TrainingSettings", "alignment", "effective_rank", "fit", "uniformity"]
