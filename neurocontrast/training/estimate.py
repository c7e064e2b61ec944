"""Time, memory and checkpoint size of a training step, measured on synthetic images."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch

from neurocontrast.encoders.encoder import ContrastiveModel, check_shape
from neurocontrast.machine import describe_memory, keeping_freed_memory
from neurocontrast.training.session import (
    AnyObjective,
    Position,
    Session,
    TrainingData,
    Views,
    deterministic,
)
from neurocontrast.training.settings import TrainingSettings
from neurocontrast.training.steps import train_batches

__all__ = ["MeasuredStep", "measure_step"]

_BESIDE_GRAPH = 1.3
"""Peak memory over the memory of the graph: gradients of activations, and workspaces of convolutions."""
_READ_AHEAD = 3
"""Batches of images in memory beside the batch under way, at most."""


class MeasuredStep(NamedTuple):
    """A training step of one device; times are of one sample of the configured shape, in seconds."""

    shape: tuple[int, ...]  # of the largest timed step, without channels
    n_samples: int  # of the largest timed step
    is_as_configured: bool
    training_seconds: float  # reading, two views, loss, gradient, step
    encoding_seconds: float  # two views without gradient
    memory_bytes: int  # expected peak of the process, or of the GPU, in the configured step
    device: str  # 'cpu' or 'cuda'


def measure_step(
    build: Callable[[], ContrastiveModel],
    objective: AnyObjective,
    *,
    views: Views,
    settings: TrainingSettings,
    shape: tuple[int, ...],
    seconds: float,
    memory_limit: int,
    clock: Callable[[], float],
) -> MeasuredStep:
    """Time a small training step on synthetic images, and the configured one where time and memory allow it.

    Time and memory are taken to be in proportion to samples × voxels. Of several devices one is measured, with its
    share of the batch.
    """
    encoder, end = build().encoder, clock() + seconds
    check_shape(encoder, shape)
    n_samples = max(2, math.ceil(settings.batch_size / (settings.devices * settings.num_nodes)))
    n_in_graph = min(settings.micro_batch_size or n_samples, n_samples)
    small = tuple(min(n, max(encoder.smallest_shape, n // 4)) for n in shape)
    timed, rate = (small, 2), 0.0
    with deterministic(), keeping_freed_memory():
        whole = settings.model_copy(update={"micro_batch_size": None})
        fixed, per_voxel = _measure_memory(_open(build(), objective, views, whole, small, 2), 2 * math.prod(small))
        for size, n in dict.fromkeys([(small, 2), (shape, 2), (shape, n_samples)]):
            n_voxels = n * math.prod(size)
            # Each step is taken twice, and 80 % of the free memory may be used.
            n_bytes = fixed + per_voxel * min(n, n_in_graph) * math.prod(size)
            if not rate or (clock() + 2 * rate * n_voxels < end and n_bytes < 0.8 * memory_limit):
                session = _open(build(), objective, views, settings, size, n)
                _train(session)  # warms up
                start = clock()
                _train(session)
                timed, rate = (size, n), (clock() - start) / n_voxels
    return MeasuredStep(
        shape=timed[0],
        n_samples=timed[1],
        is_as_configured=timed == (shape, n_samples),
        training_seconds=rate * math.prod(shape),
        # A backward pass takes about as long as two forward passes; micro-batches pass forward once more.
        encoding_seconds=rate * math.prod(shape) / (3 if n_in_graph == n_samples else 4),
        memory_bytes=int(fixed + per_voxel * n_in_graph * math.prod(shape)),
        device=session.fabric.device.type,
    )


def _open(
    model: ContrastiveModel,
    objective: AnyObjective,
    views: Views,
    settings: TrainingSettings,
    shape: tuple[int, ...],
    n_samples: int,
) -> Session:
    """Start a session of synthetic images, with as many passes over the network as in the run."""
    noise = torch.rand((model.encoder.n_channels, *shape), generator=torch.Generator().manual_seed(0))
    kinds = {"continuous": torch.linspace(20, 80, n_samples)}
    data = TrainingData(
        images=[{"image": noise, "index": row} for row in range(n_samples)],
        names=[f"synthetic {row}" for row in range(n_samples)],
        metadata={name: kinds.get(kind, torch.arange(n_samples) % 2) for name, kind in objective.columns.items()},
        training_rows=range(n_samples),
    )
    micro = settings.micro_batch_size
    micro = min(micro, n_samples // 2) if micro is not None and micro < settings.batch_size else None
    changes = {"devices": 1, "num_nodes": 1, "sampling": "shuffle", "micro_batch_size": micro}
    session = Session(model, objective, views, data, settings=settings.model_copy(update=changes), seed=0)
    session.model.train()
    return session


def _measure_memory(session: Session, n_voxels: int) -> tuple[int, float]:
    """Return the bytes held after a step, and the bytes of its graph and images for each voxel."""
    weights = {each.untyped_storage().data_ptr() for each in session.model.parameters()}
    graph: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        graph[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        _train(session)
    n_bytes = _BESIDE_GRAPH * sum(size for place, size in graph.items() if place not in weights) / n_voxels
    if session.fabric.device.type == "cuda":
        return torch.cuda.memory_allocated(), n_bytes
    read_ahead = _READ_AHEAD * torch.float32.itemsize * session.model.encoder.n_channels
    return describe_memory()["own_bytes"], n_bytes + read_ahead


def _train(session: Session) -> None:
    for _ in train_batches(session, [session.data.training_rows], Position()):
        pass
    if session.fabric.device.type == "cuda":
        torch.cuda.synchronize()
