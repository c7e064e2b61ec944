"""Stores of natural images: one file of bytes, memory-mapped, whose images are named like ``images.npy#17``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import DataError, said
from neurocontrast.files import atomic_path
from neurocontrast.reading import DAMAGE, check_place

STORE_NAME = "images.npy"
RECORD_NAME = "images.json"
_IMAGE_PATH = re.compile(r"(?P<store>.+\.npy)#(?P<index>[0-9]{1,18})", re.IGNORECASE | re.DOTALL)
_BYTES_AT_ONCE = 2**22

Pixels = npt.NDArray[np.uint8]


def is_image_path(text: str) -> bool:
    """Tell whether a path names one image of a store, as ``images.npy#17`` does."""
    return _IMAGE_PATH.fullmatch(text) is not None


def split_image_path(text: str) -> tuple[Path, int]:
    """Return the store and the index of an image's path."""
    match = _IMAGE_PATH.fullmatch(text)
    if match is None:
        raise DataError(
            f"an image's path is that of a store and an index, such as 'images.npy#17'. Got {shown(text)}."
        )
    return Path(match["store"]), int(match["index"])


@dataclass(frozen=True, eq=False)
class ImageStore:
    """Images of one size, in a plain ``.npy`` file."""

    path: Path
    array: Pixels = field(repr=False)  # memory-mapped (n, 3, H, W): red, green, blue

    @classmethod
    def open(cls, path: str | Path) -> ImageStore:
        """Open a store for reading; a file that is absent, cut, damaged or no array of images is a `DataError`."""
        source = Path(path)
        check_place(source, remedy="Give an image store; 'neurocontrast images' writes one.")
        try:
            array = np.load(source, mmap_mode="r", allow_pickle=False)
        except DAMAGE as error:
            found = f"cannot be read as a store of images ({said(error)})"
            raise DataError(f"{source.name}: {found}; make it again.") from None
        if (
            not isinstance(array, np.memmap)
            or array.dtype != np.uint8
            or array.ndim != 4
            or array.shape[1] != 3
        ):
            found = (
                f"{array.dtype} {tuple(array.shape)}"
                if isinstance(array, np.ndarray)
                else "an archive of arrays"
            )
            raise DataError(
                f"{source.name}: a store holds bytes (uint8) of shape (n, 3, H, W). Found {found}."
            )
        if not array.flags.c_contiguous or 0 in array.shape:
            raise DataError(
                f"{source.name}: a store holds at least one image, in C order. Found {array.shape}."
            )
        return cls(source, array)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one image, (3, H, W)."""
        return self.array.shape[1:]

    def sums(self, indices: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the number of pixels, their sum and that of their squares, (3,), by channel (columns), exactly."""
        rows = np.sort(np.asarray(indices, dtype=np.int64))
        sums = np.zeros((3, 3), dtype=np.int64)
        n_at_once = max(
            1, _BYTES_AT_ONCE // (8 * int(np.prod(self.shape)))
        )  # int64 is 8 bytes a pixel
        for start in range(0, len(rows), n_at_once):
            block = self.array[rows[start : start + n_at_once]].astype(np.int64)
            sums += [
                [block[:, 0].size] * 3,
                block.sum(axis=(0, 2, 3)),
                np.square(block).sum(axis=(0, 2, 3)),
            ]
        return sums

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process maps the file for itself; the pixels would be copied otherwise.
        return (ImageStore.open, (self.path,))


class Located:
    """Images named like ``images.npy#17``: for each, the number of its store among `stores`, and its index there."""

    def __init__(self) -> None:
        self.stores: list[ImageStore] = []
        self.store_of: list[int] = []
        self.index_of: list[int] = []
        self._opened: dict[str, int | str] = {}

    def add(self, path: str) -> str:
        """Find an image, and return why it cannot be used; "" where it can."""
        file, _, index = path.rpartition("#")
        if file not in self._opened:
            try:
                self.stores.append(ImageStore.open(file))
                self._opened[file] = len(self.stores) - 1
            except DataError as error:
                self._opened[file] = str(error)
        number = self._opened[file]
        if isinstance(number, str):
            return number
        store = self.stores[number]
        if int(index) >= len(store.array):
            where = f"{shown(file, 200)}, which holds {len(store.array)}"
            return f"there is no image {int(index)} in {where}, counted from 0"
        self.store_of.append(number)
        self.index_of.append(int(index))
        return ""

    @classmethod
    def of(cls, paths: Sequence[str], names: Sequence[str], problems: Problems) -> Located:
        """Find all images; paths that are unusable or of another size than the first become problems."""
        located = cls()
        for path, name in zip(paths, names, strict=True):
            if not is_image_path(path):
                rule = "an image of a store is named like 'images.npy#17'; a scan needs data.kind: volumes"
                problem = f"found {shown(path, 200)}; {rule}"
            else:
                problem = located.add(path)
            first = located.stores[:1]
            last = located.store_of[-1:]
            if not problem and first[0].shape != located.stores[last[0]].shape:
                own, others = (
                    "×".join(map(str, store.shape[1:]))
                    for store in (located.stores[last[0]], first[0])
                )
                problem = (
                    f"this image is {own} pixels, and those of {shown(first[0].path, 200)} are {others}; all must have "
                    "one size"
                )
            if problem:
                problems.add(problem, column="path", name=name)
        return located


def statistics_of(
    sums: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return mean and standard deviation (3,) of pixel values, scaled to [0, 1], from what `ImageStore.sums` returns.

    Sums of whole numbers are exact, so the result depends on no order and no machine.
    """
    total, first, second = sums.astype(object)
    if not total.all():
        raise DataError("mean and standard deviation need at least one image.")
    means = first / total / 255
    deviations = (total * second - first * first) ** 0.5 / total / 255
    return means.astype(np.float64), deviations.astype(np.float64)


def write_store(
    folder: Path, images: Iterable[Pixels], *, n_images: int, shape: tuple[int, ...]
) -> ImageStore:
    """Write `n_images` images of one `shape` (3, H, W) into a folder; never more than one image is in memory."""
    target = folder / STORE_NAME
    header = {"descr": "|u1", "fortran_order": False, "shape": (n_images, *shape)}
    # Written, not mapped: on a full disk a write raises an error, and a page of a map ends the
    # process.
    with atomic_path(target) as temporary, open(temporary, "wb", buffering=2**20) as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        n_written = 0
        for image in images:
            if image.dtype != np.uint8 or image.shape != shape:
                found = f"Image {n_written} is {image.dtype} {image.shape}"
                raise DataError(
                    f"{STORE_NAME}: images are bytes (uint8) of shape {shape}. {found}."
                )
            stream.write(np.ascontiguousarray(image).data)
            n_written += 1
        if n_written != n_images:
            raise DataError(f"{STORE_NAME}: {n_images} images were announced and {n_written} came.")
    return ImageStore.open(target)


def doubt_about_copies(
    images: Iterable[npt.NDArray[np.uint8]], names: Sequence[str], splits: Sequence[str]
) -> str:
    """Say what repeated images mean for an evaluation, or return "" if no image is repeated."""
    first: dict[bytes, int] = {}
    n_images = 0
    across = []
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
    return (
        f"{n_images:,} images are the same, byte by byte, as another of their split"
        if n_images
        else ""
    )
