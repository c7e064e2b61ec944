"""Start or join the processes of one training or embedding, by Lightning Fabric, and let them speak as one.

The command line starts the processes of ``devices`` itself: Fabric runs the same command once more
for each of the others. torchrun and srun start all of them.
"""

import ctypes
import inspect
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

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

from neurocontrast.exceptions import (
    ConfigError,
    NeurocontrastError,
    OtherProcessEnded,
    TrainingError,
)
from neurocontrast.parallel.collectives import Processes
from neurocontrast.parallel.devices import COMMAND, launched, usable_accelerator

# Processes wait for the first, which may preprocess a whole cohort; one that dies is noticed at
# once.
_PATIENCE = timedelta(days=7)
_LOST = (
    "another process of this run has ended, and this one cannot go on alone. If it has not said why, it was killed, "
    "perhaps for lack of memory. The last checkpoint, if there is one, is kept: continue with --resume."
)

Made = TypeVar("Made")


@contextmanager
def joined(
    *, accelerator: str, devices: int, num_nodes: int, precision: Any
) -> Iterator[tuple[Fabric, Processes]]:
    """Start or join the processes of a training, and leave them at its end; what one of them says, no other repeats.

    The parameters are the settings of the section ``training`` with these names.
    `OtherProcessEnded` is raised in place of errors that another process shows, and of lost
    connections.
    """
    fabric, processes = launch(
        accelerator=accelerator, devices=devices, num_nodes=num_nodes, precision=precision
    )
    try:
        yield fabric, processes
        if processes.group is not None:
            processes.wait_for_all()
            dist.destroy_process_group()
    except RuntimeError as error:
        if processes.size == 1 or not _is_lost_connection(error):
            raise
        raise OtherProcessEnded(_LOST) from error
    except TrainingError as error:
        if processes.is_first:
            raise
        raise OtherProcessEnded(str(error), error.exit_code) from error


def launch(
    *, accelerator: str, devices: int, num_nodes: int, precision: Any
) -> tuple[Fabric, Processes]:
    """Start or join the processes of a training, as `joined` does, without leaving them."""
    place = launched()
    chosen = usable_accelerator(accelerator, devices, section="training", training=precision)
    starts = place.by is None and num_nodes == 1 and devices > 1
    if starts and COMMAND not in os.environ:
        raise ConfigError(
            f"training.devices: {devices} processes are started by the command line, and a call from Python is one. "
            f"Run `neurocontrast`, or start this script with torchrun --nproc-per-node {devices}."
        )
    if not starts and place.n_processes != devices * num_nodes:
        started = "this is" if place.by is None else f"{place.by} started"
        raise ConfigError(
            f"training.devices × training.num_nodes: {devices} × {num_nodes} = {devices * num_nodes} "
            f"process{'es' if devices * num_nodes > 1 else ''}, but {started} {place.n_processes}. "
            f"{'Start them with torchrun or srun, or set' if num_nodes > 1 else 'Set'} both to that."
        )
    logging.getLogger("lightning_fabric").setLevel(
        logging.WARNING
    )  # it names each process on standard error
    # Buffers are the same everywhere already, or meant to differ; PyTorch has renamed the option
    # since 2.6.
    options = inspect.signature(DistributedDataParallel).parameters
    syncing = "forward_sync_buffers" if "forward_sync_buffers" in options else "broadcast_buffers"
    unsynchronised: dict[str, Any] = {syncing: False}
    try:
        fabric = Fabric(
            accelerator=chosen,
            devices=devices,
            num_nodes=num_nodes,
            precision=precision,
            strategy=DDPStrategy(**unsynchronised) if devices * num_nodes > 1 else "auto",
            plugins=[_environment_of(place.by)],
        )
        fabric.launch()
        if devices * num_nodes == 1:
            return fabric, Processes()
        return fabric, Processes(
            fabric.global_rank, fabric.world_size, dist.new_group(backend="gloo", timeout=_PATIENCE)
        )
    except ValueError as error:  # Fabric's, where SLURM's tasks and these settings differ
        raise ConfigError(f"training.devices, training.num_nodes: {error}") from error
    except RuntimeError as error:
        if not _is_lost_connection(error):
            raise
        raise TrainingError(
            f"process {place.rank} cannot reach the other processes of this run ({str(error).splitlines()[0]}). Are "
            "all still running, and do their machines' names lead to addresses that the others can connect to? "
            "GLOO_SOCKET_IFNAME, or NCCL_SOCKET_IFNAME, names the network device to use."
        ) from error


def after_first(
    processes: Processes, first: Callable[[], tuple[Made, Any]], follow: Callable[[Any], Made]
) -> Made:
    """Call `first` in the first process and then `follow` in the others, which end where `first` fails.

    `first` returns its result, and JSON-ready content that `follow` is given.
    """
    if not processes.is_first:
        received = processes.from_first(None)
        if "exit_code" in received:
            raise OtherProcessEnded(
                "the first process of this run has ended, and says why.", received["exit_code"]
            )
        return follow(received["known"])
    try:
        made, known = first()
    except NeurocontrastError as error:
        processes.from_first({"exit_code": error.exit_code})
        raise
    processes.from_first({"known": known})
    return made


def _environment_of(launcher: str | None) -> ClusterEnvironment:
    # Given, not left to Fabric: it takes every process of a SLURM job for one that srun has
    # started.
    if launcher == "torchrun":
        return TorchElasticEnvironment()
    if launcher == "srun":
        # Lightning reads options of the job and its number; steps of one job have options and ports
        # of their own.
        job, step = (int(os.environ.get(f"SLURM_{name}_ID") or 0) for name in ("JOB", "STEP"))
        os.environ["SLURM_NTASKS_PER_NODE"] = str(launched().n_local)
        # Below the ports that systems hand out.
        os.environ.setdefault("MASTER_PORT", str(15_000 + (31 * job + step) % 17_000))
        return SLURMEnvironment()
    if launcher == "fabric":  # end with the command that started this process, however it ends
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != int(os.environ[COMMAND]):
            raise OtherProcessEnded(_LOST)
    else:
        os.environ.pop("LOCAL_RANK", None)  # of another program; Fabric would start nothing
    return LightningEnvironment()


def _is_lost_connection(error: RuntimeError) -> bool:
    """Return whether a collective failed because another process has ended."""
    return (
        isinstance(error, dist.DistError)
        or "gloo" in str(error).lower()
        or "closed by peer" in str(error)
    )
