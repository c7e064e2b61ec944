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
_GRADIENT = 1e-8  # largest component at the optimum, along axes of unit curvature
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
    """The loss of a strength on rotated features, minimised over weights that are divided by scales."""

    features: Floats
    is_class: Floats
    penalty: float
    scales: Floats

    def loss_and_gradient(self, flat: Floats) -> tuple[float, Floats]:
        """Return the mean log-loss with the penalty, and its gradient, of scaled weights and intercepts."""
        table = flat.reshape(-1, self.is_class.shape[1]) * self.scales
        weights = table[:-1]
        logs = log_softmax(self.features @ weights + table[-1], axis=1)
        n_rows = len(logs)
        penalised = self.penalty * weights
        loss = -np.einsum("ij,ij->", self.is_class, logs) / n_rows
        residuals = (np.exp(logs) - self.is_class) / n_rows
        gradient = np.vstack([self.features.T @ residuals + penalised, residuals.sum(axis=0)])
        penalised_loss = float(loss + 0.5 * np.sum(weights * penalised))
        return penalised_loss, (gradient * self.scales).ravel()


def fit_path(
    features: npt.ArrayLike,
    codes: npt.NDArray[np.integer],
    strengths: Sequence[float],
    *,
    start: LogisticModel | None = None,
) -> Iterator[LogisticModel]:
    """Yield the regression of each strength C, started from that of the one before.

    Features of networks are so correlated that L-BFGS takes thousands of steps in their coordinates.
    Here they are rotated to principal axes, and the weights of each axis, and the intercepts, are
    scaled to the curvature of loss and penalty: a hundred or two to the same optimum, which
    scikit-learn's solvers at a tolerance of 10⁻⁴ are still some 10⁻⁴ of the loss away from.

    Parameters
    ----------
    features : array of shape (n, d)
        Standardised features.
    codes : array of shape (n,)
        Classes, 0 … k − 1.
    strengths : sequence of float
        scikit-learn's C, the strongest penalty first.
    start : LogisticModel, optional
        Model of similar images, from which the first strength is fitted, to the same optimum in
        fewer steps. Without one its weights start at 0.
    """
    x = np.asarray(features, dtype=np.float64)
    is_class = np.eye(int(codes.max()) + 1)[codes]
    variances, axes = np.linalg.eigh(x.T @ x / len(x))
    curvatures = np.append(np.maximum(variances, 0.0), 1.0)[:, None]
    rotated = x @ axes
    model = start or _constant_model(is_class, n_features=x.shape[1])
    for strength in strengths:
        logs = model.log_probabilities(x)
        spread = float(np.mean(np.exp(logs) * -np.expm1(logs)))
        penalty = 1 / (strength * len(x))
        scales = 1 / np.sqrt(spread * curvatures + penalty)
        problem = _Problem(rotated, is_class, penalty, scales)
        table = np.vstack([axes.T @ model.weights, model.intercepts]) / scales
        solution = minimize(
            problem.loss_and_gradient,
            table.ravel(),
            jac=True,
            method="L-BFGS-B",
            options=_SOLVER,
        )
        if np.abs(solution.jac).max() > _IS_FAR:
            warnings.warn(
                f"the logistic regression of C = {strength:g} is not at its optimum after "
                f"{solution.nit} steps: {solution.message}",
                ConvergenceWarning,
                stacklevel=2,
            )
        table = solution.x.reshape(table.shape) * scales
        model = LogisticModel(axes @ table[:-1], table[-1], int(solution.nit))
        yield model


def _constant_model(is_class: Floats, *, n_features: int) -> LogisticModel:
    """Return the model that gives every image the shares of the classes."""
    shares = np.maximum(is_class.mean(axis=0), 1 / len(is_class))
    return LogisticModel(np.zeros((n_features, len(shares))), np.log(shares), 0)
