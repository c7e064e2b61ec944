"""Memory that a network frees, kept for its next pass."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from typing import Any

__all__ = ["keeping_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's mallopt(3)
_NEVER = 2**31 - 1
_LARGEST_OF_GLIBC = 2**25

_n_keeping = 0


@contextlib.contextmanager
def keeping_freed_memory() -> Iterator[None]:
    """Let the C library keep what is freed, until the end of the block.

    By itself glibc gives every large array back to the kernel, which clears its pages again for the next one: up to a
    quarter of the time of a training step on a CPU (``benchmarks/training.py``). Nothing is done with another C
    library, or where the environment already says how memory is kept (``MALLOC_…``, ``GLIBC_TUNABLES``).
    """
    global _n_keeping
    libc = _libc()
    if libc is None:
        yield
        return
    _n_keeping += 1
    libc.mallopt(_MMAP_THRESHOLD, _NEVER)
    libc.mallopt(_TRIM_THRESHOLD, _NEVER)
    try:
        yield
    finally:
        _n_keeping -= 1
        if not _n_keeping:
            # What glibc's own adaptation ends with in a program that uses large arrays.
            libc.mallopt(_MMAP_THRESHOLD, _LARGEST_OF_GLIBC)
            libc.mallopt(_TRIM_THRESHOLD, 2 * _LARGEST_OF_GLIBC)
            libc.malloc_trim(0)


def _libc() -> Any:
    if any(name.startswith("MALLOC_") for name in os.environ) or "malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return None
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018
        return libc
    except (OSError, AttributeError):
        return None
