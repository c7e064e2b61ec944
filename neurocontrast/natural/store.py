"""Stores of images: memory-mapped files of bytes; an image's path is like ``images.npy#17``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neurocontrast.data.addresses import Address
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
    """Split an image's path, as ``images.npy#17``, into the store's path and the index."""
    match = _IMAGE_PATH.fullmatch(text)
    if match is None:
        raise DataError(
            "an image's path is that of a store and an index, such as 'images.npy#17'. Got "
            f"{shown(text)}."
        )
    return Path(match["store"]), int(match["index"])


@dataclass(frozen=True, eq=False)
class ImageStore:
    """Images of one size in a ``.npy`` file, mapped into memory.

    `write_store` writes the file, and `ImageStore.open` opens one.
    """

    path: Path
    array: Pixels = field(repr=False)
    """Memory-mapped pixels (n, 3, H, W): red, green, blue."""

    @classmethod
    def open(cls, path: str | Path) -> ImageStore:
        """Open a store of images for reading.

        A file that is absent, cut, damaged or no array of images is a `DataError`.
        """
        source = Path(path)
        check_place(source, remedy="Give an image store; 'neurocontrast images' writes one.")
        try:
            array = np.load(source, mmap_mode="r", allow_pickle=False)
        except DAMAGE as error:
            raise DataError(
                f"{source.name}: cannot be read as a store of images ({said(error)}); make it "
                "again."
            ) from None
        if not isinstance(array, np.memmap) or not _is_of_images(array):
            content = "an archive of arrays"
            if isinstance(array, np.ndarray):
                content = f"{array.dtype} {tuple(array.shape)}"
            raise DataError(
                f"{source.name}: a store holds bytes (uint8) of shape (n, 3, H, W). Found "
                f"{content}."
            )
        if not array.flags.c_contiguous or 0 in array.shape:
            raise DataError(
                f"{source.name}: a store holds at least one image, in C order. Found {array.shape}."
            )
        return cls(source, array)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one image, (3, H, W)."""
        return self.array.shape[1:]

    @property
    def size_text(self) -> str:
        """Height and width of an image in pixels, for messages: "32×32"."""
        return "×".join(map(str, self.shape[1:]))

    def sums(self, indices: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return number, sum and sum of squares of each colour's pixels, over images `indices`.

        The array (3, 3) has a row for each sum and a column for each colour. Sums are exact.
        """
        rows = np.sort(np.asarray(indices, dtype=np.int64))
        sums = np.zeros((3, 3), dtype=np.int64)
        n_bytes = 8 * int(np.prod(self.shape))  # of an image as int64
        n_at_once = max(1, _BYTES_AT_ONCE // n_bytes)
        for start in range(0, len(rows), n_at_once):
            block = self.array[rows[start : start + n_at_once]].astype(np.int64)
            sums += [
                [block[:, 0].size] * 3,
                block.sum(axis=(0, 2, 3)),
                np.square(block).sum(axis=(0, 2, 3)),
            ]
        return sums

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process maps the file for itself, so that no pixels are copied.
        return (ImageStore.open, (self.path,))


def _is_of_images(array: npt.NDArray[Any]) -> bool:
    """Tell whether an array holds RGB images as bytes."""
    return array.dtype == np.uint8 and array.ndim == 4 and array.shape[1] == 3


class Located:
    """Images found by their paths, with the opened stores that hold the images.

    A store is a ``.npy`` file of images of one size. For each image, `store_of` has the number of
    its store in `stores`, and `index_of` the index in that store.
    """

    def __init__(self) -> None:
        self.stores: list[ImageStore] = []
        self.store_of: list[int] = []
        self.index_of: list[int] = []
        self._numbers: dict[str, int] = {}
        self._problems: dict[str, str] = {}

    def add(self, path: str) -> str:
        """Add the image that `path` names; return why the image cannot be used, or "" if added.

        The path is a store's and an index, as ``images.npy#17``. A store that cannot be opened, or
        has too few images, is a reason, and the image is not added then.
        """
        file, _, index = path.rpartition("#")
        if file not in self._numbers and file not in self._problems:
            self._open(file)
        if file in self._problems:
            return self._problems[file]
        number = self._numbers[file]
        store = self.stores[number]
        if int(index) >= len(store.array):
            return (
                f"there is no image {int(index)} in {shown(file, 200)}, which holds "
                f"{len(store.array)}, counted from 0"
            )
        self.store_of.append(number)
        self.index_of.append(int(index))
        return ""

    def _open(self, file: str) -> None:
        """Open the store of images `file` and append the store to `stores`.

        If the file cannot be opened, the error's message is kept in `_problems` by the path of the
        file, and nothing is appended.
        """
        try:
            self.stores.append(ImageStore.open(file))
            self._numbers[file] = len(self.stores) - 1
        except DataError as error:
            self._problems[file] = str(error)

    @classmethod
    def of(cls, paths: Sequence[str], names: Sequence[str], problems: Problems) -> Located:
        """Return the images of `paths` as `Located`, and add an unusable path to `problems`.

        A path is unusable if it names no image, or if the image differs in size from the images of
        the first store. `problems` gets the reason with the image's name in `names`.
        """
        located = cls()
        for path, name in zip(paths, names, strict=True):
            problem = located._problem_of(path)
            if problem:
                problems.add(problem, column="path", name=name)
        return located

    def _problem_of(self, path: str) -> str:
        """Add the image that `path` names to this object; return why the image is unusable, or "".

        Reasons are a path unlike ``images.npy#17``, a store that cannot be opened, an index beyond
        the store's last image, and a size in pixels other than of the images of the first store in
        `stores`. In the last case the image is added all the same, in the other cases not.
        """
        if not is_image_path(path):
            return (
                f"found {shown(path, 200)}; an image of a store is named like 'images.npy#17'; a "
                "scan needs data.kind: volumes"
            )
        return self.add(path) or self._problem_of_size()

    def _problem_of_size(self) -> str:
        """Return a message if the image added last is not of the first store's size, or "".

        The size is height and width in pixels, which all images of a store share. The first store
        is the one that was opened first.
        """
        first = self.stores[0]
        last = self.stores[self.store_of[-1]]
        if first.shape == last.shape:
            return ""
        return (
            f"this image is {last.size_text} pixels, and those of {shown(first.path, 200)} are "
            f"{first.size_text}; all must have one size"
        )

    def images(self) -> Iterator[Pixels]:
        """Yield the pixels (3, H, W) of each image, a uint8 array, in the order of `add`."""
        for number, index in zip(self.store_of, self.index_of, strict=True):
            yield self.stores[number].array[index]


def new_finder() -> Callable[[str], str]:
    """Return a function that tells why an image cannot be used: path of the image → reason, or "".

    The path, as ``images.npy#17``, is the path of a store and an index from 0; a store is a
    ``.npy`` file with the pixels of many images. The function opens each store once.
    """
    return Located().add


ADDRESS = Address(
    kind="images",
    sample="an image of a store",
    samples="images of a store, as `neurocontrast images` writes them,",
    matches=is_image_path,
    new_finder=new_finder,
)
"""Form of an image's address in a table's column ``path``."""


def statistics_of(
    sums: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return mean and standard deviation (3,) of each colour in [0, 1], from `ImageStore.sums`.

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
    """Write images of one shape (3, H, W) one after another into ``images.npy`` in a folder.

    Return the opened store. Another number of images than `n_images`, or another shape, is a
    `DataError`.
    """
    target = folder / STORE_NAME
    header = {"descr": "|u1", "fortran_order": False, "shape": (n_images, *shape)}
    # Written, not mapped: on a full disk a write raises an error, and a page of a map ends the
    # process.
    with atomic_path(target) as temporary, open(temporary, "wb", buffering=2**20) as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        n_written = 0
        for image in images:
            if image.dtype != np.uint8 or image.shape != shape:
                raise DataError(
                    f"{STORE_NAME}: images are bytes (uint8) of shape {shape}. Image {n_written} "
                    f"is {image.dtype} {image.shape}."
                )
            stream.write(np.ascontiguousarray(image).data)
            n_written += 1
        if n_written != n_images:
            raise DataError(f"{STORE_NAME}: {n_images} images were announced and {n_written} came.")
    return ImageStore.open(target)


def doubt_about_copies(
    images: Iterable[Pixels], names: Sequence[str], splits: Sequence[str]
) -> str:
    """Return a warning that some of `images` are the same, byte by byte; "" if all differ.

    `names` and `splits` are the images' identifiers and splits. The warning names a pair of copies
    in different splits, if there is one: such a copy flatters an evaluation.
    """
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
            f"{len(across):,} images of validation or test are the same, byte by byte, as one of "
            f"another split (for instance {across[0]}): figures on them flatter a little."
        )
    if n_images:
        return f"{n_images:,} images are the same, byte by byte, as another of their split"
    return ""
