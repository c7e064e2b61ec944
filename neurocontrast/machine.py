"""Processor and GPUs of this machine, a process's place among others, and how freed memory is kept."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from neurocontrast.exceptions import ConfigError

__all__ = [
    "Launched",
    "describe_gpus",
    "describe_processor",
    "keeping_freed_memory",
    "launched",
    "usable_accelerator",
]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's mallopt(3)
_LARGEST_OF_GLIBC = 2**25

_n_keeping = 0


def describe_processor() -> dict[str, Any]:
    """Return name, cores, and the cores that affinity and the quota of a container leave to this process."""
    import joblib

    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.is_file() else ""
    named = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    name = named[1] if named else platform.processor() or platform.machine()
    return {"name": name, "n_cores": os.cpu_count() or 1, "n_usable": joblib.cpu_count()}


def usable_accelerator(asked: str, n_devices: int = 1, *, section: str) -> Literal["cpu", "cuda"]:
    """Return 'cpu' or 'cuda' for 'auto', 'cpu' or 'cuda', or refuse GPUs that this machine does not have.

    `section` is that of the configuration with the key ``accelerator``, for messages.
    """
    import torch

    n_there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked == "cpu" or (asked == "auto" and not n_there):
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


def describe_gpus() -> list[dict[str, Any]]:
    """Return name and memory of each GPU that PyTorch sees."""
    import torch

    found = []
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free, total = torch.cuda.mem_get_info(number)
        found.append({"name": torch.cuda.get_device_name(number), "total_bytes": total, "available_bytes": free})
    return found


class Launched(NamedTuple):
    """A process among others: what started it (None: no other), its number among all and on its machine."""

    by: Literal["torchrun", "srun"] | None = None
    rank: int = 0
    local_rank: int = 0
    n_processes: int = 1


def launched(environment: Mapping[str, str] | None = None) -> Launched:
    """Return this process's place; `srun` is known by its step, since a batch script itself is one process only."""
    given = os.environ if environment is None else environment
    if "TORCHELASTIC_RUN_ID" in given:
        return Launched("torchrun", int(given["RANK"]), int(given["LOCAL_RANK"]), int(given["WORLD_SIZE"]))
    n_tasks = int(given.get("SLURM_STEP_NUM_TASKS") or 1)
    if n_tasks > 1:
        return Launched("srun", int(given["SLURM_PROCID"]), int(given["SLURM_LOCALID"]), n_tasks)
    return Launched()


@contextlib.contextmanager
def keeping_freed_memory() -> Iterator[None]:
    """Let the C library keep what is freed, until the end of the block.

    glibc gives every large array back to the kernel, which clears its pages for the next one: up to a quarter of the
    time of a training step on a CPU (``benchmarks/training.py``). ``MALLOC_…`` and ``GLIBC_TUNABLES`` go before this.
    """
    global _n_keeping
    libc = _glibc()
    if libc is None:
        yield
        return
    _n_keeping += 1
    libc.mallopt(_MMAP_THRESHOLD, 2**31 - 1)
    libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    try:
        yield
    finally:
        _n_keeping -= 1
        if not _n_keeping:
            # What glibc's own adaptation ends with in a program that uses large arrays.
            libc.mallopt(_MMAP_THRESHOLD, _LARGEST_OF_GLIBC)
            libc.mallopt(_TRIM_THRESHOLD, 2 * _LARGEST_OF_GLIBC)
            libc.malloc_trim(0)


def _glibc() -> Any:
    if any(name.startswith("MALLOC_") for name in os.environ) or "malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return None
    try:
        libc = ctypes.CDLL(None)
    except OSError:
        return None
    return libc if hasattr(libc, "gnu_get_libc_version") else None
