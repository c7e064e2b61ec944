"""A linear support vector machine, with probabilities that inner folds have calibrated."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC, LinearSVR

from neurocontrast.evaluation.linear import N_RISES, standardise
from neurocontrast.evaluation.platt import Platt, fit_platt
from neurocontrast.evaluation.probes import Design, Pairs, ProbeFit
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.target import Target

__all__ = ["Machine", "decision_values", "fit_machine", "fit_svm", "svm_inner_predictions"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

EPSILON = 0.1
"""Errors of a regression below this many standard deviations of the target cost nothing."""
_TOLERANCE = 1e-6
_MAX_STEPS = 10_000


@dataclass(frozen=True)
class Machine:
    """Coefficients in the columns it was fitted on: decision values are ``x @ coefficients + intercept``.

    Attributes
    ----------
    coefficients : array (p, k)
        One column of two classes and of numbers, else one a class (each against the rest).
    intercept : array (k,)
        In the same order.
    converged : bool
        Whether the solver was satisfied.
    """

    coefficients: Floats
    intercept: Floats
    converged: bool


def fit_svm(
    design: Design,
    target: Target,
    train: Rows,
    test: Rows,
    *,
    pairs: Pairs,
    settings: EvaluationSettings,
) -> ProbeFit:
    """Choose C on the inner folds `pairs`, fit on all training rows, and predict the test rows.

    For each C, machines of the inner folds give every training scan a decision value, and Platt's
    sigmoid is fitted to all of them; C is the one of least log-loss then (numbers: least squared
    error), of equals the strongest penalty, tried as in `fit_probe`. The sigmoid of that C makes the
    test rows' decision values into probabilities.
    """
    strength, failed = _choose(design, target, np.unique(target.values[train]), pairs, settings.C)
    x_train, x_test = standardise(*design(train, test))
    machine = fit_machine(x_train, target, train, strength)
    failed += not machine.converged
    decisions = decision_values(machine, x_test, target.kind)
    if target.kind == "continuous":
        return ProbeFit(decisions, strength, failed)
    platt = svm_inner_predictions(design, target, train, pairs, strength)[2]
    return ProbeFit(_scores(platt, decisions, target, train), strength, failed)


def svm_inner_predictions(
    design: Design, target: Target, train: Rows, pairs: Sequence[tuple[Rows, Rows]], strength: float
) -> tuple[Rows, Floats, Platt]:
    """Return training rows, what machines of the other inner folds say of them, and the sigmoid fitted to that.

    Without inner folds the training rows' own decision values are all there is. Numbers need no sigmoid.
    """
    rows, decisions = _out_of_fold(design, target, pairs or [(train, train)], strength)
    if target.kind == "continuous":
        return rows, decisions, Platt(1.0, np.zeros(1))
    platt = fit_platt(decisions, np.searchsorted(np.unique(target.values[train]), target.values[rows]))
    return rows, _scores(platt, decisions, target, train), platt


def fit_machine(x: Floats, target: Target, rows: Rows, strength: float) -> Machine:
    """Fit scikit-learn's ``LinearSVC`` or ``LinearSVR`` (squared losses, in the primal: no chance is in it)."""
    if target.kind == "continuous":
        values = target.values[rows].astype(float)
        mean, scale = values.mean(), values.std() or 1.0
        model = LinearSVR(
            C=strength, loss="squared_epsilon_insensitive", epsilon=EPSILON, dual=False, tol=_TOLERANCE,
            max_iter=_MAX_STEPS,
        )  # fmt: skip
        converged = _fit(lambda: model.fit(x, (values - mean) / scale))
        return Machine(scale * model.coef_[:, None], np.atleast_1d(mean + scale * model.intercept_), converged)
    codes = np.unique(target.values[rows], return_inverse=True)[1]
    model = LinearSVC(C=strength, dual=False, tol=_TOLERANCE, max_iter=_MAX_STEPS)
    converged = _fit(lambda: model.fit(x, codes))
    return Machine(model.coef_.T, model.intercept_, converged)


def decision_values(machine: Machine, x: Floats, kind: str) -> Floats:
    """Return predicted numbers (n,), or decision values (n, classes), of two classes with zeros first."""
    values = x @ machine.coefficients + machine.intercept
    if kind == "continuous":
        return values[:, 0]
    return np.column_stack([np.zeros(len(values)), values[:, 0]]) if values.shape[1] == 1 else values


def _choose(
    design: Design,
    target: Target,
    classes: npt.NDArray[np.generic],
    pairs: Sequence[tuple[Rows, Rows]],
    grid: Sequence[float],
) -> tuple[float, int]:
    if not pairs:
        return grid[len(grid) // 2], 0
    matrices = [standardise(*design(*pair)) for pair in pairs]
    losses: list[float] = []
    failed = 0
    for strength in grid:
        parts = []
        for (fit_rows, _), (x_fit, x_try) in zip(pairs, matrices, strict=True):
            machine = fit_machine(x_fit, target, fit_rows, strength)
            failed += not machine.converged
            parts.append(decision_values(machine, x_try, target.kind))
        truth = target.values[np.concatenate([try_rows for _, try_rows in pairs])]
        losses.append(_loss(truth, np.concatenate(parts), classes if target.kind != "continuous" else None))
        recent = losses[-N_RISES - 1 :]
        if len(recent) > N_RISES and all(later > sooner for sooner, later in pairwise(recent)):
            break
    return grid[int(np.argmin(losses))], failed


def _loss(truth: npt.NDArray[np.generic], decisions: Floats, classes: npt.NDArray[np.generic] | None) -> float:
    if classes is None:
        return float(np.mean((truth.astype(float) - decisions) ** 2))
    codes = np.searchsorted(classes, truth)
    probabilities = fit_platt(decisions, codes).probabilities(decisions)
    return float(-np.log(np.clip(probabilities[np.arange(len(codes)), codes], 1e-300, 1.0)).mean())


def _out_of_fold(
    design: Design, target: Target, pairs: Sequence[tuple[Rows, Rows]], strength: float
) -> tuple[Rows, Floats]:
    rows, parts = [], []
    for fit_rows, try_rows in pairs:
        x_fit, x_try = standardise(*design(fit_rows, try_rows))
        parts.append(decision_values(fit_machine(x_fit, target, fit_rows, strength), x_try, target.kind))
        rows.append(try_rows)
    return np.concatenate(rows), np.concatenate(parts)


def _scores(platt: Platt, decisions: Floats, target: Target, train: Rows) -> Floats:
    scores = np.zeros((len(decisions), len(target.classes)))
    scores[:, np.unique(target.values[train]).astype(int)] = platt.probabilities(decisions)
    return scores[:, 1] if target.kind == "binary" else scores


def _fit(run: Callable[[], object]) -> bool:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        run()
    return not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
