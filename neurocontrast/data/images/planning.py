"""Which pictures become rows of the table, in which split, and what stands in each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neurocontrast.data.columns import is_missing
from neurocontrast.data.images.attributes import join_attributes
from neurocontrast.data.images.background import BACKGROUND_COLUMNS, draw_backgrounds
from neurocontrast.data.images.folders import SPLIT_OF_FOLDER, class_names_of
from neurocontrast.data.images.pictures import Pictures
from neurocontrast.data.images.settings import ImagesSettings
from neurocontrast.data.images.splitting import SPLITS, divide
from neurocontrast.data.images.store import STORE_NAME
from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import DataError, one_of, suggestion

__all__ = ["Plan", "plan_images"]


@dataclass(frozen=True, eq=False)
class Plan:
    """The rows of the table, before a picture is decoded.

    Parameters
    ----------
    rows : ndarray (n,), int64
        Number of the picture of each row.
    columns : dict of str to list of str
        Cells of the table, by column.
    colours : ndarray (n, 3), uint8, or None
        Background of each image.
    n_unmatched : int
        Pictures left out because no attributes tell of them.
    """

    rows: npt.NDArray[np.int64]
    columns: dict[str, list[str]]
    colours: npt.NDArray[np.uint8] | None
    n_unmatched: int


def plan_images(pictures: Pictures, settings: ImagesSettings, *, name: str) -> Plan:
    """Choose rows and splits, and fill the table.

    Rows stand in the order train, validation, test, and within each in that of the source. An identifier counts
    the pictures of the source's own split, so it does not depend on what else is chosen.

    Raises
    ------
    DataError
        Where attributes do not fit, a class is not there, or a split has fewer images than are to be kept.
    """
    every_id = _identifiers(pictures, name)
    kept, attributes = _attributes(pictures, every_id, settings)
    labels, splits = _labels(pictures, kept, attributes, settings), _splits(pictures, kept, attributes, settings)
    ids = [every_id[number] for number in kept]
    chosen = np.array(_of_classes(labels, settings.classes))
    parts = np.full(len(kept), "", dtype=object)
    parts[chosen] = divide(
        [ids[row] for row in chosen],
        [labels[row] for row in chosen],
        None if splits is None else [splits[row] for row in chosen],
        seed=settings.seed,
        validation_fraction=settings.validation_fraction,
        test_fraction=settings.test_fraction,
        counts={"train": settings.n_train, "validation": settings.n_validation, "test": settings.n_test},
    )
    order = np.concatenate([np.flatnonzero(parts == part) for part in SPLITS])
    columns = {
        "participant_id": [ids[row] for row in order],
        "path": [f"{STORE_NAME}#{number}" for number in range(len(order))],
        "split": [str(parts[row]) for row in order],
        "label": [labels[row] for row in order],
    }
    columns |= {column: [str(cells[kept[row]]) for row in order] for column, cells in pictures.columns.items()}
    colours = _colours(columns, settings)
    columns |= {column: [cells[row] for row in order] for column, cells in attributes.items()}
    if pictures.origin["kind"] == "pictures":
        columns["file"] = [pictures.files[kept[row]] for row in order]
    return Plan(kept[order], columns, colours, len(pictures) - len(kept))


def _attributes(
    pictures: Pictures, ids: Sequence[str], settings: ImagesSettings
) -> tuple[npt.NDArray[np.int64], dict[str, list[str]]]:
    if settings.attributes is None:
        return np.arange(len(pictures)), {}
    taken = [*pictures.columns, *(BACKGROUND_COLUMNS if settings.background else ())]
    return join_attributes(
        ids if settings.attributes_key == "participant_id" else pictures.files,
        settings.attributes.expanduser(),
        key=settings.attributes_key,
        unmatched=settings.unmatched,
        taken=taken,
        used_up=[name for name in (settings.label_column, settings.split_column) if name is not None],
    )


def _labels(
    pictures: Pictures, kept: npt.NDArray[np.int64], attributes: dict[str, list[str]], settings: ImagesSettings
) -> list[str]:
    if settings.label_column is None:
        assert pictures.labels is not None
        return [pictures.labels[number] for number in kept]
    labels = _taken(attributes, settings.label_column, "label_column")
    _refuse_missing(labels, [pictures.files[number] for number in kept], settings.label_column)
    return class_names_of(labels)


def _splits(
    pictures: Pictures, kept: npt.NDArray[np.int64], attributes: dict[str, list[str]], settings: ImagesSettings
) -> list[str] | None:
    if settings.split_column is None:
        return None if pictures.splits is None else [pictures.splits[number] for number in kept]
    if pictures.splits is not None:
        raise DataError("split_column: the folders of the source name splits already; leave it out.")
    cells = _taken(attributes, settings.split_column, "split_column")
    unknown = sorted({cell for cell in cells if cell.lower() not in SPLIT_OF_FOLDER})
    if unknown:
        found = one_of(unknown[:10])
        raise DataError(f"split_column: '{settings.split_column}' must hold {one_of(SPLIT_OF_FOLDER)}. Found {found}.")
    return [SPLIT_OF_FOLDER[cell.lower()] for cell in cells]


def _taken(attributes: dict[str, list[str]], column: str, key: str) -> list[str]:
    if column not in attributes:
        raise DataError(
            f"{key}: the attributes have no column '{column}'.{suggestion(column, attributes)} "
            f"They have: {one_of(list(attributes)[:30])}."
        )
    return attributes.pop(column)


def _refuse_missing(cells: Sequence[str], files: Sequence[str], column: str) -> None:
    problems = Problems("attributes")
    for cell, file in zip(cells, files, strict=True):
        if is_missing(cell):
            problems.add("every picture needs a class", column=column, name=shown(file))
    problems.raise_if_any()


def _identifiers(pictures: Pictures, name: str) -> list[str]:
    splits = ["image"] * len(pictures) if pictures.splits is None else pictures.splits
    counted = dict.fromkeys(splits, 0)
    width = max(5, len(str(len(pictures) - 1)))
    identifiers = []
    for split in splits:
        identifiers.append(f"{name}-{split}-{counted[split]:0{width}d}")
        counted[split] += 1
    return identifiers


def _of_classes(labels: Sequence[str], classes: Sequence[str] | None) -> list[int]:
    if classes is None:
        return list(range(len(labels)))
    known = sorted(set(labels))
    for wanted in classes:
        if wanted not in known:
            raise DataError(
                f"classes: there is no class '{wanted}'.{suggestion(wanted, known)} There are: {one_of(known[:30])}."
            )
    return [row for row, label in enumerate(labels) if label in classes]


def _colours(columns: dict[str, list[str]], settings: ImagesSettings) -> npt.NDArray[np.uint8] | None:
    """Draw the backgrounds and add them to the table, between 0 and 1."""
    if settings.background is None:
        return None
    colours = draw_backgrounds(
        columns["participant_id"], kind=settings.background, sd=settings.background_sd, seed=settings.seed
    )
    for channel, column in enumerate(BACKGROUND_COLUMNS):
        columns[column] = [f"{value / 255:.6f}" for value in colours[:, channel].tolist()]
    return colours
