"""What training reads of natural images: bytes by index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from neurocontrast.data.cohort import Cohort
from neurocontrast.data.images.paths import is_image_path, split_image_path
from neurocontrast.data.images.store import ImageStore, statistics_of
from neurocontrast.data.problems import Problems, shown

__all__ = ["ImageDataset"]


class ImageDataset(torch.utils.data.Dataset[dict[str, Any]]):
    """The images of a cohort, read from their stores.

    Parameters
    ----------
    cohort : Cohort
        Its rows are the samples, in its order. Each ``path`` is ``…/images.npy#17``; rows may come from
        several stores, if their images have one size.

    Attributes
    ----------
    image_shape : tuple of int
        (3, H, W).
    image_dtype : numpy.dtype
        uint8.
    paths : list of str

    Raises
    ------
    DataError
        Naming all rows without an image: of another kind of path, of a store that is absent or damaged, of an
        index it does not have, or of another size.
    """

    def __init__(self, cohort: Cohort) -> None:
        self.paths: list[str] = [str(path) for path in cohort.table["path"]]
        self._stores, self._store_of, self._index_of = _locate(cohort, self.paths)
        self.image_shape: tuple[int, ...] = self._stores[0].shape
        self.image_dtype: np.dtype[Any] = np.dtype(np.uint8)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return ``{"image": uint8 tensor (3, H, W), "index": index}``."""
        image = self._stores[self._store_of[index]].read(int(self._index_of[index]))
        return {"image": torch.from_numpy(image), "index": index}

    def read_into(self, out: npt.NDArray[Any], index: int) -> None:
        """Read an image into `out`, of `image_shape` and `image_dtype`."""
        self._stores[self._store_of[index]].read_into(out, int(self._index_of[index]))

    def read_rows_into(self, out: npt.NDArray[Any], rows: Sequence[int] | npt.NDArray[np.int64]) -> None:
        """Read the images of several rows into `out` (n, 3, H, W): one call for a whole batch."""
        chosen = np.asarray(rows, dtype=np.int64)
        for number, store in enumerate(self._stores):
            places = np.flatnonzero(self._store_of[chosen] == number)
            out[places] = store.array[self._index_of[chosen[places]]]

    def channel_statistics(self, rows: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return mean and standard deviation (3,) of each channel over the images of the rows, in [0, 1]."""
        chosen = np.asarray(rows, dtype=np.int64)
        counts = np.zeros((3, 256), dtype=np.int64)
        for number, store in enumerate(self._stores):
            counts += store.histogram(self._index_of[chosen[self._store_of[chosen] == number]])
        return statistics_of(counts)


def _locate(
    cohort: Cohort, paths: Sequence[str]
) -> tuple[list[ImageStore], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Open the stores, and find the store and the index of each row."""
    problems = Problems(cohort.source.name)
    names = cohort.names()
    stores: dict[Path, tuple[int, ImageStore]] = {}
    places = np.zeros((2, len(paths)), dtype=np.int64)
    for row, path in enumerate(paths):
        if not is_image_path(path):
            rule = "an image of a store is named like 'images.npy#17'; a scan needs data.kind: volumes"
            problems.add(f"found {shown(path, 200)}; {rule}", column="path", name=names[row])
            continue
        file, index = split_image_path(path)
        if file not in stores:
            stores[file] = (len(stores), ImageStore.open(file))
        number, store = stores[file]
        if index >= store.n_images:
            found = f"{file.name} has {store.n_images} images, counted from 0"
            problems.add(f"there is no image {index}; {found}", column="path", name=names[row])
        first = next(iter(stores.values()))[1]
        if store.shape != first.shape:
            sizes = f"{_size(store)} pixels, and those of {shown(first.path, 200)} are {_size(first)}"
            problems.add(f"this image is {sizes}; all must have one size", column="path", name=names[row])
        places[:, row] = number, index
    problems.raise_if_any()
    return [store for _, store in stores.values()], places[0], places[1]


def _size(store: ImageStore) -> str:
    return f"{store.shape[1]}×{store.shape[2]}"
