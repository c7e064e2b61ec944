"""Ridge regression."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.linalg
from sklearn import linear_model

from neurocontrast.evaluation.fold_features import sum_products
from neurocontrast.evaluation.probes import Probe
from neurocontrast.evaluation.settings import EvaluationSettings


class Ridge(Probe):
    """Least squares with an L2 penalty."""

    title = "ridge regression"
    citation = "Hoerl AE, Kennard RW. Ridge regression. Technometrics 1970;12:55-67."
    classes = False
    strength = "alpha"
    rotates = from_products = True

    def estimator(self, settings: EvaluationSettings, *, continuous: bool, seed: int) -> linear_model.Ridge:  # noqa: ARG002
        """Return scikit-learn's estimator."""
        return linear_model.Ridge()

    def large_estimator(self, settings: EvaluationSettings, *, continuous: bool, seed: int) -> linear_model.Ridge:  # noqa: ARG002
        """Return ridge regression that all penalties share the sums over scans of."""
        return ProductsRidge()

    def grid(self, settings: EvaluationSettings) -> Sequence[float]:
        """Return the grid of alpha from the largest on."""
        return settings.alpha[::-1]


class ProductsRidge(linear_model.Ridge):
    """Ridge regression by the normal equations, from inner products of the columns that are computed once.

    Parameters
    ----------
    alpha : float
        Penalty.
    precompute : array (p, p), optional
        Inner products of the centred columns; computed where they are not given.
    """

    def __init__(self, alpha: float = 1.0, *, precompute: npt.NDArray[np.float64] | None = None) -> None:
        super().__init__(alpha)
        self.precompute = precompute

    def fit(self, X: npt.NDArray[np.floating], y: npt.NDArray[np.floating]) -> ProductsRidge:
        """Solve the normal equations of rows (n, p) and their values (n,)."""
        products = sum_products(X, X) if self.precompute is None else self.precompute
        with_y = sum_products(X, np.asarray(y, dtype=np.float64)[:, None])[:, 0]
        penalised = products + self.alpha * np.eye(len(products))
        self.coef_ = scipy.linalg.solve(penalised, with_y, assume_a="pos")
        self.intercept_ = float(np.mean(y) - X.mean(axis=0, dtype=np.float64) @ self.coef_)
        self.n_features_in_ = X.shape[1]
        return self
