"""Derive random numbers from keys such as run, epoch and sample, without any global state."""

import hashlib
import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


def derive_seed(*keys: int | str) -> int:
    """Return a 63-bit seed that depends on the keys alone.

    Examples of keys are ``("views", seed, epoch, sample, view)``; a number and its text differ.
    """
    words = "\x1f".join(f"{type(key).__name__[0]}:{key}" for key in keys)
    return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "little") >> 1


def derive_generator(*keys: int | str) -> np.random.Generator:
    """Return a NumPy generator seeded by `derive_seed` of the keys."""
    return np.random.default_rng(derive_seed(*keys))


def derive_uniforms(*keys: int | str, samples: ArrayLike, n_numbers: int) -> np.ndarray:
    """Draw uniform random numbers in [0, 1), in steps of 2⁻³², for each of many samples.

    A sample's row depends on the keys and the sample's number alone. A generator for each sample
    would take forty times as long.

    Parameters
    ----------
    *keys : int or str
        Purpose of the numbers, as for `derive_seed`.
    samples : array of int (n,)
        Number of each sample.
    n_numbers : int
        Random numbers of a sample.

    Returns
    -------
    array (n, n_numbers)
        Random numbers.
    """
    (uniforms,) = derive_many_uniforms([keys], samples=samples, n_numbers=[n_numbers])
    return uniforms


def derive_many_uniforms(
    keys: Sequence[Sequence[int | str]], *, samples: ArrayLike, n_numbers: Sequence[int]
) -> list[np.ndarray]:
    """Draw random numbers as `derive_uniforms` does, for several sets of `keys` in one call.

    Returned is a list with an array for each set of keys: a row for each of `samples`, and as many
    columns as `n_numbers` says for the set.
    """
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
    of_keys = []
    for first, n in zip((4 * starts).tolist(), n_numbers, strict=True):
        of_keys.append(uniforms[:, first : first + n])
    return of_keys


def philox4x32(
    counters: np.ndarray, *, key: tuple[int | np.ndarray, int | np.ndarray]
) -> np.ndarray:
    """Compute pseudorandom 32-bit words from `counters` and a `key` by Philox 4×32 with ten rounds.

    Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section
    3.3.

    Parameters
    ----------
    counters : array of uint64 (4, ...)
        Words below 2³².
    key : tuple of two int, or of two arrays
        Words below 2³²; arrays must broadcast to the counters.

    Returns
    -------
    array of uint64 (4, ...)
        Words below 2³².
    """
    low = np.uint64(_LOW)
    high = np.uint64(32)
    first = np.uint64(_MULTIPLIERS[0])
    second = np.uint64(_MULTIPLIERS[1])
    key0 = np.asarray(key[0], dtype=np.uint64)
    key1 = np.asarray(key[1], dtype=np.uint64)
    c0, c1, c2, c3 = counters
    for round_number in range(10):
        k0 = (key0 + np.uint64(round_number * _WEYL[0])) & low
        k1 = (key1 + np.uint64(round_number * _WEYL[1])) & low
        product0 = c0 * first
        product1 = c2 * second
        c0 = (product1 >> high) ^ c1 ^ k0
        c1 = product1 & low
        c2 = (product0 >> high) ^ c3 ^ k1
        c3 = product0 & low
    return np.stack([c0, c1, c2, c3])
