"""Estimators of a fold: the built-in probes with their strength chosen on inner folds, and a user's own."""

from __future__ import annotations

import pkgutil
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import _TemperatureScaling
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from neurocontrast.evaluation.designs import Design, FoldFeatures, scaler_of
from neurocontrast.evaluation.metrics import LOG_FLOOR
from neurocontrast.evaluation.probes import Probe
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits.inner import Pairs
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError
from neurocontrast.seeds import derive_seed

__all__ = ["EstimatorError", "FittedModel", "as_estimator", "check_own", "describe_built_in", "describe_own",
           "fit_built_in", "fit_own", "gives_probabilities", "import_estimator", "shorten"]  # fmt: skip

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Labels = npt.NDArray[np.generic]

N_RISES = 3
"""Grids are given up after the inner loss has risen this often in a row, by probes that say so."""


class EstimatorError(ConfigError):
    """An estimator of the user's own that cannot be imported, fitted, or asked for predictions."""


@dataclass(frozen=True, eq=False)
class FittedModel:
    """An estimator fitted on the features of training rows; `slope` makes decision values of a machine into logits."""

    estimator: Any
    features: FoldFeatures
    strength: float = float("nan")
    n_not_converged: int = 0
    slope: float | None = None

    def predict_proba(self, x: Floats) -> Floats:
        """Return probabilities (n, n classes) of features."""
        if self.slope is None:
            return np.asarray(self.estimator.predict_proba(x))
        margins = self.slope * self.estimator.decision_function(x)
        return softmax(margins, axis=1) if margins.ndim == 2 else np.column_stack([expit(-margins), expit(margins)])


def describe_built_in(
    probe: Probe, design: Design, *, continuous: bool, settings: EvaluationSettings, n_train: int = 0
) -> str:
    """Return a built-in probe as the scikit-learn expression it amounts to."""
    model = probe.estimator(continuous=continuous, large=n_train > settings.large_table)
    grid: dict[str, Any] = {probe.parameter(continuous=continuous): list(probe.grid(settings))}
    steps = repr(scaler_of(design))
    if settings.n_components:
        grid, steps = {"pca__n_components": list(settings.n_components)} | grid, f"{steps}, PCA()"
    text = f"GridSearchCV(make_pipeline({steps}, {model!r}), {grid})"
    if probe.calibrated and not continuous:
        text = f"CalibratedClassifierCV({text}, method='temperature', ensemble=False)"
    return " ".join(text.split())


def fit_built_in(
    probe: Probe,
    features: FoldFeatures,
    rows: Rows,
    test: Rows,
    values: Labels,
    pairs: Pairs,
    settings: EvaluationSettings,
    *,
    continuous: bool,
) -> FittedModel:
    """Choose the strength on inner folds, of equals the strongest penalty, and fit it to all training rows."""
    model = probe.estimator(continuous=continuous, large=len(rows) > settings.large_table)
    grid = list(probe.grid(settings))
    if probe.strength == "k":  # more neighbours than training rows are as many as there are
        least = min([len(fit) for fit, _ in pairs], default=len(rows))
        grid = list(dict.fromkeys(min(k, least) for k in grid))
    parameter, calibrated = probe.parameter(continuous=continuous), probe.calibrated and not continuous
    order = np.argsort(rows, kind="stable")

    def values_of(some: Rows) -> Labels:
        return values[order[np.searchsorted(rows, some, sorter=order)]]

    def fit(strength: float, view: FoldFeatures, pair: tuple[Rows, Rows]) -> Any:
        return clone(model).set_params(**{parameter: strength}).fit(view(*pair).train, values_of(pair[0]))

    def loss(strength: float, view: FoldFeatures, pair: tuple[Rows, Rows]) -> float:
        x, y = view(*pair).test, values_of(pair[1])
        return _loss(fit(strength, view, pair), x, y, continuous=continuous, calibrated=calibrated)

    with _counting() as failed:
        views = features.views()
        strength, features = sorted(grid)[len(grid) // 2], views[len(views) // 2]
        if pairs and len(grid) * len(views) > 1:
            strength, features = _best(grid, views, pairs, loss, probe.gives_up)
        slope = None
        if calibrated:
            decisions, tried = [], []
            for pair in pairs or [(rows, rows)]:
                decisions.append(fit(strength, features, pair).decision_function(features(*pair).test))
                tried.append(values_of(pair[1]))
            slope = _temperature(np.concatenate(decisions), np.concatenate(tried))
        fitted = fit(strength, features, (rows, test))
    return FittedModel(fitted, features, float(strength), len(failed), slope)


def _best(
    grid: Sequence[float], views: Sequence[FoldFeatures], pairs: Pairs, loss: Callable[..., float], gives_up: bool
) -> tuple[float, FoldFeatures]:
    """Return the strength and features of least mean loss, the first of equals.

    `gives_up` ends the search of a strength after `N_RISES` rises.
    """
    found: list[tuple[float, float, FoldFeatures]] = []
    for view in views:
        losses: list[float] = []
        for strength in grid:
            losses.append(float(np.mean([loss(strength, view, pair) for pair in pairs])))
            if gives_up and len(losses) > N_RISES and (np.diff(losses[-N_RISES - 1 :]) > 0).all():
                break
        best = int(np.argmin(losses))
        found.append((losses[best], grid[best], view))
    _, strength, view = min(found, key=lambda each: each[0])
    return strength, view


def _loss(model: Any, x: Floats, y: Labels, *, continuous: bool, calibrated: bool) -> float:
    """Return the squared error or log-loss, that of decision values at the temperature that suits the rows best."""
    if continuous:
        return float(((model.predict(x) - y) ** 2).mean())
    codes = np.searchsorted(model.classes_, y)
    if calibrated:
        decisions = model.decision_function(x)
        return float(log_loss(y, _TemperatureScaling().fit(decisions, codes).predict(decisions), labels=model.classes_))
    likely = model.predict_proba(x)[np.arange(len(y)), codes]
    return float(-np.log(np.clip(likely, LOG_FLOOR, 1.0)).mean())


def _temperature(decisions: Floats, values: Labels) -> float:
    """Return the one factor that makes decision values of all classes into logits: it never turns their order round."""
    beta = float(_TemperatureScaling().fit(decisions, np.unique(values, return_inverse=True)[1]).beta_)
    return beta if decisions.ndim == 2 else 2 * beta


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


def import_estimator(path: str) -> BaseEstimator:
    """Return the estimator that an import path ``package.module:Object`` names.

    The module is executed. Call this only where a user asked for the path: never for one that was read in a folder.
    """
    try:
        found = pkgutil.resolve_name(path)
    except Exception as error:  # a module of the user's may raise anything
        raise EstimatorError(
            f"probe: '{path}' cannot be imported ({shorten(error)}). Install the package, or put the folder of the "
            "module on PYTHONPATH."
        ) from error
    return as_estimator(found, source=f"'{path}'")


def as_estimator(given: Any, *, source: str = "estimator") -> BaseEstimator:
    """Return an estimator from an instance, a class, or a function of no argument that makes one."""
    try:
        made = given() if isinstance(given, type) or (callable(given) and not hasattr(given, "fit")) else given
        lacking = [name for name in ("fit", "predict") if not callable(getattr(made, name, None))]
        if not lacking:
            return clone(made)
    except Exception as error:  # the user's own code is called, and may raise anything
        raise EstimatorError(
            f"probe: {source} cannot be made, or cloned for each fold: {shorten(error)} Derive it from "
            "sklearn.base.BaseEstimator; a class or function is called without arguments."
        ) from error
    raise EstimatorError(
        f"probe: {source} is a {type(made).__name__}, which has no {' and no '.join(lacking)}. Give a scikit-learn "
        "classifier, regressor or pipeline that ends in one."
    )


def check_own(estimator: BaseEstimator, target: Target, *, threshold: float | str) -> None:
    """Refuse a regressor for classes, a classifier for numbers, and a classifier that gives nothing to rank by."""
    name = describe_own(estimator)[0]
    try:
        kind = get_tags(estimator).estimator_type
    except AttributeError:  # what derives from no class of scikit-learn has no tags
        kind = None
    if target.kind == "continuous":
        if kind not in (None, "regressor"):
            raise EstimatorError(
                f"probe: {name} is a {kind}, and '{target.name}' is continuous. Give a regressor, or evaluation.kind="
                "categorical."
            )
        return
    if kind not in (None, "classifier"):
        raise EstimatorError(
            f"probe: {name} is a {kind}, and '{target.name}' has {len(target.classes)} classes. Give a classifier."
        )
    if not hasattr(estimator, "predict_proba") and not hasattr(estimator, "decision_function"):
        raise EstimatorError(
            f"probe: {name} has neither predict_proba nor decision_function, and an AUC needs scores to rank by. Wrap "
            "it in sklearn.calibration.CalibratedClassifierCV, or choose another classifier."
        )
    if not gives_probabilities(estimator) and threshold != "half":
        raise EstimatorError(
            f"threshold: '{threshold}' is for probabilities, and {name} has decision values only. Leave threshold out, "
            "or wrap it in sklearn.calibration.CalibratedClassifierCV."
        )


def gives_probabilities(estimator: BaseEstimator) -> bool:
    """Return whether a classifier has probabilities; if not, it has decision values."""
    return hasattr(estimator, "predict_proba")


def describe_own(estimator: BaseEstimator) -> tuple[str, str]:
    """Return a short name of an estimator, of a pipeline its steps', and its repr on one line."""
    steps = [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    text = re.sub(r" at 0x[0-9a-f]+", "", " ".join(repr(estimator).split()))
    return " + ".join(type(step).__name__ for step in steps if step not in (None, "passthrough")), text


def fit_own(
    estimator: BaseEstimator,
    features: FoldFeatures,
    rows: Rows,
    test: Rows,
    values: Labels,
    *,
    subjects: npt.NDArray[np.object_],
    seed: int,
) -> FittedModel:
    """Fit a clone of the user's estimator; a search gets the subjects as ``groups``, for its splitter."""
    states = {
        key: derive_seed("estimator", seed, key) % 2**32
        for key, value in estimator.get_params().items()
        if value is None and key.split("__")[-1] == "random_state"
    }

    groups = {"groups": subjects[rows]} if isinstance(estimator, BaseSearchCV) else {}
    x = features(rows, test).train
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fitted = clone(estimator).set_params(**states).fit(x, values, **groups)
        except Exception as error:  # the user's own fit may raise anything
            raise EstimatorError(
                f"probe: {describe_own(estimator)[0]} could not be fitted: {shorten(error)}"
            ) from error
    failed = sum(issubclass(each.category, ConvergenceWarning) for each in caught)
    return FittedModel(fitted, features, n_not_converged=failed)


def shorten(error: Exception) -> str:
    """Return an error on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}{' …' if len(text) > 300 else ''}"
