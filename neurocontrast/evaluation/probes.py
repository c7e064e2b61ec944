"""Linear probes on frozen features: standardise, then logistic or ridge regression.

The penalty is chosen on inner folds of the training rows, subjects kept together. Both
models are rotation invariant, so where features outnumber scans they are fitted in the
basis of the training scans (a QR decomposition): the same predictions from n instead of
p coefficients.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import deal_subjects, subject_values
from neurocontrast.evaluation.target import Target
from neurocontrast.seeds import derive_generator

__all__ = ["Design", "ProbeFit", "fit_probe", "inner_folds", "rotate", "standardise"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Design = Callable[[Rows, Rows], tuple[Floats, Floats]]
"""Gives the matrices of training and test rows; whatever it estimates, it estimates on the training rows."""

MAX_ITERATIONS = 10_000
TOLERANCE = 1e-8


@dataclass(frozen=True)
class ProbeFit:
    """What a probe said of its test rows.

    Attributes
    ----------
    scores : array (n_test,) or (n_test, n_classes)
        Probability of the positive class, of each class, or the predicted value.
    strength : float
        The chosen C or alpha.
    n_not_converged : int
        Fits that stopped before the solver was satisfied.
    """

    scores: Floats
    strength: float
    n_not_converged: int = 0


def fit_probe(
    design: Design,
    target: Target,
    train: Rows,
    test: Rows,
    *,
    subjects: npt.NDArray[np.object_],
    settings: EvaluationSettings,
    seed: int,
) -> ProbeFit:
    """Choose the penalty inside the training rows, fit on all of them, and predict the test rows.

    The penalty is the one of least mean log-loss (logistic) or squared error (ridge) over the
    inner folds; of equals, the strongest.
    """
    continuous = target.kind == "continuous"
    grid = settings.alpha if continuous else settings.C
    predict = _predict_ridge if continuous else _predict_logistic
    classes = np.unique(target.values[train])
    y = target.values if continuous else np.searchsorted(classes, target.values)
    losses, n_not_converged = [], 0
    for fit_rows, try_rows in inner_folds(target, train, subjects, n_folds=settings.n_inner_folds, seed=seed):
        x_fit, x_try = standardise(*design(fit_rows, try_rows))
        paths, failed = predict(x_fit, y[fit_rows], x_try, grid)
        losses.append([_loss(y[try_rows], path, continuous=continuous) for path in paths])
        n_not_converged += failed
    strength = _choose(grid, losses, largest=continuous)
    x_train, x_test = standardise(*design(train, test))
    (raw,), failed = predict(x_train, y[train], x_test, (strength,))
    if continuous:
        return ProbeFit(raw, strength)
    scores = np.zeros((len(test), len(target.classes)))
    scores[:, classes] = raw
    return ProbeFit(scores[:, 1] if target.kind == "binary" else scores, strength, n_not_converged + failed)


def inner_folds(
    target: Target, train: Rows, subjects: npt.NDArray[np.object_], *, n_folds: int, seed: int
) -> list[tuple[Rows, Rows]]:
    """Split training rows by subject, classes spread evenly; fewer folds where a class has fewer subjects.

    Inner folds whose training rows lack a class are left out.
    """
    owners = subjects[train]
    values = target.values[train]
    value_of = subject_values(values, owners, average=target.kind == "continuous")
    generator = derive_generator("inner-folds", seed)
    if target.kind == "continuous":
        keys, n_folds = [np.zeros(len(value_of))], min(n_folds, len(value_of))
    else:
        keys, n_folds = [value_of], min(n_folds, int(np.unique(value_of, return_counts=True)[1].min()))
    if n_folds < 2:
        return []
    fold_of = deal_subjects(keys, n_folds, generator)[np.unique(owners, return_inverse=True)[1]]
    pairs = [(train[fold_of != fold], train[fold_of == fold]) for fold in range(n_folds)]
    n_values = len(np.unique(values))
    needed = 2 if target.kind == "continuous" else n_values
    return [pair for pair in pairs if len(np.unique(target.values[pair[0]])) >= needed]


def standardise(x_train: Floats, x_test: Floats) -> tuple[Floats, Floats]:
    """Scale both to mean 0 and variance 1 of the training rows, then `rotate`."""
    scaler = StandardScaler().fit(x_train)
    return rotate(scaler.transform(x_train), scaler.transform(x_test))


def rotate(x_train: Floats, x_test: Floats) -> tuple[Floats, Floats]:
    """Express both in an orthonormal basis of the training rows, where that has fewer columns.

    An L2-penalised linear model has its coefficients in the span of its training rows, so
    what is orthogonal to them never enters a prediction.
    """
    n, p = x_train.shape
    if p <= n:
        return x_train, x_test
    basis, triangle = scipy.linalg.qr(x_train.T, mode="economic", check_finite=False)
    return np.ascontiguousarray(triangle.T), x_test @ basis


def _predict_logistic(
    x_train: Floats, y: npt.NDArray, x_test: Floats, grid: Sequence[float]
) -> tuple[list[Floats], int]:
    """Return probabilities for each C, each fit started from the one before."""
    model = LogisticRegression(solver="lbfgs", max_iter=MAX_ITERATIONS, tol=TOLERANCE, warm_start=True)
    paths, failed = [], 0
    for strength in grid:
        model.set_params(C=strength)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            model.fit(x_train, y)
        failed += any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
        paths.append(model.predict_proba(x_test))
    return paths, failed


def _predict_ridge(x_train: Floats, y: npt.NDArray, x_test: Floats, grid: Sequence[float]) -> tuple[list[Floats], int]:
    """Return predicted values for each alpha, all from one decomposition."""
    mean = y.mean()
    left, singular, right = scipy.linalg.svd(x_train, full_matrices=False, check_finite=False)
    projected, x_rotated = left.T @ (y - mean), x_test @ right.T
    return [mean + x_rotated @ (singular / (singular**2 + strength) * projected) for strength in grid], 0


def _loss(truth: npt.NDArray, predicted: Floats, *, continuous: bool) -> float:
    if continuous:
        return float(np.mean((truth - predicted) ** 2))
    likely = predicted[np.arange(len(truth)), truth]
    return float(-np.log(np.clip(likely, np.finfo(float).eps, 1.0)).mean())


def _choose(grid: Sequence[float], losses: list[list[float]], *, largest: bool) -> float:
    """Return the value of least mean loss; without any inner fold, the middle of the grid."""
    if not losses:
        return grid[len(grid) // 2]
    means = np.mean(losses, axis=0)
    best = np.flatnonzero(means <= means.min())
    return grid[best[-1] if largest else best[0]]
