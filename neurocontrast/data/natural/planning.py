"""Rows of the table of a prepared data set: which picture, in which split, with which columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.columns import is_missing, matching_columns
from neurocontrast.data.natural.attributes import join_attributes
from neurocontrast.data.natural.background import BACKGROUND_COLUMNS, draw_backgrounds
from neurocontrast.data.natural.clusters import cluster
from neurocontrast.data.natural.images_settings import ImagesSettings
from neurocontrast.data.natural.pictures import Pictures, class_names
from neurocontrast.data.natural.splitting import SPLIT_OF_NAME, SPLITS, divide
from neurocontrast.data.problems import Problems, shown
from neurocontrast.data.store import STORE_NAME
from neurocontrast.exceptions import DataError, one_of, suggestion

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

    Raises
    ------
    DataError
        Where attributes do not fit, or a split has fewer images than are to be kept.
    """
    ids = _identifiers(pictures, name)
    attributes = _attributes(pictures, ids, settings)
    labels, splits = _labels(pictures, attributes, settings), _splits(pictures, attributes, settings)
    fractions = {"test": settings.test_fraction, "validation": settings.validation_fraction}
    counts = {"train": settings.n_train, "validation": settings.n_validation, "test": settings.n_test}
    parts = divide(ids, labels, splits, seed=settings.seed, fractions=fractions, counts=counts)
    columns: dict[str, Sequence[str]] = {"participant_id": ids, "split": parts, "label": labels, **pictures.columns}
    if settings.background:
        colours = draw_backgrounds(ids, sd=settings.background_sd, seed=settings.seed)
        for channel, column in enumerate(BACKGROUND_COLUMNS):
            columns[column] = [f"{value / 255:.6f}" for value in colours[:, channel].tolist()]
    columns |= attributes
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


def _attributes(pictures: Pictures, ids: Sequence[str], settings: ImagesSettings) -> dict[str, list[str]]:
    if settings.attributes is None or settings.attributes_key is None:
        return {}
    return join_attributes(
        ids if settings.attributes_key == "participant_id" else pictures.files,
        settings.attributes.expanduser(),
        key=settings.attributes_key,
        taken=[*pictures.columns, *(BACKGROUND_COLUMNS if settings.background else ())],
        used_up=[name for name in (settings.label_column, settings.split_column) if name is not None],
    )


def _labels(pictures: Pictures, attributes: dict[str, list[str]], settings: ImagesSettings) -> Sequence[str]:
    if settings.label_column is None:
        assert pictures.labels is not None
        return pictures.labels
    labels = _take(attributes, settings.label_column, "label_column")
    problems = Problems("attributes")
    for cell, file in zip(labels, pictures.files, strict=True):
        if is_missing(cell):
            problems.add("every picture needs a class", column=settings.label_column, name=shown(file))
    problems.raise_if_any()
    known = sorted(set(labels))
    named = dict(zip(known, class_names(known), strict=True))
    return [named[label] for label in labels]


def _splits(pictures: Pictures, attributes: dict[str, list[str]], settings: ImagesSettings) -> Sequence[str] | None:
    if settings.split_column is None:
        return pictures.splits
    if pictures.splits is not None:
        raise DataError("split_column: the folders of the source name splits already; leave it out.")
    cells = _take(attributes, settings.split_column, "split_column")
    unknown = sorted({cell for cell in cells if cell.lower() not in SPLIT_OF_NAME})
    if unknown:
        found = one_of(unknown[:10])
        raise DataError(f"split_column: '{settings.split_column}' must hold {one_of(SPLIT_OF_NAME)}. Found {found}.")
    return [SPLIT_OF_NAME[cell.lower()] for cell in cells]


def _take(attributes: dict[str, list[str]], column: str, key: str) -> list[str]:
    if column not in attributes:
        raise DataError(
            f"{key}: the attributes have no column '{column}'.{suggestion(column, attributes)} "
            f"They have: {one_of(list(attributes)[:30])}."
        )
    return attributes.pop(column)


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
