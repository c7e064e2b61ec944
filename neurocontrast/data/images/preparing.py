"""A prepared data set on disk: the store, the table, vectors, and the record of how they were made."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.images.attributes import read_features
from neurocontrast.data.images.background import paint
from neurocontrast.data.images.clusters import cluster
from neurocontrast.data.images.decoding import scale
from neurocontrast.data.images.pictures import Pictures
from neurocontrast.data.images.planning import Plan, plan_images
from neurocontrast.data.images.quality import RECORD_NAME, repeated_images
from neurocontrast.data.images.record import describe_images
from neurocontrast.data.images.settings import ClusterSettings, ImagesSettings
from neurocontrast.data.images.sources import name_of, open_pictures
from neurocontrast.data.images.store import ImageStore, write_store
from neurocontrast.data.problems import Problems
from neurocontrast.data.vectors import matching_columns
from neurocontrast.exceptions import DataError
from neurocontrast.files import atomic_path, write_json, write_table
from neurocontrast.progress import SILENT, Progress

__all__ = ["write_images"]

_TABLE_NAME = "participants.tsv"
_MOST_PROBLEMS = 1000


@dataclass(frozen=True, eq=False)
class _Picked:
    """The pictures of a plan, read one after another."""

    pictures: Pictures
    plan: Plan
    size: tuple[int, int] | None

    def read(self, row: int) -> npt.NDArray[np.uint8]:
        image = self.pictures.read(int(self.plan.rows[row]))
        if self.size is not None:
            image = scale(image, self.size)
        return image if self.plan.colours is None else paint(image, self.plan.colours[row])


def write_images(settings: ImagesSettings, folder: Path, *, progress: Progress = SILENT) -> dict[str, Any]:
    """Write ``images.npy``, ``participants.tsv``, ``vectors/`` and ``images.json`` into `folder`.

    Pictures are decoded one after another; only bytes, and never all of them, are in memory. The store and the table
    are the same bytes for the same settings, source, and version of the library that decodes JPEG.

    Returns
    -------
    dict
        What ``images.json`` holds.

    Raises
    ------
    DataError
        Where the source cannot be used; all pictures that cannot be decoded, or have another size, together.
    """
    name = name_of(settings)
    with open_pictures(settings, spool=folder, progress=progress) as pictures:
        plan = plan_images(pictures, settings, name=name)
        vectors = _vectors(pictures, plan, settings)
        _add_clusters(plan, vectors, settings)
        store = _write_pictures(_Picked(pictures, plan, _size(settings)), folder, progress)
        origin = pictures.origin
    write_table(folder / _TABLE_NAME, pd.DataFrame(plan.columns))
    for vector, values in vectors.items():
        _write_vector(folder / "vectors" / f"{vector}.parquet", vector, plan.columns["participant_id"], values)
    repeated = repeated_images(iter(store.array), plan.columns["participant_id"], plan.columns["split"])
    if repeated.n_across:
        progress.warning(repeated.sentence())
    if plan.n_unmatched:
        progress.warning(f"{plan.n_unmatched:,} pictures have no row in the attributes and were left out.")
    record = describe_images(settings, name=name, store=store, columns=plan.columns, origin=origin, repeated=repeated)
    write_json(folder / RECORD_NAME, record)
    return record


def _size(settings: ImagesSettings) -> tuple[int, int] | None:
    return (settings.size, settings.size) if isinstance(settings.size, int) else settings.size


def _write_pictures(picked: _Picked, folder: Path, progress: Progress) -> ImageStore:
    columns = picked.plan.columns
    names = [
        f"{participant} ({file})"
        for participant, file in zip(columns["participant_id"], columns.get("file", columns["path"]), strict=True)
    ]
    problems = Problems("images")
    shape = _first_shape(picked, names)
    n_bytes, free = len(names) * int(np.prod(shape)), shutil.disk_usage(folder).free
    if n_bytes > free:
        raise DataError(f"images.npy needs {n_bytes / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free there.")
    with progress.task("decoding", len(names), "images") as task:

        def images() -> Iterator[npt.NDArray[np.uint8]]:
            for row in range(len(names)):
                yield _checked(picked, row, shape, names, problems)
                task.advance()
                if len(problems.found) >= _MOST_PROBLEMS:
                    problems.hint(
                        f"Reading stopped at {_MOST_PROBLEMS:,} problems, {row + 1:,} of {len(names):,} images."
                    )
                    problems.raise_if_any()
            problems.raise_if_any()

        return write_store(folder, images(), n_images=len(names), shape=shape)


def _first_shape(picked: _Picked, names: Sequence[str]) -> tuple[int, int, int]:
    """Return the shape of the first picture that can be read."""
    problems = Problems("images")
    for row, name in enumerate(names):
        try:
            n_channels, height, width = picked.read(row).shape
        except DataError as error:
            problems.add(str(error), name=name)
        else:
            return n_channels, height, width
    problems.raise_if_any()
    raise DataError("there is no picture to write.")


def _checked(
    picked: _Picked, row: int, shape: tuple[int, int, int], names: Sequence[str], problems: Problems
) -> npt.NDArray[np.uint8]:
    """Read a picture; one that cannot be used becomes a problem and zeros, so that all of them are found."""
    try:
        image = picked.read(row)
    except DataError as error:
        problems.add(str(error), name=names[row])
        return np.zeros(shape, dtype=np.uint8)
    if image.shape != shape:
        sizes = f"{image.shape[1]}×{image.shape[2]} pixels, and the first has {shape[1]}×{shape[2]}"
        problems.add(sizes, name=names[row])
        problems.hint("All images need one size: images.size=64, for instance, scales and crops them to it.")
        return np.zeros(shape, dtype=np.uint8)
    return image


def _vectors(pictures: Pictures, plan: Plan, settings: ImagesSettings) -> dict[str, npt.NDArray[np.float32]]:
    for name in settings.vectors:
        if name in plan.columns:
            raise DataError(f"vectors.{name}: the table has a column of that name; give the vector another.")
    return {
        name: read_features(path.expanduser(), pictures.files, plan.rows, key=f"vectors.{name}")
        for name, path in settings.vectors.items()
    }


def _add_clusters(plan: Plan, vectors: dict[str, npt.NDArray[np.float32]], settings: ImagesSettings) -> None:
    chosen = settings.clusters
    if chosen is None:
        return
    values = _clustered(plan, vectors, chosen)
    training = np.array([split == "train" for split in plan.columns["split"]])
    several = isinstance(chosen.n_clusters, tuple)
    for n_clusters in chosen.n_clusters if isinstance(chosen.n_clusters, tuple) else (chosen.n_clusters,):
        column = f"cluster_{n_clusters}" if several else "cluster"
        plan.columns[column] = cluster(values, training, n_clusters=n_clusters, seed=settings.seed)


def _clustered(
    plan: Plan, vectors: dict[str, npt.NDArray[np.float32]], chosen: ClusterSettings
) -> npt.NDArray[np.float64]:
    if chosen.vector is not None:
        return vectors[chosen.vector].astype(np.float64)
    known = [name for name in plan.columns if name not in ("participant_id", "path", "split", "file")]
    columns = matching_columns(chosen.columns, known, key="clusters.columns")
    numbers = [pd.to_numeric(pd.Series(plan.columns[name]), errors="coerce") for name in columns]
    texts = [name for name, column in zip(columns, numbers, strict=True) if column.isna().all()]
    if texts:
        raise DataError(f"clusters.columns: '{texts[0]}' holds text; k-means needs numbers.")
    return np.stack([column.to_numpy(dtype=np.float64) for column in numbers], axis=1)


def _write_vector(path: Path, name: str, ids: Sequence[str], values: npt.NDArray[np.float32]) -> None:
    width = len(str(values.shape[1] - 1))
    frame = pd.DataFrame(values, columns=[f"{name}_{column:0{width}d}" for column in range(values.shape[1])])
    frame.insert(0, "participant_id", list(ids))
    with atomic_path(path) as temporary:
        frame.to_parquet(temporary, index=False)
