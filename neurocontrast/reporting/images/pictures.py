"""Pictures of tested images, read from the store that an evaluation names, where it is still there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from neurocontrast.data.store import is_image_path, split_image_path

__all__ = ["LARGEST_SIDE", "read_pictures", "store_of"]

LARGEST_SIDE = 96
"""Pixels of a picture in the report: larger images are made smaller by averaging, so that the page stays small."""

Pixels = npt.NDArray[np.uint8]


def store_of(path: object, *, folder: Path) -> tuple[Path, int] | None:
    """Return the store and the row that a path like ``images.npy#17`` names; None where it names none.

    A relative path is looked for as it stands, and then in the evaluation folder.
    """
    if not is_image_path(str(path)):
        return None
    store, row = split_image_path(str(path))
    places = (store, folder / store)
    return next((place for place in places if place.is_file()), places[0]), row


def read_pictures(paths: Sequence[object], *, folder: Path) -> list[Pixels | None]:
    """Return the images as (height, width, 3) arrays; None for each that is not there or no picture.

    Parameters
    ----------
    paths : sequence
        ``store.npy#row``: a plain array of uint8, images × 3 × height × width.
    folder : path
        The evaluation folder.
    """
    stores: dict[Path, npt.NDArray[np.uint8] | None] = {}
    found: list[Pixels | None] = []
    for path in paths:
        named = store_of(path, folder=folder)
        if named is None:
            found.append(None)
            continue
        file, row = named
        if file not in stores:
            stores[file] = _open(file)
        store = stores[file]
        found.append(None if store is None or row >= len(store) else _shrink(store[row]))
    return found


def _open(file: Path) -> npt.NDArray[np.uint8] | None:
    try:
        store = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    right = isinstance(store, np.ndarray) and store.ndim == 4 and store.dtype == np.uint8 and store.shape[1] == 3
    return store if right else None


def _shrink(image: npt.NDArray[np.uint8]) -> Pixels:
    """Return an image with its channels last, no side longer than `LARGEST_SIDE`."""
    step = -(-max(image.shape[1:]) // LARGEST_SIDE)
    pixels = np.asarray(image).transpose(1, 2, 0)
    if step == 1:
        return pixels.copy()
    height, width = (size // step for size in pixels.shape[:2])
    blocks = pixels[: height * step, : width * step].reshape(height, step, width, step, 3)
    return blocks.mean(axis=(1, 3)).round().astype(np.uint8)
