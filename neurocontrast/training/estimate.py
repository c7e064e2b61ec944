"""How fast a configuration trains here, and with how much memory: measured on a few steps of real work.

Steps grow from a small image and two samples to the configured shape and batch, as far as the
time given allows and memory is there; from the largest of them the run is extrapolated.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from neurocontrast.encoders.heads import ContrastiveModel
from neurocontrast.machine import resident_memory
from neurocontrast.memory import keeping_freed_memory
from neurocontrast.progress import SILENT, Progress
from neurocontrast.training.batchnorm import batch_statistics
from neurocontrast.training.session import AnyObjective, Session, TrainingData, Views, deterministic, start_session
from neurocontrast.training.settings import TrainingSettings
from neurocontrast.training.state import Position
from neurocontrast.training.steps import train_batches

__all__ = ["Throughput", "Work", "measure_throughput"]

Shape = tuple[int, ...]
"""Of an image without its channels: two axes, or three."""

_SMALLEST_STEP = 2
_LARGEST_SHARE_OF_MEMORY = 0.8
_STEPS_OF_MEMORY = (4, 8)
_BYTES_PER_VOXEL = 4
_BESIDE_TENSORS = 1.15
"""Memory a network takes over that of its tensors: convolutions' workspaces, and what the allocator keeps."""
_IMAGES_READ_AHEAD = 3
"""Batches of a run's images that are in memory beside the one that is computed on, at most."""


@dataclass(frozen=True)
class Throughput:
    """What was measured, for one device.

    Parameters
    ----------
    shape : tuple of int
        Images of the largest step that was timed, without channels.
    n_scans : int
        Samples of that step.
    is_as_configured : bool
        Whether that is the shape and the batch that were asked for.
    training_seconds : float
        A sample: reading, two views, loss, gradient, step.
    encoding_seconds : float
        A sample that is only encoded: two views, without gradient.
    memory_bytes : int
        Estimated peak of the process (of the GPU, where there is one) with the configured shape and batch.
    checkpoint_bytes : int
        Size of one checkpoint, with the weights that are written beside it.
    device : str
        Where it was measured: 'cpu' or 'cuda'.
    """

    shape: Shape
    n_scans: int
    is_as_configured: bool
    training_seconds: float
    encoding_seconds: float
    memory_bytes: int
    checkpoint_bytes: int
    device: str


@dataclass(frozen=True)
class Work:
    """What is to be measured.

    Parameters
    ----------
    build : callable
        Makes the model anew.
    objective, views : Objective, callable
        As for `fit`.
    settings : TrainingSettings
        The run's.
    shape : tuple of int
        Of the run's images, without channels.
    smallest_shape : int
        Fewest voxels or pixels an axis may have for the network.
    seed : int
        The run's.
    """

    build: Callable[[], ContrastiveModel]
    objective: AnyObjective
    views: Views
    settings: TrainingSettings
    shape: Shape
    smallest_shape: int
    seed: int

    @property
    def n_scans(self) -> int:
        """Samples of a step on one device."""
        n_devices = self.settings.devices * self.settings.num_nodes
        return max(_SMALLEST_STEP, math.ceil(self.settings.batch_size / n_devices))

    @property
    def n_scans_of_graph(self) -> int:
        """Samples whose graph is kept at once."""
        return min(self.settings.micro_batch_size or self.n_scans, self.n_scans)


@dataclass(frozen=True)
class _Timed:
    shape: Shape
    n_scans: int
    training_seconds: float
    encoding_seconds: float

    @property
    def seconds_per_voxel(self) -> float:
        return self.training_seconds / (self.n_scans * math.prod(self.shape))


@dataclass(frozen=True)
class _Memory:
    """Peak of a step: what is always there, and what grows with the voxels whose graph is kept."""

    fixed_bytes: float
    bytes_per_voxel: float

    def of(self, shape: Shape, n_scans: int) -> int:
        return int(self.fixed_bytes + self.bytes_per_voxel * n_scans * math.prod(shape))


def measure_throughput(
    work: Work,
    *,
    seconds: float,
    memory_limit: int | None,
    clock: Callable[[], float],
    progress: Progress = SILENT,
) -> Throughput:
    """Time real training steps on synthetic images.

    Parameters
    ----------
    work : Work
        Of several devices one is measured, with its share of the batch.
    seconds : float
        About how long it may take. Where that is too short for a step with the configured shape,
        time is extrapolated from smaller images, in proportion to voxels or pixels.
    memory_limit : int or None
        Bytes; no step is tried that is expected to need more than four fifths of it.
    clock : callable
        Tells the time in seconds.
    progress : Progress
        Told about the steps.
    """
    shape, end = work.shape, clock() + seconds
    shapes = list(dict.fromkeys(_shrunk(shape, factor, work.smallest_shape) for factor in (4, 2, 1)))
    with deterministic(), keeping_freed_memory(), progress.task("Timing training steps", None, "steps") as task:
        session = _open(work, shapes[0])
        memory = _measure_memory(session, shapes[0])
        timed = _time_step(session, shapes[0], _SMALLEST_STEP, clock, end)
        task.advance(scans=_SMALLEST_STEP, shape="×".join(map(str, timed.shape)))
        while (larger := _larger(timed, shapes, work, memory, end - clock(), memory_limit)) is not None:
            if larger[0] != timed.shape:
                session = _open(work, larger[0])
            timed = _time_step(session, *larger, clock, end)
            task.advance(scans=timed.n_scans, shape="×".join(map(str, timed.shape)))
    times = math.prod(shape) / math.prod(timed.shape) / timed.n_scans
    return Throughput(
        shape=timed.shape,
        n_scans=timed.n_scans,
        is_as_configured=timed.shape == shape and timed.n_scans == work.n_scans,
        training_seconds=timed.training_seconds * times,
        encoding_seconds=timed.encoding_seconds * times,
        memory_bytes=memory.of(shape, work.n_scans_of_graph),
        checkpoint_bytes=_size_of([session.tensors(), session.model.state_dict()]),
        device=session.fabric.device.type,
    )


def _shrunk(shape: Shape, factor: int, smallest: int) -> Shape:
    return tuple(min(n, max(smallest, -(-n // factor))) for n in shape)


def _larger(
    timed: _Timed, shapes: Sequence[Shape], work: Work, memory: _Memory, seconds: float, limit: int | None
) -> tuple[Shape, int] | None:
    """Return the largest step worth trying next, or None."""

    def fits(shape: Shape, n_scans: int) -> bool:
        enough = limit is None or memory.of(shape, min(n_scans, work.n_scans_of_graph)) < limit * (
            _LARGEST_SHARE_OF_MEMORY
        )
        return enough and timed.seconds_per_voxel * n_scans * math.prod(shape) < seconds

    for shape in reversed(shapes[shapes.index(timed.shape) + 1 :]):
        if fits(shape, _SMALLEST_STEP):
            return shape, _SMALLEST_STEP
    # More samples also where the shape cannot grow: overhead then weighs as little as in the run.
    n_scans = work.n_scans
    while n_scans > timed.n_scans:
        if fits(timed.shape, n_scans):
            return timed.shape, n_scans
        n_scans = n_scans // 2
    return None


class _Synthetic:
    """As many images as are asked for, all with the same noise; reading one costs a copy, as from a file."""

    def __init__(self, shape: Shape, n_scans: int) -> None:
        # Between 0 and 1, as the views of colours want them.
        self._image = torch.rand(shape, generator=torch.Generator().manual_seed(0))
        self._n_scans = n_scans

    def __len__(self) -> int:
        return self._n_scans

    def __getitem__(self, index: int) -> dict[str, torch.Tensor | int]:
        return {"image": self._image.clone(), "index": index}


def _open(work: Work, shape: Shape) -> Session:
    n_scans = max(work.n_scans, *_STEPS_OF_MEMORY)
    metadata = {
        name: torch.linspace(20, 80, n_scans) if kind == "continuous" else torch.arange(n_scans) % 2
        for name, kind in work.objective.columns.items()
    }
    model = work.build()
    data = TrainingData(
        images=_Synthetic((model.encoder.n_channels, *shape), n_scans),
        names=[f"synthetic {row}" for row in range(n_scans)],
        metadata=metadata,
        training_rows=range(n_scans),
    )
    alone = work.settings.model_copy(update={"devices": 1, "num_nodes": 1, "strategy": "auto", "sampling": "shuffle"})
    session = start_session(model, work.objective, work.views, data, settings=alone, seed=work.seed)
    session.model.train()
    return session


def _time_step(session: Session, shape: Shape, n_scans: int, clock: Callable[[], float], end: float) -> _Timed:
    micro = session.settings.micro_batch_size
    if micro is not None and micro < session.settings.batch_size:  # as many passes over the network as in the run
        micro = min(micro, n_scans // 2)
    settings = session.settings.model_copy(update={"micro_batch_size": micro})
    session = replace(session, settings=settings)
    training = _least(lambda: _train(session, n_scans), clock, end)
    encoding = _least(lambda: _encode(session, min(n_scans, micro or n_scans)), clock, end)
    return _Timed(shape, n_scans, training, encoding * n_scans / min(n_scans, micro or n_scans))


def _least(work: Callable[[], None], clock: Callable[[], float], end: float) -> float:
    """Return the shortest time of up to four runs, as long as there is time: the first one also warms up."""
    times: list[float] = []
    while len(times) < 4 and (not times or clock() + 4 * min(times) < end):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


def _train(session: Session, n_scans: int) -> None:
    for _ in train_batches(session, [list(range(n_scans))], Position()):
        pass
    _wait(session)


@torch.no_grad()
def _encode(session: Session, n_scans: int) -> None:
    with batch_statistics(session.model), session.read([list(range(n_scans))]) as reading:
        for rows, images in reading:
            session.encode_views(images, rows, epoch=-1)
    _wait(session)


def _wait(session: Session) -> None:
    if session.fabric.device.type == "cuda":
        torch.cuda.synchronize()


def _measure_memory(session: Session, shape: Shape) -> _Memory:
    """Measure what a step leaves behind, and how the peak of forward and backward pass grows with the batch."""
    whole = replace(session, settings=session.settings.model_copy(update={"micro_batch_size": None}))
    on_gpu = session.fabric.device.type == "cuda"
    before = 0 if on_gpu else resident_memory() or 0
    with _allocations(session) as allocations:
        _train(whole, _SMALLEST_STEP)
        kept = allocations.alive
    peaks = []
    for n_scans in _STEPS_OF_MEMORY:
        session.optimizer.zero_grad(set_to_none=True)
        with _allocations(session) as allocations:
            _differentiate(whole, n_scans)
            peaks.append(allocations.peak)
    session.optimizer.zero_grad(set_to_none=True)
    fewer, more = _STEPS_OF_MEMORY
    slope = max(0.0, (peaks[1] - peaks[0]) / ((more - fewer) * math.prod(shape)))
    read_ahead = 0 if on_gpu else _IMAGES_READ_AHEAD * _BYTES_PER_VOXEL * session.model.encoder.n_channels
    return _Memory(before + kept, _BESIDE_TENSORS * slope + read_ahead)


def _differentiate(session: Session, n_scans: int) -> None:
    with session.read([list(range(n_scans))]) as reading:
        for rows, images in reading:
            z1, z2, metadata = session.embed_views(images, rows, epoch=0)
            session.fabric.backward(session.objective(z1, z2, metadata))
    _wait(session)


@contextmanager
def _allocations(session: Session) -> Iterator[_OnCPU | _OnGPU]:
    if session.fabric.device.type == "cuda":
        yield _OnGPU()
        return
    with _OnCPU([*session.model.parameters(), *session.model.buffers()]) as allocations:
        yield allocations


class _OnGPU:
    """PyTorch's own count of a GPU's memory, weights included."""

    def __init__(self) -> None:
        torch.cuda.reset_peak_memory_stats()

    @property
    def alive(self) -> int:
        return torch.cuda.memory_allocated()

    @property
    def peak(self) -> int:
        return torch.cuda.max_memory_allocated()


class _OnCPU(TorchDispatchMode):
    """Adds up the tensors that are alive, as they come and go."""

    def __init__(self, known: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.peak, self.alive = 0, 0
        self._sizes: dict[int, int] = {tensor.untyped_storage()._cdata: 0 for tensor in known}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._note(tensor.untyped_storage())
        return result

    def _note(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key not in self._sizes:
            self._sizes[key] = storage.nbytes()
            self.alive += storage.nbytes()
            self.peak = max(self.peak, self.alive)
            weakref.finalize(storage, self._forget, key)

    def _forget(self, key: int) -> None:
        self.alive -= self._sizes.pop(key, 0)


def _size_of(content: Any) -> int:
    tensors = [leaf for leaf in tree_leaves(content) if isinstance(leaf, torch.Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
