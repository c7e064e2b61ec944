"""CIFAR-10 and CIFAR-100 in their official binary version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from neurocontrast.data.images.files import FileSet
from neurocontrast.data.images.pictures import Pictures
from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import DataError, one_of

__all__ = ["N_CLASSES", "is_cifar_file", "read_cifar"]

_N_PIXELS = 3 * 32 * 32
_OF_PYTHON_VERSION = ("batches.meta", "meta")


@dataclass(frozen=True)
class _Layout:
    """Files of a version: which hold images, which hold names, and what stands before the pixels of each image."""

    train: tuple[str, ...]
    test: tuple[str, ...]
    names: dict[str, str]
    n_classes: dict[str, int]


_LAYOUTS = {
    "cifar10": _Layout(
        train=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        test=("test_batch.bin",),
        names={"label": "batches.meta.txt"},
        n_classes={"label": 10},
    ),
    "cifar100": _Layout(
        train=("train.bin",),
        test=("test.bin",),
        names={"coarse_label": "coarse_label_names.txt", "label": "fine_label_names.txt"},
        n_classes={"coarse_label": 20, "label": 100},
    ),
}

N_CLASSES = {dataset: layout.n_classes["label"] for dataset, layout in _LAYOUTS.items()}
"""Of each version."""


def is_cifar_file(name: str) -> bool:
    """Say whether a file may belong to the official files, of either version."""
    last = name.rpartition("/")[2]
    return last.endswith((".bin", ".meta.txt", "_label_names.txt")) or last in _OF_PYTHON_VERSION


def read_cifar(files: FileSet, *, dataset: str, source: Path) -> Pictures:
    """Return the images of CIFAR-10 (records of 1 + 3,072 bytes) or CIFAR-100 (2 + 3,072 bytes).

    Raises
    ------
    DataError
        Where files are absent, of another length, hold labels out of range, or are of the Python version.
    """
    layout = _LAYOUTS[dataset]
    place_of = _places(files, layout, dataset=dataset, source=source)
    record = len(layout.n_classes) + _N_PIXELS
    problems = Problems(source.name)
    codes, where = [], []
    for file in (*layout.train, *layout.test):
        content = np.frombuffer(files.read(place_of[file]), dtype=np.uint8)
        if not len(content) or len(content) % record:
            rule = f"{dataset} has records of {record:,} bytes"
            problems.add(f"{len(content):,} bytes; {rule}, so it is cut or of another data set", name=file)
            continue
        codes.append(content.reshape(-1, record)[:, : len(layout.n_classes)].copy())
        where += [(file, row) for row in range(len(codes[-1]))]
        _check_labels(codes[-1], layout, file, problems)
    problems.raise_if_any()
    labels = _labels(files, place_of, layout, np.concatenate(codes), source)

    # Rows are read in the order of the file; the one at hand stays.
    @lru_cache(maxsize=1)
    def content_of(file: str) -> npt.NDArray[np.uint8]:
        return np.frombuffer(files.read(place_of[file]), dtype=np.uint8).reshape(-1, record)

    def read(number: int) -> npt.NDArray[np.uint8]:
        file, row = where[number]
        return content_of(file)[row, len(layout.n_classes) :].reshape(3, 32, 32)

    splits = ["train" if file in layout.train else "test" for file, _ in where]
    names = [f"{file}/{row}" for file, row in where]
    return Pictures(names, labels.pop("label"), splits, read, columns=dict(labels), origin={"kind": "cifar binary"})


def _places(files: FileSet, layout: _Layout, *, dataset: str, source: Path) -> dict[str, str]:
    """Return where each file of the layout is."""
    needed = (*layout.train, *layout.test, *layout.names.values())
    found = {file: [name for name in files.names if name.rpartition("/")[2] == file] for file in needed}
    lacking = [file for file, places in found.items() if not places]
    if lacking:
        python = any(name.rpartition("/")[2] in _OF_PYTHON_VERSION for name in files.names)
        hint = (
            " This is the Python version, whose pickles are never read: take the binary version of the same page."
            if python
            else " A folder or archive of pictures is dataset: folder."
        )
        raise DataError(f"{source.name}: {dataset} needs {one_of(lacking)}, which is not there.{hint}")
    twice = [file for file, places in found.items() if len(places) > 1]
    if twice:
        raise DataError(f"{source.name}: {one_of(twice)} is there more than once; name the folder of one of them.")
    return {file: places[0] for file, places in found.items()}


def _check_labels(codes: npt.NDArray[np.uint8], layout: _Layout, file: str, problems: Problems) -> None:
    for column, (name, n_classes) in enumerate(layout.n_classes.items()):
        bad = np.flatnonzero(codes[:, column] >= n_classes)
        if len(bad):
            found = f"image {bad[0]} has {codes[bad[0], column]}"
            problems.add(f"{len(bad)} images have a {name} beyond {n_classes - 1} ({found})", name=file)


def _labels(
    files: FileSet, place_of: dict[str, str], layout: _Layout, codes: npt.NDArray[np.uint8], source: Path
) -> dict[str, Sequence[str]]:
    labels: dict[str, Sequence[str]] = {}
    for column, (name, file) in enumerate(layout.names.items()):
        text = files.read(place_of[file]).decode("utf-8", errors="replace")
        known = [line.strip() for line in text.splitlines() if line.strip()]
        if len(known) != layout.n_classes[name] or len(set(known)) != len(known):
            raise DataError(
                f"{source.name}: {file} must name {layout.n_classes[name]} classes, each once. Found {len(known)}: "
                f"{shown(', '.join(known))}."
            )
        labels[name] = np.array(known, dtype=object)[codes[:, column]].tolist()
    return labels
