"""Where the images of a cohort are: which store, which index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neurocontrast.data.cohort import Cohort
from neurocontrast.data.images.paths import is_image_path, split_image_path
from neurocontrast.data.images.store import ImageStore
from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import DataError

__all__ = ["Located", "locate_images"]


@dataclass(frozen=True, eq=False)
class Located:
    """The stores of a cohort, and the place of each row's image.

    Parameters
    ----------
    stores : list of ImageStore
    store_of, index_of : ndarray (n,), int64
        Position in `stores`, and index in that store.
    """

    stores: list[ImageStore]
    store_of: npt.NDArray[np.int64]
    index_of: npt.NDArray[np.int64]


def locate_images(cohort: Cohort, problems: Problems) -> Located:
    """Open the stores of a cohort, each once; rows without a usable image become problems.

    What is wrong: a path of another kind, a store that is absent or damaged, an index it does not have, a size
    other than the first store's.
    """
    names = cohort.names()
    opened: dict[str, ImageStore | str] = {}
    stores: list[ImageStore] = []
    numbers: dict[str, int] = {}
    places = np.zeros((2, len(cohort)), dtype=np.int64)
    for row, path in enumerate(cohort.table["path"].astype(str).to_numpy(dtype=object)):
        if not is_image_path(path):
            rule = "an image of a store is named like 'images.npy#17'; a scan needs data.kind: volumes"
            problems.add(f"found {shown(path, 200)}; {rule}", column="path", name=names[row])
            continue
        file, _, index = path.rpartition("#")
        if file not in opened:
            opened[file] = _opened(path)
            numbers[file] = len(stores)
            stores += [store] if isinstance(store := opened[file], ImageStore) else []
        problem = _problem(opened[file], int(index), stores)
        if problem:
            problems.add(problem, column="path", name=names[row])
        places[:, row] = numbers[file], int(index)
    return Located(stores, places[0], places[1])


def _opened(path: str) -> ImageStore | str:
    try:
        return ImageStore.open(split_image_path(path)[0])
    except DataError as error:
        return str(error)


def _problem(store: ImageStore | str, index: int, stores: list[ImageStore]) -> str | None:
    if isinstance(store, str):
        return store
    if index >= store.n_images:
        return f"there is no image {index}; {store.path.name} has {store.n_images} images, counted from 0"
    if store.shape != stores[0].shape:
        first = stores[0]
        return (
            f"this image is {_size(store)} pixels, and those of {shown(first.path, 200)} are {_size(first)}; "
            "all must have one size"
        )
    return None


def _size(store: ImageStore) -> str:
    return f"{store.shape[1]}×{store.shape[2]}"
