"""Pipelines from row numbers to scores: features of a fold, and the built-in probes with their strength chosen."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
from scipy.special import expit
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV, _TemperatureScaling
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from neurocontrast.evaluation.designs import Design
from neurocontrast.evaluation.metrics import log_losses
from neurocontrast.evaluation.probes import Probe, get_probe
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits.inner import Pairs

__all__ = ["FittedModel", "FoldFeatures", "PathSearchCV", "PrincipalAxes", "built_in_features", "describe_built_in",
           "fit_built_in", "inner_scores", "principal_axes", "tempered"]  # fmt: skip

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Labels = npt.NDArray[np.generic]

N_RISES = 3
"""Grids are given up after the inner loss has risen this often in a row, by probes that say so."""
RANK_TOLERANCE = 1e-13
"""Axes with a smaller share of the largest one's variance are rounding."""


class FoldFeatures(TransformerMixin, BaseEstimator):
    """Turn row numbers of a study into features, with everything estimated on the rows of `fit` alone.

    As the first step of a pipeline, this makes each fold of `sklearn.model_selection.GridSearchCV` estimate its own
    harmonisation, residuals and scaling. Clones share what was computed, so that a search computes the matrices of a
    fold once and not once for each value of its grid.
    """

    def __init__(self, design: Design, scaling: Any = None) -> None:
        self.design = design
        self.scaling = scaling
        self._seen: dict[bytes, tuple[Any, Floats, dict[bytes, Floats]]] = {}

    def __sklearn_clone__(self) -> FoldFeatures:
        return copy.copy(self)

    def fit(self, rows: Rows, y: Any = None) -> FoldFeatures:  # noqa: ARG002
        """Remember the training rows (n, 1)."""
        self.rows_ = rows[:, 0]
        return self

    def fit_transform(self, rows: Rows, y: Any = None) -> Floats:  # noqa: ARG002
        """Return the features (n, p) of the training rows."""
        return self.fit(rows)._training()[1]

    def transform(self, rows: Rows) -> Floats:
        """Return the features (n, p) of any rows (n, 1)."""
        scaling, _, found = self._training()
        key = rows.tobytes()
        if key not in found:
            x = self.design(self.rows_, rows[:, 0])[1]
            found[key] = x if scaling is None else scaling.transform(x)
        return found[key]

    def prepare(self, train: Rows, test: Rows) -> None:
        """Compute the features of training rows (n,) and of those that will be tested, with one estimate for both."""
        if train.tobytes() in self._seen:
            return
        x_train, x_test = self.design(train, test)
        scaling = None if self.scaling is None else clone(self.scaling)
        if scaling is not None:
            x_train, x_test = scaling.fit_transform(x_train), scaling.transform(x_test)
        self._seen[train.tobytes()] = scaling, x_train, {test.tobytes(): x_test}

    def fitted_scaling(self) -> Any:
        """Return the scaling fitted on the training rows."""
        return self._training()[0]

    def _training(self) -> tuple[Any, Floats, dict[bytes, Floats]]:
        self.prepare(self.rows_, self.rows_[:1])
        return self._seen[self.rows_.tobytes()]


class PrincipalAxes(TransformerMixin, BaseEstimator):
    """Express features along the axes that the training rows extend along, where features outnumber rows.

    An L2-penalised linear model predicts the same with and without this step: its coefficients lie in the span of its
    training rows, and rotation does not change their norm. With fewer columns it is fitted sooner. Unlike
    `sklearn.decomposition.PCA`, the rows are not centred, and the axes come from their inner products, which is
    several times faster.

    Examples
    --------
    >>> x = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0]])
    >>> np.linalg.norm(PrincipalAxes().fit_transform(x), axis=1).round(6).tolist()
    [5.0, 2.0]
    """

    def fit(self, X: npt.ArrayLike, y: Any = None) -> PrincipalAxes:  # noqa: ARG002
        """Find the axes of the training rows (n, p)."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: npt.ArrayLike, y: Any = None) -> Floats:  # noqa: ARG002
        """Find the axes of the training rows (n, p), and return the rows along these: (n, k)."""
        x = validate_data(self, X, dtype=np.float64)
        self.axes_: Floats | None = None
        if x.shape[1] > x.shape[0]:
            self.axes_, x = principal_axes(x)
        return np.asarray(x)

    def transform(self, X: npt.ArrayLike) -> Floats:
        """Return rows (n, p) along the axes: (n, k)."""
        check_is_fitted(self)
        x = validate_data(self, X, dtype=np.float64, reset=False)
        return x if self.axes_ is None else x @ self.axes_


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
