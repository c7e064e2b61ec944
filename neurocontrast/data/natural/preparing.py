"""A prepared data set on disk: the store, the table, and the record of how both were made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from neurocontrast.data.natural.checking import RECORD_NAME, doubt_about_copies
from neurocontrast.data.natural.pictures import (
    ARCHIVE_ENDINGS,
    Pictures,
    Pixels,
    open_files,
    paint,
    read_class_folders,
    scale,
)
from neurocontrast.data.natural.planning import Plan, plan_images
from neurocontrast.data.natural.sources import read_cifar, read_digits, read_mnist
from neurocontrast.data.natural.store import ImageStore, write_store
from neurocontrast.data.problems import Problems
from neurocontrast.data.settings import SPLITS, ImagesSettings
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.files import digest_of_file, write_json, write_table
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment


def write_images(settings: ImagesSettings, folder: Path, *, progress: Progress = SILENT) -> None:
    """Write ``images.npy``, ``participants.tsv`` and ``images.json`` into a folder.

    Pictures are decoded one after another, and never all of them are in memory. The store and the table are the same
    bytes for the same settings, source, and version of the library that decodes JPEG.
    """
    if settings.dataset == "digits":
        _write(read_digits(), settings, folder, progress)
        return
    if settings.source is None:
        raise ConfigError(
            f"images.source: missing. Dataset '{settings.dataset}' needs the folder or archive that holds its files."
        )
    with open_files(settings.source.expanduser(), scratch=folder) as files:
        if settings.dataset == "folder":
            pictures = read_class_folders(files)
        else:
            read = read_cifar if settings.dataset.startswith("cifar") else read_mnist
            pictures = read(settings.dataset, files)
        _write(pictures, settings, folder, progress)


def _write(pictures: Pictures, settings: ImagesSettings, folder: Path, progress: Progress) -> None:
    name = _name(settings)
    plan = plan_images(pictures, settings, name=name)
    store = _write_store(_reader(pictures, plan, settings), plan.table, folder, progress)
    write_table(folder / "participants.tsv", plan.table)
    splits = list(plan.table["split"])
    copies = doubt_about_copies(iter(store.array), list(plan.table["participant_id"]), splits)
    if "of another split" in copies:
        progress.warning(copies)
    write_json(folder / RECORD_NAME, _record(settings, name, store, plan.table, pictures.origin))


def _name(settings: ImagesSettings) -> str:
    """Return what all identifiers begin with."""
    if settings.name is not None:
        return settings.name
    if settings.dataset != "folder" or settings.source is None:
        return settings.dataset
    name = settings.source.expanduser().absolute().name
    ending = next((ending for ending in ARCHIVE_ENDINGS if name.lower().endswith(ending)), "")
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name[: len(name) - len(ending)]).strip("-._")
    return plain[:64] or "images"


def _reader(pictures: Pictures, plan: Plan, settings: ImagesSettings) -> Callable[[int], Pixels]:
    """Return a function that reads the image of a row of the table."""
    size = (settings.size, settings.size) if isinstance(settings.size, int) else settings.size

    def read(row: int) -> Pixels:
        image = pictures.read(int(plan.rows[row]))
        if size is not None:
            image = scale(image, size)
        return image if plan.colours is None else paint(image, plan.colours[row])

    return read


def _write_store(read: Callable[[int], Pixels], table: pd.DataFrame, folder: Path, progress: Progress) -> ImageStore:
    files = table["file"] if "file" in table else table["path"]
    names = [f"{participant} ({file})" for participant, file in zip(table["participant_id"], files, strict=True)]
    problems = Problems("images")

    def readable() -> Iterator[tuple[str, Pixels]]:
        """Give every image that can be read with its name; all others become problems."""
        for row, name in enumerate(names):
            try:
                yield name, read(row)
            except DataError as error:
                problems.add(str(error), name=name)

    shape = next((image.shape for _, image in readable()), None)
    if shape is None:
        problems.raise_if_any()
        raise DataError("images: there is none.")
    problems.found.clear()

    def images() -> Iterator[Pixels]:
        for name, image in readable():
            task.advance()
            if image.shape == shape:
                yield image
                continue
            problems.hint("All images need one size: images.size=64, for instance, scales and crops them to it.")
            found_size, first_size = (f"{height}×{width}" for _, height, width in (image.shape, shape))
            problems.add(f"{found_size} pixels, and the first has {first_size}", name=name)
        problems.raise_if_any()

    with progress.task("decoding", len(names), "images") as task:
        return write_store(folder, images(), n_images=len(names), shape=shape)


def _record(
    settings: ImagesSettings, name: str, store: ImageStore, table: pd.DataFrame, origin: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of ``images.json``, without a path of this machine."""
    from PIL import features

    environment = describe_environment()
    environment.pop("command")  # holds paths of the machine
    environment["packages"]["pillow"] = metadata.version("pillow")
    counts = pd.crosstab(table["label"], table["split"])
    chosen = settings.model_dump(mode="json")
    chosen["source"] = None if settings.source is None else settings.source.expanduser().absolute().name
    return {
        "format": 1,
        "dataset": settings.dataset,
        "name": name,
        "shape": list(store.shape),
        "n_images": {split: int((table["split"] == split).sum()) for split in SPLITS},
        "classes": {
            label: {split: int(row[split]) for split in SPLITS if row.get(split, 0)} for label, row in counts.iterrows()
        },
        "columns": [column for column in table if column not in ("participant_id", "path")],
        "source": {"name": chosen["source"], **origin},
        "settings": chosen,
        "images_sha256": digest_of_file(store.path),
        "libraries": {name: features.version(name) for name in ("libjpeg_turbo", "jpg")},
        "environment": environment,
    }
