"""What is doubtful about the images of a cohort: copies across splits, empty ones, a store that was exchanged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from neurocontrast.data.cohort import Cohort
from neurocontrast.data.images.locating import Located, locate_images
from neurocontrast.data.images.store import ImageStore
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import one_of
from neurocontrast.files import digest_of_file
from neurocontrast.progress import SILENT, Progress

__all__ = ["RECORD_NAME", "Repeated", "inspect_images", "repeated_images"]

RECORD_NAME = "images.json"
"""Name of the record in the folder of a prepared data set."""

_N_NAMED = 5


@dataclass(frozen=True)
class Repeated:
    """Images that are the same, byte by byte, as one before.

    Parameters
    ----------
    n_images : int
        How many.
    n_across : int
        How many of validation or test are the same as one of another split.
    example : tuple of str
        Two that are the same across splits, or "" twice.
    """

    n_images: int
    n_across: int
    example: tuple[str, str] = ("", "")

    def sentence(self) -> str:
        """Say what it means for an evaluation."""
        first, second = self.example
        return (
            f"{self.n_across:,} images of validation or test are the same, byte by byte, as one of another split "
            f"(for instance {second} and {first}): figures on them flatter a little."
        )


def repeated_images(
    images: Sequence[npt.NDArray[np.uint8]] | Iterator[npt.NDArray[np.uint8]],
    names: Sequence[str],
    splits: Sequence[str],
) -> Repeated:
    """Find images that are there more than once; rows before count as the first.

    Parameters
    ----------
    images : iterable of ndarray (3, H, W), uint8
        One of each row.
    names, splits : sequence of str
        Identifier and split of each row.
    """
    first: dict[bytes, int] = {}
    n_images = n_across = 0
    example = ("", "")
    for row, image in enumerate(images):
        digest = hashlib.blake2b(image.tobytes(), digest_size=16).digest()
        before = first.setdefault(digest, row)
        if before != row:
            n_images += 1
            if splits[before] != splits[row]:
                example = example if n_across else (names[before], names[row])
                n_across += 1
    return Repeated(n_images, n_across, example)


def inspect_images(cohort: Cohort, problems: Problems, *, deep: bool, progress: Progress = SILENT) -> tuple[str, ...]:
    """Look at the images of a cohort, and return what is doubtful about them.

    Parameters
    ----------
    cohort : Cohort
        Each ``path`` names an image of a store.
    problems : Problems
        Takes what is wrong.
    deep : bool
        Read every pixel: for copies, images of one colour, and stores that are not those of their record.
    progress : Progress
    """
    n_before = len(problems.found)
    located = locate_images(cohort, problems)
    doubts = _doubts_of_table(cohort)
    if not deep or len(problems.found) > n_before:
        return tuple(doubts)
    for store in located.stores:
        _check_record(store, problems)
    names = cohort.names()
    splits = cohort.table["split"].astype(str).tolist() if "split" in cohort.table else [""] * len(cohort)
    flat: list[str] = []
    with progress.task("Reading images", len(cohort), "image") as task:

        def images() -> Iterator[npt.NDArray[np.uint8]]:
            for row, image in enumerate(_images(located)):
                if (image == image[:, :1, :1]).all():
                    flat.append(names[row])
                yield image
                task.advance()

        repeated = repeated_images(images(), names, splits)
    if flat:
        doubts.append(f"{len(flat)} images are of one colour throughout ({one_of(flat[:_N_NAMED])})")
    if repeated.n_across:
        doubts.append(repeated.sentence())
    elif repeated.n_images:
        doubts.append(f"{repeated.n_images:,} images are the same, byte by byte, as another of their split")
    return tuple(doubts)


def _images(located: Located) -> Iterator[npt.NDArray[np.uint8]]:
    for number, index in zip(located.store_of.tolist(), located.index_of.tolist(), strict=True):
        yield located.stores[number].array[index]


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
        written = json.loads(record.read_text(encoding="utf-8")).get("images_sha256")
    except (OSError, ValueError, AttributeError):
        return
    if written is not None and written != digest_of_file(store.path):
        problems.add(
            f"{store.path.name} is not the file that {RECORD_NAME} beside it tells of: it was changed or damaged; "
            "make it again with 'neurocontrast images'"
        )
