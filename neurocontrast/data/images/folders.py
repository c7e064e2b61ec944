"""Pictures in class folders, with or without ``train/`` and ``test/`` above them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from neurocontrast.data.images.decoding import PICTURE_ENDINGS, decode
from neurocontrast.data.images.files import FileSet
from neurocontrast.data.images.pictures import Pictures, class_names
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.exceptions import DataError, one_of

__all__ = ["SPLIT_OF_FOLDER", "is_picture", "read_class_folders"]

SPLIT_OF_FOLDER = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
    "testing": "test",
}
"""Folders that name a split, in any case."""


def is_picture(name: str) -> bool:
    """Say whether a file is a picture, by the ending of its name."""
    return name.lower().endswith(PICTURE_ENDINGS)


def read_class_folders(files: FileSet, *, source: Path, with_labels: bool = True) -> Pictures:
    """Return the pictures of class folders: ``cat/1.jpg``, or ``train/cat/1.jpg``.

    Parameters
    ----------
    files : FileSet
        Its names may share folders above; they are taken off.
    source : Path
        For messages.
    with_labels : bool
        Whether folders name classes; otherwise they mean nothing.

    Raises
    ------
    DataError
        Where there is no picture, some lie in folders of splits and some beside them, or one lies in no class.
    """
    if not files.names:
        raise DataError(
            f"source: {shown(source, 200)} holds no picture ({', '.join(PICTURE_ENDINGS)}); "
            f"it holds {files.n_skipped} other files."
        )
    paths = _without_common_folders([name.split("/") for name in files.names], n_kept=2 if with_labels else 1)
    splits = _splits(paths, source)
    below = [path[1:] for path in paths] if splits else paths
    labels = None
    if with_labels:
        _check_classes(below, files.names, source)
        labels = class_names_of([path[0] for path in below])

    def read(number: int) -> npt.NDArray[np.uint8]:
        return decode(files.read(files.names[number]))

    origin = {"kind": "pictures", "n_files_skipped": files.n_skipped}
    return Pictures(["/".join(path) for path in paths], labels, splits, read, origin=origin)


def class_names_of(labels: Sequence[str]) -> list[str]:
    """Return the class of each picture as text."""
    known = sorted(set(labels))
    named = dict(zip(known, class_names(known), strict=True))
    return [named[label] for label in labels]


def _without_common_folders(paths: list[list[str]], *, n_kept: int) -> list[list[str]]:
    while (
        all(len(path) > n_kept for path in paths)
        and len({path[0] for path in paths}) == 1
        and paths[0][0].lower() not in SPLIT_OF_FOLDER
    ):
        paths = [path[1:] for path in paths]
    return paths


def _splits(paths: list[list[str]], source: Path) -> list[str] | None:
    found = [SPLIT_OF_FOLDER.get(path[0].lower()) if len(path) > 1 else None for path in paths]
    if not any(found):
        return None
    outside = ["/".join(path) for path, split in zip(paths, found, strict=True) if split is None]
    if outside:
        counts = Counter(path[0] for path, split in zip(paths, found, strict=True) if split is not None)
        more = f" … and {len(outside) - N_SHOWN} more" if len(outside) > N_SHOWN else ""
        raise DataError(
            f"{source.name}: some pictures lie in {one_of(sorted(counts))}, and {len(outside)} beside them: "
            f"{one_of(outside[:N_SHOWN])}{more}. Divide all, or none."
        )
    return [split for split in found if split is not None]


def _check_classes(below: list[list[str]], names: Sequence[str], source: Path) -> None:
    problems = Problems(source.name)
    for path, name in zip(below, names, strict=True):
        if len(path) < 2:
            problems.add("this picture lies in no class folder", name=shown(name))
    if problems.found:
        problems.hint("Folders name the classes; where a table does, give images.attributes and images.label_column.")
    problems.raise_if_any()
