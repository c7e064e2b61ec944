"""An exponential moving average of the weights, beside those that are trained."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

__all__ = ["averaged_weights", "keep_average", "start_average"]


def start_average(model: nn.Module, decay: float) -> AveragedModel:
    """Return the average of a model's weights: after the first step those weights, then w̄ ← decay·w̄ + (1 − decay)·w."""
    return AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))


@contextlib.contextmanager
def averaged_weights(model: nn.Module, average: AveragedModel | None) -> Iterator[None]:
    """Put the average's weights into the model, and the trained ones back at the end; without average, do nothing."""
    keep_average(model, average)
    try:
        yield
    finally:
        keep_average(model, average)


@torch.no_grad()
def keep_average(model: nn.Module, average: AveragedModel | None) -> None:
    """Exchange the model's weights and the average's, where there is one."""
    # Copied, not swapped by reference: optimiser and distribution hold on to the model's own tensors.
    if average is None:
        return
    for weight, averaged in zip(model.parameters(), average.module.parameters(), strict=True):
        held = weight.clone()
        weight.copy_(averaged)
        averaged.copy_(held)
