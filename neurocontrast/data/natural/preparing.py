"""A prepared data set on disk: the store, the table, and the record of how both were made."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.natural.checking import RECORD_NAME, repeated_images
from neurocontrast.data.natural.images_settings import SOURCES, SPLITS, ImagesSettings
from neurocontrast.data.natural.pictures import ARCHIVE_ENDINGS, Pictures, open_files, paint, scale
from neurocontrast.data.natural.planning import BACKGROUND_COLUMNS, Plan, plan_images
from neurocontrast.data.natural.store import ImageStore, write_store
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.files import digest_of_file, write_json, write_table
from neurocontrast.lazy import load
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment

Pixels = npt.NDArray[np.uint8]


def write_images(settings: ImagesSettings, folder: Path, *, progress: Progress = SILENT) -> None:
    """Write ``images.npy``, ``participants.tsv`` and ``images.json`` into a folder.

    Pictures are decoded one after another, and never all of them are in memory. The store and the table are the same
    bytes for the same settings, source, and version of the library that decodes JPEG.
    """
    if settings.source is None and settings.dataset != "digits":
        raise ConfigError(
            f"images.source: missing. Dataset '{settings.dataset}' needs the folder or archive that holds its files."
        )
    name = _name(settings)
    opened = nullcontext() if settings.source is None else open_files(settings.source.expanduser(), scratch=folder)
    with opened as files:
        pictures: Pictures = load(SOURCES[settings.dataset])(settings, files)
        plan = plan_images(pictures, settings, name=name)
        store = _write_store(_reader(pictures, plan, settings), plan.table, folder, progress)
    write_table(folder / "participants.tsv", plan.table)
    repeated = repeated_images(iter(store.array), list(plan.table["participant_id"]), list(plan.table["split"]))
    if repeated.n_across:
        progress.warning(repeated.sentence())
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
    shape = _first_shape(read, names)
    n_bytes, free = len(names) * int(np.prod(shape)), shutil.disk_usage(folder).free
    if n_bytes > free:
        raise DataError(f"images.npy needs {n_bytes / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free there.")

    def images() -> Iterator[Pixels]:
        """Give every image; one that cannot be used is a problem and zeros, so that all of them are found."""
        problems = Problems("images")
        for row, name in enumerate(names):
            image = np.zeros(shape, dtype=np.uint8)
            try:
                found = read(row)
                if found.shape != shape:
                    problems.hint(
                        "All images need one size: images.size=64, for instance, scales and crops them to it."
                    )
                    found_size, first_size = (f"{height}×{width}" for _, height, width in (found.shape, shape))
                    raise DataError(f"{found_size} pixels, and the first has {first_size}")
                image = found
            except DataError as error:
                problems.add(str(error), name=name)
            yield image
            task.advance()
        problems.raise_if_any()

    with progress.task("decoding", len(names), "images") as task:
        return write_store(folder, images(), n_images=len(names), shape=shape)


def _first_shape(read: Callable[[int], Pixels], names: list[str]) -> tuple[int, ...]:
    """Return the shape of the first picture that can be read."""
    problems = Problems("images")
    for row, name in enumerate(names):
        try:
            return read(row).shape
        except DataError as error:
            problems.add(str(error), name=name)
    raise DataError(problems.to_text())


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
    for key in ("source", "attributes"):
        chosen[key] = None if chosen[key] is None else Path(chosen[key]).expanduser().absolute().name
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
        "statement": _statements(settings),
        "source": {"name": chosen["source"], **origin},
        "settings": chosen,
        "images_sha256": digest_of_file(store.path),
        "libraries": {name: features.version(name) for name in ("libjpeg_turbo", "jpg")},
        "environment": environment,
    }


def _statements(settings: ImagesSettings) -> list[str]:
    sentences = []
    if settings.size is not None:
        sentences.append("Scaled to cover the size (bicubic, Pillow) and cropped around the centre.")
    if settings.background:
        sentences.append(
            "Grey pictures as black on a coloured background, (255 - x)·c/255: one of ten colours plus normal noise "
            f"of standard deviation {settings.background_sd:g} in each channel, clipped to 0-255 (ColorMNIST, Tsai et "
            "al., ICLR 2022, and their released code). The colour does not depend on the class. "
            f"{', '.join(BACKGROUND_COLUMNS)} are c/255."
        )
    for split in SPLITS:
        n_kept = getattr(settings, f"n_{split}")
        if n_kept is not None:
            sentences.append(
                f"A subset: {n_kept:,} images of {split}, stratified by label, chosen by seed {settings.seed}."
            )
    return sentences
