"""The built-in probes fitted: standardised, their strength chosen on inner folds by `GridSearchCV`, calibrated."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV, _TemperatureScaling
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation.designs import Design
from neurocontrast.evaluation.features import FoldFeatures, PrincipalAxes
from neurocontrast.evaluation.metrics import log_losses
from neurocontrast.evaluation.probes import Probe, get_probe
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits.inner import Pairs

__all__ = ["FittedModel", "PathSearchCV", "built_in_features", "describe_built_in", "fit_built_in", "inner_scores",
           "tempered"]  # fmt: skip

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Labels = npt.NDArray[np.generic]

N_RISES = 3
"""Grids are given up after the inner loss has risen this often in a row, by probes that say so."""


@dataclass(frozen=True)
class FittedModel:
    """A pipeline from row numbers to scores; `refit` fits it, not calibrated, to other rows and their values."""

    model: Any
    refit: Callable[[Rows, Labels], Pipeline]
    strength: float
    n_not_converged: int = 0


class PathSearchCV(GridSearchCV):
    """Search a grid value after value, and give up once the score has fallen three times in a row.

    All else is `sklearn.model_selection.GridSearchCV`, whose choice differs only where a score rises again after that.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> x = np.arange(20.0)[:, None]
    >>> search = PathSearchCV(Ridge(), {"alpha": [0.1, 1e2, 1e3, 1e4, 1e5, 1e6]}).fit(x, x[:, 0])
    >>> search.best_params_, len(search.cv_results_["params"])
    ({'alpha': 0.1}, 4)
    """

    def _run_search(self, evaluate_candidates: Callable[[list[dict[str, Any]]], dict[str, Any]]) -> None:
        n_falls = 0
        for candidate in ParameterGrid(self.param_grid):
            scores = evaluate_candidates([candidate])["mean_test_score"]
            n_falls = n_falls + 1 if len(scores) > 1 and scores[-1] < scores[-2] else 0
            if n_falls == N_RISES:
                break


def built_in_features(probe: Probe, design: Design) -> FoldFeatures:
    """Return the first step of a built-in probe: standardised, and along principal axes where that changes nothing."""
    steps = (StandardScaler(copy=False), PrincipalAxes()) if probe.rotates else (StandardScaler(copy=False),)
    return FoldFeatures(design, make_pipeline(*steps))


def describe_built_in(name: str, *, continuous: bool, settings: EvaluationSettings) -> str:
    """Return a built-in probe as the scikit-learn expression it amounts to."""
    probe = get_probe(name)
    model = probe.estimator(settings, continuous=continuous, seed=settings.seed)
    grid = {probe.parameter(continuous=continuous): list(probe.grid(settings))}
    text = f"{_search_of(probe).__name__}(make_pipeline(StandardScaler(), {model!r}), {grid})"
    if probe.calibrated and not continuous:
        text = f"CalibratedClassifierCV({text}, method='temperature', ensemble=False)"
    return " ".join(text.split())


def inner_scores(fitted: FittedModel, rows: Rows, values: Labels, *, pairs: Pairs) -> tuple[Rows, Floats]:
    """Return training rows of two classes, and the probabilities of models that have not seen their subjects.

    The temperature of a calibrated model is that of `fitted`. Without inner folds, the training rows' own
    probabilities are all there is.
    """
    value_of, tried, parts = dict(zip(rows.tolist(), values.tolist(), strict=True)), [], []
    for fit_rows, try_rows in pairs or [(rows, rows)]:
        with _counting():
            model = fitted.refit(fit_rows, np.array([value_of[row] for row in fit_rows.tolist()]))
        x = try_rows[:, None]
        if isinstance(fitted.model, CalibratedClassifierCV):
            parts.append(expit(tempered(fitted.model)[1] * model.decision_function(x)))
        else:
            parts.append(model.predict_proba(x)[:, 1])
        tried.append(try_rows)
    return np.concatenate(tried), np.concatenate(parts)


def tempered(model: CalibratedClassifierCV) -> tuple[Pipeline, float]:
    """Return the machine of a calibrated one, and the factor of its decision values before the softmax."""
    calibrated = model.calibrated_classifiers_[0]
    beta = float(calibrated.calibrators[0].beta_)
    return calibrated.estimator, 2 * beta if len(model.classes_) == 2 else beta


def fit_built_in(
    probe: Probe,
    features: FoldFeatures,
    rows: Rows,
    values: Labels,
    pairs: Pairs,
    cover: Pairs,
    settings: EvaluationSettings,
    seed: int,
    *,
    continuous: bool,
) -> FittedModel:
    """Choose the strength on inner folds, of equals the strongest penalty, and fit it on all training rows.

    Without inner folds the strength is the middle of the grid. `cover` are inner folds in which every training row is
    tried once, for the temperature.
    """
    model, grid = probe.estimator(settings, continuous=continuous, seed=seed), list(probe.grid(settings))
    if probe.strength == "k":  # more neighbours than training rows are as many as there are
        least = min([len(fit) for fit, _ in pairs], default=len(rows))
        grid = list(dict.fromkeys(min(k, least) for k in grid))
    parameter = f"model__{probe.parameter(continuous=continuous)}"
    pipeline = Pipeline([("features", features), ("model", model)])
    calibrated, x = probe.calibrated and not continuous, rows[:, None]
    with _counting() as failed:
        for pair in pairs:
            features.prepare(*pair)
        if pairs and len(grid) > 1:
            scoring: Any = _tempered_log_loss if calibrated else _log_likelihood
            search = _search_of(probe)(
                pipeline, {parameter: grid}, scoring="neg_mean_squared_error" if continuous else scoring,
                cv=_positions(pairs, rows), refit=False, error_score="raise",
            )  # fmt: skip
            strength = search.fit(x, values).best_params_[parameter]
        else:
            strength = sorted(grid)[len(grid) // 2]
        template = clone(pipeline).set_params(**{parameter: strength})
        fitted: Any = clone(template)
        if calibrated:
            folds = _positions(cover, rows) or [(np.arange(len(rows)),) * 2]
            # One temperature for all classes: unlike a sigmoid's slope, it never turns the order of scores round.
            fitted = CalibratedClassifierCV(fitted, method="temperature", cv=folds, ensemble=False)
        fitted.fit(x, values)
    return FittedModel(fitted, lambda some, y: clone(template).fit(some[:, None], y), float(strength), len(failed))


def _search_of(probe: Probe) -> type[GridSearchCV]:
    return PathSearchCV if probe.gives_up else GridSearchCV


def _log_likelihood(model: Pipeline, rows: Rows, codes: Labels) -> float:
    """Return minus the mean log-loss; minus infinity where a descent at too high a rate has ended in no number.

    `sklearn.metrics.log_loss` gives the same, and checks for longer than a small model is fitted.
    """
    probabilities = model.predict_proba(rows)
    if not np.isfinite(probabilities).all():
        return -float("inf")
    return -float(log_losses(np.searchsorted(model.classes_, codes)[:, None], probabilities[:, None])[0])


def _tempered_log_loss(machine: Pipeline, rows: Rows, codes: Labels) -> float:
    """Return minus the log-loss of decision values at the temperature that suits the same rows best."""
    decisions = machine.decision_function(rows)
    found = _TemperatureScaling().fit(decisions, np.searchsorted(machine.classes_, codes)).predict(decisions)
    return -float(log_loss(codes, found, labels=machine.classes_))


def _positions(pairs: Pairs, rows: Rows) -> list[tuple[Rows, ...]]:
    order = np.argsort(rows, kind="stable")
    return [tuple(order[np.searchsorted(rows, part, sorter=order)] for part in pair) for pair in pairs]


@contextmanager
def _counting() -> Iterator[list[Any]]:
    """Collect warnings of solvers that stopped early; other warnings of the fits tell a user nothing.

    What scikit-learn checks of parameters and features at each of thousands of fits has been checked before.
    """
    found: list[Any] = []
    checked = config_context(assume_finite=True, skip_parameter_validation=True)
    with checked, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    found += [each for each in caught if issubclass(each.category, ConvergenceWarning)]
