"""Time, memory and checkpoint size of a training step, measured on synthetic images."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch.utils._pytree import tree_leaves

from neurocontrast.encoders.encoder import check_shape
from neurocontrast.encoders.heads import ContrastiveModel
from neurocontrast.machine import describe_memory
from neurocontrast.memory import keeping_freed_memory
from neurocontrast.training.session import AnyObjective, Session, TrainingData, Views, deterministic, start_session
from neurocontrast.training.settings import TrainingSettings
from neurocontrast.training.state import Position
from neurocontrast.training.steps import train_batches

__all__ = ["MeasuredStep", "measure_step"]

_FEWEST = 2
"""Samples of the first step."""
_BESIDE_GRAPH = 1.3
"""Peak memory over the memory of the graph: gradients of activations, and workspaces of convolutions."""
_READ_AHEAD = 3
"""Batches of images in memory beside the batch under way, at most."""
_SHARE_OF_MEMORY = 0.8
"""No step is tried that is expected to need a larger share of the free memory."""


class MeasuredStep(NamedTuple):
    """A training step of one device; times are of one sample of the configured shape, in seconds."""

    shape: tuple[int, ...]  # of the largest timed step, without channels
    n_samples: int  # of the largest timed step
    is_as_configured: bool
    training_seconds: float  # reading, two views, loss, gradient, step
    encoding_seconds: float  # two views without gradient
    memory_bytes: int  # expected peak of the process, or of the GPU, in the configured step
    checkpoint_bytes: int  # with the weights beside it
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
    """Time training steps on synthetic images, the configured step last where `seconds` and `memory_limit` allow it.

    The first small step is always timed. Time and memory of steps that were not tried are taken to be in proportion
    to samples × voxels. Of several devices one is measured, with its share of the batch.
    """
    encoder = build().encoder
    check_shape(encoder, shape)
    end = clock() + seconds
    n_samples = max(_FEWEST, math.ceil(settings.batch_size / (settings.devices * settings.num_nodes)))
    n_in_graph = min(settings.micro_batch_size or n_samples, n_samples)
    small = tuple(min(n, max(encoder.smallest_shape, n // 4)) for n in shape)
    steps = [(small, _FEWEST), (small, n_samples), (shape, _FEWEST), (shape, max(_FEWEST, n_samples // 8))]
    with deterministic(), keeping_freed_memory():
        session = _open(build(), objective, views, settings, small, n_samples)
        fixed, per_voxel = _measure_memory(session, small)
        per_sample, timed = 0.0, (small, 0)
        for size, n in dict.fromkeys([*steps, (shape, n_samples)]):
            voxels = math.prod(size)
            expected = per_sample * n * voxels / math.prod(timed[0])
            n_bytes = fixed + per_voxel * min(n, n_in_graph) * voxels
            if timed[1] and (clock() + expected > end or n_bytes > _SHARE_OF_MEMORY * memory_limit):
                continue
            if size != timed[0]:
                session = _open(build(), objective, views, settings, size, n_samples)
            per_sample, timed = _time(session, n, clock, end) / n, (size, n)
    training = per_sample * math.prod(shape) / math.prod(timed[0])
    tensors = tree_leaves([session.tensors(), session.model.state_dict()])
    return MeasuredStep(
        shape=timed[0],
        n_samples=timed[1],
        is_as_configured=timed == (shape, n_samples),
        training_seconds=training,
        # A backward pass takes about as long as two forward passes; micro-batches pass forward once more.
        encoding_seconds=training / (3 if n_in_graph == n_samples else 4),
        memory_bytes=int(fixed + per_voxel * n_in_graph * math.prod(shape)),
        checkpoint_bytes=sum(each.nbytes for each in tensors if isinstance(each, torch.Tensor)),
        device=session.fabric.device.type,
    )


def _open(
    model: ContrastiveModel, objective: AnyObjective, views: Views, settings: TrainingSettings,
    shape: tuple[int, ...], n_samples: int,
) -> Session:  # fmt: skip
    noise = torch.rand((model.encoder.n_channels, *shape), generator=torch.Generator().manual_seed(0))
    data = TrainingData(
        images=[{"image": noise, "index": row} for row in range(n_samples)],
        names=[f"synthetic {row}" for row in range(n_samples)],
        metadata={
            name: torch.linspace(20, 80, n_samples) if kind == "continuous" else torch.arange(n_samples) % 2
            for name, kind in objective.columns.items()
        },
        training_rows=range(n_samples),
    )
    alone = settings.model_copy(update={"devices": 1, "num_nodes": 1, "sampling": "shuffle"})
    session = start_session(model, objective, views, data, settings=alone, seed=0)
    session.model.train()
    return session


def _measure_memory(session: Session, shape: tuple[int, ...]) -> tuple[int, float]:
    """Return the bytes held after a step, and the bytes of a step's graph and images for each voxel."""
    weights = {each.untyped_storage().data_ptr() for each in session.model.parameters()}
    graph: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            graph[storage.data_ptr()] = storage.nbytes()
        return tensor

    whole = replace(session, settings=session.settings.model_copy(update={"micro_batch_size": None}))
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        _train(whole, _FEWEST)
    n_bytes = _BESIDE_GRAPH * sum(graph.values()) / (_FEWEST * math.prod(shape))
    if session.fabric.device.type == "cuda":
        return torch.cuda.memory_allocated(), n_bytes
    read_ahead = _READ_AHEAD * torch.float32.itemsize * session.model.encoder.n_channels
    return describe_memory()["own_bytes"], n_bytes + read_ahead


def _time(session: Session, n_samples: int, clock: Callable[[], float], end: float) -> float:
    """Return the shortest time of up to three steps; the first warms up."""
    micro = session.settings.micro_batch_size
    if micro is not None and micro < session.settings.batch_size:  # as many passes over the network as in the run
        micro = min(micro, n_samples // 2)
    session = replace(session, settings=session.settings.model_copy(update={"micro_batch_size": micro}))
    times: list[float] = []
    while len(times) < 3 and (not times or clock() + min(times) < end):
        start = clock()
        _train(session, n_samples)
        times.append(clock() - start)
    return min(times)


def _train(session: Session, n_samples: int) -> None:
    for _ in train_batches(session, [list(range(n_samples))], Position()):
        pass
    if session.fabric.device.type == "cuda":
        torch.cuda.synchronize()
