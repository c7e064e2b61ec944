"""Dataset of a cohort's natural images, read from the stores that hold them."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from neurocontrast.data.cohort import Cohort
from neurocontrast.data.datasets import InPlaceDataset
from neurocontrast.data.problems import Problems
from neurocontrast.natural.store import Located, statistics_of


class ImageDataset(InPlaceDataset):
    """Dataset of natural images of one size, uint8 (3, H, W), read from stores of pixels.

    Paths are like ``…/images.npy#17``. A DataError names all rows without an image: another kind
    of path, a store that is absent or damaged, an index beyond the store, another size.

    Parameters
    ----------
    cohort : Cohort
        Table of images.

    Examples
    --------
    >>> import tempfile
    >>> from neurocontrast import prepare_images
    >>> from neurocontrast.data import read_cohort
    >>> from neurocontrast.natural import ImageDataset
    >>> table = prepare_images(tempfile.mkdtemp() + "/digits", n_train=20, size=16, progress=False)
    >>> ImageDataset(read_cohort(table))[0]["image"].shape
    torch.Size([3, 16, 16])
    """

    def __init__(self, cohort: Cohort) -> None:
        self.paths: list[str] = list(map(str, cohort.table["path"]))
        problems = Problems(cohort.source.name)
        located = Located.of(self.paths, cohort.names(), problems)
        problems.raise_if_any()
        self._stores = located.stores
        self._store_of = np.array(located.store_of)
        self._index_of = np.array(located.index_of)
        self.image_shape = self._stores[0].shape
        self.image_dtype = np.dtype(np.uint8)

    def __len__(self) -> int:
        return len(self.paths)

    def read_into(self, out: npt.NDArray[Any], index: int) -> None:
        """Copy image number `index` from its store into the array `out`.

        The array has `image_shape` and `image_dtype`.
        """
        store = self._stores[self._store_of[index]]
        np.copyto(out, store.array[self._index_of[index]], casting="no")

    def contents(self) -> list[str]:
        """Return a digest of each image's pixels, a list in the order of the table of images."""
        size = f"pixels {self.image_shape}".encode()
        digests = []
        for number, index in zip(self._store_of, self._index_of, strict=True):
            state = hashlib.blake2b(size, digest_size=8)
            state.update(np.ascontiguousarray(self._stores[number].array[index]).data)
            digests.append(state.hexdigest())
        return digests

    def channel_statistics(
        self, rows: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return two arrays (3,): each colour's mean and standard deviation over images `rows`.

        Colours are in [0, 1].
        """
        chosen = np.asarray(rows, dtype=np.int64)
        sums = []
        for number, store in enumerate(self._stores):
            of_store = chosen[self._store_of[chosen] == number]
            sums.append(store.sums(self._index_of[of_store]))
        return statistics_of(np.sum(sums, axis=0))
