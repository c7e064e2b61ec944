"""Start or connect the processes of one training or embedding, by Lightning Fabric.

With ``devices`` above 1, the command line starts further processes itself: Fabric runs the same
command once more for each process after the first. With torchrun or srun, the launcher starts all
processes.
"""

import ctypes
import inspect
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeVar

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
from neurocontrast.parallel.devices import (
    COMMAND,
    Launched,
    launched,
    usable_accelerator,
)
from neurocontrast.parallel.hardware import Hardware

_PATIENCE = timedelta(days=7)
"""Longest wait for the first process, which may preprocess a cohort; the death of a process is
noticed without waiting."""
_DEATH_SIGNAL = 1
"""Number of the option PR_SET_PDEATHSIG of the Linux function prctl(2)."""
_LOST = (
    "another process of this run has ended, and this one cannot go on alone. If it has not said "
    "why, it was killed, perhaps for lack of memory. The last checkpoint, if there is one, is "
    "kept: continue with --resume."
)

Result = TypeVar("Result")


@dataclass(frozen=True)
class Engine:
    """Lightning Fabric, which runs the network on its device, and the processes of a training.

    `launch` and `joined` make the engine.
    """

    fabric: Fabric
    processes: Processes


@contextmanager
def joined(hardware: Hardware) -> Iterator[Engine]:
    """Start or connect the processes of a training, yield an `Engine`, and disconnect at the end.

    An `Engine` has Lightning Fabric, which runs the network on its device, and the processes. Only
    one process shows an error: the other processes raise `OtherProcessEnded`, also if their
    connection was lost.
    """
    engine = launch(hardware)
    processes = engine.processes
    try:
        yield engine
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


def launch(hardware: Hardware) -> Engine:
    """Start or connect the processes of a training, and return an `Engine` with their connection.

    An `Engine` has Lightning Fabric, which runs the network on its device, and the processes. The
    processes stay connected until they end; `joined` calls this function, and disconnects them when
    its context ends.
    """
    process = launched()
    accelerator = usable_accelerator(
        hardware.accelerator, hardware.devices, section="training", training=hardware.precision
    )
    _check_number(hardware, process)
    # Lightning names each process on standard error.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    try:
        return _launch_fabric(hardware, accelerator, process)
    except ValueError as error:  # of Fabric, where SLURM's tasks differ from these settings
        raise ConfigError(f"training.devices, training.num_nodes: {error}") from error
    except RuntimeError as error:
        if not _is_lost_connection(error):
            raise
        raise TrainingError(
            f"process {process.rank} cannot reach the other processes of this run "
            f"({str(error).splitlines()[0]}). Are all still running, and do their machines' names "
            "lead to addresses that the others can connect to? GLOO_SOCKET_IFNAME, or "
            "NCCL_SOCKET_IFNAME, names the network device to use."
        ) from error


def _check_number(hardware: Hardware, process: Launched) -> None:
    """Refuse `hardware` that asks for another number of processes than the launcher started."""
    starts = process.by is None and hardware.num_nodes == 1 and hardware.devices > 1
    if starts and COMMAND not in os.environ:
        raise ConfigError(
            f"training.devices: {hardware.devices} processes are started by the command line, "
            "and a call from Python is one. Run `neurocontrast`, or start this script with "
            f"torchrun --nproc-per-node {hardware.devices}."
        )
    n_wanted = hardware.n_processes
    if starts or process.n_processes == n_wanted:
        return
    started = "this is"
    if process.by is not None:
        started = f"{process.by} started"
    wanted = f"{n_wanted} process"
    if n_wanted > 1:
        wanted = f"{n_wanted} processes"
    remedy = "Set"
    if hardware.num_nodes > 1:
        remedy = "Start them with torchrun or srun, or set"
    raise ConfigError(
        f"training.devices × training.num_nodes: {hardware.devices} × {hardware.num_nodes} = "
        f"{wanted}, but {started} {process.n_processes}. {remedy} both to that."
    )


def _launch_fabric(
    hardware: Hardware, accelerator: Literal["cpu", "cuda"], process: Launched
) -> Engine:
    """Launch Lightning Fabric, and connect the processes of a training if there are several.

    Returned is an `Engine`, with Fabric and the connection of the processes. `process` says which
    launcher started this process.
    """
    is_one = hardware.n_processes == 1
    strategy: str | DDPStrategy = "auto"
    if not is_one:
        strategy = _averaging_gradients()
    fabric = Fabric(
        accelerator=accelerator,
        devices=hardware.devices,
        num_nodes=hardware.num_nodes,
        precision=hardware.precision,
        strategy=strategy,
        plugins=[_environment_of(process.by)],
    )
    fabric.launch()
    if is_one:
        return Engine(fabric, Processes())
    group = dist.new_group(backend="gloo", timeout=_PATIENCE)
    return Engine(fabric, Processes(fabric.global_rank, fabric.world_size, group))


def _averaging_gradients() -> DDPStrategy:
    """Return the strategy (PyTorch's DDP) by which Fabric averages gradients over processes.

    Buffers are not synchronised: they are equal in all processes, or differ on purpose, as batch
    statistics of each process.
    """
    # PyTorch has renamed the option since 2.6.
    if "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters:
        return DDPStrategy(forward_sync_buffers=False)
    return DDPStrategy(broadcast_buffers=False)


def after_first(
    processes: Processes,
    first: Callable[[], Result],
    follow: Callable[[Any], Result],
    *,
    tell: Callable[[Result], object],
) -> Result:
    """Call one function in the first process, and then another in all other processes.

    Parameters
    ----------
    processes : Processes
        Processes of the run, all of which must call.
    first : function
        Function for the first process.
    follow : function
        Function for the other processes, called with the content that `tell` returned in the first
        process.
    tell : function
        Function that turns the result of `first` into JSON-ready content for the other processes.

    Returns
    -------
    object
        Result of `first` or `follow`.

    Raises
    ------
    OtherProcessEnded
        Raised in the other processes if `first` fails.
    """
    if not processes.is_first:
        received = processes.from_first(None)
        if "exit_code" in received:
            raise OtherProcessEnded(
                "the first process of this run has ended, and says why.", received["exit_code"]
            )
        return follow(received["content"])
    try:
        result = first()
    except NeurocontrastError as error:
        processes.from_first({"exit_code": error.exit_code})
        raise
    processes.from_first({"content": tell(result)})
    return result


def _environment_of(launcher: str | None) -> ClusterEnvironment:
    """Return the object by which Lightning Fabric reads the environment of a launcher.

    `launcher`, such as torchrun, started this process; None if no launcher did. By default, Fabric
    treats every process within a SLURM job as started by srun.
    """
    if launcher == "torchrun":
        return TorchElasticEnvironment()
    if launcher == "srun":
        # Lightning reads options of the job, and a step has options of its own.
        os.environ["SLURM_NTASKS_PER_NODE"] = str(launched().n_local)
        return SLURMEnvironment()
    if launcher == "fabric":
        # End with the command that started this process, even if the command is killed: NCCL over
        # shared memory would not notice, and the process would hold its GPU.
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != int(os.environ[COMMAND]):
            raise OtherProcessEnded(_LOST)
    else:
        os.environ.pop("LOCAL_RANK", None)  # of another program; Fabric would start nothing
    return LightningEnvironment()


def _is_lost_connection(error: RuntimeError) -> bool:
    """Tell by an error's type or text whether communication failed as another process has ended."""
    return (
        isinstance(error, dist.DistError)
        or "gloo" in str(error).lower()
        or "closed by peer" in str(error)
    )
