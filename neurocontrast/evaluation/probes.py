"""Linear probes on frozen features: standardise, then logistic or ridge regression.

The penalty is chosen on inner folds of the training rows, subjects kept together. Both
models are rotation invariant, so where features outnumber scans they are fitted in the
basis of the training scans (a QR decomposition): the same predictions from n instead of
p coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import scipy.linalg
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation.logistic import LogisticPath, predict_probabilities
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import deal_subjects, subject_values
from neurocontrast.evaluation.target import Target
from neurocontrast.seeds import derive_generator

__all__ = ["Design", "ProbeFit", "fit_probe", "inner_folds", "predict_with", "rotate", "standardise"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Design = Callable[[Rows, Rows], tuple[Floats, Floats]]
"""Gives the matrices of training and test rows; whatever it estimates, it estimates on the training rows."""

N_RISES = 3
"""Values of C are given up after the inner loss has risen this often in a row."""
RANK_TOLERANCE = 1e-14
"""Axes with a smaller share of the largest one's variance are rounding."""


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
    inner folds; of equals, the strongest. Values of C are tried from strong to weak penalty,
    until the loss has risen three times in a row.
    """
    pairs = inner_folds(target, train, subjects, n_folds=settings.n_inner_folds, seed=seed)
    if target.kind == "continuous":
        strength, failed = _choose_alpha(design, target.values.astype(float), pairs, settings.alpha), 0
    else:
        codes = np.searchsorted(np.unique(target.values[train]), target.values)
        strength, failed = _choose_c(design, codes, pairs, settings.C)
    return predict_with(design, target, train, test, strength=strength, n_not_converged=failed)


def predict_with(
    design: Design, target: Target, train: Rows, test: Rows, *, strength: float, n_not_converged: int = 0
) -> ProbeFit:
    """Fit the training rows with a penalty that is given, and predict the test rows."""
    x_train, x_test = standardise(*design(train, test))
    if target.kind == "continuous":
        values = target.values[train].astype(float)
        return ProbeFit(next(_ridge_path(x_train, values, x_test, (strength,))), strength)
    classes, y = np.unique(target.values[train], return_inverse=True)
    path = LogisticPath(x_train, y, n_classes=len(classes))
    scores = np.zeros((len(test), len(target.classes)))
    scores[:, classes] = predict_probabilities(x_test, next(path.fit((strength,))))
    failed = n_not_converged + path.n_not_converged
    return ProbeFit(scores[:, 1] if target.kind == "binary" else scores, strength, failed)


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
    """Express both along the principal axes of the training rows.

    An L2-penalised linear model has its coefficients in the span of its training rows, so
    what is orthogonal to them never enters a prediction; and it does not care about rotation.
    Axes along which the training rows do not extend are left out.
    """
    n, p = x_train.shape
    if p > n:
        basis, triangle = scipy.linalg.qr(x_train.T, mode="economic", check_finite=False)
        x_train, x_test = triangle.T, x_test @ basis
    variances, axes = scipy.linalg.eigh(x_train.T @ x_train, check_finite=False)
    axes = axes[:, variances > variances[-1] * RANK_TOLERANCE]
    return x_train @ axes, x_test @ axes


def _ridge_path(x_train: Floats, y: Floats, x_test: Floats, grid: Sequence[float]) -> Iterator[Floats]:
    """Yield predicted values for each alpha."""
    mean = y.mean()
    # The columns are orthogonal, so the normal equations are diagonal.
    variances, projected = np.einsum("ij,ij->j", x_train, x_train), x_train.T @ (y - mean)
    for strength in grid:
        yield mean + x_test @ (projected / (variances + strength))


def _choose_alpha(design: Design, y: Floats, pairs: list[tuple[Rows, Rows]], grid: Sequence[float]) -> float:
    if not pairs:
        return grid[len(grid) // 2]
    losses = []
    for fit_rows, try_rows in pairs:
        x_fit, x_try = standardise(*design(fit_rows, try_rows))
        losses.append([np.mean((y[try_rows] - path) ** 2) for path in _ridge_path(x_fit, y[fit_rows], x_try, grid)])
    means = np.mean(losses, axis=0)
    return grid[int(np.flatnonzero(means <= means.min())[-1])]


def _choose_c(
    design: Design, y: npt.NDArray[np.intp], pairs: list[tuple[Rows, Rows]], grid: Sequence[float]
) -> tuple[float, int]:
    if not pairs:
        return grid[len(grid) // 2], 0
    paths, walks, tried = [], [], []
    for fit_rows, try_rows in pairs:
        x_fit, x_try = standardise(*design(fit_rows, try_rows))
        paths.append(LogisticPath(x_fit, y[fit_rows], n_classes=int(y[fit_rows].max()) + 1))
        walks.append(paths[-1].fit(grid))
        tried.append((x_try, y[try_rows]))
    means: list[float] = []
    for _ in grid:
        losses = [
            _log_loss(truth, predict_probabilities(x, next(walk)))
            for walk, (x, truth) in zip(walks, tried, strict=True)
        ]
        means.append(float(np.mean(losses)))
        recent = means[-N_RISES - 1 :]
        if len(recent) > N_RISES and all(later > sooner for sooner, later in pairwise(recent)):
            break
    return grid[int(np.argmin(means))], sum(path.n_not_converged for path in paths)


def _log_loss(truth: npt.NDArray[np.intp], probabilities: Floats) -> float:
    likely = probabilities[np.arange(len(truth)), truth]
    return float(-np.log(np.clip(likely, np.finfo(float).eps, 1.0)).mean())
