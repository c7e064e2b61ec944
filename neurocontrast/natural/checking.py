"""Check a table of natural images, and count images and classes."""

from __future__ import annotations

import pandas as pd

from neurocontrast.data.cohort import Cohort
from neurocontrast.data.problems import Problems
from neurocontrast.natural.settings import SPLITS
from neurocontrast.natural.store import Located, doubt_about_copies
from neurocontrast.progress import SILENT, Progress


def inspect_images(
    cohort: Cohort, problems: Problems, *, deep: bool, progress: Progress = SILENT
) -> tuple[str, ...]:
    """Return warnings about the images of a cohort, and add errors to `problems`.

    A path that names no usable image is an error. The result begins with the warnings that came up
    when the table of `cohort` was read. Missing labels and missing splits are warnings too. With
    `deep`, every pixel is read, and a warning tells of images that are the same, byte by byte.
    """
    n_before = len(problems.found)
    table = cohort.table
    located = Located.of(list(map(str, table["path"])), cohort.names(), problems)
    doubts = list(cohort.warnings)
    for column in ("label", "split"):
        n_missing = 0
        if column in table:
            n_missing = int(table[column].isna().sum())
        if n_missing:
            doubts.append(f"column '{column}' is missing in {n_missing:,} of {len(table):,} images")
    if deep and len(problems.found) == n_before:
        copies = _doubt_about_copies(cohort, located, progress)
        if copies:
            doubts.append(copies)
    return tuple(doubts)


def _doubt_about_copies(cohort: Cohort, located: Located, progress: Progress) -> str:
    """Return a warning that images of a cohort are repeated; "" if none is.

    `located` has the pixels of the images of `cohort`, in the same order.
    """
    splits = [""] * len(cohort)
    if "split" in cohort.table:
        splits = cohort.table["split"].astype(str).tolist()
    with progress.task("Reading images", None, "image"):
        return doubt_about_copies(located.images(), cohort.names(), splits)


def summarise_images(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of the numbers of images and classes for each split, and for ``all`` images.

    `table` is the table of images; without a column ``split``, the result has the last row,
    ``all``, alone.
    """
    parts = {}
    if "split" in table and table["split"].notna().any():
        by_split = {str(name): images for name, images in table.groupby("split")}
        for name in dict.fromkeys([*SPLITS, *by_split]):
            if name in by_split:
                parts[name] = by_split[name]
    counts = list(map(_count, [*parts.values(), table]))
    return pd.DataFrame(counts, index=[*parts, "all"])


def _count(images: pd.DataFrame) -> dict[str, float]:
    """Count `images`, rows of a table, and by column ``label`` their classes.

    The result is a dictionary with the key ``images`` and, if the table has the column,
    ``classes``, ``smallest class`` and ``largest class``, the sizes of these.
    """
    counts: dict[str, float] = {"images": len(images)}
    if "label" in images:
        n = images["label"].value_counts()
        counts["classes"] = len(n)
        counts["smallest class"] = n.min()
        counts["largest class"] = n.max()
    return counts
