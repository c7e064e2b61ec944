"""Published sets of images: CIFAR-10 and CIFAR-100, MNIST and Fashion-MNIST, scikit-learn's digits."""

from __future__ import annotations

import gzip
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neurocontrast.data.natural.images_settings import ImagesSettings
from neurocontrast.data.natural.pictures import (
    ARCHIVE_FAULTS,
    FileSet,
    Pictures,
    class_names,
    grey_to_rgb,
    is_picture,
    read_class_folders,
)
from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import DataError, one_of

_N_PIXELS = 3 * 32 * 32
_OF_PYTHON_VERSION = ("batches.meta", "meta")
_CLASSES = {
    "mnist": [f"digit {digit}" for digit in range(10)],
    "fashion-mnist": [
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ],
}


class _Version(NamedTuple):
    """Files of images, files that name the classes, and numbers of classes, in the order of the bytes of a record."""

    train: tuple[str, ...]
    test: str
    names: dict[str, str]
    n_classes: dict[str, int]


_VERSIONS = {
    "cifar10": _Version(
        tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        "test_batch.bin",
        {"label": "batches.meta.txt"},
        {"label": 10},
    ),
    "cifar100": _Version(
        ("train.bin",),
        "test.bin",
        {"coarse_label": "coarse_label_names.txt", "label": "fine_label_names.txt"},
        {"coarse_label": 20, "label": 100},
    ),
}


def read_cifar(settings: ImagesSettings, files: FileSet) -> Pictures:
    """Return CIFAR-10 (records of 1 + 3,072 bytes) or CIFAR-100 (2 + 3,072), or class folders of their pictures."""
    version = _VERSIONS[settings.dataset]
    wanted = files.only(lambda name: _is_binary(name) or is_picture(name))
    if any(map(_is_binary, wanted.names)) or not wanted.names:
        return _read_binary(wanted, version, settings.dataset)
    pictures = read_class_folders(settings, files)
    found = sorted(set(pictures.labels))
    if len(found) != version.n_classes["label"]:
        raise DataError(
            f"{files.source.name}: {settings.dataset} has {version.n_classes['label']} classes, and its folders name "
            f"{len(found)} ({one_of(found[:10])}). Another set of pictures is dataset: folder."
        )
    return pictures


def _is_binary(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last.endswith((".bin", ".meta.txt", "_label_names.txt")) or last in _OF_PYTHON_VERSION


def _read_binary(files: FileSet, version: _Version, dataset: str) -> Pictures:
    hint = " A folder or archive of pictures is dataset: folder."
    if any(name.rpartition("/")[2] in _OF_PYTHON_VERSION for name in files.names):
        hint = " This is the Python version, whose pickles are never read: take the binary version of the same page."
    place_of = files.find([*version.train, version.test, *version.names.values()], dataset=dataset, hint=hint)
    n_labels, problems = len(version.n_classes), Problems(files.source.name)
    parts: dict[str, npt.NDArray[np.uint8]] = {}
    for file in (*version.train, version.test):
        content = np.frombuffer(files.read(place_of[file]), dtype=np.uint8)
        record = n_labels + _N_PIXELS
        if not len(content) or len(content) % record:
            rule = f"{dataset} has records of {record:,} bytes"
            problems.add(f"{len(content):,} bytes; {rule}, so it is cut or of another data set", name=file)
            continue
        parts[file] = content.reshape(-1, record)
        for codes, (name, n_classes) in zip(parts[file].T, version.n_classes.items(), strict=False):
            bad = np.flatnonzero(codes >= n_classes)
            if len(bad):
                found = f"image {bad[0]} has {codes[bad[0]]}"
                problems.add(f"{len(bad)} images have a {name} beyond {n_classes - 1} ({found})", name=file)
    problems.raise_if_any()
    records = np.concatenate(list(parts.values()))
    labels = {
        name: _labels(files, place_of[file], version.n_classes[name], records[:, column])
        for column, (name, file) in enumerate(version.names.items())
    }
    return Pictures(
        files=[f"{file}/{row}" for file, part in parts.items() for row in range(len(part))],
        labels=labels.pop("label"),
        splits=["test" if file == version.test else "train" for file, part in parts.items() for _ in part],
        read=lambda number: records[number, n_labels:].reshape(3, 32, 32),
        columns=labels,
        origin={"kind": "cifar binary", "digest": files.digest()},
    )


def _labels(files: FileSet, place: str, n_classes: int, codes: npt.NDArray[np.uint8]) -> Sequence[str]:
    lines = files.read(place).decode("utf-8", errors="replace").splitlines()
    known = [line.strip() for line in lines if line.strip()]
    if len(known) != n_classes or len(set(known)) != len(known):
        raise DataError(
            f"{files.source.name}: {place.rpartition('/')[2]} must name {n_classes} classes, each once. Found "
            f"{len(known)}: {shown(', '.join(known))}."
        )
    return np.array(known, dtype=object)[codes].tolist()


def read_mnist(settings: ImagesSettings, files: FileSet) -> Pictures:
    """Return the four idx files of MNIST or Fashion-MNIST: ``train-images-idx3-ubyte`` and so on."""
    names = np.array(_CLASSES[settings.dataset], dtype=object)
    files = files.only(lambda name: "idx" in name.rpartition("/")[2])
    problems = Problems(files.source.name)
    images: dict[str, npt.NDArray[np.uint8]] = {}
    labels: list[str] = []
    for split, prefix in (("train", "train"), ("test", "t10k")):
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
        images[split] = pixels
        labels += names[codes].tolist()
    if not problems.found and images["train"].shape[1:] != images["test"].shape[1:]:
        found = f"training images are {images['train'].shape[1:]} pixels and test images {images['test'].shape[1:]}"
        problems.add(found)
    problems.raise_if_any()
    pixels = np.concatenate(list(images.values()))
    return Pictures(
        files=[f"{split}/{row}" for split, part in images.items() for row in range(len(part))],
        labels=labels,
        splits=[split for split, part in images.items() for _ in part],
        read=lambda number: grey_to_rgb(pixels[number]),
        origin={"kind": "idx", "digest": files.digest()},
    )


def _read_file(files: FileSet, prefix: str, kind: str, n_dims: int) -> npt.NDArray[np.uint8]:
    allowed = [f"{prefix}-{kind}{mark}idx{n_dims}-ubyte{ending}" for mark in "-." for ending in ("", ".gz")]
    for name in files.names:
        if name.rpartition("/")[2] in allowed:
            return read_idx(name.rpartition("/")[2], files.read(name), n_dims=n_dims)
    raise DataError(f"none of {one_of(allowed)} is there")


def read_idx(name: str, content: bytes, *, n_dims: int) -> npt.NDArray[np.uint8]:
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


def read_digits(*_: object) -> Pictures:
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
