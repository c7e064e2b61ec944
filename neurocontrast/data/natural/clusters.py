"""Groups of images by k-means of their columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neurocontrast.exceptions import DataError
from neurocontrast.seeds import derive_seed

__all__ = ["cluster"]


def cluster(
    values: npt.NDArray[np.float64], training: npt.NDArray[np.bool_], *, n_clusters: int, seed: int
) -> list[str]:
    """Return the cluster of each row, fitted on the rows of training without scaling: ``c0``, ``c1`` … as they come.

    The best of ten starts (k-means++), on one thread. Clusters are text, so that no reader takes them for numbers.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    n_missing = int((~np.isfinite(values)).any(axis=1).sum())
    if n_missing:
        raise DataError(f"clusters: {n_missing} images miss a value of what is clustered; each needs all.")
    n_different = len(np.unique(values[training], axis=0))
    if n_different < n_clusters:
        raise DataError(f"clusters: {n_clusters} clusters need as many different values. Found {n_different}.")
    state = derive_seed("clusters", seed, n_clusters) % 2**32
    with threadpool_limits(1):
        fitted = KMeans(n_clusters, n_init=10, random_state=state).fit(values[training])
        codes = fitted.predict(values)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    number = np.argsort(np.argsort(first))[inverse]
    width = len(str(n_clusters - 1))
    return [f"c{code:0{width}d}" for code in number.tolist()]
