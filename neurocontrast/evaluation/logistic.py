"""L2-penalised logistic regression by Newton's method, for many label vectors and a path of penalties.

It minimises what `sklearn.linear_model.LogisticRegression` minimises (intercept not penalised;
binary: one coefficient vector; more classes: one for each). It is made for columns that are
orthogonal to each other, as `linear.rotate` gives: there the Hessian is nearly diagonal, conjugate
gradients need few steps, and a fit costs a few matrix-vector products. Label vectors of the same
rows (permutations) are fitted side by side, so that these become matrix-matrix products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["LogisticPath", "predict_probabilities"]

Floats = npt.NDArray[np.float64]
Columns = npt.NDArray[np.intp]

MAX_NEWTON_STEPS = 100
MAX_CG_STEPS = 500
MAX_HALVINGS = 30
TOLERANCE = 1e-6
"""A fit ends when the loss is within about its square of the minimum, relative to the number of scans."""


class LogisticPath:
    """Fits of one training set to one or many label vectors, each started from the penalty before.

    Parameters
    ----------
    x : array (n, k)
        Training rows; columns best orthogonal.
    y : array (n,) or (n, b)
        Class codes, 0 to `n_classes` − 1; b label vectors side by side.
    n_classes : int
        Two or more.
    """

    def __init__(self, x: Floats, y: npt.NDArray[np.integer], *, n_classes: int) -> None:
        self._x = x
        self._squares = np.append(np.einsum("ij,ij->j", x, x), len(x))[:, None, None]
        labels = y[:, None] if y.ndim == 1 else y
        self._truth = labels[:, :, None].astype(float) if n_classes == 2 else np.eye(n_classes)[labels]
        share = np.clip(self._truth.mean(axis=0), 1e-12, 1 - 1e-12)
        self._weights = np.zeros((x.shape[1] + 1, *share.shape))
        self._weights[-1] = np.log(share / (1 - share)) if n_classes == 2 else np.log(share)
        self.n_not_converged = 0

    def fit(self, grid: Sequence[float]) -> Iterator[Floats]:
        """Yield coefficients (k + 1, 1 or n_classes) of the first label vector, the intercept last, for each C."""
        for strength in grid:
            yield self.step(strength, np.zeros(1, dtype=np.intp))[:, 0]

    def step(self, strength: float, columns: Columns) -> Floats:
        """Return coefficients (k + 1, columns, 1 or n_classes) of some label vectors for the next C."""
        start, truth = self._weights[:, columns], self._truth[:, columns]
        self._weights[:, columns] = fitted = self._minimise(start, truth, 1 / strength)
        return fitted

    def _minimise(self, start: Floats, truth: Floats, penalty: float) -> Floats:
        penalties = np.full((len(start), 1, 1), penalty)
        penalties[-1] = 0.0
        fitted, left = start, np.arange(start.shape[1])
        at = _state(start, self._forward(start), truth, penalties)
        for _ in range(MAX_NEWTON_STEPS):
            gradient = self._back(at.probabilities - at.truth) + penalties * at.weights
            change, moved = self._newton_step(gradient, at, penalties)
            slope = _dots(gradient, change)
            done = -slope <= TOLERANCE * TOLERANCE * len(self._x)
            fitted[:, left[done]] = (at.weights + change)[:, done]
            if done.any():
                left, at, slope, change, moved = _keep(~done, left, at, slope, change, moved)
            if not len(left):
                return fitted
            at, stuck = _descend(at, change, moved, slope, penalties)
            if stuck.any():  # rounding is all that is left
                fitted[:, left[stuck]] = at.weights[:, stuck]
                left, at, *_ = _keep(~stuck, left, at, slope, change, moved)
            if not len(left):
                return fitted
        self.n_not_converged += len(left)
        fitted[:, left] = at.weights
        return fitted

    def _newton_step(self, gradient: Floats, at: _State, penalties: Floats) -> tuple[Floats, Floats]:
        several = gradient.shape[2] > 1

        def curvature(direction: Floats) -> tuple[Floats, Floats]:
            moved = self._forward(direction)
            inner = (at.probabilities * moved).sum(axis=2, keepdims=True) if several else 0.0
            bent = self._back(at.probabilities * (moved - inner) if several else at.variances * moved)
            bent += penalties * direction
            # Several classes: the same added to all changes nothing, so steps keep a sum of zero over classes.
            return (bent - bent.mean(axis=2, keepdims=True) if several else bent), moved

        typical = np.maximum(at.variances.mean(axis=(0, 2)), 1e-6)
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
        result = np.empty((self._x.shape[1] + 1, b, c))
        np.matmul(self._x.T, values.reshape(n, b * c), out=result[:-1].reshape(-1, b * c))
        values.sum(axis=0, out=result[-1])
        return result


def predict_probabilities(x: Floats, coefficients: Floats) -> Floats:
    """Return probabilities (n, …, n_classes) for coefficients (k + 1, …, 1 or n_classes)."""
    flat = coefficients.reshape(len(coefficients), -1)
    margins = (x @ flat[:-1] + flat[-1]).reshape(len(x), *coefficients.shape[1:])
    if margins.shape[-1] > 1:
        return _softmax(margins)[0]
    positive = _logistic(margins)[0]
    return np.concatenate([1 - positive, positive], axis=-1)


@dataclass(frozen=True)
class _State:
    """Where the fit of each label vector stands: (rows, label vectors, columns of coefficients)."""

    weights: Floats
    margins: Floats
    truth: Floats
    probabilities: Floats
    variances: Floats
    loss: Floats


def _state(weights: Floats, margins: Floats, truth: Floats, penalties: Floats) -> _State:
    probabilities, variances, normalisers = (_logistic if margins.shape[2] == 1 else _softmax)(margins)
    fit = normalisers.sum(axis=(0, 2)) - _dots(truth, margins)
    loss = fit + 0.5 * _dots(penalties * weights, weights)
    return _State(weights, margins, truth, probabilities, variances, loss)


def _keep(
    mask: npt.NDArray[np.bool_], left: Columns, at: _State, slope: Floats, change: Floats, moved: Floats
) -> tuple[Columns, _State, Floats, Floats, Floats]:
    parts = (at.weights, at.margins, at.truth, at.probabilities, at.variances)
    weights, margins, truth, probabilities, variances = (part[:, mask] for part in parts)
    kept = _State(weights, margins, truth, probabilities, variances, at.loss[mask])
    return left[mask], kept, slope[mask], change[:, mask], moved[:, mask]


def _descend(
    at: _State, change: Floats, moved: Floats, slope: Floats, penalties: Floats
) -> tuple[_State, npt.NDArray[np.bool_]]:
    """Walk along the step of each label vector, half as far until its loss falls; say which cannot move."""
    lengths = np.ones((len(slope), 1))
    for _ in range(MAX_HALVINGS):
        tried = _state(at.weights + lengths * change, at.margins + lengths * moved, at.truth, penalties)
        risen = ~(tried.loss <= at.loss + 1e-4 * lengths[:, 0] * slope + 1e-15 * np.abs(at.loss))
        if not risen.any():
            return tried, lengths[:, 0] == 0
        lengths[risen] /= 2
    lengths[risen] = 0.0
    stopped = _state(at.weights + lengths * change, at.margins + lengths * moved, at.truth, penalties)
    return stopped, risen


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
