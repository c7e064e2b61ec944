"""The second baseline: principal components of the voxels, which need no encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.decomposition import KernelPCA

from neurocontrast.evaluation.fitting import one_thread
from neurocontrast.evaluation.metrics import DESCRIPTIVE, LOWER_IS_BETTER, finite_or_none
from neurocontrast.evaluation.schema import Notice
from neurocontrast.evaluation.significance import corrected_resampled_t
from neurocontrast.evaluation.splits import Split

__all__ = ["N_COMPONENTS", "ComponentsDesign", "Voxels", "look_at_voxels", "voxel_p_values", "voxel_products"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

N_COMPONENTS = 60
"""Principal components of the voxels that the probe is fitted on; fewer where there are not more training scans."""

_BLOCK = 4096
_MAX_DENSE = 1000


@dataclass(frozen=True)
class Voxels:
    """Voxels of all scans, as far as their principal components need them."""

    products: Floats
    about: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ComponentsDesign:
    """Principal components of the voxels, fitted on the training rows.

    The scores are those of `sklearn.decomposition.PCA` on the voxels themselves, up to their signs: they follow from
    the inner products of scans, of which there are far fewer than voxels.
    """

    products: Floats
    n_components: int = N_COMPONENTS

    def __call__(self, train: Rows, test: Rows) -> tuple[Floats, Floats]:
        """Return the scores (n, n_components) of training and test rows."""
        n_components = min(self.n_components, len(train) - 1)
        solver = "dense" if len(train) <= _MAX_DENSE else "arpack"  # to the same digits, and faster for many scans
        with one_thread():
            pca = KernelPCA(n_components, kernel="precomputed", eigen_solver=solver, random_state=0)
            fitted = pca.fit_transform(self.products[np.ix_(train, train)])
            return fitted, pca.transform(self.products[np.ix_(test, train)])


def voxel_products(values: npt.NDArray[np.float32]) -> Floats:
    """Return the inner products (n, n) of rows of `values` (n, n_voxels), of which the mean row is taken off first.

    That changes no principal component, which are of centred training rows anyway, and keeps digits.
    """
    products = np.zeros((len(values), len(values)))
    with one_thread():
        for start in range(0, values.shape[1], _BLOCK):
            block = values[:, start : start + _BLOCK]
            centred = block - block.mean(axis=0, dtype=np.float64).astype(np.float32)
            products += centred @ centred.T
    return (products + products.T) / 2


def voxel_p_values(folds: pd.DataFrame, splits: Sequence[Split], names: Sequence[str]) -> dict[str, float | None]:
    """Return the p-value of embedding minus voxels over folds, by metric (Nadeau and Bengio, 2003).

    None where fewer than two folds have the metric, where neither more nor less of it is better, and where sites are
    held out, which are no random draws.
    """
    if any(split.held_out_site is not None for split in splits):
        return dict.fromkeys(names)
    n_train, n_test = (float(folds[name].mean()) for name in ("n_train", "n_test"))
    found: dict[str, float | None] = {}
    for name in names:
        column = name.removesuffix("_within_fold")
        if column not in folds or name in DESCRIPTIVE:
            found[name] = None
            continue
        differences = (folds[column].astype(float) - folds[f"voxels_{column}"].astype(float)).dropna()
        enough = len(differences) > 1
        test = corrected_resampled_t(differences, n_train=n_train, n_test=n_test) if enough else None
        found[name] = None if test is None else finite_or_none(test.p_value)
    return found


def look_at_voxels(figures: Mapping[str, Any], metric: str) -> list[Notice]:
    """Return a warning where the voxels do as well as the embedding, or better, by the leading metric."""
    ours, theirs = (figures[part].get(metric, {}).get("pooled") for part in ("metrics", "voxels"))
    if ours is None or theirs is None or (ours < theirs if metric in LOWER_IS_BETTER else ours > theirs):
        return []
    values = f"{metric.replace('_', ' ')} {theirs:.3g} against {ours:.3g}"
    text = (
        f"{figures['voxels_about']['n_components']} principal components of the voxels do as well as the embedding or "
        f"better ({values}): here "
        "the encoder is no gain over the scans as they are."
    )
    explanation = (
        "A linear model of the scans themselves needs no pretraining, and does as well here. Do not credit the encoder "
        "with what the scans give away so easily."
    )
    return [Notice("voxels_as_good", text, explanation)]
