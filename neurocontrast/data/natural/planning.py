"""Rows of the table of a prepared data set: which picture, in which split, with which columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.columns import matching_columns
from neurocontrast.data.natural.attributes import join_attributes
from neurocontrast.data.natural.background import BACKGROUND_COLUMNS, draw_backgrounds
from neurocontrast.data.natural.clusters import cluster
from neurocontrast.data.natural.images_settings import ImagesSettings
from neurocontrast.data.natural.pictures import Pictures
from neurocontrast.data.natural.splitting import SPLITS, divide
from neurocontrast.data.store import STORE_NAME
from neurocontrast.exceptions import DataError

__all__ = ["Plan", "plan_images"]


@dataclass(frozen=True, eq=False)
class Plan:
    """Number of the picture of each row, the table, and the colour (n, 3) behind each picture or None."""

    rows: npt.NDArray[np.int64]
    table: pd.DataFrame
    colours: npt.NDArray[np.uint8] | None


def plan_images(pictures: Pictures, settings: ImagesSettings, *, name: str) -> Plan:
    """Choose rows and splits, and fill the table.

    Rows stand in the order train, validation, test, and within each in that of the source. An identifier counts
    the pictures of the source's own split, and depends on no other choice.
    """
    ids = _identifiers(pictures, name)
    fractions = {"test": settings.test_fraction, "validation": settings.validation_fraction}
    counts = {"train": settings.n_train, "validation": settings.n_validation, "test": settings.n_test}
    parts = divide(ids, pictures.labels, pictures.splits, seed=settings.seed, fractions=fractions, counts=counts)
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
    if settings.attributes is not None and settings.attributes_key is not None:
        names = ids if settings.attributes_key == "participant_id" else pictures.files
        columns |= join_attributes(
            names, settings.attributes.expanduser(), key=settings.attributes_key, taken=list(columns)
        )
    if pictures.has_file_names:
        columns["file"] = pictures.files
    order = np.concatenate([np.flatnonzero(np.array(parts) == part) for part in SPLITS])
    table = pd.DataFrame(columns, dtype=object).iloc[order].reset_index(drop=True)
    table.insert(1, "path", [f"{STORE_NAME}#{number}" for number in range(len(table))])
    _add_clusters(table, settings)
    return Plan(order, table, colours[order] if settings.background else None)


def _identifiers(pictures: Pictures, name: str) -> list[str]:
    splits = pd.Series(["image"] * len(pictures) if pictures.splits is None else list(pictures.splits))
    width = max(5, len(str(len(pictures) - 1)))
    numbers = splits.groupby(splits).cumcount()
    return [f"{name}-{split}-{number:0{width}d}" for split, number in zip(splits, numbers, strict=True)]


def _add_clusters(table: pd.DataFrame, settings: ImagesSettings) -> None:
    chosen = settings.clusters
    if chosen is None:
        return
    known = [name for name in table.columns if name not in ("participant_id", "path", "split", "file")]
    columns = matching_columns(chosen.columns, known, key="clusters.columns")
    numbers = table[columns].apply(pd.to_numeric, errors="coerce")
    texts = [name for name in columns if numbers[name].isna().all()]
    if texts:
        raise DataError(f"clusters.columns: '{texts[0]}' holds text; k-means needs numbers.")
    values, training = numbers.to_numpy(dtype=np.float64), (table["split"] == "train").to_numpy()
    several = chosen.n_clusters if isinstance(chosen.n_clusters, tuple) else (chosen.n_clusters,)
    for n_clusters in several:
        column = f"cluster_{n_clusters}" if isinstance(chosen.n_clusters, tuple) else "cluster"
        table[column] = cluster(values, training, n_clusters=n_clusters, seed=settings.seed)
