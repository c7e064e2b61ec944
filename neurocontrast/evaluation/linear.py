"""Logistic and ridge regression on standardised features, for one or many label vectors of the same scans.

Both models are rotation invariant, so they are fitted along the principal axes of the training
scans: n instead of p coefficients where features outnumber scans, and an (almost) diagonal Hessian.
The axes do not depend on labels. Many label vectors, as permutations are, share them, and
share every product with the features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg

from neurocontrast.evaluation.logistic import LogisticPath, predict_probabilities

__all__ = [
    "N_RISES",
    "Fold",
    "choose_alpha",
    "choose_c",
    "log_losses",
    "logistic_scores",
    "principal_axes",
    "ridge_scores",
    "rotate",
    "scale_columns",
    "standardise",
]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.integer]
Rows = npt.NDArray[np.intp]

N_RISES = 3
"""Values of C are given up after the inner loss has risen this often in a row."""
RANK_TOLERANCE = 1e-13
"""Axes with a smaller share of the largest one's variance are rounding."""


@dataclass(frozen=True)
class Fold:
    """Rows to fit and rows to predict, and their standardised, rotated features."""

    train: Rows
    test: Rows
    x_train: Floats
    x_test: Floats


def standardise(x_train: Floats, x_test: Floats) -> tuple[Floats, Floats]:
    """Scale both to mean 0 and variance 1 of the training rows, then `rotate`."""
    return rotate(*scale_columns(x_train, x_test))


def scale_columns(x_train: Floats, x_test: Floats) -> tuple[Floats, Floats]:
    """Scale both to mean 0 and variance 1 of the training rows; a column that does not vary stays at 0."""
    n, mean = len(x_train), x_train.mean(axis=0)
    x_train, x_test = x_train - mean, x_test - mean
    variances = np.einsum("ij,ij->j", x_train, x_train) / n
    epsilon = np.finfo(float).eps
    constant = variances <= n * epsilon * variances + (n * mean * epsilon) ** 2  # all that differs is rounding
    scales = np.where(constant, 1.0, np.sqrt(variances))
    x_train /= scales
    x_test /= scales
    return x_train, x_test


def rotate(x_train: Floats, x_test: Floats) -> tuple[Floats, Floats]:
    """Express both along the principal axes of the training rows.

    An L2-penalised linear model has its coefficients in the span of its training rows, so
    what is orthogonal to them never enters a prediction; and it does not care about rotation.
    Axes along which the training rows do not extend are left out.
    """
    n, p = x_train.shape
    wide = p > n  # then the n × n matrix of inner products holds all there is to know
    variances, axes = scipy.linalg.eigh(
        x_train @ x_train.T if wide else x_train.T @ x_train, check_finite=False, driver="evd"
    )
    kept = variances > variances[-1] * RANK_TOLERANCE
    axes = np.ascontiguousarray(axes[:, kept])
    if not wide:
        return x_train @ axes, x_test @ axes
    lengths = np.sqrt(variances[kept])
    return axes * lengths, ((x_test @ x_train.T) @ axes) / lengths


def principal_axes(x: Floats) -> Floats:
    """Return the directions (p, k) along which rows extend, as columns: what `rotate` turns them to."""
    n, p = x.shape
    if p > n:
        _, lengths, axes = scipy.linalg.svd(x, full_matrices=False, check_finite=False)
        return axes[lengths**2 > lengths[0] ** 2 * RANK_TOLERANCE].T
    variances, axes = scipy.linalg.eigh(x.T @ x, check_finite=False, driver="evd")
    return np.ascontiguousarray(axes[:, variances > variances[-1] * RANK_TOLERANCE])


def choose_alpha(folds: Sequence[Fold], values: Floats, grid: Sequence[float]) -> Floats:
    """Return, for each column of `values` (n, b), the alpha of least mean squared error over the folds.

    Of equals, the strongest; without folds, the middle of the grid.
    """
    if not folds:
        return np.full(values.shape[1], grid[len(grid) // 2])
    means = np.zeros((len(grid), values.shape[1]))
    for fold in folds:
        path = _ridge_path(fold.x_train, values[fold.train], fold.x_test, grid)
        means += [((values[fold.test] - predicted) ** 2).mean(axis=0) / len(folds) for predicted in path]
    last = len(grid) - 1 - (means <= means.min(axis=0))[::-1].argmax(axis=0)
    return np.asarray(grid)[last]


def choose_c(folds: Sequence[Fold], codes: Codes, grid: Sequence[float], *, n_classes: int) -> tuple[Floats, int]:
    """Return, for each column of `codes` (n, b), the C of least mean log-loss over the folds.

    Values are tried from strong to weak penalty, until the loss of a column has risen three
    times in a row. Also returns how many fits did not converge.
    """
    n_columns = codes.shape[1]
    if not folds:
        return np.full(n_columns, grid[len(grid) // 2]), 0
    paths = [LogisticPath(fold.x_train, codes[fold.train], n_classes=n_classes) for fold in folds]
    means = np.full((len(grid), n_columns), np.inf)
    trying, n_rises = np.arange(n_columns), np.zeros(n_columns, dtype=int)
    for place, strength in enumerate(grid):
        losses = np.zeros(len(trying))
        for path, fold in zip(paths, folds, strict=True):
            probabilities = predict_probabilities(fold.x_test, path.step(strength, trying))
            losses += log_losses(codes[fold.test][:, trying], probabilities) / len(folds)
        means[place, trying] = losses
        rose = losses > means[place - 1, trying] if place else np.zeros(len(trying), dtype=bool)
        n_rises[trying] = np.where(rose, n_rises[trying] + 1, 0)
        trying = trying[n_rises[trying] < N_RISES]
        if not len(trying):
            break
    return np.asarray(grid)[means.argmin(axis=0)], sum(path.n_not_converged for path in paths)


def logistic_scores(fold: Fold, codes: Codes, strengths: Floats, *, n_classes: int) -> tuple[Floats, int]:
    """Fit each column of `codes` (n, b) with its C; return probabilities (n test, b, classes) and failures."""
    path = LogisticPath(fold.x_train, codes[fold.train], n_classes=n_classes)
    scores = np.empty((len(fold.test), codes.shape[1], n_classes))
    for strength in np.unique(strengths):
        columns = np.flatnonzero(strengths == strength)
        scores[:, columns] = predict_probabilities(fold.x_test, path.step(float(strength), columns))
    return scores, path.n_not_converged


def ridge_scores(fold: Fold, values: Floats, strengths: Floats) -> Floats:
    """Fit each column of `values` (n, b) with its alpha, and return predicted values (n test, b)."""
    scores = np.empty((len(fold.test), values.shape[1]))
    for strength in np.unique(strengths):
        columns = np.flatnonzero(strengths == strength)
        path = _ridge_path(fold.x_train, values[fold.train][:, columns], fold.x_test, (strength,))
        scores[:, columns] = next(path)
    return scores


def _ridge_path(x_train: Floats, y: Floats, x_test: Floats, grid: Sequence[float]) -> Iterator[Floats]:
    """Yield predicted values (n test, b) for each alpha."""
    mean = y.mean(axis=0)
    # The columns are orthogonal, so the normal equations are diagonal.
    variances, projected = np.einsum("ij,ij->j", x_train, x_train), x_train.T @ (y - mean)
    for strength in grid:
        yield mean + x_test @ (projected / (variances + strength)[:, None])


def log_losses(truth: Codes, probabilities: Floats) -> Floats:
    """Return the mean log-loss of class codes (n, b) by probabilities (n, b, classes), for each column."""
    likely = np.take_along_axis(probabilities, truth[:, :, None].astype(np.intp), axis=2)[:, :, 0]
    return -np.log(np.clip(likely, np.finfo(float).eps, 1.0)).mean(axis=0)
