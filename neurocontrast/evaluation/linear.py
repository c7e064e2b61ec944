"""Logistic and ridge regression on standardised features, for many label vectors of the same scans: permutations.

The probes of an evaluation are scikit-learn's (`estimators`); this reaches the same optimum, and a thousand label
vectors sooner.

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
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation.logistic import LogisticPath, predict_probabilities
from neurocontrast.evaluation.probes import Design, Pairs
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.target import Target

__all__ = [
    "N_RISES",
    "Fold",
    "choose_c",
    "fit_label_vectors",
    "log_losses",
    "predict_at",
    "principal_axes",
    "rotate",
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


def fit_label_vectors(
    design: Design,
    target: Target,
    labels: npt.NDArray[np.generic],
    train: Rows,
    test: Rows,
    *,
    pairs: Pairs,
    settings: EvaluationSettings,
) -> tuple[Floats, Floats, int]:
    """Choose the penalty, fit and predict for each column of `labels` (n, b), with the same inner folds.

    The penalty is the one of least mean log-loss (logistic) or squared error (ridge) over the inner folds; of equals,
    the strongest, as in `estimators.fit_built_in`.

    Every column must have the classes of the target in the training rows. Returns scores
    (n test, b) or (n test, b, classes), the chosen strengths (b,), and how many fits did not converge.
    """
    folds = [_fold(design, *pair) for pair in pairs]
    if target.kind == "continuous":
        strengths, failed = choose_alpha(folds, labels.astype(float), settings.alpha), 0
    else:
        classes = np.unique(target.values[train])
        codes = np.searchsorted(classes, labels)
        strengths, failed = choose_c(folds, codes, settings.C, n_classes=len(classes))
    del folds  # as large as the features, several times over
    scores, failed_last = _predict(_fold(design, train, test), target, labels, strengths)
    return scores, strengths, failed + failed_last


def predict_at(design: Design, target: Target, train: Rows, test: Rows, *, strength: float) -> Floats:
    """Fit the training rows with a penalty that is given, and predict the test rows."""
    return _predict(_fold(design, train, test), target, target.values[:, None], np.array([strength]))[0][:, 0]


def standardise(x_train: Floats, x_test: Floats) -> tuple[Floats, Floats]:
    """Scale both to mean 0 and variance 1 of the training rows, then `rotate`."""
    scaler = StandardScaler().fit(x_train)
    return rotate(scaler.transform(x_train), scaler.transform(x_test))


def rotate(x_train: Floats, x_test: Floats) -> tuple[Floats, Floats]:
    """Express both along the principal axes of the training rows.

    An L2-penalised linear model has its coefficients in the span of its training rows, so
    what is orthogonal to them never enters a prediction; and it does not care about rotation.
    Axes along which the training rows do not extend are left out.
    """
    axes, along = principal_axes(x_train)
    return along, x_test @ axes


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


def _fold(design: Design, train: Rows, test: Rows) -> Fold:
    return Fold(train, test, *standardise(*design(train, test)))


def _predict(fold: Fold, target: Target, labels: npt.NDArray[np.generic], strengths: Floats) -> tuple[Floats, int]:
    if target.kind == "continuous":
        return ridge_scores(fold, labels.astype(float), strengths), 0
    classes = np.unique(target.values[fold.train])
    found, failed = logistic_scores(fold, np.searchsorted(classes, labels), strengths, n_classes=len(classes))
    scores = np.zeros((*found.shape[:2], len(target.classes)))
    scores[:, :, classes] = found
    return (scores[:, :, 1] if target.kind == "binary" else scores), failed
