"""Train networks: training loop, checkpoints, validation between epochs, and fine-tuning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.lazy import lazy_exports
from neurocontrast.training.settings import FinetuneSettings, TrainingSettings

if TYPE_CHECKING:
    from neurocontrast.training.data import PretextTask, TrainingData, Views
    from neurocontrast.training.loop import FitResult, TrainingOutput, fit
    from neurocontrast.training.validation import alignment, effective_rank, uniformity

__all__ = [
    "FinetuneSettings",
    "FitResult",
    "PretextTask",
    "TrainingData",
    "TrainingOutput",
    "TrainingSettings",
    "Views",
    "alignment",
    "effective_rank",
    "fit",
    "uniformity",
]

# Loaded when asked for: reading a configuration needs the settings alone, and no torch.
__getattr__ = lazy_exports(
    __name__,
    {
        "data": ["PretextTask", "TrainingData", "Views"],
        "loop": ["FitResult", "TrainingOutput", "fit"],
        "validation": ["alignment", "effective_rank", "uniformity"],
    },
)
