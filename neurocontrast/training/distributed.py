"""The processes that train one model together, and how Lightning Fabric runs them."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments import (
    ClusterEnvironment,
    LightningEnvironment,
    SLURMEnvironment,
    TorchElasticEnvironment,
)
from lightning_fabric.strategies import DDPStrategy
from torch import nn

from neurocontrast.collectives import on_this_process_only
from neurocontrast.exceptions import ConfigError
from neurocontrast.training.launched import launched
from neurocontrast.training.settings import TrainingSettings

__all__ = ["Processes", "accelerator_of", "is_lost_connection", "launch", "leave"]

_PATIENCE = timedelta(days=7)
"""How long processes wait for the first, which may preprocess a whole cohort; one that dies is noticed at once."""


@dataclass(frozen=True)
class Processes:
    """The processes of a run; mostly there is one.

    What they tell one another here goes over the CPU, beside the collectives of the training, so that a GPU is
    not waited for.

    Parameters
    ----------
    rank, size : int
        The number of this one, and of all.
    group : ProcessGroup, optional
        Over which they talk.
    """

    rank: int = 0
    size: int = 1
    group: Any = None

    @property
    def is_first(self) -> bool:
        """Whether this is the one that writes files and tells of progress."""
        return self.rank == 0

    def share(self, rows: Sequence[int]) -> list[int]:
        """Return this process's contiguous part of a batch; the parts' sizes differ by at most one."""
        first, last = (len(rows) * rank // self.size for rank in (self.rank, self.rank + 1))
        return list(rows[first:last])

    @contextlib.contextmanager
    def divided(self, batches: Sequence[Sequence[int]], *, whole: bool = False) -> Iterator[list[list[int]]]:
        """Give this process's part of every batch, so that each row is seen once by all of them together.

        Where a batch has fewer rows than there are processes, and where `whole` is set, every process takes all
        rows instead, and what it computes within is its own: the same everywhere.
        """
        if self.size > 1 and (whole or min(map(len, batches), default=0) < self.size):
            with on_this_process_only():
                yield [list(rows) for rows in batches]
        else:
            yield [self.share(rows) for rows in batches]

    def largest(self, number: int) -> int:
        """Return the largest of the processes' numbers; all must ask."""
        if self.size == 1:
            return number
        found = torch.tensor([number])
        dist.all_reduce(found, op=dist.ReduceOp.MAX, group=self.group)
        return int(found.item())

    def wait_for_all(self) -> None:
        """Go on when all processes have come here."""
        self.largest(0)

    def from_first(self, content: Any) -> Any:
        """Return the first process's content, which must be JSON; all must ask."""
        if self.size == 1:
            return content
        text = json.dumps(content).encode() if self.is_first else b""
        sent = torch.zeros(self.largest(len(text)), dtype=torch.uint8)
        if self.is_first:
            sent = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        dist.broadcast(sent, src=0, group=self.group)
        return json.loads(sent.numpy().tobytes())


class _Replicas(DDPStrategy):
    """Fabric's data parallel strategy, with gradients averaged by `average_gradients` in place of PyTorch's wrapper.

    The wrapper expects one backward pass a step, and sums in an order that a resumed run would not repeat.
    """

    def setup_module(self, module: nn.Module) -> nn.Module:  # type: ignore[override]
        return module


def launch(settings: TrainingSettings) -> tuple[Fabric, Processes]:
    """Join the run's other processes, if there are any.

    Parameters
    ----------
    settings : TrainingSettings
        Its accelerator, devices, nodes, strategy and precision.

    Raises
    ------
    ConfigError
        Where the settings ask for another number of processes than were started.
    """
    accelerator, place = accelerator_of(settings), launched()
    n_processes = settings.devices * settings.num_nodes
    if place.n_processes != n_processes:
        raise ConfigError(
            f"training.devices × training.num_nodes: {settings.devices} × {settings.num_nodes} = {n_processes} "
            f"process{'es' if n_processes > 1 else ''}, but {_started_by(place.by)} {place.n_processes}. "
            f"{'Start them with torchrun or srun, or set' if settings.num_nodes > 1 else 'Set'} both to that."
        )
    several = n_processes > 1 or settings.strategy == "ddp"
    environment = _environment_of(place.by)
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it tells each process's number on standard error
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=settings.devices,
            num_nodes=settings.num_nodes,
            precision=settings.precision,
            strategy=_Replicas() if several else "auto",
            plugins=[environment],
        )
        fabric.launch()
    except ValueError as error:  # how Fabric tells that SLURM's tasks and these settings differ
        raise ConfigError(f"training.devices, training.num_nodes: {error}") from error
    if not several:
        return fabric, Processes()
    group = dist.new_group(backend="gloo", timeout=_PATIENCE)
    return fabric, Processes(fabric.global_rank, fabric.world_size, group)


def leave(processes: Processes) -> None:
    """Take leave of the other processes, at the end of a run that has gone well."""
    if processes.group is not None:
        processes.wait_for_all()
        dist.destroy_process_group()


def _environment_of(launcher: str | None) -> ClusterEnvironment:
    # Given, not left to Fabric: it takes every process of a SLURM job for one that srun has started.
    try:
        return {"torchrun": TorchElasticEnvironment, "srun": SLURMEnvironment}.get(
            launcher or "", LightningEnvironment
        )()
    except RuntimeError as error:
        raise ConfigError(f"srun: {error}") from error


def is_lost_connection(error: RuntimeError) -> bool:
    """Tell a collective that another process has ended from other errors; gloo says it in words only."""
    return isinstance(error, dist.DistError) or "gloo" in str(error) or "closed by peer" in str(error)


def accelerator_of(settings: TrainingSettings) -> str:
    """Return 'cpu' or 'cuda', or refuse what this machine cannot do."""
    n_there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    accelerator = settings.accelerator
    if accelerator == "auto":
        accelerator = "cuda" if n_there else "cpu"
    if accelerator == "cuda" and not n_there:
        raise ConfigError("training.accelerator: 'cuda' asked for, but PyTorch sees no GPU here. Use 'cpu' or 'auto'.")
    if accelerator == "cuda" and settings.devices > n_there:
        raise ConfigError(
            f"training.devices: {settings.devices} asked for, but PyTorch sees {n_there} GPU(s) here. "
            "Use as many, or set training.accelerator to 'cpu'."
        )
    if accelerator == "cpu" and settings.precision != "32-true":
        raise ConfigError(
            f"training.precision: '{settings.precision}' is for GPUs. On a CPU PyTorch's half-precision weight "
            "gradients of 3D convolutions are wrong (measured with 2.13: NaN, or a cosine of 0.5 to float32). "
            "Use '32-true'."
        )
    return accelerator


def _started_by(launcher: str | None) -> str:
    return "this is" if launcher is None else f"{launcher} started"
