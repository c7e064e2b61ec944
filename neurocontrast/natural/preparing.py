"""A prepared data set: which picture is in which row and split, and the store, the table and the record on disk."""

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
from neurocontrast.natural.pictures import (
    ARCHIVE_ENDINGS,
    Pictures,
    Pixels,
    open_files,
    paint,
    read_cifar,
    read_class_folders,
    read_digits,
    read_mnist,
    scale,
)
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
"""The ten colours of ColorMNIST's released code: Tableau's, matplotlib's "tab10"."""


def write_images(settings: ImagesSettings, folder: Path, *, progress: Progress = SILENT) -> None:
    """Write ``images.npy``, ``participants.tsv`` and ``images.json`` into a folder.

    Pictures are decoded one after another, and never all of them are in memory. The store and the
    table are the same bytes for the same settings, source, and version of the library that decodes
    JPEG.
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
    store = _write_store(pictures, plan, settings, folder, progress)
    write_table(folder / "participants.tsv", plan.table)
    splits = list(plan.table["split"])
    copies = doubt_about_copies(iter(store.array), list(plan.table["participant_id"]), splits)
    if "of another split" in copies:
        progress.warning(copies)
    write_json(
        folder / RECORD_NAME, _record(settings, name, store, plan.table, pictures.origin).content()
    )


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


def _write_store(
    pictures: Pictures, plan: Plan, settings: ImagesSettings, folder: Path, progress: Progress
) -> ImageStore:
    """Write the images of a table; those that cannot be read, or are of another size than the first, are one error."""
    size = (settings.size, settings.size) if isinstance(settings.size, int) else settings.size
    files = plan.table["file"] if "file" in plan.table else plan.table["path"]
    names = [
        f"{participant} ({file})"
        for participant, file in zip(plan.table["participant_id"], files, strict=True)
    ]
    problems = Problems("images")

    def readable() -> Iterator[tuple[str, Pixels]]:
        """Give every image that can be read with its name; all others become problems."""
        for row, name in enumerate(names):
            try:
                image = pictures.read(int(plan.rows[row]))
                image = image if size is None else scale(image, size)
                yield name, image if plan.colours is None else paint(image, plan.colours[row])
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
            problems.hint(
                "All images need one size: images.size=64, for instance, scales and crops them to it."
            )
            found_size, first_size = (
                f"{height}×{width}" for _, height, width in (image.shape, shape)
            )
            problems.add(f"{found_size} pixels, and the first has {first_size}", name=name)
        problems.raise_if_any()

    with progress.task("decoding", len(names), "images") as task:
        return write_store(folder, images(), n_images=len(names), shape=shape)


def _record(
    settings: ImagesSettings,
    name: str,
    store: ImageStore,
    table: pd.DataFrame,
    origin: ImagesOrigin,
) -> ImagesRecord:
    """Return the content of ``images.json``, without a path of this machine."""
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
    """Count the images of each class in each split."""
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
    """Number of the picture of each row, the table, and the colour (n, 3) behind each picture or None."""

    rows: npt.NDArray[np.int64]
    table: pd.DataFrame
    colours: npt.NDArray[np.uint8] | None


def plan_images(pictures: Pictures, settings: ImagesSettings, *, name: str) -> Plan:
    """Choose rows and splits, and fill the table, in the order train, validation, test, each in that of the source.

    An identifier counts the pictures of the source's own split, and depends on no other choice.
    """
    own = pd.Series(["image"] * len(pictures) if pictures.splits is None else list(pictures.splits))
    width = max(5, len(str(len(pictures) - 1)))
    ids = [
        f"{name}-{split}-{n:0{width}d}"
        for split, n in zip(own, own.groupby(own).cumcount(), strict=True)
    ]
    parts = divide(ids, pictures.labels, pictures.splits, settings)
    columns: dict[str, Sequence[str]] = {
        "participant_id": ids,
        "split": parts,
        "label": pictures.labels,
        **pictures.columns,
    }
    if settings.background:
        colours = draw_backgrounds(ids, sd=settings.background_sd, seed=settings.seed)
        for channel, column in enumerate(BACKGROUND_COLUMNS):
            columns[column] = [f"{value / 255:.6f}" for value in colours[:, channel].tolist()]
    if pictures.has_file_names:
        columns["file"] = pictures.files
    order = np.concatenate([np.flatnonzero(np.array(parts) == part) for part in SPLITS])
    table = pd.DataFrame(columns, dtype=object).iloc[order].reset_index(drop=True)
    table.insert(1, "path", [f"{STORE_NAME}#{number}" for number in range(len(table))])
    return Plan(order, table, colours[order] if settings.background else None)


def stratified_order(
    names: Sequence[str], labels: Sequence[str], *, seed: int
) -> npt.NDArray[np.int64]:
    """Return positions in an order whose first m are a stratified sample, and part of every larger one.

    Within a class images are in the order of a number drawn from (seed, name), and thus depend on
    no other image; the k-th of a class of n comes at (k - ½)/n.
    """
    keys = pd.Series([derive_seed("image order", seed, name) for name in names], dtype=np.int64)
    of_class = keys.groupby(np.asarray(labels, dtype=object).astype(str))
    place = (of_class.rank(method="first") - 0.5) / of_class.transform("size")
    return np.lexsort((keys, place))


def divide(
    names: Sequence[str],
    labels: Sequence[str],
    splits: Sequence[str] | None,
    settings: ImagesSettings,
) -> list[str]:
    """Return the split of each image, "" for one that is left out.

    Splits of the source are kept. Where there is no ``test``, that fraction of ``train`` becomes
    it; where there is no ``validation``, that fraction of the rest. Of each split as many images
    are kept as the settings say.
    """
    chosen = np.array(["train"] * len(names) if splits is None else list(splits), dtype=object)

    def ordered(part: str) -> npt.NDArray[np.int64]:
        rows = np.flatnonzero(chosen == part)
        order = stratified_order(
            *([each[int(row)] for row in rows] for each in (names, labels)), seed=settings.seed
        )
        return rows[order]

    for part, fraction in (
        ("test", settings.test_fraction),
        ("validation", settings.validation_fraction),
    ):
        if part not in chosen:
            pool = ordered("train")
            chosen[pool[: round(fraction * len(pool))]] = part
    for part in SPLITS:
        n_kept = getattr(settings, f"n_{part}")
        pool = ordered(part)
        if n_kept is not None and n_kept > len(pool):
            made = (
                ""
                if part == "train"
                else f" Raise images.{part}_fraction where the source has no such split."
            )
            raise DataError(
                f"n_{part}: {n_kept:,} images are to be kept and the split has {len(pool):,}.{made}"
            )
        if n_kept is not None:
            chosen[pool[n_kept:]] = ""
    if "train" not in chosen:
        raise DataError("no image is left for training.")
    return chosen.tolist()


def draw_backgrounds(names: Sequence[str], *, sd: float, seed: int) -> npt.NDArray[np.uint8]:
    """Draw a colour (red, green, blue) for each image, from (seed, name) alone: a subset has the colours of the whole.

    As ColorMNIST's released code (Tsai et al., ICLR 2022, section 4.2): one of ten colours for each
    image, of any class, plus normal noise in each channel, rounded towards zero and clipped to
    0-255.
    """
    colours = np.empty((len(names), 3), dtype=np.uint8)
    for row, name in enumerate(names):
        generator = derive_generator("background", seed, name)
        colour = _PALETTE[generator.integers(len(_PALETTE))]
        noise = np.trunc(sd * generator.standard_normal(3)).astype(np.int64)
        colours[row] = np.clip(colour + noise, 0, 255)
    return colours
