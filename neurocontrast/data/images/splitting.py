"""Which image is for training, validation and test: stratified, keyed, the same on every machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from neurocontrast.exceptions import DataError
from neurocontrast.seeds import derive_seed

__all__ = ["SPLITS", "divide", "stratified_order"]

SPLITS = ("train", "validation", "test")


def stratified_order(names: Sequence[str], labels: Sequence[str], *, seed: int) -> npt.NDArray[np.int64]:
    """Return positions in an order whose every beginning holds the classes in proportion.

    Within a class images stand in the order of a number drawn from (seed, name), so that it depends on no
    generator and on no other image; the k-th of a class of n comes at (k − ½)/n. The first m are a stratified
    sample of m, and part of every larger one.

    Parameters
    ----------
    names, labels : sequence of str
        Identifier and class of each image.
    seed : int

    Returns
    -------
    ndarray (n,), int64
    """
    keys = np.array([derive_seed("image order", seed, name) for name in names], dtype=np.int64)
    classes = np.unique(np.asarray(labels, dtype=object).astype(str), return_inverse=True)[1]
    place = np.zeros(len(keys))
    for code in range(classes.max(initial=-1) + 1):
        members = np.flatnonzero(classes == code)
        place[members[np.argsort(keys[members], kind="stable")]] = (np.arange(len(members)) + 0.5) / len(members)
    return np.lexsort((keys, place))


def divide(
    names: Sequence[str],
    labels: Sequence[str],
    splits: Sequence[str] | None,
    *,
    seed: int,
    validation_fraction: float,
    test_fraction: float,
    counts: Mapping[str, int | None],
) -> list[str]:
    """Return the split of each image, "" for one that is left out.

    Parameters
    ----------
    names, labels : sequence of str
        Identifier and class of each image.
    splits : sequence of str or None
        The source's own, which is kept; where it has no ``test``, or no ``validation``, that is taken from ``train``.
    seed : int
    validation_fraction : float
        Part of the training images, those for testing not counted.
    test_fraction : float
        Part of all images.
    counts : mapping of str to int or None
        How many of each split are kept; None for all.

    Raises
    ------
    DataError
        Where no image is left for training, or a split has fewer than are to be kept.
    """
    chosen = np.array(["train"] * len(names) if splits is None else list(splits), dtype=object)
    for part, fraction in (("test", test_fraction), ("validation", validation_fraction)):
        if part not in chosen and fraction > 0:
            pool = _ordered(chosen == "train", names, labels, seed)
            chosen[pool[: round(fraction * len(pool))]] = part
    for part, n_kept in counts.items():
        if n_kept is None:
            continue
        pool = _ordered(chosen == part, names, labels, seed)
        if n_kept > len(pool):
            made = "" if part == "train" else f" Raise images.{part}_fraction where the source has no such split."
            raise DataError(f"n_{part}: {n_kept:,} images are to be kept and the split has {len(pool):,}.{made}")
        chosen[pool[n_kept:]] = ""
    if "train" not in chosen:
        raise DataError("no image is left for training.")
    return chosen.tolist()


def _ordered(
    mask: npt.NDArray[np.bool_], names: Sequence[str], labels: Sequence[str], seed: int
) -> npt.NDArray[np.int64]:
    rows = np.flatnonzero(mask)
    chosen = rows.tolist()
    return rows[stratified_order([names[row] for row in chosen], [labels[row] for row in chosen], seed=seed)]
