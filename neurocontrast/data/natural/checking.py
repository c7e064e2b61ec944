"""Doubts about the images of a cohort: missing labels, and copies across splits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from neurocontrast.data.cohort import Cohort
from neurocontrast.data.natural.store import Located
from neurocontrast.data.problems import Problems
from neurocontrast.progress import SILENT, Progress

RECORD_NAME = "images.json"


def doubt_about_copies(images: Iterable[npt.NDArray[np.uint8]], names: Sequence[str], splits: Sequence[str]) -> str:
    """Say what repeated images mean for an evaluation, or return "" if no image is repeated."""
    first: dict[bytes, int] = {}
    n_images, across = 0, []
    for row, image in enumerate(images):
        digest = hashlib.blake2b(image.tobytes(), digest_size=16).digest()
        before = first.setdefault(digest, row)
        n_images += before != row
        if splits[before] != splits[row]:
            across.append(f"{names[row]} and {names[before]}")
    if across:
        return (
            f"{len(across):,} images of validation or test are the same, byte by byte, as one of another split "
            f"(for instance {across[0]}): figures on them flatter a little."
        )
    return f"{n_images:,} images are the same, byte by byte, as another of their split" if n_images else ""


def inspect_images(cohort: Cohort, problems: Problems, *, deep: bool, progress: Progress = SILENT) -> tuple[str, ...]:
    """Return doubts about the images of a cohort, and add what is wrong to `problems`.

    `deep` reads every pixel and looks for copies.
    """
    n_before, names, table = len(problems.found), cohort.names(), cohort.table
    located = Located.of([str(path) for path in table["path"]], names, problems)
    doubts = list(cohort.warnings)
    for column in ("label", "split"):
        if column in table and (n_missing := int(table[column].isna().sum())):
            doubts.append(f"column '{column}' is missing in {n_missing:,} of {len(table):,} images")
    if deep and len(problems.found) == n_before:
        splits = table["split"].astype(str).tolist() if "split" in table else [""] * len(cohort)
        with progress.task("Reading images", None, "image"):
            places = zip(located.store_of, located.index_of, strict=True)
            copies = doubt_about_copies((located.stores[store].array[index] for store, index in places), names, splits)
        doubts += [copies] if copies else []
    return tuple(doubts)
