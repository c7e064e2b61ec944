"""Fit the linear encoder: principal components of the training scans, in one pass and without a loss."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
import torch

from neurocontrast.data.batches import Images, read_batches
from neurocontrast.encoders.encoder import Encoder, PrincipalComponents
from neurocontrast.exceptions import ConfigError
from neurocontrast.progress import SILENT, Progress
from neurocontrast.seeds import derive_seed

__all__ = ["LINEAR_OBJECTIVE", "check_components", "fit_components"]

LINEAR_OBJECTIVE = {
    "loss": "none",
    "title": "none: fitted in one pass to the variance of the training scans",
    "citation": "Hotelling H (1933). Analysis of a complex of statistical variables into principal components. "
    "Journal of Educational Psychology 24, 417-441.",
}
"""What ``encoder.json`` says in place of a loss."""

_BATCH = 16
_STEADY = 1e-6
"""A voxel whose range is below this part of the largest one does not vary."""


def check_components(encoder: Encoder, n_scans: int) -> None:
    """Refuse a linear encoder of as many components as there are training scans, or more."""
    if n_scans <= encoder.n_features:
        raise ConfigError(
            f"encoder.n_components: must be below the number of training scans, {n_scans}, found {encoder.n_features}."
        )


def fit_components(
    encoder: Encoder, images: Images, rows: Sequence[int], *, seed: int, n_readers: int = 1, progress: Progress = SILENT
) -> dict[str, Any]:
    """Fit the components of an encoder ``pca`` in place, on the rows of training.

    Components are those of `sklearn.decomposition.PCA`; the voxels of all training scans are in memory at once.

    Returns
    -------
    dict
        Number of voxels, and the part of the variance of the training scans that each component explains.

    Raises
    ------
    ConfigError
        Where fewer voxels than components vary among the scans.
    """
    # Not at the top: scikit-learn's decomposition takes half a second to import, and training mostly does without.
    from sklearn.decomposition import PCA

    layers = encoder.features.layers
    assert isinstance(layers, PrincipalComponents)
    n_components = encoder.n_features
    batches = [rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH)]
    values, n_read = np.empty((0, 0), dtype=np.float32), 0
    with (
        progress.task("Reading scans", len(rows), "scans") as task,
        closing(read_batches(images, batches, n_readers=n_readers)) as reading,
    ):
        for _, volumes in reading:
            flat = volumes.flatten(1)
            if not n_read:
                values = np.empty((len(rows), flat.shape[1]), dtype=np.float32)
            values[n_read : n_read + len(flat)] = flat.numpy()
            n_read += len(flat)
            task.advance(len(flat))
    ranges = values.max(axis=0) - values.min(axis=0)
    places = np.flatnonzero(ranges > _STEADY * ranges.max())
    if len(places) < n_components:
        raise ConfigError(f"encoder.n_components: {n_components}, and {len(places)} voxels vary among the scans.")
    values = values[:, places]
    pca = PCA(n_components, copy=False, random_state=derive_seed("components", seed) % 2**32).fit(values)
    layers.set_components(*map(torch.from_numpy, (places, pca.mean_, pca.components_)))
    return {"n_voxels": len(places), "explained_variance_ratio": pca.explained_variance_ratio_.tolist()}
