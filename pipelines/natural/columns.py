"""Further columns of a prepared data set of images: attributes of another table, and groups of images.

    python -m pipelines.natural.columns DATA/participants.tsv --attributes ATTRIBUTES.csv --key file
    python -m pipelines.natural.columns DATA/participants.tsv --columns 'attr_*' --n-clusters 100
    500 --identical 2 4

The table is replaced. ``--key`` names the column of the attributes with the file of each image, or
``participant_id``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.cells import is_missing
from neurocontrast.data.columns import matching_columns
from neurocontrast.data.listing import read_text_table
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.exceptions import DataError, one_of, suggestion
from neurocontrast.files import write_table
from neurocontrast.seeds import derive_seed

__all__ = ["KEYS", "add_columns", "cluster", "group_identical", "join_attributes"]

KEYS = ("attributes", "attributes_key", "clusters")
"""Keys of the section ``images`` of an experiment that are about columns added here."""
_NOT_VALUES = ("participant_id", "path", "split", "file")
_FLAGS = {"true": "1", "false": "0"}


def add_columns(
    participants: str | Path,
    *,
    attributes: str | None = None,
    attributes_key: str | None = None,
    clusters: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> None:
    """Add columns to the table of a prepared data set.

    Parameters
    ----------
    participants : path
        Table to replace.
    attributes : path, optional
        Table of further columns with a row for every image.
    attributes_key : str, optional
        Its column with the ``file``, or the ``participant_id``, of each image.
    clusters : mapping, optional
        ``columns`` of numbers to group by (``attr_*`` takes all that match). ``n_clusters`` groups
        them by k-means: a number makes the column ``cluster``, several make ``cluster_3``,
        ``cluster_5`` …. ``identical`` holds numbers k: images with equal values in the k columns of
        highest entropy are a group of ``identical_k``.
    seed : int
        Seed of k-means.
    """
    table = pd.read_csv(participants, sep="\t", dtype=str, keep_default_na=False)
    if attributes is not None:
        key = attributes_key or "participant_id"
        names = table[
            "participant_id" if key == "participant_id" or "file" not in table else "file"
        ].tolist()
        table = table.assign(
            **join_attributes(names, Path(attributes).expanduser(), key=key, taken=list(table))
        )
    if clusters:
        known = [name for name in table if name not in _NOT_VALUES]
        columns = matching_columns(clusters["columns"], known, where="clusters.columns: the table")
        values = table[columns].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)
        wanted, same = (clusters.get(key, []) for key in ("n_clusters", "identical"))
        if wanted == same == []:
            raise DataError("clusters: needs n_clusters, identical, or both; found neither.")
        training = (table["split"] == "train").to_numpy()
        for n_clusters in _numbers(wanted, "n_clusters"):
            found = cluster(values, training, n_clusters=n_clusters, seed=seed)
            table[f"cluster_{n_clusters}" if isinstance(wanted, list) else "cluster"] = found
        for n_columns in _numbers(same, "identical"):
            table[f"identical_{n_columns}"] = group_identical(values, training, n_columns=n_columns)
    write_table(participants, table)


def _numbers(given: Any, key: str) -> list[int]:
    """Return one or several numbers, or refuse what is none."""
    numbers = given if isinstance(given, list) else [given]
    if not all(isinstance(each, int) for each in numbers):
        raise DataError(f"clusters.{key}: must be whole numbers, got {given!r}.")
    return numbers


def join_attributes(
    names: Sequence[str], table: Path, *, key: str, taken: Sequence[str] = ()
) -> dict[str, list[str]]:
    """Return the attributes of every image as text, by column: "n/a" where missing, 1 and 0 for true and false.

    The column `key` of the table holds the `names`: whole, or, where no whole name is found, the
    last part of each if these are unique. Columns that are `taken`, and images without a row, are
    refused.
    """
    cells = read_text_table(table).reset_index(drop=True).map(_plain)
    if key not in cells:
        near = suggestion(key, cells.columns)
        raise DataError(
            f"{table.name} has no column '{key}'.{near} It has: {one_of(list(cells.columns)[:30])}."
        )
    rows = _rows_of(names, cells.pop(key), table, key)
    if same := [
        name for name in cells if str(name).lower() in taken or str(name).startswith("cluster")
    ]:
        raise DataError(
            f"{table.name} has a column '{same[0]}', a name that is used here; rename it."
        )
    return {str(name): column.iloc[rows].tolist() for name, column in cells.items()}


def _plain(cell: str) -> str:
    return "n/a" if is_missing(cell) else _FLAGS.get(cell.lower(), " ".join(cell.split()))


def _rows_of(
    wanted: Sequence[str], cells: pd.Series, table: Path, key: str
) -> npt.NDArray[np.int64]:
    names, files = pd.Index(cells.str.replace("\\", "/").str.removeprefix("./")), pd.Index(wanted)
    last = files.str.rpartition("/").get_level_values(2)
    if not names.isin(files).any() and last.is_unique:
        names, files = names.str.rpartition("/").get_level_values(2), last
    if not names.is_unique:
        twice = names[names.duplicated()].unique()
        raise DataError(f"{table.name} has more than one row for {one_of(twice[:N_SHOWN])}.")
    rows = names.get_indexer(files)
    problems = Problems(table.name)
    for position in np.flatnonzero(rows < 0).tolist():
        problems.add(f"no row tells of this image in column '{key}'", name=shown(wanted[position]))
    problems.raise_if_any()
    return rows


def cluster(
    values: npt.NDArray[np.float64], training: npt.NDArray[np.bool_], *, n_clusters: int, seed: int
) -> list[str]:
    """Return the cluster of each row, fitted on the rows of training without scaling.

    The best of ten starts (k-means++), on one thread.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    _check_complete(values)
    n_different = len(np.unique(values[training], axis=0))
    if n_different < n_clusters:
        raise DataError(
            f"clusters: {n_clusters} clusters need as many different values. Found {n_different}."
        )
    state = derive_seed("clusters", seed, n_clusters) % 2**32
    with threadpool_limits(1):
        codes = (
            KMeans(n_clusters, n_init=10, random_state=state).fit(values[training]).predict(values)
        )
    return _named(codes)


def group_identical(
    values: npt.NDArray[np.float64], training: npt.NDArray[np.bool_], *, n_columns: int
) -> list[str]:
    """Return the group of each row: rows of one group are equal in the columns of highest entropy.

    The entropy of each column is that of its values in the rows of training; of equal columns the
    first comes first.
    """
    _check_complete(values)
    if not 1 <= n_columns <= values.shape[1]:
        raise DataError(
            f"clusters.identical: must be from 1 to the {values.shape[1]} columns, got {n_columns}."
        )
    shares = [
        np.unique(column, return_counts=True)[1] / training.sum() for column in values[training].T
    ]
    entropy = np.array([-(share * np.log(share)).sum() for share in shares])
    chosen = np.argsort(-entropy, kind="stable")[:n_columns]
    return _named(np.unique(values[:, chosen], axis=0, return_inverse=True)[1])


def _check_complete(values: npt.NDArray[np.float64]) -> None:
    n_missing = int((~np.isfinite(values)).any(axis=1).sum())
    if n_missing:
        raise DataError(
            f"clusters: {n_missing} images miss a number of what is clustered; each needs all."
        )


def _named(codes: npt.NDArray[np.int64]) -> list[str]:
    """Return codes as text, ``c0``, ``c1`` … as they come, so that no reader takes them for numbers."""
    codes = pd.factorize(codes)[0]
    width = len(str(codes.max()))
    return [f"c{number:0{width}d}" for number in codes.tolist()]


def main() -> None:
    """Add columns as the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("participants")
    parser.add_argument("--attributes", help="table of further columns")
    parser.add_argument("--key", default="participant_id", help="its column that names each image")
    parser.add_argument("--columns", nargs="+", help="columns to group by")
    parser.add_argument(
        "--n-clusters", nargs="+", type=int, default=[], help="numbers of groups by k-means"
    )
    parser.add_argument(
        "--identical",
        nargs="+",
        type=int,
        default=[],
        help="numbers of columns that are equal in a group",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of k-means")
    given = parser.parse_args()
    groups = {"n_clusters": given.n_clusters, "identical": given.identical}
    clusters = {"columns": given.columns, **groups} if given.columns else None
    add_columns(
        given.participants,
        attributes=given.attributes,
        attributes_key=given.key,
        clusters=clusters,
        seed=given.seed,
    )


if __name__ == "__main__":
    main()
