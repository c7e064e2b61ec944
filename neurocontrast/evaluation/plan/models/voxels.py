"""Model of principal components of the scans' voxels, without an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import KernelPCA

from neurocontrast.documents.result import VoxelsAbout
from neurocontrast.evaluation.plan.models.model import Baseline, ProbeModel
from neurocontrast.evaluation.probes.designs import one_thread
from neurocontrast.evaluation.rows import Floats, Rows

if TYPE_CHECKING:
    from neurocontrast.evaluation.plan.plan import Plan


N_COMPONENTS = 60
"""Most principal components that the probe is fitted to; fewer than there are training scans."""
_BLOCK = 4096
_MAX_DENSE = 1000


@dataclass(frozen=True)
class ComponentsDesign:
    """Function that gives principal components of the scans' voxels, fitted anew in each fold.

    They are fitted on the training rows. `products` (n, n) are inner products of the voxels of all
    scans, as `voxel_products` returns.
    """

    products: Floats
    n_components: int = N_COMPONENTS

    def __call__(self, train: Rows, test: Rows) -> tuple[Floats, Floats]:
        """Return two matrices (n rows, n_components): scores of training rows and of test rows."""
        n_components = min(self.n_components, len(train) - 1)
        solver = (
            "dense" if len(train) <= _MAX_DENSE else "arpack"
        )  # to the same digits, and faster for many scans
        with one_thread():
            pca = KernelPCA(n_components, kernel="precomputed", eigen_solver=solver, random_state=0)
            fitted = pca.fit_transform(self.products[np.ix_(train, train)])
            return fitted, pca.transform(self.products[np.ix_(test, train)])


def voxel_products(values: npt.NDArray[np.float32]) -> Floats:
    """Return the inner products (n, n) of the rows of `values` (n, n_voxels) minus the mean row."""
    products = np.zeros((len(values), len(values)))
    with one_thread():
        for start in range(0, values.shape[1], _BLOCK):
            block = values[:, start : start + _BLOCK]
            centred = block - block.mean(axis=0, dtype=np.float64).astype(np.float32)
            products += centred @ centred.T
    return (products + products.T) / 2


def make(plan: Plan, products: Floats, about: Mapping[str, Any]) -> ProbeModel:
    """Return a model that fits the plan's estimator to principal components of the scans' voxels.

    `products` (n, n) are inner products of the scans' voxels, as `voxel_products` returns; `about`
    says in ``evaluation.json`` how the voxels were read.
    """
    n_components = min(N_COMPONENTS, *(len(split.train) - 1 for split in plan.splits))
    baseline = Baseline(
        "voxels", f"{n_components} principal components of the voxels", "the scans as they are"
    )
    described = VoxelsAbout.model_validate(
        {**about, "n_components": n_components}, context="writing"
    )
    return ProbeModel(
        "voxels",
        ComponentsDesign(products),
        plan.estimator,
        baseline=baseline,
        result_keys={"voxels_about": described},
    )
