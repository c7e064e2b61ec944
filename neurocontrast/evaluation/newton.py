"""Logistic and ridge regression for many label vectors of the same scans, as permutation tests need them.

The probes of an evaluation are scikit-learn's (`built_in`); this reaches the same optimum, a thousand label vectors
sooner. Both models are rotation invariant, so they are fitted along the principal axes of the training scans, which do
not depend on labels: n instead of p coefficients where features outnumber scans, and a Hessian that is nearly
diagonal, so that conjugate gradients need few steps. Label vectors share the axes, and every product with the features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation.designs import Design
from neurocontrast.evaluation.metrics import log_losses
from neurocontrast.evaluation.pipelines import N_RISES, principal_axes
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits.inner import Pairs
from neurocontrast.evaluation.target import Target

__all__ = ["Fold", "LogisticPath", "choose_c", "fit_label_vectors", "make_fold", "predict_probabilities"]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.integer]
Rows = npt.NDArray[np.intp]
Columns = npt.NDArray[np.intp]

MAX_NEWTON_STEPS = 100
MAX_CG_STEPS = 500
MAX_HALVINGS = 30
TOLERANCE = 1e-6
"""A fit ends when the loss is within about its square of the minimum, relative to the number of scans."""


@dataclass(frozen=True)
class Fold:
    """Rows to fit and rows to predict, and their features, standardised and along principal axes."""

    train: Rows
    test: Rows
    x_train: Floats
    x_test: Floats


def make_fold(design: Design, train: Rows, test: Rows) -> Fold:
    """Return the features of a fold; what is orthogonal to the training rows never enters a prediction."""
    x_train, x_test = design(train, test)
    scaler = StandardScaler().fit(x_train)
    axes, along = principal_axes(scaler.transform(x_train))
    return Fold(train, test, along, scaler.transform(x_test) @ axes)


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
    """Choose the penalty, fit and predict for each column of `labels` (n, b), with the same inner folds.

    Every column must have the classes of the target in the training rows. Of equal penalties the strongest is taken,
    as in `built_in.fit_built_in`. Returns scores (n test, b) or (n test, b, classes), and the strengths (b,).
    """
    folds = [make_fold(design, *pair) for pair in pairs]
    if target.kind == "continuous":
        strengths = _choose_alpha(folds, labels.astype(float), settings.alpha)
    else:
        classes = np.unique(target.values[train])
        strengths = choose_c(folds, np.searchsorted(classes, labels), settings.C, n_classes=len(classes))
    del folds  # as large as the features, several times over
    return _predict(make_fold(design, train, test), target, labels, strengths), strengths


def _choose_alpha(folds: Sequence[Fold], values: Floats, grid: Sequence[float]) -> Floats:
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


def choose_c(folds: Sequence[Fold], codes: Codes, grid: Sequence[float], *, n_classes: int) -> Floats:
    """Return, for each column of `codes` (n, b), the C of least mean log-loss over the folds.

    Values are tried from strong to weak penalty, until the loss of a column has risen three times in a row.
    """
    n_columns = codes.shape[1]
    if not folds:
        return np.full(n_columns, grid[len(grid) // 2])
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
    return np.asarray(grid)[means.argmin(axis=0)]


def _ridge_path(x_train: Floats, y: Floats, x_test: Floats, grid: Sequence[float]) -> Iterator[Floats]:
    """Yield predicted values (n test, b) for each alpha."""
    mean = y.mean(axis=0)
    # The columns are orthogonal, so the normal equations are diagonal.
    variances, projected = np.einsum("ij,ij->j", x_train, x_train), x_train.T @ (y - mean)
    for strength in grid:
        yield mean + x_test @ (projected / (variances + strength)[:, None])


def _predict(fold: Fold, target: Target, labels: npt.NDArray[np.generic], strengths: Floats) -> Floats:
    """Fit each column of `labels` (n, b) with its penalty, and predict the test rows."""
    shape = (len(fold.test), labels.shape[1])
    chosen = [(float(strength), np.flatnonzero(strengths == strength)) for strength in np.unique(strengths)]
    if target.kind == "continuous":
        scores, values = np.empty(shape), labels[fold.train].astype(float)
        for strength, columns in chosen:
            scores[:, columns] = next(_ridge_path(fold.x_train, values[:, columns], fold.x_test, (strength,)))
        return scores
    classes, scores = np.unique(target.values[fold.train]), np.zeros((*shape, len(target.classes)))
    path = LogisticPath(fold.x_train, np.searchsorted(classes, labels[fold.train]), n_classes=len(classes))
    for strength, columns in chosen:
        scores[:, columns[:, None], classes] = predict_probabilities(fold.x_test, path.step(strength, columns))
    return scores[:, :, 1] if target.kind == "binary" else scores


class LogisticPath:
    """Logistic regressions of one training set on label vectors (n, b), each started from the penalty before.

    They minimise what `sklearn.linear_model.LogisticRegression` minimises: the intercept is not penalised; of two
    classes there is one coefficient vector, of more one each.
    """

    def __init__(self, x: Floats, y: npt.NDArray[np.integer], *, n_classes: int) -> None:
        self._x = x
        self._squares = np.append(np.einsum("ij,ij->j", x, x), len(x))[:, None, None]
        labels = y[:, None] if y.ndim == 1 else y
        self._truth = labels[:, :, None].astype(float) if n_classes == 2 else np.eye(n_classes)[labels]
        share = np.clip(self._truth.mean(axis=0), 1e-12, 1 - 1e-12)
        self._weights = np.zeros((x.shape[1] + 1, *share.shape))
        self._weights[-1] = np.log(share / (1 - share)) if n_classes == 2 else np.log(share)

    def step(self, strength: float, columns: Columns) -> Floats:
        """Return coefficients (k + 1, columns, 1 or n_classes) of some label vectors for the next C."""
        penalties = np.full((len(self._weights), 1, 1), 1 / strength)
        penalties[-1] = 0.0
        fitted = self._minimise(self._weights[:, columns], self._truth[:, columns], penalties)
        self._weights[:, columns] = fitted
        return fitted

    def _minimise(self, weights: Floats, truth: Floats, penalties: Floats) -> Floats:
        n, margins = len(self._x), self._forward(weights)
        probabilities, variances, loss = _state(weights, margins, truth, penalties)
        stuck = np.zeros(weights.shape[1], dtype=bool)
        for _ in range(MAX_NEWTON_STEPS):
            gradient = self._back(probabilities - truth) + penalties * weights
            change, moved = self._newton_step(gradient, probabilities, variances, penalties)
            slope = _dots(gradient, change)
            open_ = (-slope > TOLERANCE * TOLERANCE * n) & ~stuck
            if not open_.any():
                return weights + np.where(stuck[:, None], 0.0, change)
            # Walk along the step of each label vector, half as far until its loss falls.
            lengths = open_.astype(float)[:, None]
            for _ in range(MAX_HALVINGS):
                ahead = weights + lengths * change, margins + lengths * moved
                found = _state(*ahead, truth, penalties)
                risen = open_ & ~(found[2] <= loss + 1e-4 * lengths[:, 0] * slope + 1e-15 * np.abs(loss))
                if not risen.any():
                    break
                lengths[risen] /= 2
            else:  # rounding is all that is left
                stuck |= risen
                lengths[risen] = 0.0
                ahead = weights + lengths * change, margins + lengths * moved
                found = _state(*ahead, truth, penalties)
            (weights, margins), (probabilities, variances, loss) = ahead, found
        return weights

    def _newton_step(
        self, gradient: Floats, probabilities: Floats, variances: Floats, penalties: Floats
    ) -> tuple[Floats, Floats]:
        several = gradient.shape[2] > 1

        def curvature(direction: Floats) -> tuple[Floats, Floats]:
            moved = self._forward(direction)
            inner = (probabilities * moved).sum(axis=2, keepdims=True) if several else 0.0
            bent = self._back(probabilities * (moved - inner) if several else variances * moved)
            bent += penalties * direction
            # Several classes: the same added to all changes nothing, so steps keep a sum of zero over classes.
            return (bent - bent.mean(axis=2, keepdims=True) if several else bent), moved

        typical = np.maximum(variances.mean(axis=(0, 2)), 1e-6)
        scale = self._squares * typical[:, None] + penalties
        if several:
            gradient = gradient - gradient.mean(axis=2, keepdims=True)
        size = np.sqrt(_dots(gradient, gradient / scale) / len(self._x))
        return _conjugate_gradients(curvature, -gradient, scale, len(self._x), np.minimum(0.1, size))

    def _forward(self, weights: Floats) -> Floats:
        _, b, c = weights.shape
        return (self._x @ weights[:-1].reshape(-1, b * c)).reshape(-1, b, c) + weights[-1]

    def _back(self, values: Floats) -> Floats:
        n, b, c = values.shape
        slopes = (self._x.T @ values.reshape(n, b * c)).reshape(-1, b, c)
        return np.concatenate([slopes, values.sum(axis=0, keepdims=True)])


def predict_probabilities(x: Floats, coefficients: Floats) -> Floats:
    """Return probabilities (n, …, n_classes) for coefficients (k + 1, …, 1 or n_classes)."""
    flat = coefficients.reshape(len(coefficients), -1)
    margins = (x @ flat[:-1] + flat[-1]).reshape(len(x), *coefficients.shape[1:])
    if margins.shape[-1] > 1:
        return _softmax(margins)[0]
    positive = _logistic(margins)[0]
    return np.concatenate([1 - positive, positive], axis=-1)


def _state(weights: Floats, margins: Floats, truth: Floats, penalties: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the probabilities, their variances, and the loss of each label vector."""
    probabilities, variances, normalisers = (_logistic if margins.shape[2] == 1 else _softmax)(margins)
    fit = normalisers.sum(axis=(0, 2)) - _dots(truth, margins)
    return probabilities, variances, fit + 0.5 * _dots(penalties * weights, weights)


def _conjugate_gradients(
    multiply: Callable[[Floats], tuple[Floats, Floats]], right: Floats, scale: Floats, n: int, tolerance: Floats
) -> tuple[Floats, Floats]:
    """Solve H d = right for each label vector, scaled by the diagonal, until its residual has shrunk by `tolerance`.

    Returns d, and the margins' change along it.
    """
    solution, residual, shift = np.zeros_like(right), right.copy(), np.zeros((n, *right.shape[1:]))
    scaled = residual / scale
    direction, product = scaled.copy(), _dots(residual, scaled)
    goal = tolerance**2 * product
    for _ in range(MAX_CG_STEPS):
        live = product > goal
        if not live.any():
            break
        bent, moved = multiply(direction)
        along = _dots(direction, bent)
        length = np.divide(product, along, out=np.zeros_like(product), where=live & (along > 0))[:, None]
        solution += length * direction
        shift += length * moved
        residual -= length * bent
        scaled = residual / scale
        previous, product = product, np.where(live, _dots(residual, scaled), 0.0)
        direction *= np.divide(product, previous, out=np.zeros_like(product), where=live)[:, None]
        direction += scaled
    return solution, shift


def _dots(a: Floats, b: Floats) -> Floats:
    return np.einsum("ijk,ijk->j", a, b)


def _logistic(margins: Floats) -> tuple[Floats, Floats, Floats]:
    """Return probabilities, their variances, and log(1 + exp(margins))."""
    small = np.exp(-np.abs(margins))
    whole = 1 + small
    probabilities = np.where(margins >= 0, 1.0, small) / whole
    return probabilities, small / whole**2, np.log(whole) + np.maximum(margins, 0)


def _softmax(margins: Floats) -> tuple[Floats, Floats, Floats]:
    """Return probabilities, their variances, and the logarithms of the sums of exponentials."""
    largest = margins.max(axis=2, keepdims=True) if margins.ndim == 3 else margins.max(axis=-1, keepdims=True)
    powers = np.exp(margins - largest)
    sums = powers.sum(axis=-1, keepdims=True)
    probabilities = powers / sums
    return probabilities, probabilities * (1 - probabilities), np.log(sums) + largest
