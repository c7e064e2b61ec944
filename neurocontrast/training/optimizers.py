"""Optimisers and learning rates."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from neurocontrast.training.settings import TrainingSettings

__all__ = ["build_optimizer", "learning_rate_of"]

_OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def build_optimizer(
    parameters: Iterable[torch.nn.Parameter], settings: TrainingSettings
) -> torch.optim.Adam | torch.optim.AdamW:
    """Return the optimiser that the settings name, over all parameters alike."""
    return _OPTIMIZERS[settings.optimizer](
        parameters,
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
        # One pass over the weights, a third of the time; it would hide float16's gradients while they are scaled.
        fused=settings.precision != "16-mixed",
    )


def learning_rate_of(epoch: int, settings: TrainingSettings) -> float:
    """Return the learning rate of an epoch, counted from 0.

    It is a function of the epoch alone, so a resumed run needs no schedule state.

    Examples
    --------
    >>> learning_rate_of(25, TrainingSettings(learning_rate=1.0, step_epochs=10, step_factor=0.5))
    0.25
    """
    if settings.schedule == "constant":
        return settings.learning_rate
    return settings.learning_rate * settings.step_factor ** (epoch // settings.step_epochs)
