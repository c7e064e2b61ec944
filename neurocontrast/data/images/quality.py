"""Images that are there more than once, and images without content."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neurocontrast.data.images.store import ImageStore

__all__ = ["Repeated", "repeated_images"]


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
    store: ImageStore, names: Sequence[str], splits: Sequence[str], indices: npt.ArrayLike | None = None
) -> Repeated:
    """Find images that are there more than once; rows before count as the first.

    Parameters
    ----------
    store : ImageStore
    names, splits : sequence of str
        Identifier and split of each row.
    indices : ndarray (n,), optional
        Image of each row; row number by default.
    """
    where = np.arange(len(names)) if indices is None else np.asarray(indices, dtype=np.int64)
    first: dict[bytes, int] = {}
    n_images = n_across = 0
    example = ("", "")
    for row, index in enumerate(where.tolist()):
        digest = hashlib.blake2b(store.array[index].tobytes(), digest_size=16).digest()
        before = first.setdefault(digest, row)
        if before != row:
            n_images += 1
            if splits[before] != splits[row]:
                example = example if n_across else (names[before], names[row])
                n_across += 1
    return Repeated(n_images, n_across, example)
