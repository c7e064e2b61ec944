"""Logistic and ridge regression for many label vectors of the same scans, fitted side by side.

The optimum is that of scikit-learn's estimators. Label vectors share the principal axes of the training scans, along
which the Hessian is nearly diagonal, and every product with the features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from neurocontrast.evaluation.designs import Design, scaler_of
from neurocontrast.evaluation.estimators import N_RISES, principal_axes
from neurocontrast.evaluation.metrics import log_losses
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits.inner import Pairs
from neurocontrast.evaluation.target import Target

__all__ = ["LogisticPath", "choose_strengths", "fit_label_vectors"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

TOLERANCE = 1e-6
"""Largest gradient at which a fit ends, by coefficients in units of their curvature."""


def fit_label_vectors(
    design: Design,
    target: Target,
    labels: npt.NDArray[np.generic],
    train: Rows,
    test: Rows,
    *,
    pairs: Pairs,
    settings: EvaluationSettings,
) -> tuple[Floats, Floats]:
    """Choose the penalty, fit and predict for each column of `labels` (n, b), with the same inner folds."""
    classes = np.unique(target.values[train])
    path: Callable[[Floats, Any], RidgePath | LogisticPath] = RidgePath
    grid, values = settings.alpha[::-1], labels.astype(float)
    if target.kind != "continuous":
        path = partial(LogisticPath, n_classes=len(classes))
        grid, values = settings.C, np.searchsorted(classes, labels)
    fits = []
    for rows, tried in pairs:
        x, x_tried = _along_axes(design, rows, tried)
        fits.append((path(x, values[rows]), x_tried, values[tried]))
    strengths = choose_strengths(fits, grid, n_columns=labels.shape[1])
    del fits  # as large as the features, several times over
    x, x_test = _along_axes(design, train, test)
    final = path(x, values[train])
    scores = np.zeros((len(test), labels.shape[1], max(1, len(target.classes))))
    for strength in np.unique(strengths):
        columns = np.flatnonzero(strengths == strength)
        predicted = final.predict(x_test, strength, columns)
        if target.kind == "continuous":
            scores[:, columns, 0] = predicted
        else:
            scores[:, columns[:, None], classes] = predicted
    return scores if target.kind == "multiclass" else scores[:, :, -1], strengths


def choose_strengths(
    fits: Sequence[tuple[RidgePath | LogisticPath, Floats, npt.NDArray[Any]]],
    grid: Sequence[float],
    *,
    n_columns: int,
) -> Floats:
    """Return, for each label vector, the strength of least mean loss over inner folds, of equals the first of the grid.

    Each fold is its path, and the features and values on which that is tried. Without folds, the middle of the grid is
    taken.
    """
    if not fits:
        return np.full(n_columns, sorted(grid)[len(grid) // 2])
    means = np.full((len(grid), n_columns), np.inf)
    trying, n_rises = np.arange(n_columns), np.zeros(n_columns, dtype=int)
    for place, strength in enumerate(grid):
        losses = [path.loss(values[:, trying], path.predict(x, strength, trying)) for path, x, values in fits]
        means[place, trying] = np.mean(losses, axis=0)
        rose = means[place] > means[place - 1] if place else np.zeros(n_columns, dtype=bool)
        n_rises[trying] = np.where(rose[trying], n_rises[trying] + 1, 0)
        if fits[0][0].gives_up:
            trying = trying[n_rises[trying] < N_RISES]
        if not len(trying):
            break
    return np.asarray(grid)[means.argmin(axis=0)]


def _along_axes(design: Design, train: Rows, test: Rows) -> tuple[Floats, Floats]:
    """Return standardised features along principal axes; what is orthogonal to these never enters a prediction."""
    x_train, x_test = design(train, test)
    scaler = scaler_of(design).fit(x_train)
    axes, along = principal_axes(scaler.transform(x_train))
    return along, scaler.transform(x_test) @ axes


class RidgePath:
    """Ridge regressions of one training set (n, k), its columns orthogonal, on numbers (n, b)."""

    gives_up = False

    def __init__(self, x: Floats, y: Floats) -> None:
        self._means, self._squares = y.mean(axis=0), np.einsum("ij,ij->j", x, x)
        self._products = x.T @ (y - self._means)

    def predict(self, x: Floats, strength: float, columns: Rows) -> Floats:
        """Return predicted numbers (n, columns)."""
        return self._means[columns] + x @ (self._products[:, columns] / (self._squares + strength)[:, None])

    @staticmethod
    def loss(y: Floats, predicted: Floats) -> Floats:
        """Return the mean squared error of each column."""
        return np.asarray(((y - predicted) ** 2).mean(axis=0))


class LogisticPath:
    """Logistic regressions of one training set (n, k) on codes (n, b), each started from the penalty before."""

    gives_up = True
    loss = staticmethod(log_losses)

    def __init__(self, x: Floats, codes: npt.NDArray[np.integer], *, n_classes: int) -> None:
        self._x, members = _with_intercept(x), np.eye(n_classes)[codes]
        self._truth = members[:, :, 1:] if n_classes == 2 else members
        shares = np.clip(self._truth.mean(axis=0), 1e-12, 1 - 1e-12)
        self._weights = np.zeros((self._x.shape[1], *shares.shape))
        self._weights[-1] = np.log(shares / (1 - shares)) if shares.shape[1] == 1 else np.log(shares)

    def predict(self, x: Floats, strength: float, columns: Rows) -> Floats:
        """Return probabilities (n, columns, classes)."""
        self._weights[:, columns] = weights = self._fit(strength, columns)
        found = _activate(np.tensordot(_with_intercept(x), weights, axes=1))[0]
        return np.concatenate([1 - found, found], axis=2) if found.shape[2] == 1 else found

    def _fit(self, strength: float, columns: Rows) -> Floats:
        x, truth, start = self._x, self._truth[:, columns], self._weights[:, columns]
        penalties = np.full((len(start), 1, 1), 1 / strength)
        penalties[-1] = 0.0
        likely = _activate(np.tensordot(x, start, axes=1))[0]
        typical = np.maximum((likely * (1 - likely)).mean(axis=(0, 2)), 1e-6)
        scale = np.sqrt(np.einsum("ij,ij->j", x, x)[:, None, None] * typical[:, None] + penalties)

        def state(scaled: Floats) -> tuple[float, Floats]:
            weights = scaled.reshape(start.shape) / scale
            margins = np.tensordot(x, weights, axes=1)
            likely, normalisers = _activate(margins)
            loss = normalisers.sum() - np.vdot(truth, margins) + 0.5 * np.vdot(penalties * weights, weights)
            gradient = np.tensordot(x.T, likely - truth, axes=1) + penalties * weights
            return float(loss), (gradient / scale).ravel()

        options = {"maxiter": 1000, "maxcor": 5, "ftol": 0.0, "gtol": TOLERANCE}
        found = minimize(state, (start * scale).ravel(), jac=True, method="L-BFGS-B", options=options)
        return np.asarray(found.x.reshape(start.shape) / scale)


def _with_intercept(x: Floats) -> Floats:
    return np.column_stack([x, np.ones(len(x))])


def _activate(margins: Floats) -> tuple[Floats, Floats]:
    """Return probabilities, and the logarithms of their normalisers; one column of margins is against zero."""
    largest = np.maximum(margins.max(axis=2, keepdims=True), 0.0 if margins.shape[2] == 1 else -np.inf)
    powers = np.exp(margins - largest)
    sums = powers.sum(axis=2, keepdims=True) + (np.exp(-largest) if margins.shape[2] == 1 else 0.0)
    return powers / sums, np.log(sums) + largest
