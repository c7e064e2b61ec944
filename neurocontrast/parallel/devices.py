"""Find processor, GPUs and other processes of a program, and keep freed memory."""

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
"""M_TRIM_THRESHOLD of glibc's mallopt(3)."""
_MMAP_THRESHOLD = -3
"""M_MMAP_THRESHOLD of glibc's mallopt(3)."""
_LARGEST_OF_GLIBC = 2**25
"""Largest threshold in bytes to which glibc adapts by itself."""

COMMAND = "NEUROCONTRAST_COMMAND"
"""Environment variable with the process number of a command, which its processes inherit."""


def describe_processor() -> dict[str, str | int]:
    """Return the processor's name, its cores, and the cores that this process may use.

    Affinity and the quota of a container can leave fewer cores to a process.
    """
    import joblib

    name = _name_of_processor() or platform.processor() or platform.machine()
    return {"name": name, "n_cores": os.cpu_count() or 1, "n_usable": joblib.cpu_count()}


def _name_of_processor() -> str:
    """Return Linux's name of the processor's model; "" on other systems."""
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
    """Choose 'cpu' or 'cuda' for a section's ``accelerator``.

    Parameters
    ----------
    asked : str
        ``cpu``, ``cuda`` or ``auto``.
    n_devices : int
        Processes, of which each needs a GPU.
    section : str
        Name of the section, with which messages begin.
    training : str
        Precision of training, which must be ``32-true`` on a CPU.

    Raises
    ------
    ConfigError
        If this machine has too few GPUs, or the precision needs one.
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
    """Launcher of this process, its number, and numbers of processes."""

    by: Literal["torchrun", "srun", "fabric"] | None = None
    rank: int = 0
    """Number among all processes."""
    local_rank: int = 0
    """Number among the processes of this machine."""
    n_processes: int = 1
    n_local: int = 1
    """Processes on this machine."""


def launched(environment: Mapping[str, str] | None = None) -> Launched:
    """Tell which launcher started this process, and this process's number.

    `srun` is recognised by its step, since a batch script alone is one process. Processes that
    Fabric starts for a command are recognised by their parent's number in `COMMAND`.

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
    """Return the rank of this process and the number of processes of a SLURM step.

    Nodes with different numbers of tasks are refused.
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
    """Refuse processes that torchrun or srun has started for a command that works in one."""
    process = launched()
    if process.n_processes > 1:
        raise ConfigError(
            f"{command}: works in one process, and {process.by} started {process.n_processes}. "
            "Start one."
        )


@contextlib.contextmanager
def keeping_freed_memory() -> Iterator[None]:
    """Let the C library keep freed memory for new arrays, until the end of the block.

    glibc gives every large array back to the kernel, which clears its pages for the next array: up
    to a quarter of the time of a training step on a CPU (``benchmarks/training``). Nothing is done
    where ``MALLOC_…`` or ``GLIBC_TUNABLES`` are set.
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
    """Return glibc, unless the user has set its thresholds or there is another C library."""
    variables = [name for name in os.environ if name.startswith("MALLOC_")]
    if variables or "malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return None
    with contextlib.suppress(OSError):
        libc = ctypes.CDLL(None)
        if hasattr(libc, "gnu_get_libc_version"):
            return libc
    return None
