"""One thread for linear algebra: more cost time on matrices of this size, and change the last digits."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["one_thread"]


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks at every loaded library, which takes longer than a small fit


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS and OpenMP use one thread."""
    return _controller().limit(limits=1)
