"""Memory of this machine, and bytes as text; without torch."""

from __future__ import annotations

from pathlib import Path

__all__ = ["as_size", "describe_memory"]

_CGROUP = Path("/sys/fs/cgroup")


def describe_memory() -> dict[str, int]:
    """Return total and available bytes, within the limit of a container."""
    import psutil

    found = psutil.virtual_memory()
    total, available = found.total, found.available
    try:
        limit, used = (int((_CGROUP / name).read_text(encoding="utf-8")) for name in ("memory.max", "memory.current"))
        total, available = min(total, limit), min(available, max(0, limit - used))
    except (OSError, ValueError):  # no container, or no limit: "max"
        pass
    return {"total_bytes": total, "available_bytes": available}


def as_size(n_bytes: float) -> str:
    """Return bytes as text: KiB, MiB or GiB."""
    if n_bytes < 0.1 * 2**20:
        return f"{n_bytes / 2**10:.0f} KiB"
    return f"{n_bytes / 2**30:.1f} GiB" if n_bytes >= 0.1 * 2**30 else f"{n_bytes / 2**20:.1f} MiB"
