"""All images of a data set in one file of bytes, read through a memory map."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neurocontrast.data.problems import shown
from neurocontrast.exceptions import DataError
from neurocontrast.files import atomic_path

__all__ = ["STORE_NAME", "ImageStore", "problem_of_path", "statistics_of", "write_store"]

STORE_NAME = "images.npy"
"""Name of a store in its folder."""

_BYTES_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False)
class ImageStore:
    """Images of one size: an array (n, 3, H, W) of bytes in a plain ``.npy`` file.

    Parameters
    ----------
    path : Path
        The file.
    array : ndarray (n, 3, H, W), uint8
        Its content, memory-mapped: only what is read takes memory. Red, green, blue.
    """

    path: Path
    array: npt.NDArray[np.uint8] = field(repr=False)

    @classmethod
    def open(cls, path: str | Path) -> ImageStore:
        """Open a store for reading.

        Raises
        ------
        DataError
            Where there is no such file, or it is cut, damaged or no array of images.
        """
        source = Path(path)
        if not source.is_file():
            raise DataError(f"there is no image store {shown(source, 200)}; 'neurocontrast images' writes one.")
        try:
            array = np.load(source, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise DataError(f"{source.name}: cannot be read as a store of images ({error}); make it again.") from None
        if not isinstance(array, np.memmap) or array.dtype != np.uint8 or array.ndim != 4 or array.shape[1] != 3:
            found = f"{array.dtype} {tuple(array.shape)}" if isinstance(array, np.ndarray) else "an archive of arrays"
            raise DataError(f"{source.name}: a store holds bytes (uint8) of shape (n, 3, H, W). Found {found}.")
        if not array.flags.c_contiguous or 0 in array.shape:
            raise DataError(f"{source.name}: a store holds at least one image, in C order. Found {array.shape}.")
        return cls(source, array)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of one image, (3, H, W)."""
        _, n_channels, height, width = self.array.shape
        return n_channels, height, width

    @property
    def n_images(self) -> int:
        """How many images there are."""
        return len(self.array)

    def read_into(self, out: npt.NDArray[Any], index: int) -> None:
        """Read image `index` into `out`, (3, H, W) uint8.

        Raises
        ------
        DataError
            For an index the store does not have.
        """
        np.copyto(out, self.array[self._checked(index)], casting="no")

    def read(self, index: int) -> npt.NDArray[np.uint8]:
        """Return a copy of image `index`, (3, H, W) uint8."""
        return np.array(self.array[self._checked(index)])

    def histogram(self, indices: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return how often each value occurs in each channel of the given images, (3, 256)."""
        rows = np.sort(np.asarray(indices, dtype=np.int64))
        if len(rows):
            self._checked(int(rows[0]))
            self._checked(int(rows[-1]))
        counts = np.zeros((3, 256), dtype=np.int64)
        n_at_once = max(1, _BYTES_AT_ONCE // int(np.prod(self.shape)))
        for start in range(0, len(rows), n_at_once):
            block = self.array[rows[start : start + n_at_once]]
            for channel in range(3):
                counts[channel] += np.bincount(block[:, channel].ravel(), minlength=256)
        return counts

    def channel_statistics(self, indices: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return mean and standard deviation of each channel over the given images, as `statistics_of` does."""
        return statistics_of(self.histogram(indices))

    def _checked(self, index: int) -> int:
        if not 0 <= index < self.n_images:
            raise DataError(f"{self.path.name}: there is no image {index}; it holds {self.n_images}, counted from 0.")
        return index

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process maps the file for itself; the pixels would be copied otherwise.
        return (ImageStore.open, (self.path,))


def problem_of_path(path: str, n_images_of: dict[str, int | str]) -> str | None:
    """Return why an image's path cannot be used, or None where it can.

    Parameters
    ----------
    path : str
        As ``…/images.npy#17``.
    n_images_of : dict
        Number of images of each store opened so far, or why it cannot be: a table of 60,000 rows opens its
        store once. Filled here.
    """
    store, _, index = path.rpartition("#")
    if store not in n_images_of:
        try:
            n_images_of[store] = ImageStore.open(store).n_images
        except DataError as error:
            n_images_of[store] = str(error)
    n_images = n_images_of[store]
    if isinstance(n_images, str):
        return n_images
    if int(index) >= n_images:
        return f"there is no image {int(index)} in {shown(store, 200)}, which holds {n_images}, counted from 0"
    return None


def statistics_of(counts: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return mean and standard deviation of pixel values, scaled to [0, 1], from their histogram.

    Sums of whole numbers are exact, so the result depends on no order and no machine.

    Parameters
    ----------
    counts : ndarray (3, 256), int64
        How often each value occurs in each channel.

    Returns
    -------
    mean, std : ndarray (3,), float64
        `std` divides by the number of pixels; it is 0 where all are equal.

    Raises
    ------
    DataError
        Where no pixel was counted.
    """
    totals = [int(total) for total in counts.sum(axis=1)]
    if not all(totals):
        raise DataError("mean and standard deviation need at least one image.")
    means, deviations = [], []
    for channel, total in zip(counts.tolist(), totals, strict=True):
        first = sum(value * count for value, count in enumerate(channel))
        second = sum(value * value * count for value, count in enumerate(channel))
        means.append(first / total / 255)
        deviations.append((total * second - first * first) ** 0.5 / total / 255)
    return np.array(means), np.array(deviations)


def write_store(
    folder: str | Path, images: Iterable[npt.NDArray[np.uint8]], *, n_images: int, shape: tuple[int, int, int]
) -> ImageStore:
    """Write images one after another into ``images.npy`` of a folder, and open it.

    The file appears whole or not at all; never more than one image is in memory.

    Parameters
    ----------
    folder : path
        Folder to write into.
    images : iterable of ndarray (3, H, W), uint8
        Exactly `n_images` of them.
    n_images : int
        How many there will be.
    shape : tuple of int
        (3, H, W), the same for all.

    Raises
    ------
    DataError
        Where an image has another shape or type, or there are more or fewer than `n_images`.
    """
    target = Path(folder) / STORE_NAME
    header = {"descr": "|u1", "fortran_order": False, "shape": (n_images, *shape)}
    with atomic_path(target) as temporary, open(temporary, "wb", buffering=2**20) as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        n_written = 0
        for image in _checked_images(images, shape):
            stream.write(np.ascontiguousarray(image).data)
            n_written += 1
        if n_written != n_images:
            raise DataError(f"{STORE_NAME}: {n_images} images were announced and {n_written} came.")
    return ImageStore.open(target)


def _checked_images(
    images: Iterable[npt.NDArray[np.uint8]], shape: tuple[int, int, int]
) -> Iterator[npt.NDArray[np.uint8]]:
    for number, image in enumerate(images):
        if image.dtype != np.uint8 or image.shape != shape:
            found = f"{image.dtype} {image.shape}"
            raise DataError(f"{STORE_NAME}: images are bytes (uint8) of shape {shape}. Image {number} is {found}.")
        yield image
