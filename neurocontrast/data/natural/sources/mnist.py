"""MNIST and Fashion-MNIST: four idx files, compressed by gzip or not."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from neurocontrast.data.natural.files import ARCHIVE_FAULTS, FileSet
from neurocontrast.data.natural.images_settings import ImagesSettings
from neurocontrast.data.natural.pictures import Pictures, grey_to_rgb
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import DataError, one_of

__all__ = ["read_idx", "read_mnist"]

_CLASSES = {
    "mnist": [f"digit {digit}" for digit in range(10)],
    "fashion-mnist": (
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
}
_FILES = {"train": "train", "test": "t10k"}


def read_mnist(settings: ImagesSettings, open_wanted: Callable[[Callable[[str], bool]], FileSet]) -> Pictures:
    """Return the images of the four files of MNIST or Fashion-MNIST: ``train-images-idx3-ubyte`` and so on."""
    names = np.array(_CLASSES[settings.dataset], dtype=object)
    files = open_wanted(lambda name: "idx" in name.rpartition("/")[2])
    problems = Problems(files.source.name)
    images: list[npt.NDArray[np.uint8]] = []
    labels: list[str] = []
    splits: list[str] = []
    numbers: list[str] = []
    for split, prefix in _FILES.items():
        try:
            pixels, codes = (_read_file(files, prefix, kind, n) for kind, n in (("images", 3), ("labels", 1)))
            if len(pixels) != len(codes):
                raise DataError(f"{split}: there are {len(pixels):,} images and {len(codes):,} labels.")
            bad = np.flatnonzero(codes >= len(names))
            if len(bad):
                found = f"image {bad[0]} has {codes[bad[0]]}"
                raise DataError(f"{split}: {len(bad)} labels are beyond {len(names) - 1} ({found}).")
        except DataError as error:
            problems.add(str(error))
            continue
        images.append(pixels)
        labels += names[codes].tolist()
        splits += [split] * len(codes)
        numbers += [f"{split}/{row}" for row in range(len(codes))]
    if not problems.found and images[0].shape[1:] != images[1].shape[1:]:
        problems.add(f"training images are {images[0].shape[1:]} pixels and test images {images[1].shape[1:]}")
    problems.raise_if_any()
    pixels = np.concatenate(images)
    origin: dict[str, object] = {"kind": "idx", "digest": files.digest}
    return Pictures(numbers, labels, splits, lambda number: grey_to_rgb(pixels[number]), origin=origin)


def _read_file(files: FileSet, prefix: str, kind: str, n_dims: int) -> npt.NDArray[np.uint8]:
    allowed = [f"{prefix}-{kind}{mark}idx{n_dims}-ubyte{ending}" for mark in "-." for ending in ("", ".gz")]
    for name in files.names:
        if name.rpartition("/")[2] in allowed:
            return read_idx(name.rpartition("/")[2], files.read(name), n_dims=n_dims)
    raise DataError(f"none of {one_of(allowed)} is there")


def read_idx(name: str, content: bytes, *, n_dims: int) -> npt.NDArray[np.uint8]:
    """Return the array of an idx file of bytes.

    The format: two zero bytes, 8 for unsigned bytes, the number of dimensions, each dimension as a big-endian
    32-bit number, the values.
    """
    try:
        content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except ARCHIVE_FAULTS as error:
        raise DataError(f"{name}: it is cut or damaged ({error}). Copy it again.") from None
    if content[:4] != bytes((0, 0, 8, n_dims)):
        found = content[:4].hex(" ") or "nothing"
        raise DataError(
            f"{name}: an idx file of bytes in {n_dims} dimension{'s' if n_dims > 1 else ''} begins with "
            f"00 00 08 {n_dims:02x}. Found {found}."
        )
    start = 4 + 4 * n_dims
    if len(content) < start:
        raise DataError(f"{name}: it is cut or damaged (it ends within its header). Copy it again.")
    shape = tuple(int(size) for size in np.frombuffer(content[4:start], dtype=">u4"))
    if 0 in shape or len(content) - start != np.prod(shape, dtype=object):
        raise DataError(
            f"{name}: its header announces {np.prod(shape, dtype=object):,} bytes, and it holds "
            f"{len(content) - start:,}."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
