"""Published sets of images: CIFAR-10 and CIFAR-100, MNIST and Fashion-MNIST, scikit-learn's digits."""

from __future__ import annotations

import gzip
import math

import numpy as np

from neurocontrast.data.natural.pictures import (
    ARCHIVE_FAULTS,
    FileSet,
    Pictures,
    Pixels,
    class_names,
    grey_to_rgb,
)
from neurocontrast.data.problems import shown
from neurocontrast.exceptions import DataError, one_of

_N_PIXELS = 3 * 32 * 32
_CLASSES = {
    "mnist": [f"digit {digit}" for digit in range(10)],
    "fashion-mnist": [
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ],
}
_FILES_OF_CIFAR = {
    "cifar10": ([f"data_batch_{number}.bin" for number in range(1, 6)], "test_batch.bin"),
    "cifar100": (["train.bin"], "test.bin"),
}
_LABELS_OF_CIFAR = {
    "cifar10": {"label": ("batches.meta.txt", 10)},
    "cifar100": {"coarse_label": ("coarse_label_names.txt", 20), "label": ("fine_label_names.txt", 100)},
}
"""Columns of labels, in the order of the bytes of a record: file with the names, and number of classes."""


def read_cifar(dataset: str, files: FileSet) -> Pictures:
    """Return CIFAR-10 (records of 1 + 3,072 bytes) or CIFAR-100 (2 + 3,072)."""
    train, test = _FILES_OF_CIFAR[dataset]
    columns = _LABELS_OF_CIFAR[dataset]
    parts = {name: _records(files, name, dataset) for name in (*train, test)}
    records = np.concatenate(list(parts.values()))
    labels = {
        column: np.array(_names(files, file, n_classes, dataset), dtype=object)[records[:, number]].tolist()
        for number, (column, (file, n_classes)) in enumerate(columns.items())
    }
    return Pictures(
        files=[f"{file}/{row}" for file, part in parts.items() for row in range(len(part))],
        labels=labels.pop("label"),
        splits=["test" if file == test else "train" for file, part in parts.items() for _ in part],
        read=lambda number: records[number, len(columns) :].reshape(3, 32, 32),
        columns=labels,
        origin={"kind": "cifar binary", "digest": files.digest()},
    )


def _content(files: FileSet, name: str, dataset: str) -> bytes:
    place = files.called(name)
    if place is None:
        hint = "A folder or archive of pictures is dataset: folder."
        if files.called("batches.meta") or files.called("meta"):
            hint = "This is the Python version, whose pickles are never read: take the binary version of the same page."
        raise DataError(f"{files.source.name}: {dataset} needs '{name}', which is not there. {hint}")
    return files.read(place)


def _records(files: FileSet, name: str, dataset: str) -> Pixels:
    content = np.frombuffer(_content(files, name, dataset), dtype=np.uint8)
    columns = _LABELS_OF_CIFAR[dataset]
    length = len(columns) + _N_PIXELS
    if not len(content) or len(content) % length:
        raise DataError(
            f"{name}: {len(content):,} bytes; {dataset} has records of {length:,} bytes, so it is cut or of another "
            "data set."
        )
    records: Pixels = content.reshape(-1, length)
    for number, (column, (_, n_classes)) in enumerate(columns.items()):
        _check_codes(name, column, records[:, number], n_classes)
    return records


def _check_codes(name: str, column: str, codes: Pixels, n_classes: int) -> None:
    bad = np.flatnonzero(codes >= n_classes)
    if len(bad):
        raise DataError(
            f"{name}: {len(bad)} images have a {column} beyond {n_classes - 1} (image {bad[0]} has {codes[bad[0]]})."
        )


def _names(files: FileSet, name: str, n_classes: int, dataset: str) -> list[str]:
    known = _content(files, name, dataset).decode("utf-8", errors="replace").split()
    if len(known) != n_classes or len(set(known)) != len(known):
        raise DataError(
            f"{files.source.name}: {name} must name {n_classes} classes, each once. Found {len(known)}: "
            f"{shown(', '.join(known))}."
        )
    return known


def read_mnist(dataset: str, files: FileSet) -> Pictures:
    """Return the four idx files of MNIST or Fashion-MNIST: ``train-images-idx3-ubyte`` and so on."""
    names, images, labels, splits = np.array(_CLASSES[dataset], dtype=object), [], [], []
    for split, prefix in (("train", "train"), ("test", "t10k")):
        pixels = _read_file(files, f"{prefix}-images", n_dims=3)
        codes = _read_file(files, f"{prefix}-labels", n_dims=1)
        if len(pixels) != len(codes):
            raise DataError(f"{split}: there are {len(pixels):,} images and {len(codes):,} labels.")
        _check_codes(f"{prefix}-labels", "label", codes, len(names))
        images.append(pixels)
        labels += names[codes].tolist()
        splits += [split] * len(codes)
    if images[0].shape[1:] != images[1].shape[1:]:
        raise DataError(f"training images are {images[0].shape[1:]} pixels and test images {images[1].shape[1:]}.")
    pixels = np.concatenate(images)
    return Pictures(
        files=[
            f"{split}/{row}" for split, part in zip(("train", "test"), images, strict=True) for row in range(len(part))
        ],
        labels=labels,
        splits=splits,
        read=lambda number: grey_to_rgb(pixels[number]),
        origin={"kind": "idx", "digest": files.digest()},
    )


def _read_file(files: FileSet, kind: str, *, n_dims: int) -> Pixels:
    allowed = [f"{kind}{mark}idx{n_dims}-ubyte{ending}" for mark in "-." for ending in ("", ".gz")]
    for name in allowed:
        place = files.called(name)
        if place is not None:
            return read_idx(name, files.read(place), n_dims=n_dims)
    raise DataError(f"{files.source.name}: none of {one_of(allowed)} is there.")


def read_idx(name: str, content: bytes, *, n_dims: int) -> Pixels:
    """Return the array of an idx file: 00 00 08, number of dimensions, each as a big-endian 32-bit number, bytes."""
    try:
        content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except ARCHIVE_FAULTS as error:
        raise DataError(f"{name}: it is cut or damaged ({error}). Copy it again.") from None
    if content[:4] != bytes((0, 0, 8, n_dims)):
        found = content[:4].hex(" ") or "nothing"
        raise DataError(f"{name}: such an idx file of bytes begins with 00 00 08 {n_dims:02x}. Found {found}.")
    start = 4 + 4 * n_dims
    if len(content) < start:
        raise DataError(f"{name}: it is cut or damaged (it ends within its header). Copy it again.")
    shape = tuple(int(size) for size in np.frombuffer(content[4:start], dtype=">u4"))
    announced, n_found = math.prod(shape), len(content) - start
    if 0 in shape or n_found != announced:
        raise DataError(f"{name}: its header announces {announced:,} bytes, and it holds {n_found:,}.")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def read_digits() -> Pictures:
    """Return 1,797 digits of 8×8 that need no download; their values of 0 to 16 become 0 to 255."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = ((digits.images.astype(np.int64) * 255 + 8) // 16).astype(np.uint8)
    names = class_names([str(name) for name in digits.target_names], word="digit")
    return Pictures(
        files=[str(number) for number in range(len(pixels))],
        labels=[names[code] for code in digits.target],
        splits=None,
        read=lambda number: grey_to_rgb(pixels[number]),
        origin={"kind": "scikit-learn"},
    )
