"""Randomness keyed by what it is for, never by a global state."""

import hashlib
import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


def derive_seed(*keys: int | str) -> int:
    """Return a 63-bit seed that depends on the keys alone, for instance ``("views", seed, epoch, sample, view)``."""
    text = "\x1f".join(f"{type(key).__name__[0]}:{key}" for key in keys)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def derive_generator(*keys: int | str) -> np.random.Generator:
    """Return a NumPy generator seeded by `derive_seed` of the keys."""
    return np.random.default_rng(derive_seed(*keys))


def derive_uniforms(*keys: int | str, samples: ArrayLike, n_numbers: int) -> np.ndarray:
    """Return `n_numbers` uniform random numbers in [0, 1), in steps of 2⁻³², for each of many samples.

    A row depends on the keys and the number of its sample alone. A generator for each sample takes
    forty times as long.
    """
    (uniforms,) = derive_many_uniforms([keys], samples=samples, n_numbers=[n_numbers])
    return uniforms


def derive_many_uniforms(
    keys: Sequence[Sequence[int | str]], *, samples: ArrayLike, n_numbers: Sequence[int]
) -> list[np.ndarray]:
    """Return `derive_uniforms` of several keys, each with a count of its own, in one computation."""
    numbers = np.asarray(samples).astype(np.uint64)
    n_blocks = -(-np.array(n_numbers) // 4)
    starts = np.cumsum(n_blocks) - n_blocks
    counters = np.zeros((4, len(numbers), int(n_blocks.sum())), dtype=np.uint64)
    counters[0] = np.arange(counters.shape[2]) - np.repeat(starts, n_blocks)
    counters[2] = (numbers & np.uint64(_LOW))[:, None]
    counters[3] = (numbers >> np.uint64(32))[:, None]
    seeds = np.fromiter(itertools.starmap(derive_seed, keys), dtype=np.uint64, count=len(keys))
    key_words = np.repeat(seeds, n_blocks)
    words = philox4x32(counters, key=(key_words & np.uint64(_LOW), key_words >> np.uint64(32)))
    uniforms = np.moveaxis(words, 0, -1).reshape(len(numbers), -1) * 2.0**-32
    firsts = (4 * starts).tolist()
    return [uniforms[:, first : first + n] for first, n in zip(firsts, n_numbers, strict=True)]


def philox4x32(
    counters: np.ndarray, *, key: tuple[int | np.ndarray, int | np.ndarray]
) -> np.ndarray:
    """Return the random words that belong to `counters`, (4, ...), and `key`, all below 2³²: Philox 4×32, ten rounds.

    A key is two words, or two arrays of them that fit the counters.

    Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section
    3.3.
    """
    low = np.uint64(_LOW)
    high = np.uint64(32)
    first, second = (np.uint64(multiplier) for multiplier in _MULTIPLIERS)
    c0, c1, c2, c3 = counters
    for round_number in range(10):
        k0, k1 = (
            (np.asarray(word, dtype=np.uint64) + np.uint64(round_number * step)) & low
            for word, step in zip(key, _WEYL, strict=True)
        )
        product0 = c0 * first
        product1 = c2 * second
        c0 = (product1 >> high) ^ c1 ^ k0
        c1 = product1 & low
        c2 = (product0 >> high) ^ c3 ^ k1
        c3 = product0 & low
    return np.stack([c0, c1, c2, c3])
