"""Prepare a data set of natural images: choose splits, and write pixels, table and record.

Written are ``images.npy``, the store, one array with the pixels of all images;
``participants.tsv``, a table with a row for each image; and ``images.json``, a record of the data
set, the settings and the software.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.problems import Problems
from neurocontrast.documents.environment import Environment
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.files import digest_of_file, write_json, write_table
from neurocontrast.natural.archives import ARCHIVE_ENDINGS, FileSet, open_files
from neurocontrast.natural.formats import (
    Pictures,
    read_cifar,
    read_class_folders,
    read_digits,
    read_mnist,
)
from neurocontrast.natural.pictures import Pixels, paint, scale
from neurocontrast.natural.record import ImagesChoice, ImagesOrigin, ImagesRecord
from neurocontrast.natural.settings import SPLITS, ImagesSettings
from neurocontrast.natural.store import (
    RECORD_NAME,
    STORE_NAME,
    ImageStore,
    doubt_about_copies,
    write_store,
)
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment, versions_of
from neurocontrast.seeds import derive_generator, derive_seed

BACKGROUND_COLUMNS = ("background_red", "background_green", "background_blue")
_PALETTE = np.array(
    [
        *([31, 119, 180], [255, 127, 14], [44, 160, 44], [214, 39, 40], [148, 103, 189]),
        *([140, 86, 75], [227, 119, 194], [127, 127, 127], [188, 189, 34], [23, 190, 207]),
    ],
    dtype=np.int64,
)
"""The ten colours of ColorMNIST's released code: matplotlib's "tab10"."""


def write_images(settings: ImagesSettings, folder: Path, *, progress: Progress = SILENT) -> None:
    """Write a data set of natural images: ``images.npy``, ``participants.tsv``, ``images.json``.

    Pictures are decoded one after another, so that memory holds one at a time. The store and the
    table are the same bytes for the same settings, source, and version of the library that decodes
    JPEG.
    """
    if settings.dataset == "digits":
        _write(read_digits(), settings, folder, progress)
        return
    if settings.source is None:
        raise ConfigError(
            f"images.source: missing. Dataset '{settings.dataset}' needs the folder or archive "
            "that holds its files."
        )
    with open_files(settings.source.expanduser(), scratch=folder) as files:
        _write(_read_pictures(settings.dataset, files), settings, folder, progress)


def _read_pictures(dataset: str, files: FileSet) -> Pictures:
    """Return the `Pictures` of data set `dataset` in `files`, a folder or unpacked archive."""
    if dataset == "folder":
        return read_class_folders(files)
    if dataset.startswith("cifar"):
        return read_cifar(dataset, files)
    return read_mnist(dataset, files)


def _write(pictures: Pictures, settings: ImagesSettings, folder: Path, progress: Progress) -> None:
    """Write ``images.npy``, ``participants.tsv`` and ``images.json`` of `pictures` into `folder`.

    The first is the store, one array with the pixels of all chosen images; the second is the table
    of the images, a row for each; the third is the record of how they were prepared. `settings`
    choose images, splits and size. A warning tells of equal images in two splits.
    """
    name = _name(settings)
    plan = plan_images(pictures, settings, name=name)
    store = _write_store(pictures, plan, settings, folder, progress)
    write_table(folder / "participants.tsv", plan.table)
    splits = list(plan.table["split"])
    copies = doubt_about_copies(iter(store.array), list(plan.table["participant_id"]), splits)
    if "of another split" in copies:
        progress.warning(copies)
    record = _record(settings, name, store, plan.table, pictures.origin)
    write_json(folder / RECORD_NAME, record.content())


def _name(settings: ImagesSettings) -> str:
    """Return the name with which the identifiers of all images of a data set begin.

    The name is the setting `name`. By default the name is the setting `dataset`, such as
    ``cifar10``, or for ``folder`` the name of the folder or archive that the setting `source`
    gives, without the archive's ending, and with "-" in place of other characters than letters,
    digits, "_", "." and "-".
    """
    if settings.name is not None:
        return settings.name
    if settings.dataset != "folder" or settings.source is None:
        return settings.dataset
    name = settings.source.expanduser().absolute().name
    ending = next((ending for ending in ARCHIVE_ENDINGS if name.lower().endswith(ending)), "")
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name[: len(name) - len(ending)]).strip("-._")
    return plain[:64] or "images"


def _write_store(
    pictures: Pictures, plan: Plan, settings: ImagesSettings, folder: Path, progress: Progress
) -> ImageStore:
    """Write the images of the table of `plan` into a store of pixels in `folder`; return the store.

    The images are decoded from the data set `pictures`. Images that cannot be read, or are of
    another size than the first readable image, are listed in one error (`DataError`).
    """
    names = _names_in_messages(plan.table)
    problems = Problems("images")

    def readable() -> Iterator[tuple[str, Pixels]]:
        """Yield name and pixels of each readable image, in the order of the rows of ``plan.table``.

        The table lists the images to write into the store. An image that cannot be read is added to
        `problems` and passed over.
        """
        for row, name in enumerate(names):
            try:
                yield name, _read_image(pictures, plan, row, settings)
            except DataError as error:
                problems.add(str(error), name=name)

    shape = next((image.shape for _, image in readable()), None)
    if shape is None:
        problems.raise_if_any()
        raise DataError("images: there is none.")
    problems.found.clear()

    def images() -> Iterator[Pixels]:
        """Yield the pixels of readable images of the first image's size, by row of the table.

        After the last image, one error is raised if any image could not be read or was of another
        size; the error lists all such images.
        """
        for name, image in readable():
            task.advance()
            if image.shape == shape:
                yield image
                continue
            problems.hint(
                "All images need one size: images.size=64, for instance, scales and crops them to "
                "it."
            )
            problems.add(
                f"{_size_text(image.shape)} pixels, and the first has {_size_text(shape)}",
                name=name,
            )
        problems.raise_if_any()

    with progress.task("decoding", len(names), "images") as task:
        return write_store(folder, images(), n_images=len(names), shape=shape)


def _names_in_messages(table: pd.DataFrame) -> list[str]:
    """Return for messages a text for each row of `table`: identifier (name of image file)."""
    column = "path"
    if "file" in table:
        column = "file"
    identified = zip(table["participant_id"], table[column], strict=True)
    return [f"{participant} ({file})" for participant, file in identified]


def _read_image(pictures: Pictures, plan: Plan, row: int, settings: ImagesSettings) -> Pixels:
    """Return the image of one `row` of the table of `plan`, as RGB bytes (3, H, W).

    `plan` has the table of the chosen images, and for each row the number of its picture in the
    data set `pictures`. The picture is read, and scaled to the size in `settings`. If the data set
    gets coloured backgrounds, the picture is painted on the row's colour in ``plan.colours``, which
    is None for pictures without a background.
    """
    image = pictures.read(int(plan.rows[row]))
    size = settings.size
    if isinstance(size, int):
        size = (size, size)
    if size is not None:
        image = scale(image, size)
    if plan.colours is not None:
        image = paint(image, plan.colours[row])
    return image


def _size_text(shape: Sequence[int]) -> str:
    """Return height and width of an image for messages: "32×32"."""
    _, height, width = shape
    return f"{height}×{width}"


def _record(
    settings: ImagesSettings,
    name: str,
    store: ImageStore,
    table: pd.DataFrame,
    origin: ImagesOrigin,
) -> ImagesRecord:
    """Return the content of ``images.json``, the record of a store of images.

    The content has no path of this machine. `store` is the file of pixels, `table` the table of
    images, and `origin` describes the source.
    """
    from PIL import features

    environment = Environment.model_validate(describe_environment())
    environment = environment.without("command")  # holds paths of the machine
    packages = environment.packages | versions_of("pillow")
    source = None
    if settings.source is not None:
        source = settings.source.expanduser().absolute().name
    return ImagesRecord(
        format=1,
        dataset=settings.dataset,
        name=name,
        shape=list(store.shape),
        n_images={split: int((table["split"] == split).sum()) for split in SPLITS},
        classes=_count_classes(table),
        columns=table.columns.drop(["participant_id", "path"]).tolist(),
        source=ImagesOrigin.model_validate({"name": source, **origin.content()}),
        settings=ImagesChoice.model_validate(
            {**settings.model_dump(mode="json"), "source": source}
        ),
        images_sha256=digest_of_file(store.path),
        libraries={name: features.version(name) for name in ("libjpeg_turbo", "jpg")},
        environment=environment.with_keys(packages=packages),
    )


def _count_classes(table: pd.DataFrame) -> dict[str, dict[str, int]]:
    """Count the images in the table of a data set: class → split → number."""
    classes: dict[str, dict[str, int]] = {}
    for label, row in pd.crosstab(table["label"], table["split"]).iterrows():
        counts = {}
        for split in SPLITS:
            if row.get(split, 0):
                counts[split] = int(row[split])
        classes[str(label)] = counts
    return classes


@dataclass(frozen=True, eq=False)
class Plan:
    """Table of a prepared data set, with the number of each row's picture in the source.

    `plan_images` makes the plan, by which pictures are then written into a store.
    """

    rows: npt.NDArray[np.int64]
    """Number of each row's picture in the source."""
    table: pd.DataFrame
    colours: npt.NDArray[np.uint8] | None
    """Colour (n, 3) to lay behind each row's picture; None for pictures without a background."""


def plan_images(pictures: Pictures, settings: ImagesSettings, *, name: str) -> Plan:
    """Choose images of a data set, divide them into splits, and make the table of images (`Plan`).

    Rows are in the order train, validation, test, and within a split in the order of the source,
    the files of the data set. An identifier has the picture's number within its part of the source,
    such as ``test``, so that settings such as `n_train` do not change identifiers.
    """
    ids = _identifiers(pictures, name)
    splits = divide(ids, pictures.labels, pictures.splits, settings)
    columns: dict[str, Sequence[str]] = {
        "participant_id": ids,
        "split": splits,
        "label": pictures.labels,
        **pictures.columns,
    }
    order = np.concatenate([np.flatnonzero(np.array(splits) == split) for split in SPLITS])
    colours = None
    if settings.background:
        drawn = draw_backgrounds(ids, sd=settings.background_sd, seed=settings.seed)
        for channel, column in enumerate(BACKGROUND_COLUMNS):
            columns[column] = [f"{value / 255:.6f}" for value in drawn[:, channel].tolist()]
        colours = drawn[order]
    if pictures.has_file_names:
        columns["file"] = pictures.files
    table = pd.DataFrame(columns, dtype=object).iloc[order].reset_index(drop=True)
    table.insert(1, "path", [f"{STORE_NAME}#{number}" for number in range(len(table))])
    return Plan(order, table, colours)


def _identifiers(pictures: Pictures, name: str) -> list[str]:
    """Return each picture's identifier, such as ``cifar10-train-00017``.

    The parts are `name` of the data set, the part of the source (``train``, ``test``; ``image`` if
    the source is not divided), and the picture's number within this part.
    """
    splits = pd.Series(["image"] * len(pictures))
    if pictures.splits is not None:
        splits = pd.Series(list(pictures.splits))
    width = max(5, len(str(len(pictures) - 1)))
    numbers = splits.groupby(splits).cumcount()
    ids = []
    for split, number in zip(splits, numbers, strict=True):
        ids.append(f"{name}-{split}-{number:0{width}d}")
    return ids


def stratified_order(
    names: Sequence[str], labels: Sequence[str], *, seed: int
) -> npt.NDArray[np.int64]:
    """Return positions of images in an order whose first m are a stratified sample, for every m.

    A smaller sample is part of every larger one. Within a class, images are sorted by a number
    drawn from (seed, name), so that the order of two images depends on no third one. Over classes,
    the k-th of n images of a class is placed at (k - ½)/n.
    """
    keys = pd.Series([derive_seed("image order", seed, name) for name in names], dtype=np.int64)
    of_class = keys.groupby(np.asarray(labels, dtype=object).astype(str))
    quantiles = (of_class.rank(method="first") - 0.5) / of_class.transform("size")
    return np.lexsort((keys, quantiles))


def divide(
    names: Sequence[str],
    labels: Sequence[str],
    splits: Sequence[str] | None,
    settings: ImagesSettings,
) -> list[str]:
    """Return the split of each image of a data set, in order; "" for an image that is left out.

    `names` and `labels` are the images' identifiers and classes, and `splits` their splits in the
    source; None if the source has none. Splits of the source are kept. Without a ``test`` split,
    `test_fraction` of ``train`` becomes the test split; without a ``validation`` split,
    `validation_fraction` of the rest of ``train``. Of each split as many images are kept as the
    settings say.
    """
    chosen = np.array(["train"] * len(names), dtype=object)
    if splits is not None:
        chosen = np.array(list(splits), dtype=object)

    def ordered(split: str) -> npt.NDArray[np.int64]:
        """Return the positions, among all images, of the images of `split`, by `stratified_order`.

        The positions count all images of the data set, from 0.
        """
        rows = np.flatnonzero(chosen == split)
        names_of_split = [names[row] for row in rows.tolist()]
        labels_of_split = [labels[row] for row in rows.tolist()]
        return rows[stratified_order(names_of_split, labels_of_split, seed=settings.seed)]

    fractions = {"test": settings.test_fraction, "validation": settings.validation_fraction}
    for split, fraction in fractions.items():
        if split not in chosen:
            pool = ordered("train")
            chosen[pool[: round(fraction * len(pool))]] = split
    n_kept_of = {
        "train": settings.n_train,
        "validation": settings.n_validation,
        "test": settings.n_test,
    }
    for split, n_kept in n_kept_of.items():
        if n_kept is None:
            continue
        pool = ordered(split)
        _check_enough(split, n_kept, len(pool))
        chosen[pool[n_kept:]] = ""
    if "train" not in chosen:
        raise DataError("no image is left for training.")
    return chosen.tolist()


def _check_enough(split: str, n_kept: int, n_images: int) -> None:
    """Refuse to keep more images of a split (`n_kept`) than the split has (`n_images`)."""
    if n_kept <= n_images:
        return
    remedy = ""
    if split != "train":
        remedy = f" Raise images.{split}_fraction where the source has no such split."
    raise DataError(
        f"n_{split}: {n_kept:,} images are to be kept and the split has {n_images:,}.{remedy}"
    )


def draw_backgrounds(names: Sequence[str], *, sd: float, seed: int) -> npt.NDArray[np.uint8]:
    """Draw a background colour (red, green, blue) for each image, from (seed, name) alone.

    An image has the same colour in a subset as in the whole data set. As in ColorMNIST's released
    code (Tsai et al., ICLR 2022, section 4.2), the colour of each image, of any class, is one of
    ten, plus normal noise in each channel, rounded towards zero and clipped to 0-255.
    """
    colours = np.empty((len(names), 3), dtype=np.uint8)
    for row, name in enumerate(names):
        generator = derive_generator("background", seed, name)
        colour = _PALETTE[generator.integers(len(_PALETTE))]
        noise = np.trunc(sd * generator.standard_normal(3)).astype(np.int64)
        colours[row] = np.clip(colour + noise, 0, 255)
    return colours
