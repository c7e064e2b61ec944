"""Doubts about the images of a cohort: copies across splits, empty images, an exchanged store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from neurocontrast.data.cohort import Cohort
from neurocontrast.data.natural.store import ImageStore, Located
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.files import digest_of_file
from neurocontrast.progress import SILENT, Progress
from neurocontrast.reading import read_json

RECORD_NAME = "images.json"
_N_NAMED = 5


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

    `deep` reads every pixel: for copies, images of one colour, and stores that are not those of their record.
    """
    n_before, names = len(problems.found), cohort.names()
    located = Located.of([str(path) for path in cohort.table["path"]], names, problems)
    doubts = _doubts_of_table(cohort)
    if not deep or len(problems.found) > n_before:
        return tuple(doubts)
    for store in located.stores:
        _check_record(store, problems)
    splits = cohort.table["split"].astype(str).tolist() if "split" in cohort.table else [""] * len(cohort)
    flat: list[str] = []

    def images() -> Iterator[npt.NDArray[np.uint8]]:
        for name, store, index in zip(names, located.store_of, located.index_of, strict=True):
            image = located.stores[store].array[index]
            if (image == image[:, :1, :1]).all():
                flat.append(name)
            yield image
            task.advance()

    with progress.task("Reading images", len(cohort), "image") as task:
        copies = doubt_about_copies(images(), names, splits)
    if flat:
        doubts.append(f"{len(flat)} images are of one colour throughout ({one_of(flat[:_N_NAMED])})")
    doubts += [copies] if copies else []
    return tuple(doubts)


def _doubts_of_table(cohort: Cohort) -> list[str]:
    doubts = list(cohort.warnings)
    table = cohort.table
    for column in ("label", "split"):
        if column in table and (n_missing := int(table[column].isna().sum())):
            doubts.append(f"column '{column}' is missing in {n_missing:,} of {len(table):,} images")
    if "label" in table and "split" in table:
        by_split = {str(split): set(part["label"].dropna()) for split, part in table.groupby("split")}
        unseen = sorted(set().union(*by_split.values()) - by_split.get("train", set()))
        if unseen and "train" in by_split:
            doubts.append(f"classes without a training image: {one_of([str(label) for label in unseen[:10]])}")
    return doubts


def _check_record(store: ImageStore, problems: Problems) -> None:
    record = Path(store.path).parent / RECORD_NAME
    try:
        written = read_json(record).get("images_sha256")
    except DataError:  # without a record there is nothing to compare
        return
    if written is not None and written != digest_of_file(store.path):
        problems.add(
            f"{store.path.name} is not the file that {RECORD_NAME} beside it tells of: it was changed or damaged; "
            "make it again with 'neurocontrast images'"
        )
