"""An exponential moving average of the weights, beside those that are trained."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

__all__ = ["averaged_weights", "keep_average", "start_average"]


def start_average(model: nn.Module, decay: float) -> AveragedModel:
    """Return the average of a model's weights: after the first step those weights, then w̄ ← decay·w̄ + (1 − decay)·w.

    Parameters
    ----------
    model : torch.nn.Module
        Already on its device; left as it is.
    decay : float
        Between 0 and 1. The average reaches back about 1 / (1 − decay) steps: choose it with the
        number of steps of the run in mind.

    Returns
    -------
    AveragedModel
        PyTorch's; its state belongs into checkpoints.
    """
    return AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))


@contextlib.contextmanager
def averaged_weights(model: nn.Module, average: AveragedModel | None) -> Iterator[None]:
    """Put the average's weights into the model, and the trained ones back at the end; without average, do nothing."""
    if average is None:
        yield
        return
    _exchange(model, average)
    try:
        yield
    finally:
        _exchange(model, average)


def keep_average(model: nn.Module, average: AveragedModel | None) -> None:
    """Leave the average's weights in the model, at the end of training."""
    if average is not None:
        _exchange(model, average)


@torch.no_grad()
def _exchange(model: nn.Module, average: AveragedModel) -> None:
    # Copied, not swapped by reference: optimiser and distribution hold on to the model's own tensors.
    for weight, averaged in zip(model.parameters(), average.module.parameters(), strict=True):
        held = weight.clone()
        weight.copy_(averaged)
        averaged.copy_(held)
