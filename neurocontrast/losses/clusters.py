"""k-means clusters of a condition, for the baselines that contrast within or between clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion

__all__ = ["add_clusters"]


def add_clusters(
    metadata: Mapping[str, Tensor],
    *,
    columns: Sequence[str],
    n_clusters: int,
    seed: int = 0,
    name: str = "cluster",
    names: Sequence[str] | None = None,
) -> dict[str, Tensor]:
    """Return the metadata with one more column: the k-means cluster of each sample's condition.

    Call it once on the whole cohort, before training: ``SupCon("cluster")`` is then the WeaklySup-InfoNCE of Tsai et
    al. (2022), ``FairInfoNCE("cluster")`` their Fair-InfoNCE. Continuous columns are standardised, so that years
    and scores weigh the same; categorical columns become one indicator a category.

    Parameters
    ----------
    metadata : mapping of str to Tensor
        Columns of the cohort, one row a sample: floating (n,) or (n, p), or integer codes (n,).
    columns : sequence of str
        The columns that make the condition.
    n_clusters : int
        Few: coarse groups. Many: close to one sample a cluster.
    seed : int
        Of the initial centres; the same seed gives the same clusters.
    name : str
        Of the new column, int64 (n,), 0 to ``n_clusters`` - 1.
    names : sequence of str, optional
        How a row is called in a message; its number by default.

    Raises
    ------
    ConfigError, DataError
        A name or number that cannot be used; missing values, all rows at once.
    """
    from sklearn.cluster import KMeans

    if name in metadata:
        raise ConfigError(f"name must be a column that is not there yet, got '{name}'. Give another name.")
    features = _features(metadata, columns, names)
    n_distinct = len(np.unique(features, axis=0))
    if not 1 <= n_clusters <= n_distinct:
        raise ConfigError(
            f"n_clusters must be from 1 to the number of distinct conditions, here {n_distinct}, got {n_clusters}."
        )
    codes = KMeans(n_clusters, n_init=10, random_state=seed % 2**32).fit_predict(features)
    device = metadata[columns[0]].device
    return {**metadata, name: torch.as_tensor(codes, dtype=torch.int64, device=device)}


def _features(metadata: Mapping[str, Tensor], columns: Sequence[str], names: Sequence[str] | None) -> np.ndarray:
    """Return the condition as a table of numbers, (n, number of features)."""
    if not columns:
        raise ConfigError("columns must name at least one column, got none.")
    parts = []
    for column in columns:
        if column not in metadata:
            raise ConfigError(
                f"columns must be among {one_of(metadata)}, got '{column}'.{suggestion(column, metadata)}"
            )
        values = metadata[column].detach().cpu()
        table = values.numpy().astype(np.float64).reshape(len(values), -1)
        missing = ~np.isfinite(table).all(axis=1) if values.is_floating_point() else (table < 0).any(axis=1)
        if missing.any():
            raise DataError(_missing_message(column, np.flatnonzero(missing), names))
        parts.append(_standardised(table) if values.is_floating_point() else _indicators(table))
    return np.concatenate(parts, axis=1)


def _missing_message(column: str, rows: np.ndarray, names: Sequence[str] | None) -> str:
    """Say which rows have no value."""
    shown = ", ".join(names[row] if names is not None else str(row) for row in rows[:20])
    more = f" and {len(rows) - 20} more" if len(rows) > 20 else ""
    return (
        f"Column '{column}' has no finite value in {len(rows)} row(s): {shown}{more}. "
        "Fill them in, leave these rows out, or leave the column out of the clusters."
    )


def _standardised(table: np.ndarray) -> np.ndarray:
    """Return each column with mean 0 and, where it varies, standard deviation 1."""
    spread = table.std(axis=0)
    return (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _indicators(table: np.ndarray) -> np.ndarray:
    """Return one 0/1 column a category."""
    codes = np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)
    return np.eye(codes.max() + 1)[codes]
