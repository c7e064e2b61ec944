"""BatchNorm's running statistics: kept out of validation, and measured anew before weights are kept.

The running averages of training lag behind quickly changing weights, and describe augmented
views; an encoder saved with them can be far worse than the network that was trained.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

__all__ = ["batch_statistics", "layers_of", "reestimate_statistics", "still_statistics"]


@contextlib.contextmanager
def batch_statistics(model: nn.Module) -> Iterator[None]:
    """Evaluate with each batch's own statistics, and leave the running ones untouched.

    A validation loss is then comparable with the training loss, which sees batch statistics too.
    """
    was_training = model.training
    model.eval()
    for layer in layers_of(model):
        layer.training = True
    try:
        with still_statistics(model):
            yield
    finally:
        model.train(was_training)


@contextlib.contextmanager
def still_statistics(model: nn.Module) -> Iterator[None]:
    """Let training-mode layers use each batch's statistics without moving the running ones."""
    layers = [layer for layer in layers_of(model) if layer.training]
    tracked = [layer.track_running_stats for layer in layers]
    for layer in layers:
        layer.track_running_stats = False
    try:
        yield
    finally:
        for layer, track in zip(layers, tracked, strict=True):
            layer.track_running_stats = track


@torch.no_grad()
def reestimate_statistics(
    model: nn.Module, batches: Iterable[torch.Tensor], *, after_batch: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Set running means and variances to their averages over batches of un-augmented samples.

    Batches are not read if the model has no BatchNorm layer. Returns what was done, for ``encoder.json``.
    """
    layers = layers_of(model)
    record = {"n_layers": len(layers), "n_scans": 0, "n_batches": 0}
    was_training, momenta = model.training, [layer.momentum for layer in layers]
    model.eval()
    for layer in layers:
        layer.reset_running_stats()
        layer.training, layer.momentum = True, None  # None: the cumulative average
    try:
        for images in batches if layers else ():
            model(images)
            record["n_scans"] += len(images)
            record["n_batches"] += 1
            after_batch()
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        model.train(was_training)
    return {"statistics": "cumulative average over un-augmented training samples", **record}


def layers_of(model: nn.Module) -> list[_BatchNorm]:
    """Return the model's layers of batch normalisation."""
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]
