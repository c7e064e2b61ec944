"""The reader of each kind of data set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from neurocontrast.data.images.cifar import N_CLASSES, is_cifar_file, read_cifar
from neurocontrast.data.images.digits import read_digits
from neurocontrast.data.images.files import ARCHIVE_ENDINGS, FileSet, open_files
from neurocontrast.data.images.folders import is_picture, read_class_folders
from neurocontrast.data.images.idx import read_mnist
from neurocontrast.data.images.pictures import Pictures
from neurocontrast.data.images.settings import ImagesSettings
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.progress import SILENT, Progress

__all__ = ["name_of", "open_pictures"]


@contextmanager
def open_pictures(
    settings: ImagesSettings, *, spool: Path | None = None, progress: Progress = SILENT
) -> Iterator[Pictures]:
    """Open the pictures that the settings name; they can be read until the block ends.

    Parameters
    ----------
    settings : ImagesSettings
    spool : Path, optional
        See `neurocontrast.data.images.files.open_files`.
    progress : Progress

    Raises
    ------
    ConfigError
        Where the data set needs a source and none is given.
    DataError
        Where the source is absent, damaged or another data set.
    """
    if settings.dataset == "digits":
        yield read_digits()
        return
    if settings.source is None:
        raise ConfigError(
            f"images.source: missing. Dataset '{settings.dataset}' needs the folder or archive that holds its files."
        )
    source = settings.source.expanduser()
    if settings.dataset in ("mnist", "fashion-mnist"):
        yield read_mnist(source, dataset=settings.dataset)
        return
    wanted = is_picture if settings.dataset == "folder" else _may_be_cifar
    with open_files(source, wanted, spool=spool, progress=progress) as files:
        pictures = _read(files, settings, source)
        yield replace(pictures, origin={**pictures.origin, "digest": files.digest()})


def _may_be_cifar(name: str) -> bool:
    return is_cifar_file(name) or is_picture(name)


def _read(files: FileSet, settings: ImagesSettings, source: Path) -> Pictures:
    if settings.dataset == "folder":
        return read_class_folders(files, source=source, with_labels=settings.label_column is None)
    if any(map(is_cifar_file, files.names)) or not files.names:
        return read_cifar(files, dataset=settings.dataset, source=source)
    pictures, n_classes = read_class_folders(files, source=source), N_CLASSES[settings.dataset]
    found = sorted(set(pictures.labels or ()))
    if len(found) != n_classes:
        raise DataError(
            f"{source.name}: {settings.dataset} has {n_classes} classes, and its folders name {len(found)} "
            f"({one_of(found[:10])}). Another set of pictures is dataset: folder."
        )
    return pictures


def name_of(settings: ImagesSettings) -> str:
    """Return what identifiers begin with: the name given, or that of the data set or folder."""
    if settings.name is not None:
        return settings.name
    if settings.dataset != "folder" or settings.source is None:
        return settings.dataset
    name = settings.source.expanduser().absolute().name
    ending = next((ending for ending in ARCHIVE_ENDINGS if name.lower().endswith(ending)), "")
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name[: len(name) - len(ending)]).strip("-._")
    return plain[:64] or "images"
