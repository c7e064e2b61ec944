"""Natural images for training: bytes by index."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from neurocontrast.data.cohort import Cohort
from neurocontrast.data.natural.store import Located, statistics_of
from neurocontrast.data.problems import Problems


class ImageDataset(torch.utils.data.Dataset[dict[str, Any]]):
    """The images of a cohort, whose paths are like ``…/images.npy#17``, from stores of one size; uint8 (3, H, W).

    A DataError names all rows without an image: another kind of path, a store that is absent or damaged, an index
    beyond the store, another size.
    """

    def __init__(self, cohort: Cohort) -> None:
        self.paths: list[str] = [str(path) for path in cohort.table["path"]]
        problems = Problems(cohort.source.name)
        located = Located.of(self.paths, cohort.names(), problems)
        problems.raise_if_any()
        self._stores = located.stores
        self._store_of, self._index_of = np.array(located.store_of), np.array(located.index_of)
        self.image_shape: tuple[int, ...] = self._stores[0].shape
        self.image_dtype: np.dtype[Any] = np.dtype(np.uint8)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return ``{"image": uint8 tensor (3, H, W), "index": index}``."""
        image = np.empty(self.image_shape, self.image_dtype)
        self.read_into(image, index)
        return {"image": torch.from_numpy(image), "index": index}

    def read_into(self, out: npt.NDArray[Any], index: int) -> None:
        """Read an image into `out`, of `image_shape` and `image_dtype`."""
        np.copyto(out, self._stores[self._store_of[index]].array[self._index_of[index]], casting="no")

    def channel_statistics(self, rows: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return mean and standard deviation (3,) of each channel over the images of the rows, in [0, 1]."""
        chosen = np.asarray(rows, dtype=np.int64)
        counts = np.zeros((3, 256), dtype=np.int64)
        for number, store in enumerate(self._stores):
            counts += store.histogram(self._index_of[chosen[self._store_of[chosen] == number]])
        return statistics_of(counts)
