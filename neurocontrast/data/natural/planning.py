"""Rows of the table of a prepared data set: which picture, in which split, with which columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.natural.pictures import Pictures
from neurocontrast.data.natural.store import STORE_NAME
from neurocontrast.data.settings import SPLITS, ImagesSettings
from neurocontrast.exceptions import DataError
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
    ids = _identifiers(pictures, name)
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


def _identifiers(pictures: Pictures, name: str) -> list[str]:
    splits = pd.Series(["image"] * len(pictures) if pictures.splits is None else list(pictures.splits))
    width = max(5, len(str(len(pictures) - 1)))
    numbers = splits.groupby(splits).cumcount()
    return [f"{name}-{split}-{number:0{width}d}" for split, number in zip(splits, numbers, strict=True)]


def stratified_order(names: Sequence[str], labels: Sequence[str], *, seed: int) -> npt.NDArray[np.int64]:
    """Return positions in an order whose first m are a stratified sample, and part of every larger one.

    Within a class images are in the order of a number drawn from (seed, name), and thus depend on no other image;
    the k-th of a class of n comes at (k - ½)/n.
    """
    keys = np.array([derive_seed("image order", seed, name) for name in names], dtype=np.int64)
    classes = np.unique(np.asarray(labels, dtype=object).astype(str), return_inverse=True)[1]
    place = np.zeros(len(keys))
    for code in range(classes.max(initial=-1) + 1):
        members = np.flatnonzero(classes == code)
        place[members[np.argsort(keys[members], kind="stable")]] = (np.arange(len(members)) + 0.5) / len(members)
    return np.lexsort((keys, place))


def divide(
    names: Sequence[str], labels: Sequence[str], splits: Sequence[str] | None, settings: ImagesSettings
) -> list[str]:
    """Return the split of each image, "" for one that is left out.

    Splits of the source are kept. Where there is no ``test``, that fraction of ``train`` becomes it; where there is no
    ``validation``, that fraction of the rest. Of each split as many images are kept as the settings say.
    """
    chosen = np.array(["train"] * len(names) if splits is None else list(splits), dtype=object)

    def ordered(part: str) -> npt.NDArray[np.int64]:
        rows = np.flatnonzero(chosen == part)
        order = stratified_order(*([each[int(row)] for row in rows] for each in (names, labels)), seed=settings.seed)
        return rows[order]

    for part, fraction in (("test", settings.test_fraction), ("validation", settings.validation_fraction)):
        if part not in chosen:
            pool = ordered("train")
            chosen[pool[: round(fraction * len(pool))]] = part
    for part in SPLITS:
        n_kept, pool = getattr(settings, f"n_{part}"), ordered(part)
        if n_kept is not None and n_kept > len(pool):
            made = "" if part == "train" else f" Raise images.{part}_fraction where the source has no such split."
            raise DataError(f"n_{part}: {n_kept:,} images are to be kept and the split has {len(pool):,}.{made}")
        if n_kept is not None:
            chosen[pool[n_kept:]] = ""
    if "train" not in chosen:
        raise DataError("no image is left for training.")
    return chosen.tolist()


def draw_backgrounds(names: Sequence[str], *, sd: float, seed: int) -> npt.NDArray[np.uint8]:
    """Draw a colour (red, green, blue) for each image, from (seed, name) alone: a subset has the colours of the whole.

    As ColorMNIST's released code (Tsai et al., ICLR 2022, section 4.2): one of ten colours for each image, of any
    class, plus normal noise in each channel, rounded towards zero and clipped to 0-255.
    """
    colours = np.empty((len(names), 3), dtype=np.uint8)
    for row, name in enumerate(names):
        generator = derive_generator("background", seed, name)
        colour = _PALETTE[generator.integers(len(_PALETTE))]
        noise = np.trunc(sd * generator.standard_normal(3)).astype(np.int64)
        colours[row] = np.clip(colour + noise, 0, 255)
    return colours
