"""MNIST, Fashion-MNIST and their like: idx files, compressed by gzip or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from neurocontrast.data.images.decoding import grey_to_rgb
from neurocontrast.data.images.pictures import Pictures, class_names
from neurocontrast.data.images.tarballs import ARCHIVE_FAULTS, opened
from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.files import digest_of, digest_of_file

__all__ = ["read_idx", "read_mnist"]

_DIGITS = class_names([str(digit) for digit in range(10)], word="digit")
_FASHION = [
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
]
_CLASSES = {"mnist": _DIGITS, "fashion-mnist": _FASHION}
_FILES = {"train": "train", "test": "t10k"}
_MAX_IMAGES, _MAX_SIDE = 10_000_000, 1024


def read_mnist(source: Path, *, dataset: str) -> Pictures:
    """Return the images of a folder with the four files of MNIST or Fashion-MNIST.

    Parameters
    ----------
    source : Path
        Folder of ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``, ``t10k-…`` (or ``….idx3-ubyte``), with or
        without ``.gz``.
    dataset : {'mnist', 'fashion-mnist'}
        Names the classes.

    Raises
    ------
    DataError
        Where files are absent, cut or of another kind, labels are out of range, or numbers disagree; all together.
    """
    if not source.is_dir():
        raise DataError(f"source: {shown(source, 200)} must be the folder of the idx files of {dataset}.")
    problems = Problems(str(source.name))
    names = _CLASSES[dataset]
    images, labels, splits, files = [], [], [], []
    for split, prefix in _FILES.items():
        try:
            pixels_file, labels_file = (_find(source, prefix, kind) for kind in ("images", "labels"))
            pixels, codes = read_idx(pixels_file, n_dims=3), read_idx(labels_file, n_dims=1)
            _check(pixels, codes, split, n_classes=len(names))
        except DataError as error:
            problems.add(str(error))
            continue
        images.append(pixels)
        labels += np.array(names, dtype=object)[codes].tolist()
        splits += [split] * len(codes)
        files += [pixels_file, labels_file]
    if not problems.found and images[0].shape[1:] != images[1].shape[1:]:
        problems.add(f"training images are {images[0].shape[1:]} pixels and test images {images[1].shape[1:]}")
    problems.raise_if_any()
    pixels = np.concatenate(images)
    origin = {"kind": "idx", "sha256": digest_of(*(digest_of_file(file) for file in files))}
    numbers = [f"{split}/{row}" for split, part in zip(_FILES, images, strict=True) for row in range(len(part))]
    return Pictures(numbers, labels, splits, lambda number: grey_to_rgb(pixels[number]), origin=origin)


def read_idx(path: Path, *, n_dims: int) -> npt.NDArray[np.uint8]:
    """Return the array of an idx file of bytes.

    The format: two zero bytes, 8 for unsigned bytes, the number of dimensions, each dimension as a big-endian
    32-bit number, the values.

    Raises
    ------
    DataError
        Where the file is cut, damaged, too long, or not of bytes in `n_dims` dimensions.
    """
    try:
        with opened(path) as stream:
            header = stream.read(4 + 4 * n_dims)
            if header[:4] != bytes((0, 0, 8, n_dims)):
                found = header[:4].hex(" ") or "nothing"
                raise DataError(
                    f"{path.name}: an idx file of bytes in {n_dims} dimension{'s' if n_dims > 1 else ''} begins with "
                    f"00 00 08 {n_dims:02x}. Found {found}."
                )
            if len(header) < 4 + 4 * n_dims:
                raise EOFError("it ends within its header")
            shape = tuple(int(size) for size in np.frombuffer(header[4:], dtype=">u4"))
            if not 0 < shape[0] <= _MAX_IMAGES or any(not 4 <= side <= _MAX_SIDE for side in shape[1:]):
                raise DataError(f"{path.name}: its header announces {shape}, which cannot be images.")
            n_bytes = int(np.prod(shape, dtype=np.int64))
            content = stream.read(n_bytes + 1)
    except ARCHIVE_FAULTS as error:
        raise DataError(
            f"{path.name}: it is cut or damaged ({error or type(error).__name__}). Copy it again."
        ) from None
    if len(content) != n_bytes:
        held = "more" if len(content) > n_bytes else f"{len(content):,}"
        raise DataError(f"{path.name}: its header announces {n_bytes:,} bytes, and it holds {held}.")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _find(source: Path, prefix: str, kind: str) -> Path:
    n_dims = 3 if kind == "images" else 1
    names = [f"{prefix}-{kind}{mark}idx{n_dims}-ubyte{ending}" for mark in "-." for ending in ("", ".gz")]
    for name in names:
        if (source / name).is_file():
            return source / name
    raise DataError(f"none of {one_of(names)} is there")


def _check(pixels: npt.NDArray[np.uint8], codes: npt.NDArray[np.uint8], split: str, *, n_classes: int) -> None:
    if len(pixels) != len(codes):
        raise DataError(f"{split}: there are {len(pixels):,} images and {len(codes):,} labels.")
    bad = np.flatnonzero(codes >= n_classes)
    if len(bad):
        raise DataError(f"{split}: {len(bad)} labels are beyond {n_classes - 1} (image {bad[0]} has {codes[bad[0]]}).")
