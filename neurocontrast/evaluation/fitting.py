"""One probe on one fold: fitted, its threshold chosen, its test rows decided."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from threadpoolctl import ThreadpoolController

from neurocontrast.evaluation.designs import Design, FeatureDesign
from neurocontrast.evaluation.metrics import decide
from neurocontrast.evaluation.own_estimator import EstimatorError, describe_own, gives_probabilities, shorten
from neurocontrast.evaluation.pipelines import FittedModel, FoldFeatures, built_in_features, fit_built_in, inner_scores
from neurocontrast.evaluation.probes import get_probe
from neurocontrast.evaluation.settings import EvaluationSettings, probe_name
from neurocontrast.evaluation.splits.inner import Pairs, inner_folds, penalty_folds
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError
from neurocontrast.seeds import derive_seed

__all__ = ["Prediction", "choose_threshold", "fit_probe", "needs_inner_predictions", "one_thread", "value_range"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Labels = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Prediction:
    """The scores and decisions of a probe on its test rows.

    Attributes
    ----------
    scores : array (n_test,) or (n_test, n_classes)
        Probability of the positive class, of each class, or the predicted value; decision values of an estimator that
        has no probabilities.
    decisions : array (n_test,)
        Predicted class codes; zeros for a continuous target.
    threshold : float or None
        Probability from which a scan is called positive; None unless the target is binary and has probabilities.
    strength : float
        The chosen value of the grid; NaN of an estimator of the user's own.
    n_not_converged : int
        Number of fits that stopped before the solver was satisfied.
    """

    scores: Floats
    decisions: npt.NDArray[np.int64]
    threshold: float | None = None
    strength: float = float("nan")
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
    sites: npt.NDArray[np.object_] | None = None,
    validation: Rows | None = None,
    estimator: BaseEstimator | None = None,
    features: FoldFeatures | None = None,
    pairs: Pairs | None = None,
) -> tuple[Prediction, FittedModel | None]:
    """Fit a probe on the training rows, and decide about the test rows.

    Where the training rows have one class, as a small draw of subjects can, that class is predicted, and there is no
    model.
    """
    truth = target
    if isinstance(design, FeatureDesign):
        target = design.within_sites(target, train)
    if target.kind != "continuous" and len(np.unique(target.values[train])) == 1:
        return _one_class(target, train, len(test)), None
    if pairs is None:
        pairs = penalty_folds(target, train, subjects, settings=settings, seed=seed, sites=sites, validation=validation)
    values, continuous = target.values[train], target.kind == "continuous"
    with one_thread():
        if estimator is None:
            probe, cover = get_probe(probe_name(settings, target.kind)), pairs
            if probe.calibrated and not continuous and not _covers(pairs, train):
                cover = inner_folds(target, train, subjects, n_folds=settings.n_inner_folds, seed=seed)
                cover = cover if _covers(cover, train) else []
            features = built_in_features(probe, design) if features is None else features
            features.prepare(train, test)
            model = fit_built_in(probe, features, train, values, pairs, cover, settings, seed, continuous=continuous)
        else:
            model = _fit_own(estimator, design, train, values, subjects=subjects, seed=seed)
        scores = _scores(model, target, test, estimator)
        if estimator is not None and not continuous and not gives_probabilities(estimator):
            decisions, threshold = model.model.predict(test[:, None]).astype(np.int64), None
        else:
            scores, decisions, threshold = _decide(scores, truth, train, settings, model, pairs)
    return Prediction(scores, decisions, threshold, model.strength, model.n_not_converged), model


def needs_inner_predictions(rule: float | str) -> bool:
    """Say whether a rule chooses its value by what probes of inner folds say."""
    return isinstance(rule, str) and rule not in ("half", "prevalence")


def choose_threshold(
    rule: float | str, *, prevalence: float, truth: npt.NDArray[np.generic] | None = None, scores: Floats | None = None
) -> float:
    """Return the probability from which on a scan is called positive."""
    if isinstance(rule, float):
        return rule
    if rule in ("half", "prevalence"):
        return 0.5 if rule == "half" else prevalence
    if truth is None or scores is None:
        raise ValueError(f"threshold '{rule}': needs predictions of inner folds")
    if len(np.unique(truth)) < 2:
        return prevalence
    values = np.unique(scores)
    cuts = np.concatenate([values[:1], (values[1:] + values[:-1]) / 2, [np.nextafter(values[-1], np.inf)]])
    # Rounding of a midpoint must not move a scan to the other side of it.
    cuts[1:-1] = np.maximum(cuts[1:-1], np.nextafter(values[:-1], np.inf))
    positive, negative = np.sort(scores[truth == 1]), np.sort(scores[truth == 0])
    sensitivity = 1 - np.searchsorted(positive, cuts) / len(positive)
    specificity = np.searchsorted(negative, cuts) / len(negative)
    if rule == "youden":
        best = np.flatnonzero(sensitivity + specificity >= (sensitivity + specificity).max() - 1e-12)
        return float(cuts[best[np.abs(cuts[best] - prevalence).argmin()]])
    name, aim = rule.split("=")
    if name == "sensitivity":
        return float(cuts[np.flatnonzero(sensitivity >= float(aim) - 1e-12)[-1]])
    return float(cuts[np.flatnonzero(specificity >= float(aim) - 1e-12)[0]])


def value_range(target: Target, rows: Rows) -> tuple[float, float]:
    """Return the least and the largest value of a continuous target."""
    values = target.values[rows].astype(float)
    return float(values.min()), float(values.max())


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()  # looks at every loaded library, which takes longer than a small fit


def one_thread() -> AbstractContextManager[object]:
    """Return a context of one thread: more cost time on matrices of this size, and change the last digits."""
    return _threads().limit(limits=1)


def _fit_own(
    estimator: BaseEstimator,
    design: Design,
    rows: Rows,
    values: Labels,
    *,
    subjects: npt.NDArray[np.object_],
    seed: int,
) -> FittedModel:
    """Fit a clone of the user's estimator on the features of the training rows, as they are.

    A ``random_state`` that is None is set from `seed`. A search gets the subjects as ``groups``, for its splitter.
    """
    model = clone(estimator)
    states = {
        key: derive_seed("estimator", seed, key) % 2**32
        for key, value in model.get_params().items()
        if value is None and key.split("__")[-1] == "random_state"
    }
    template = Pipeline([("features", FoldFeatures(design)), ("model", model.set_params(**states))])

    def fit(some: Rows, y: Labels) -> Pipeline:
        groups = {"model__groups": subjects[some]} if isinstance(model, BaseSearchCV) else {}
        try:
            return clone(template).fit(some[:, None], y, **groups)
        except Exception as error:
            name = describe_own(estimator)[0]
            raise EstimatorError(f"probe: {name} could not be fitted: {shorten(error)}") from error

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = fit(rows, values)
    failed = sum(issubclass(each.category, ConvergenceWarning) for each in caught)
    return FittedModel(fitted, fit, float("nan"), failed)


def _decide(
    scores: Floats, target: Target, train: Rows, settings: EvaluationSettings, model: FittedModel, pairs: Pairs
) -> tuple[Floats, npt.NDArray[np.int64], float | None]:
    """Return scores, decisions and the threshold."""
    if target.kind == "continuous":
        kept = np.clip(scores, *value_range(target, train)) if settings.clip else scores
        return kept, np.zeros(len(scores), dtype=np.int64), None
    shares = np.bincount(target.values[train], minlength=len(target.classes)) / len(train)
    if target.kind == "multiclass":
        return scores, decide(target.kind, scores, shares=shares if settings.threshold == "prevalence" else None), None
    inner: dict[str, Any] = {}
    if needs_inner_predictions(settings.threshold):
        rows, found = inner_scores(model, train, target.values[train], pairs=pairs)
        inner = {"truth": target.values[rows], "scores": found}
    cut = choose_threshold(settings.threshold, prevalence=float(shares[1]), **inner)
    return scores, (scores >= cut).astype(np.int64), cut


def _scores(model: FittedModel, target: Target, test: Rows, estimator: BaseEstimator | None) -> Floats:
    """Return predicted numbers, or probabilities or decision values in the columns of the target's classes."""
    own = "" if estimator is None else describe_own(estimator)[0]
    try:
        if target.kind == "continuous":
            found = np.asarray(model.model.predict(test[:, None]), dtype=float)
        elif estimator is None or gives_probabilities(estimator):
            found = model.model.predict_proba(test[:, None])
        else:
            found = model.model.decision_function(test[:, None])
    except Exception as error:
        if not own:
            raise
        raise EstimatorError(f"probe: {own} could not predict: {error}") from error
    wrong = ~np.isfinite(found).reshape(len(test), -1).all(axis=1)
    if wrong.any():
        if not own:
            raise ConfigError(f"sgd.learning_rate: the loss is no number at {model.strength:g}. Give lower rates.")
        raise EstimatorError(f"probe: {own} predicts no finite number for {wrong.sum()} of {len(test)} test rows.")
    if target.kind == "continuous":
        return found.reshape(len(test), -1)[:, 0]
    if found.ndim == 1:
        return found if target.kind == "binary" else np.column_stack([-found, found])
    scores = np.full((len(test), len(target.classes)), 0.0 if found.min() >= 0 else float(found.min()))
    classes = np.asarray(model.model.classes_, dtype=np.intp)
    if found.shape[1] != len(classes):
        raise EstimatorError(
            f"probe: {type(model.model).__name__} gives {found.shape[1]} scores for {len(classes)} classes. One score "
            "a class is needed (decision_function_shape='ovr')."
        )
    scores[:, classes] = found
    return scores[:, 1] if target.kind == "binary" else scores


def _covers(pairs: Pairs, train: Rows) -> bool:
    tried = np.concatenate([np.zeros(0, dtype=np.intp), *(part for _, part in pairs)])
    return np.array_equal(np.sort(tried), np.sort(train))


def _one_class(target: Target, train: Rows, n_test: int) -> Prediction:
    code, binary = int(target.values[train][0]), target.kind == "binary"
    scores = np.tile(np.eye(len(target.classes))[code], (n_test, 1))
    decisions = np.full(n_test, code, dtype=np.int64)
    return Prediction(scores[:, 1] if binary else scores, decisions, 0.5 if binary else None)
