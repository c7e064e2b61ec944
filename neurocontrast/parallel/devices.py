"""Find the processor, GPUs and launcher of a program, and keep freed memory for reuse."""

import contextlib
import ctypes
import os
import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from neurocontrast.exceptions import ConfigError

_TRIM_THRESHOLD = -1
"""Number of the option M_TRIM_THRESHOLD of glibc's function mallopt(3)."""
_MMAP_THRESHOLD = -3
"""Number of the option M_MMAP_THRESHOLD of glibc's function mallopt(3)."""
_LARGEST_OF_GLIBC = 2**25
"""Largest M_MMAP_THRESHOLD, in bytes, to which glibc adapts without options."""

COMMAND = "NEUROCONTRAST_COMMAND"
"""Environment variable with the process ID of the command line's process, inherited by the
processes that the command starts."""


def describe_processor() -> dict[str, str | int]:
    """Return the processor's name, the number of cores, and the number this process may use.

    CPU affinity and the quota of a container can limit the number of usable cores.
    """
    import joblib

    name = _name_of_processor() or platform.processor() or platform.machine()
    return {"name": name, "n_cores": os.cpu_count() or 1, "n_usable": joblib.cpu_count()}


def _name_of_processor() -> str:
    """Return the processor's model name on Linux, or an empty text on other systems."""
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.is_file():
        return ""
    match = re.search(r"^model name\s*: (.+)$", cpuinfo.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        return ""
    return match[1]


def usable_accelerator(
    asked: str, n_devices: int = 1, *, section: str, training: str = "32-true"
) -> Literal["cpu", "cuda"]:
    """Choose the device, 'cpu' or 'cuda', for a setting ``accelerator``.

    Parameters
    ----------
    asked : str
        Setting: ``cpu``, ``cuda`` or ``auto``.
    n_devices : int
        Number of processes, each of which needs a GPU of its own.
    section : str
        Name of the configuration section, for messages.
    training : str
        Precision of training, which must be ``32-true`` on a CPU.

    Raises
    ------
    ConfigError
        If this machine has too few GPUs, or the precision needs a GPU.
    """
    import torch

    n_gpus = 0
    if torch.cuda.is_available():
        n_gpus = torch.cuda.device_count()
    if asked == "cpu" or (asked == "auto" and not n_gpus):
        if training != "32-true":
            raise ConfigError(
                f"{section}.precision: '{training}' is for GPUs. On a CPU PyTorch's half-precision "
                "weight gradients of 3D convolutions are wrong (measured with 2.13: NaN, or a "
                "cosine of 0.5 to float32). Use '32-true'."
            )
        return "cpu"
    if not n_gpus:
        raise ConfigError(
            f"{section}.accelerator: 'cuda' asked for, but PyTorch sees no GPU here. "
            "Use 'cpu' or 'auto'."
        )
    if n_devices > n_gpus:
        raise ConfigError(
            f"{section}.devices: {n_devices} asked for, but PyTorch sees {n_gpus} GPU(s) here. "
            f"Use as many, or set {section}.accelerator to 'cpu'."
        )
    return "cuda"


class Launched(NamedTuple):
    """Launcher that started this process, rank of this process, and number of processes.

    Without a launcher, `by` is None and the process is the only one.
    """

    by: Literal["torchrun", "srun", "fabric"] | None = None
    rank: int = 0
    """Number of this process among all processes of the run."""
    local_rank: int = 0
    """Number of this process among the processes on this machine."""
    n_processes: int = 1
    n_local: int = 1
    """Number of processes on this machine."""


def launched(environment: Mapping[str, str] | None = None) -> Launched:
    """Return which launcher started this process, and the rank of this process among all processes.

    `srun` is recognised by the variables of a SLURM step, because a batch script without `srun` is
    a single process. If the command line (``neurocontrast``) has Lightning Fabric start further
    processes, they are recognised by an environment variable, named by the constant `COMMAND`, that
    holds the process ID of the first process. Without a launcher, the result is that of a single
    process of rank 0.

    Parameters
    ----------
    environment : mapping, optional
        Environment variables; by default the variables of this process.
    """
    if environment is None:
        environment = os.environ
    if "TORCHELASTIC_RUN_ID" in environment:
        n_processes = int(environment["WORLD_SIZE"])
        n_local = int(environment.get("LOCAL_WORLD_SIZE") or n_processes)
        rank = int(environment["RANK"])
        return Launched("torchrun", rank, int(environment["LOCAL_RANK"]), n_processes, n_local)
    if int(environment.get("SLURM_STEP_NUM_TASKS") or 1) > 1:
        return _launched_by_srun(environment)
    is_child = environment.get(COMMAND, str(os.getpid())) != str(os.getpid())
    if is_child and "LOCAL_RANK" in environment:
        rank = int(environment["LOCAL_RANK"])
        n_processes = int(environment["WORLD_SIZE"])
        return Launched("fabric", rank, rank, n_processes, n_processes)
    return Launched()


def _launched_by_srun(environment: Mapping[str, str]) -> Launched:
    """Return the rank of this process and the number of processes, in a SLURM step of `srun`.

    They are read from the variables in `environment`. A step with different numbers of tasks on its
    nodes is refused.
    """
    n_tasks = environment["SLURM_STEP_NUM_TASKS"]
    # Such as 4(x2), or 2,1; a step that does not say has one node.
    tasks = environment.get("SLURM_STEP_TASKS_PER_NODE") or n_tasks
    even = re.fullmatch(r"(\d+)(\(x\d+\))?", tasks)
    if even is None:
        raise ConfigError(
            f"srun: this step has {tasks} tasks on its nodes, and each node must have as many. "
            "Set srun --ntasks-per-node instead of --ntasks."
        )
    rank = int(environment["SLURM_PROCID"])
    return Launched("srun", rank, int(environment["SLURM_LOCALID"]), int(n_tasks), int(even[1]))


def refuse_several(command: str) -> None:
    """Refuse several processes, started by torchrun or srun, for a command that needs one."""
    process = launched()
    if process.n_processes > 1:
        raise ConfigError(
            f"{command}: works in one process, and {process.by} started {process.n_processes}. "
            "Start one."
        )


@contextlib.contextmanager
def keeping_freed_memory() -> Iterator[None]:
    """Let the C library reuse freed memory for new arrays, until the context ends.

    Without this, glibc returns the memory of every large array to the kernel, which clears pages
    for the next array; this takes up to a quarter of the time of a training step on a CPU
    (``benchmarks/training``). Nothing is changed if the user has set ``MALLOC_…`` or
    ``GLIBC_TUNABLES``.
    """
    libc = _adaptable_glibc()
    if libc is None:
        yield
        return
    libc.mallopt(_MMAP_THRESHOLD, 2**31 - 1)
    libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    try:
        yield
    finally:
        # The thresholds to which glibc adapts in a program that uses large arrays.
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST_OF_GLIBC)
        libc.mallopt(_TRIM_THRESHOLD, 2 * _LARGEST_OF_GLIBC)
        libc.malloc_trim(0)


def _adaptable_glibc() -> Any:
    """Return the C library glibc, loaded as a `ctypes.CDLL`, if memory options may be changed.

    None is returned if the C library of this process is another than glibc, or if memory options
    are set by the environment variables ``MALLOC_…`` or ``GLIBC_TUNABLES``.
    """
    variables = [name for name in os.environ if name.startswith("MALLOC_")]
    if variables or "malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return None
    with contextlib.suppress(OSError):
        libc = ctypes.CDLL(None)
        if hasattr(libc, "gnu_get_libc_version"):
            return libc
    return None
