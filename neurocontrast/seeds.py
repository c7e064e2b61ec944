"""Randomness keyed by what it is for, never by a global state."""

from __future__ import annotations

import hashlib

import numpy as np

__all__ = ["derive_generator", "derive_seed"]


def derive_seed(*keys: int | str) -> int:
    """Return a 63-bit seed that depends on the keys alone.

    Keys name what the randomness is for, for instance ``("views", seed, epoch, sample, view)``;
    so the same epoch of the same run draws the same numbers after a resume, in any
    worker process and in any order.
    """
    text = "\x1f".join(f"{type(key).__name__[0]}:{key}" for key in keys)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def derive_generator(*keys: int | str) -> np.random.Generator:
    """Return a NumPy generator seeded by `derive_seed` of the keys."""
    return np.random.default_rng(derive_seed(*keys))
