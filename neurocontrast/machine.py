"""What this machine has: processors, threads, memory, disks and GPUs."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import Any

__all__ = [
    "as_size",
    "available_memory",
    "describe_disk",
    "describe_gpus",
    "describe_processor",
    "describe_threads",
    "resident_memory",
    "total_memory",
]

_CGROUP = Path("/sys/fs/cgroup")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def describe_processor() -> dict[str, Any]:
    """Return the processor's name, its logical cores, and how many of them this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {"name": _processor_name(), "n_cores": os.cpu_count() or 1, "n_usable": min(usable, _core_quota(usable))}


def describe_threads() -> dict[str, Any]:
    """Return how many threads PyTorch computes with, and what the environment says of threads."""
    import torch

    return {
        "n_torch": torch.get_num_threads(),
        "environment": {name: os.environ[name] for name in _THREAD_VARIABLES if name in os.environ},
    }


def describe_gpus() -> list[dict[str, Any]]:
    """Return name and memory of each GPU that PyTorch sees."""
    import torch

    found = []
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free, total = torch.cuda.mem_get_info(number)
        found.append({"name": torch.cuda.get_device_name(number), "total_bytes": total, "available_bytes": free})
    return found


def total_memory() -> int | None:
    """Return the bytes of memory, within the limit of a container or batch job; None where nobody tells."""
    known = [amount for amount in (_meminfo().get("MemTotal"), _cgroup_limit()) if amount is not None]
    return min(known, default=None)


def available_memory() -> int | None:
    """Return the bytes of memory that can be had without swapping; None where nobody tells."""
    free, limit, used = _meminfo().get("MemAvailable"), _cgroup_limit(), _read_number(_CGROUP / "memory.current")
    left = None if limit is None else max(0, limit - (used or 0))
    return min((amount for amount in (free, left) if amount is not None), default=None)


def resident_memory() -> int | None:
    """Return the bytes of memory that this process holds now; None where nobody tells."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def describe_disk(folder: Path) -> dict[str, Any]:
    """Return what is free where a folder is, or would be made."""
    there = folder.expanduser().absolute()
    while not there.exists():
        there = there.parent
    usage = shutil.disk_usage(there)
    device = there.stat().st_dev
    return {"folder": str(folder), "free_bytes": usage.free, "total_bytes": usage.total, "device": device}


def as_size(n_bytes: float | None) -> str:
    """Return bytes as one would say them.

    Examples
    --------
    >>> [as_size(n) for n in (8192, 5 * 2**20, 3 * 2**29, None)]
    ['8 KiB', '5.0 MiB', '1.5 GiB', 'unknown']
    """
    if n_bytes is None:
        return "unknown"
    if n_bytes < 0.1 * 2**20:
        return f"{n_bytes / 2**10:.0f} KiB"
    return f"{n_bytes / 2**30:.1f} GiB" if n_bytes >= 0.1 * 2**30 else f"{n_bytes / 2**20:.1f} MiB"


def _processor_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _core_quota(otherwise: int) -> int:
    """Return the cores that a container or batch job is allowed, rounded up."""
    try:
        quota, period = (_CGROUP / "cpu.max").read_text(encoding="utf-8").split()
        return otherwise if quota == "max" else max(1, -(-int(quota) // int(period)))
    except (OSError, ValueError):
        return otherwise


def _meminfo() -> dict[str, int]:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        pairs = (line.split(":", 1) for line in lines if line.endswith(" kB"))
        return {name: int(value.split()[0]) * 1024 for name, value in pairs}
    except (OSError, ValueError):
        return {}


def _cgroup_limit() -> int | None:
    return _read_number(_CGROUP / "memory.max")


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # "max": no limit
        return None
