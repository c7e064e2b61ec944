"""Training, validation and test images: stratified, keyed by seed and name, the same on every machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from neurocontrast.exceptions import DataError
from neurocontrast.seeds import derive_seed

__all__ = ["SPLITS", "SPLIT_OF_NAME", "divide", "stratified_order"]

SPLITS = ("train", "validation", "test")
SPLIT_OF_NAME = {
    **{"train": "train", "training": "train", "test": "test", "testing": "test"},
    **dict.fromkeys(("val", "valid", "validation"), "validation"),
}
"""Names of splits, of folders or in a column, in lower case."""


def stratified_order(names: Sequence[str], labels: Sequence[str], *, seed: int) -> npt.NDArray[np.int64]:
    """Return positions in an order whose every beginning holds the classes in proportion.

    Within a class images stand in the order of a number drawn from (seed, name), so that the order depends on no
    generator and on no other image; the k-th of a class of n comes at (k - ½)/n. The first m are a stratified
    sample of m, and part of every larger one.
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
    fractions: Mapping[str, float],
    counts: Mapping[str, int | None],
) -> list[str]:
    """Return the split of each image, "" for one that is left out.

    Splits of the source are kept. Where there is no ``test``, that fraction of ``train`` becomes it; where there is no
    ``validation``, that fraction of the rest. `counts` says how many images of each split are kept; None for all.
    """
    chosen = np.array(["train"] * len(names) if splits is None else list(splits), dtype=object)

    def ordered(part: str) -> npt.NDArray[np.int64]:
        rows = np.flatnonzero(chosen == part)
        order = stratified_order([names[int(row)] for row in rows], [labels[int(row)] for row in rows], seed=seed)
        return rows[order]

    for part in ("test", "validation"):
        if part not in chosen:
            pool = ordered("train")
            chosen[pool[: round(fractions[part] * len(pool))]] = part
    for part, n_kept in counts.items():
        if n_kept is None:
            continue
        pool = ordered(part)
        if n_kept > len(pool):
            made = "" if part == "train" else f" Raise images.{part}_fraction where the source has no such split."
            raise DataError(f"n_{part}: {n_kept:,} images are to be kept and the split has {len(pool):,}.{made}")
        chosen[pool[n_kept:]] = ""
    if "train" not in chosen:
        raise DataError("no image is left for training.")
    return chosen.tolist()
