"""Logistic regressions of many images, each fitted to its optimum, along a path of penalties."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning

__all__ = ["LogisticModel", "fit_path"]

Floats = npt.NDArray[np.float64]
_GRADIENT = 2e-8  # largest component at the optimum, along axes of unit curvature
_IS_FAR = 1e-5
_SOLVER = {"gtol": _GRADIENT, "ftol": 0.0, "maxcor": 40, "maxiter": 2000, "maxfun": 4000}


@dataclass(frozen=True, eq=False)
class LogisticModel:
    """A multinomial logistic regression with an L2 penalty, as scikit-learn's.

    Parameters
    ----------
    weights : array of shape (d, k)
        Of feature j and class c.
    intercepts : array of shape (k,)
        Of the classes; they have no penalty.
    n_iterations : int
        Steps of the solver.
    """

    weights: Floats
    intercepts: Floats
    n_iterations: int

    def log_probabilities(self, features: npt.ArrayLike) -> Floats:
        """Return the logarithm of the probability of each class, (n, k)."""
        logits = np.asarray(features, dtype=np.float64) @ self.weights + self.intercepts
        return log_softmax(logits, axis=1)


@dataclass(frozen=True, eq=False)
class _Problem:
    """Rotated features of unit curvature, on which the loss of a strength is minimised."""

    features: Floats
    is_class: Floats
    penalties: Floats

    def loss_and_gradient(self, flat: Floats) -> tuple[float, Floats]:
        """Return the mean log-loss with the penalty, and its gradient, of weights and intercepts."""
        table = flat.reshape(-1, self.is_class.shape[1])
        weights = table[:-1]
        logs = log_softmax(self.features @ weights + table[-1], axis=1)
        n_rows = len(logs)
        penalised = self.penalties * weights
        loss = -np.einsum("ij,ij->", self.is_class, logs) / n_rows
        residuals = (np.exp(logs) - self.is_class) / n_rows
        gradient = np.vstack([self.features.T @ residuals + penalised, residuals.sum(axis=0)])
        return float(loss + 0.5 * np.sum(weights * penalised)), gradient.ravel()


def fit_path(
    features: npt.ArrayLike, codes: npt.NDArray[np.integer], strengths: Sequence[float]
) -> Iterator[LogisticModel]:
    """Yield the regression of each strength C, started from that of the one before.

    Features of networks are so correlated that L-BFGS takes thousands of steps in their coordinates.
    Here they are rotated to principal axes, and each axis is scaled to the curvature of loss and
    penalty along it: a hundred or two to the same optimum, which scikit-learn's solvers at a
    tolerance of 10⁻⁴ are still some 10⁻⁴ of the loss away from.

    Parameters
    ----------
    features : array of shape (n, d)
        Standardised features.
    codes : array of shape (n,)
        Classes, 0 … k − 1.
    strengths : sequence of float
        scikit-learn's C, the strongest penalty first.
    """
    x = np.asarray(features, dtype=np.float64)
    is_class = np.eye(int(codes.max()) + 1)[codes]
    variances, axes = np.linalg.eigh(x.T @ x / len(x))
    rotated = x @ axes
    weights = np.zeros((x.shape[1], is_class.shape[1]))
    intercepts = np.log(np.maximum(is_class.mean(axis=0), 1 / len(x)))
    logs = np.broadcast_to(intercepts, is_class.shape)
    for strength in strengths:
        spread = float(np.mean(np.exp(logs) * -np.expm1(logs)))
        penalty = 1 / (strength * len(x))
        scales = 1 / np.sqrt(spread * np.maximum(variances, 0.0) + penalty)
        problem = _Problem(rotated * scales, is_class, (penalty * scales**2)[:, None])
        start = np.vstack([axes.T @ weights / scales[:, None], intercepts])
        found = minimize(
            problem.loss_and_gradient,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            options=_SOLVER,
        )
        if np.abs(found.jac).max() > _IS_FAR:
            warnings.warn(
                f"the logistic regression of C = {strength:g} is not at its optimum after "
                f"{found.nit} steps: {found.message}",
                ConvergenceWarning,
                stacklevel=2,
            )
        table = found.x.reshape(-1, is_class.shape[1])
        weights = axes @ (table[:-1] * scales[:, None])
        intercepts = table[-1]
        logs = log_softmax(problem.features @ table[:-1] + intercepts, axis=1)
        yield LogisticModel(weights, intercepts, int(found.nit))
