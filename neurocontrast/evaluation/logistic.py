"""L2-penalised logistic regression by Newton's method, fast along a path of penalties.

It minimises what `sklearn.linear_model.LogisticRegression` minimises (intercept not penalised;
binary: one coefficient vector; more classes: one for each). It is made for
columns that are orthogonal to each other, as `probes.rotate` gives: there the Hessian is nearly
diagonal, conjugate gradients need few steps, and a fit costs a few matrix-vector products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import expit

__all__ = ["LogisticPath", "predict_probabilities"]

Floats = npt.NDArray[np.float64]

MAX_NEWTON_STEPS = 100
MAX_CG_STEPS = 500
TOLERANCE = 1e-6
"""A fit ends when the loss is within about this of its minimum, relative to the number of scans."""


class LogisticPath:
    """Fits for one training set and several penalties, each started from the one before.

    Parameters
    ----------
    x : array (n, k)
        Training rows; columns best orthogonal.
    y : array (n,)
        Class codes, 0 to `n_classes` − 1.
    n_classes : int
        Two or more.
    """

    def __init__(self, x: Floats, y: npt.NDArray[np.integer], *, n_classes: int) -> None:
        self._design = np.column_stack([x, np.ones(len(x))])
        self._squares = np.einsum("ij,ij->j", self._design, self._design)
        self._truth = y.astype(float)[:, None] if n_classes == 2 else np.eye(n_classes)[y]
        self.n_not_converged = 0

    def fit(self, grid: Sequence[float]) -> Iterator[Floats]:
        """Yield coefficients (k + 1, 1 or n_classes), the intercept last, for each C."""
        n_columns = self._truth.shape[1]
        coefficients = np.zeros((self._design.shape[1], n_columns))
        share = np.clip(self._truth.mean(axis=0), 1e-12, 1 - 1e-12)
        coefficients[-1] = np.log(share / (1 - share)) if n_columns == 1 else np.log(share)
        for strength in grid:
            coefficients = self._fit_one(coefficients, 1 / strength)
            yield coefficients

    def _fit_one(self, start: Floats, penalty: float) -> Floats:
        penalties = np.full((len(start), 1), penalty)
        penalties[-1] = 0.0
        weights, loss = start, self._loss(self._design @ start, start, penalties)
        for _ in range(MAX_NEWTON_STEPS):
            margins = self._design @ weights
            probabilities = _probabilities(margins)
            gradient = self._design.T @ (probabilities - self._truth) + penalties * weights
            step = self._newton_step(gradient, probabilities, penalties)
            slope = float((gradient * step).sum())
            if -slope <= TOLERANCE * TOLERANCE * len(self._design):
                return weights + step
            weights, loss, moved = self._descend(weights, step, slope, loss, penalties)
            if not moved:  # rounding is all that is left
                return weights
        self.n_not_converged += 1
        return weights

    def _newton_step(self, gradient: Floats, probabilities: Floats, penalties: Floats) -> Floats:
        def curvature(direction: Floats) -> Floats:
            moved = self._design @ direction
            if self._truth.shape[1] == 1:
                moved *= probabilities * (1 - probabilities)
            else:
                moved = probabilities * (moved - (probabilities * moved).sum(axis=1, keepdims=True))
            bent = self._design.T @ moved + penalties * direction
            # Several classes: the same added to all changes nothing, so steps keep a sum of zero over classes.
            return bent if bent.shape[1] == 1 else bent - bent.mean(axis=1, keepdims=True)

        typical = max(float((probabilities * (1 - probabilities)).mean()), 1e-6)
        scale = self._squares[:, None] * typical + penalties
        if self._truth.shape[1] > 1:
            gradient = gradient - gradient.mean(axis=1, keepdims=True)
        size = float(np.sqrt((gradient**2 / scale).sum() / len(self._design)))
        return _conjugate_gradients(curvature, -gradient, scale, tolerance=min(0.1, size))

    def _descend(
        self, weights: Floats, step: Floats, slope: float, loss: float, penalties: Floats
    ) -> tuple[Floats, float, bool]:
        length = 1.0
        for _ in range(30):
            tried = weights + length * step
            found = self._loss(self._design @ tried, tried, penalties)
            if found <= loss + 1e-4 * length * slope + 1e-15 * abs(loss):
                return tried, found, True
            length /= 2
        return weights, loss, False

    def _loss(self, margins: Floats, weights: Floats, penalties: Floats) -> float:
        if self._truth.shape[1] == 1:
            fit = np.logaddexp(0, margins).sum() - (self._truth * margins).sum()
        else:
            highest = margins.max(axis=1, keepdims=True)
            fit = (highest[:, 0] + np.log(np.exp(margins - highest).sum(axis=1))).sum() - (self._truth * margins).sum()
        return float(fit + 0.5 * (penalties * weights**2).sum())


def predict_probabilities(x: Floats, coefficients: Floats) -> Floats:
    """Return probabilities (n, n classes) of new rows, in the columns of the training rows."""
    margins = x @ coefficients[:-1] + coefficients[-1]
    probabilities = _probabilities(margins)
    return np.column_stack([1 - probabilities, probabilities]) if margins.shape[1] == 1 else probabilities


def _probabilities(margins: Floats) -> Floats:
    if margins.shape[1] == 1:
        return expit(margins)
    likely = np.exp(margins - margins.max(axis=1, keepdims=True))
    return likely / likely.sum(axis=1, keepdims=True)


def _conjugate_gradients(
    multiply: Callable[[Floats], Floats], right: Floats, scale: Floats, *, tolerance: float
) -> Floats:
    """Solve H d = right, scaled by the diagonal, until the residual has shrunk by `tolerance`."""
    solution, residual = np.zeros_like(right), right.copy()
    scaled = residual / scale
    direction, product = scaled.copy(), float((residual * scaled).sum())
    goal = tolerance**2 * product
    for _ in range(MAX_CG_STEPS):
        if product <= goal or product == 0.0:
            break
        bent = multiply(direction)
        length = product / float((direction * bent).sum())
        solution += length * direction
        residual -= length * bent
        scaled = residual / scale
        previous, product = product, float((residual * scaled).sum())
        direction = scaled + (product / previous) * direction
    return solution
