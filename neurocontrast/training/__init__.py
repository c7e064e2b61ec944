"""Pretraining: the loop, its state on disk, and what it measures on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.lazy import lazy_exports
from neurocontrast.training.settings import TrainingSettings

if TYPE_CHECKING:
    from neurocontrast.training.distributed import accelerator_of, launch
    from neurocontrast.training.loggers import check_loggers
    from neurocontrast.training.loop import FitResult, fit
    from neurocontrast.training.metrics import alignment, effective_rank, uniformity
    from neurocontrast.training.session import AnyObjective, TrainingData, Views, check_split

__all__ = [
    "AnyObjective",
    "FitResult",
    "TrainingData",
    "TrainingSettings",
    "Views",
    "accelerator_of",
    "alignment",
    "check_loggers",
    "check_split",
    "effective_rank",
    "fit",
    "launch",
    "uniformity",
]

# Loaded when asked for: reading a configuration needs the settings alone, and no torch.
__getattr__ = lazy_exports(
    __name__,
    {
        "loggers": ["check_loggers"],
        "distributed": ["accelerator_of", "launch"],
        "loop": ["FitResult", "fit"],
        "metrics": ["alignment", "effective_rank", "uniformity"],
        "session": ["AnyObjective", "TrainingData", "Views", "check_split"],
    },
)
