"""Steps of a scikit-learn pipeline between the rows of a study and an estimator."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from neurocontrast.evaluation.designs import Design

__all__ = ["FoldFeatures", "PrincipalAxes", "principal_axes"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

RANK_TOLERANCE = 1e-13
"""Axes with a smaller share of the largest one's variance are rounding."""


class FoldFeatures(TransformerMixin, BaseEstimator):
    """Turn row numbers of a study into features, with everything estimated on the rows of `fit` alone.

    As the first step of a pipeline, this makes each fold of `sklearn.model_selection.GridSearchCV` estimate its own
    harmonisation, residuals and scaling. Clones share what was computed, so that a search computes the matrices of a
    fold once and not once for each value of its grid.

    Parameters
    ----------
    design : callable
        Gives the matrices of training rows and of other rows, estimated on the training rows.
    scaling : transformer or None, default=None
        What to do with the matrices then, fitted on the training rows.
    """

    def __init__(self, design: Design, scaling: Any = None) -> None:
        self.design = design
        self.scaling = scaling
        self._seen: dict[bytes, tuple[Any, Floats, dict[bytes, Floats]]] = {}

    def __sklearn_clone__(self) -> FoldFeatures:
        return copy.copy(self)

    def fit(self, rows: Rows, y: Any = None) -> FoldFeatures:  # noqa: ARG002
        """Remember the training rows (n, 1)."""
        self.rows_ = rows[:, 0]
        return self

    def fit_transform(self, rows: Rows, y: Any = None) -> Floats:  # noqa: ARG002
        """Return the features (n, p) of the training rows."""
        return self.fit(rows)._training()[1]

    def transform(self, rows: Rows) -> Floats:
        """Return the features (n, p) of any rows (n, 1)."""
        scaling, _, found = self._training()
        key = rows.tobytes()
        if key not in found:
            x = self.design(self.rows_, rows[:, 0])[1]
            found[key] = x if scaling is None else scaling.transform(x)
        return found[key]

    def prepare(self, train: Rows, test: Rows) -> None:
        """Compute the features of training rows (n,) and of those that will be tested, with one estimate for both."""
        if train.tobytes() in self._seen:
            return
        x_train, x_test = self.design(train, test)
        scaling = None if self.scaling is None else clone(self.scaling)
        if scaling is not None:
            x_train, x_test = scaling.fit_transform(x_train), scaling.transform(x_test)
        self._seen[train.tobytes()] = scaling, x_train, {test.tobytes(): x_test}

    def fitted_scaling(self) -> Any:
        """Return the scaling fitted on the training rows."""
        return self._training()[0]

    def _training(self) -> tuple[Any, Floats, dict[bytes, Floats]]:
        self.prepare(self.rows_, self.rows_[:1])
        return self._seen[self.rows_.tobytes()]


class PrincipalAxes(TransformerMixin, BaseEstimator):
    """Express features along the axes that the training rows extend along, where features outnumber rows.

    An L2-penalised linear model predicts the same with and without this step: its coefficients lie in the span of its
    training rows, and rotation does not change their norm. With fewer columns it is fitted sooner. Unlike
    `sklearn.decomposition.PCA`, the rows are not centred, and the axes come from their inner products, which is
    several times faster.

    Attributes
    ----------
    axes_ : array (p, k) or None
        Columns are the axes; None where rows outnumber features, which stay as they are.

    Examples
    --------
    >>> x = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0]])
    >>> np.linalg.norm(PrincipalAxes().fit_transform(x), axis=1).round(6).tolist()
    [5.0, 2.0]
    """

    def fit(self, X: npt.ArrayLike, y: Any = None) -> PrincipalAxes:  # noqa: ARG002
        """Find the axes of the training rows (n, p)."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: npt.ArrayLike, y: Any = None) -> Floats:  # noqa: ARG002
        """Find the axes of the training rows (n, p), and return the rows along these: (n, k)."""
        x = validate_data(self, X, dtype=np.float64)
        self.axes_: Floats | None = None
        if x.shape[1] > x.shape[0]:
            self.axes_, x = principal_axes(x)
        return np.asarray(x)

    def transform(self, X: npt.ArrayLike) -> Floats:
        """Return rows (n, p) along the axes: (n, k)."""
        check_is_fitted(self)
        x = validate_data(self, X, dtype=np.float64, reset=False)
        return x if self.axes_ is None else x @ self.axes_


def principal_axes(x: Floats) -> tuple[Floats, Floats]:
    """Return the directions (p, k) along which rows (n, p) extend, as columns, and the rows along these: (n, k)."""
    n, p = x.shape
    wide = p > n  # then the n × n matrix of inner products holds all there is to know
    variances, axes = scipy.linalg.eigh(x @ x.T if wide else x.T @ x, check_finite=False, driver="evd")
    kept = variances > variances[-1] * RANK_TOLERANCE
    axes = np.ascontiguousarray(axes[:, kept])
    if not wide:
        return axes, x @ axes
    lengths = np.sqrt(variances[kept])
    return x.T @ (axes / lengths), axes * lengths
