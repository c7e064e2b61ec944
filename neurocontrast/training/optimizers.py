"""Optimisers and learning rates."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from neurocontrast.training.lars import LARS
from neurocontrast.training.settings import TrainingSettings

__all__ = ["build_optimizer", "learning_rate_of"]

_MOMENTUM = 0.9
_TRUST_COEFFICIENT = 0.001


def build_optimizer(parameters: Iterable[torch.nn.Parameter], settings: TrainingSettings) -> torch.optim.Optimizer:
    """Return the optimiser that the settings name, over all parameters alike."""
    common: dict[str, Any] = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    momentum = _MOMENTUM if settings.momentum is None else settings.momentum
    if settings.optimizer == "lars":
        trust = _TRUST_COEFFICIENT if settings.trust_coefficient is None else settings.trust_coefficient
        return LARS(parameters, momentum=momentum, trust_coefficient=trust, **common)
    # One pass over the weights, a third of the time; it would hide float16's gradients while they are scaled.
    common["fused"] = settings.precision != "16-mixed"
    if settings.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=momentum, nesterov=settings.nesterov, **common)
    kind = torch.optim.Adam if settings.optimizer == "adam" else torch.optim.AdamW
    return kind(parameters, **common)


def learning_rate_of(epoch: int, settings: TrainingSettings, *, batch: int = 0, n_batches: int = 1) -> float:
    """Return the learning rate of a step.

    It is a function of these numbers alone, so a resumed run needs no schedule state.

    Parameters
    ----------
    epoch : int
        Epochs finished before the step.
    settings : TrainingSettings
        Rate, schedule and warm-up.
    batch, n_batches : int
        Batches finished of the epoch under way, and how many it has.

    Examples
    --------
    >>> learning_rate_of(25, TrainingSettings(learning_rate=1.0, step_epochs=10, step_factor=0.5))
    0.25
    >>> settings = TrainingSettings(learning_rate=1.0, schedule="cosine", warmup_epochs=1, epochs=3)
    >>> [round(learning_rate_of(e, settings, batch=b, n_batches=2), 3) for e in range(3) for b in range(2)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146]
    """
    rate = settings.learning_rate
    if settings.schedule == "step":
        rate *= settings.step_factor ** (epoch // settings.step_epochs)
    step, n_warm = epoch * n_batches + batch, settings.warmup_epochs * n_batches
    if step + 1 < n_warm:
        return rate * (step + 1) / n_warm
    if settings.schedule == "cosine":
        n_steps = settings.epochs * n_batches
        done = max(0.0, step - n_warm) / (n_steps - n_warm)
        rate *= (1 + math.cos(math.pi * done)) / 2
    return rate
