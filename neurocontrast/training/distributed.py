"""Join the processes of a run by Lightning Fabric."""

from __future__ import annotations

import inspect
import logging
import os
import re
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
from torch.nn.parallel import DistributedDataParallel

from neurocontrast.collectives import Processes
from neurocontrast.exceptions import ConfigError, TrainingError
from neurocontrast.machine import Launched, launched, usable_accelerator
from neurocontrast.training.settings import TrainingSettings

__all__ = ["accelerator_of", "is_lost_connection", "launch", "launch_sharing", "leave"]

# Processes wait for the first, which may preprocess a whole cohort; one that dies is noticed at once.
_PATIENCE = timedelta(days=7)


def launch(settings: TrainingSettings) -> tuple[Fabric, Processes]:
    """Join the run's other processes; refuse settings that ask for another number of them."""
    accelerator, place = accelerator_of(settings), launched()
    n_processes = settings.devices * settings.num_nodes
    if place.n_processes != n_processes:
        started = "this is" if place.by is None else f"{place.by} started"
        raise ConfigError(
            f"training.devices × training.num_nodes: {settings.devices} × {settings.num_nodes} = {n_processes} "
            f"process{'es' if n_processes > 1 else ''}, but {started} {place.n_processes}. "
            f"{'Start them with torchrun or srun, or set' if settings.num_nodes > 1 else 'Set'} both to that."
        )
    return _join(place, accelerator, n_local=settings.devices, precision=settings.precision)


def launch_sharing(accelerator: str, *, section: str) -> tuple[torch.device, Processes]:
    """Join the processes that torchrun or srun has started, to share other work; return this one's device, and all."""
    place = launched()
    n_local = _tasks_per_node() if place.by == "srun" else int(os.environ.get("LOCAL_WORLD_SIZE") or place.n_processes)
    chosen = usable_accelerator(accelerator, n_local, section=section)
    fabric, processes = _join(place, chosen, n_local=n_local)
    return fabric.device, processes


def _join(place: Launched, accelerator: str, *, n_local: int, precision: Any = "32-true") -> tuple[Fabric, Processes]:
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it names each process on standard error
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=n_local,
            num_nodes=place.n_processes // n_local,
            precision=precision,
            strategy=_replicas() if place.n_processes > 1 else "auto",
            plugins=[_environment_of(place.by)],
        )
        fabric.launch()
        if place.n_processes == 1:
            return fabric, Processes()
        group = dist.new_group(backend="gloo", timeout=_PATIENCE)
    except ValueError as error:  # Fabric's, where SLURM's tasks and these settings differ
        raise ConfigError(f"training.devices, training.num_nodes: {error}") from error
    except RuntimeError as error:
        if not is_lost_connection(error):
            raise
        raise TrainingError(
            f"process {place.rank} cannot reach the other processes of this run ({str(error).splitlines()[0]}). Are "
            "all still running, and do their machines' names lead to addresses that the others can connect to? "
            "GLOO_SOCKET_IFNAME, or NCCL_SOCKET_IFNAME, names the network device to use."
        ) from error
    return fabric, Processes(fabric.global_rank, fabric.world_size, group)


def _replicas() -> DDPStrategy:
    # Buffers are the same everywhere already, or meant to differ; PyTorch has renamed the option since 2.6.
    options = inspect.signature(DistributedDataParallel).parameters
    name = "forward_sync_buffers" if "forward_sync_buffers" in options else "broadcast_buffers"
    unsynchronised: dict[str, Any] = {name: False}
    return DDPStrategy(**unsynchronised)


def leave(processes: Processes) -> None:
    """Leave the process group at the end of a successful run."""
    if processes.group is not None:
        processes.wait_for_all()
        dist.destroy_process_group()


def _environment_of(launcher: str | None) -> ClusterEnvironment:
    # Given, not left to Fabric: it takes every process of a SLURM job for one that srun has started.
    if launcher == "torchrun":
        return TorchElasticEnvironment()
    if launcher is None:
        return LightningEnvironment()
    # Lightning reads options of the job and its number; steps of one job have options and ports of their own.
    job, step = (int(os.environ.get(f"SLURM_{name}_ID") or 0) for name in ("JOB", "STEP"))
    os.environ["SLURM_NTASKS_PER_NODE"] = str(_tasks_per_node())
    os.environ.setdefault("MASTER_PORT", str(15_000 + (31 * job + step) % 17_000))  # below those that systems hand out
    return SLURMEnvironment()


def _tasks_per_node() -> int:
    # Such as 4(x2), or 2,1; a step that does not say has one node.
    tasks = os.environ.get("SLURM_STEP_TASKS_PER_NODE") or os.environ["SLURM_STEP_NUM_TASKS"]
    even = re.fullmatch(r"(\d+)(\(x\d+\))?", tasks)
    if even is None:
        raise ConfigError(
            f"srun: this step has {tasks} tasks on its nodes, and each node must have as many. "
            "Set srun --ntasks-per-node instead of --ntasks."
        )
    return int(even[1])


def is_lost_connection(error: RuntimeError) -> bool:
    """Return whether a collective failed because another process has ended."""
    return isinstance(error, dist.DistError) or "gloo" in str(error).lower() or "closed by peer" in str(error)


def accelerator_of(settings: TrainingSettings, *, section: str = "training") -> str:
    """Return 'cpu' or 'cuda', or refuse what this machine cannot do; `section` is that of the configuration."""
    accelerator = usable_accelerator(settings.accelerator, settings.devices, section=section)
    if accelerator == "cpu" and settings.precision != "32-true":
        raise ConfigError(
            f"{section}.precision: '{settings.precision}' is for GPUs. On a CPU PyTorch's half-precision weight "
            "gradients of 3D convolutions are wrong (measured with 2.13: NaN, or a cosine of 0.5 to float32). "
            "Use '32-true'."
        )
    return accelerator
