"""What training reads of natural images: bytes by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from neurocontrast.data.cohort import Cohort
from neurocontrast.data.images.locating import locate_images
from neurocontrast.data.images.store import statistics_of
from neurocontrast.data.problems import Problems

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
        problems = Problems(cohort.source.name)
        located = locate_images(cohort, problems)
        problems.raise_if_any()
        self._stores, self._store_of, self._index_of = located.stores, located.store_of, located.index_of
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
        if len(self._stores) == 1:
            out[...] = self._stores[0].array[self._index_of[chosen]]
            return
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
