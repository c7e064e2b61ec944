"""CIFAR-10 and CIFAR-100: the official binary version, or class folders of pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neurocontrast.data.natural.files import FileSet
from neurocontrast.data.natural.images_settings import ImagesSettings
from neurocontrast.data.natural.pictures import Pictures
from neurocontrast.data.natural.sources.folder import is_picture, pictures_of_folders
from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import DataError, one_of

__all__ = ["read_cifar"]

_N_PIXELS = 3 * 32 * 32
_OF_PYTHON_VERSION = ("batches.meta", "meta")


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


def read_cifar(settings: ImagesSettings, open_wanted: Callable[[Callable[[str], bool]], FileSet]) -> Pictures:
    """Return the images of CIFAR-10 (records of 1 + 3,072 bytes) or CIFAR-100 (2 + 3,072 bytes)."""
    version = _VERSIONS[settings.dataset]
    files = open_wanted(lambda name: _is_binary(name) or is_picture(name))
    if any(map(_is_binary, files.names)) or not files.names:
        return _read_binary(files, version, settings.dataset)
    pictures = pictures_of_folders(files)
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
    n_labels = len(version.n_classes)

    @lru_cache(maxsize=1)  # images are read in the order of the files
    def records_of(file: str) -> npt.NDArray[np.uint8]:
        content = np.frombuffer(files.read(place_of[file]), dtype=np.uint8)
        record = n_labels + _N_PIXELS
        if not len(content) or len(content) % record:
            rule = f"{dataset} has records of {record:,} bytes"
            raise DataError(f"{len(content):,} bytes; {rule}, so it is cut or of another data set")
        return content.reshape(-1, record)

    problems = Problems(files.source.name)
    codes, where = [], []
    for file in (*version.train, version.test):
        try:
            codes.append(records_of(file)[:, :n_labels].copy())
        except DataError as error:
            problems.add(str(error), name=file)
            continue
        where += [(file, row) for row in range(len(codes[-1]))]
        for column, (name, n_classes) in enumerate(version.n_classes.items()):
            bad = np.flatnonzero(codes[-1][:, column] >= n_classes)
            if len(bad):
                found = f"image {bad[0]} has {codes[-1][bad[0], column]}"
                problems.add(f"{len(bad)} images have a {name} beyond {n_classes - 1} ({found})", name=file)
    problems.raise_if_any()
    labels = {
        name: _labels(files, place_of[file], version.n_classes[name], np.concatenate(codes)[:, column])
        for column, (name, file) in enumerate(version.names.items())
    }
    return Pictures(
        files=[f"{file}/{row}" for file, row in where],
        labels=labels.pop("label"),
        splits=["test" if file == version.test else "train" for file, _ in where],
        read=lambda number: records_of(where[number][0])[where[number][1], n_labels:].reshape(3, 32, 32),
        columns=labels,
        origin={"kind": "cifar binary", "digest": files.digest},
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
