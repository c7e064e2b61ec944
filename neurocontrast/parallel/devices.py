"""Processor and GPUs of this machine, the place of a process among others, and how freed memory is kept."""

import contextlib
import ctypes
import os
import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from neurocontrast.exceptions import ConfigError

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's mallopt(3)
_LARGEST_OF_GLIBC = 2**25

COMMAND = "NEUROCONTRAST_COMMAND"
"""Environment variable with the number of the process that the command line is; its other processes inherit it."""


def describe_processor() -> dict[str, str | int]:
    """Return name, cores, and the cores that affinity and the quota of a container leave to this process."""
    import joblib

    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.is_file() else ""
    named = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    name = named[1] if named else platform.processor() or platform.machine()
    return {"name": name, "n_cores": os.cpu_count() or 1, "n_usable": joblib.cpu_count()}


def usable_accelerator(
    asked: str, n_devices: int = 1, *, section: str, training: str = "32-true"
) -> Literal["cpu", "cuda"]:
    """Return 'cpu' or 'cuda' for the ``accelerator`` of a section, or refuse what this machine cannot do.

    Each of `n_devices` processes needs a GPU of its own; `training` is the precision of training.
    """
    import torch

    n_there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked == "cpu" or (asked == "auto" and not n_there):
        if training != "32-true":
            raise ConfigError(
                f"{section}.precision: '{training}' is for GPUs. On a CPU PyTorch's half-precision weight gradients "
                "of 3D convolutions are wrong (measured with 2.13: NaN, or a cosine of 0.5 to float32). Use '32-true'."
            )
        return "cpu"
    if not n_there:
        raise ConfigError(
            f"{section}.accelerator: 'cuda' asked for, but PyTorch sees no GPU here. Use 'cpu' or 'auto'."
        )
    if n_devices > n_there:
        raise ConfigError(
            f"{section}.devices: {n_devices} asked for, but PyTorch sees {n_there} GPU(s) here. "
            f"Use as many, or set {section}.accelerator to 'cpu'."
        )
    return "cuda"


class Launched(NamedTuple):
    """The place of a process among others: what started it, its number, and how many there are here and in all."""

    by: Literal["torchrun", "srun", "fabric"] | None = None
    rank: int = 0
    local_rank: int = 0
    n_processes: int = 1
    n_local: int = 1


def launched(environment: Mapping[str, str] | None = None) -> Launched:
    """Return the place of this process; `srun` is known by its step, since a batch script is one process only.

    Fabric starts the other processes of a command, which are known by their parent's number in
    `COMMAND`.
    """
    given = os.environ if environment is None else environment
    if "TORCHELASTIC_RUN_ID" in given:
        n_processes = int(given["WORLD_SIZE"])
        n_local = int(given.get("LOCAL_WORLD_SIZE") or n_processes)
        return Launched(
            "torchrun", int(given["RANK"]), int(given["LOCAL_RANK"]), n_processes, n_local
        )
    n_tasks = int(given.get("SLURM_STEP_NUM_TASKS") or 1)
    if n_tasks > 1:
        # Such as 4(x2), or 2,1; a step that does not say has one node.
        tasks = given.get("SLURM_STEP_TASKS_PER_NODE") or given["SLURM_STEP_NUM_TASKS"]
        even = re.fullmatch(r"(\d+)(\(x\d+\))?", tasks)
        if even is None:
            raise ConfigError(
                f"srun: this step has {tasks} tasks on its nodes, and each node must have as many. "
                "Set srun --ntasks-per-node instead of --ntasks."
            )
        return Launched(
            "srun", int(given["SLURM_PROCID"]), int(given["SLURM_LOCALID"]), n_tasks, int(even[1])
        )
    if given.get(COMMAND, str(os.getpid())) != str(os.getpid()) and "LOCAL_RANK" in given:
        rank = int(given["LOCAL_RANK"])
        n_processes = int(given["WORLD_SIZE"])
        return Launched("fabric", rank, rank, n_processes, n_processes)
    return Launched()


def refuse_several(command: str) -> None:
    """Refuse processes that torchrun or srun has started for a command that works in one."""
    place = launched()
    if place.n_processes > 1:
        raise ConfigError(
            f"{command}: works in one process, and {place.by} started {place.n_processes}. Start one."
        )


@contextlib.contextmanager
def keeping_freed_memory() -> Iterator[None]:
    """Let the C library keep what is freed, until the end of the block.

    glibc gives every large array back to the kernel, which clears its pages for the next one: up to
    a quarter of the time of a training step on a CPU (``benchmarks/training``). ``MALLOC_…`` and
    ``GLIBC_TUNABLES`` go before this.
    """
    is_set = any(name.startswith("MALLOC_") for name in os.environ)
    libc: Any = None
    if not is_set and "malloc" not in os.environ.get("GLIBC_TUNABLES", ""):
        with contextlib.suppress(OSError):
            libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        yield
        return
    libc.mallopt(_MMAP_THRESHOLD, 2**31 - 1)
    libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    try:
        yield
    finally:
        # What glibc's own adaptation ends with in a program that uses large arrays.
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST_OF_GLIBC)
        libc.mallopt(_TRIM_THRESHOLD, 2 * _LARGEST_OF_GLIBC)
        libc.malloc_trim(0)
