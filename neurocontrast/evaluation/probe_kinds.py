"""Every probe behind one door: fitted, its threshold chosen, its test rows decided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from neurocontrast.evaluation.designs import FeatureDesign
from neurocontrast.evaluation.estimators import FittedModel, built_in_features, fit_built_in, inner_scores
from neurocontrast.evaluation.features import FoldFeatures
from neurocontrast.evaluation.linear import fit_label_vectors, predict_at
from neurocontrast.evaluation.metrics import decide
from neurocontrast.evaluation.own_estimator import EstimatorError, describe_own, fit_own, gives_probabilities
from neurocontrast.evaluation.probes import Design, Pairs, inner_folds, penalty_folds
from neurocontrast.evaluation.settings import PROBES, EvaluationSettings
from neurocontrast.evaluation.target import Kind, Target
from neurocontrast.evaluation.threads import one_thread
from neurocontrast.evaluation.thresholds import choose_threshold, needs_inner_predictions
from neurocontrast.exceptions import ConfigError

__all__ = ["Decided", "ProbeFit", "check_probe", "fit_and_decide", "fit_model", "probe_name", "value_range"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class ProbeFit:
    """What a probe said of its test rows.

    Attributes
    ----------
    scores : array (n_test,) or (n_test, n_classes)
        Probability of the positive class, of each class, or the predicted value; decision values of an estimator that
        has no probabilities.
    strength : float
        The chosen C, alpha, number of neighbours or learning rate; NaN of an estimator of the user's own.
    n_not_converged : int
        Fits that stopped before the solver was satisfied.
    """

    scores: Floats
    strength: float
    n_not_converged: int = 0


@dataclass(frozen=True)
class Decided:
    """A probe's word on its test rows.

    Attributes
    ----------
    fit : ProbeFit
        Scores, and the strength that was chosen.
    decisions : array (n_test,)
        Predicted class codes; zeros for a continuous target.
    threshold : float or None
        From which probability on a scan is called positive; None unless the target is binary and has probabilities.
    """

    fit: ProbeFit
    decisions: npt.NDArray[np.int64]
    threshold: float | None


def probe_name(settings: EvaluationSettings, kind: Kind) -> str:
    """Return the kind of built-in probe: what ``auto``, or the path of another estimator, means for a target."""
    if settings.probe in PROBES and settings.probe != "auto":
        return settings.probe
    return "ridge" if kind == "continuous" else "logistic"


def check_probe(settings: EvaluationSettings, target: Target) -> None:
    """Refuse a probe or a threshold that a target cannot have.

    Raises
    ------
    ConfigError
        Saying which fit.
    """
    kind = "continuous" if target.kind == "continuous" else "categorical"
    wrong = {"continuous": ("logistic", "sgd"), "categorical": ("ridge",)}
    if settings.probe in wrong[kind]:
        others = "ridge, svm or knn" if kind == "continuous" else "logistic, sgd, svm or knn"
        raise ConfigError(
            f"probe: '{settings.probe}' is not for a {kind} target, and '{target.name}' is {kind}. Use {others}, or "
            "auto."
        )
    if settings.clip and target.kind != "continuous":
        raise ConfigError(f"clip: is for numbers, and '{target.name}' has classes. Leave clip out.")
    if target.kind != "binary" and settings.threshold not in ("half", "prevalence"):
        what, hint = f"of {len(target.classes)} classes", "Use half or prevalence, or keep two classes with where."
        if kind == "continuous":
            what, hint = "continuous", "Leave threshold out."
        raise ConfigError(
            f"threshold: '{settings.threshold}' is for two classes, and '{target.name}' is {what}. {hint}"
        )


def fit_and_decide(
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
    batched: bool = False,
) -> Decided:
    """Fit a probe on the training rows, and decide about the test rows.

    `sites`, of all rows, is what inner folds leave out where the settings ask for that; `validation`, of the training
    rows, is what takes the place of inner folds (`penalty_folds`).
    Where the training rows have one class, as a small draw of subjects can, that class is all there is to say.

    Parameters
    ----------
    estimator : estimator, optional
        The user's own; by default the built-in one that the settings name.
    batched : bool, default=False
        Whether the default estimators are fitted by `fit_label_vectors`, as permutation tests do.
    """
    given: dict[str, Any] = {"subjects": subjects, "settings": settings, "seed": seed, "sites": sites}
    if not batched or _one_class_only(target, train):
        return fit_model(design, target, train, test, **given, validation=validation, estimator=estimator)[0]
    fitted = design.within_sites(target, train) if isinstance(design, FeatureDesign) else target
    pairs = penalty_folds(fitted, train, subjects, settings=settings, seed=seed, sites=sites, validation=validation)
    with one_thread():
        scores, strengths, failed = fit_label_vectors(
            design, fitted, fitted.values[:, None], train, test, pairs=pairs, settings=settings
        )
        found = ProbeFit(scores[:, 0], float(strengths[0]), failed)

        def inside() -> tuple[Rows, Floats]:
            folds = pairs or [(train, train)]
            parts = [predict_at(design, fitted, *pair, strength=found.strength) for pair in folds]
            return np.concatenate([tried for _, tried in folds]), np.concatenate(parts)

        return _decide(found, target, train, settings, inside)


def fit_model(
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
) -> tuple[Decided, FittedModel | None]:
    """Do what `fit_and_decide` does, and return the fitted model too; None where the training rows have one class.

    Parameters
    ----------
    features : FoldFeatures, optional
        As `built_in_features` returned it, where several targets of the same rows share it.
    pairs : sequence of pair of arrays, optional
        Inner folds, where they are not those of `penalty_folds`.
    """
    truth, name = target, probe_name(settings, target.kind)
    if isinstance(design, FeatureDesign):
        target = design.within_sites(target, train)
    if _one_class_only(target, train):
        return _one_class(target, train, len(test)), None
    if pairs is None:
        pairs = penalty_folds(target, train, subjects, settings=settings, seed=seed, sites=sites, validation=validation)
    values = target.values[train]
    with one_thread():
        if estimator is None:
            cover = pairs
            if name == "svm" and not _covers(pairs, train):
                cover = inner_folds(target, train, subjects, n_folds=settings.n_inner_folds, seed=seed)
                cover = cover if _covers(cover, train) else []
            features = built_in_features(name, design) if features is None else features
            features.prepare(train, test)
            model = fit_built_in(
                name, features, train, values, pairs=pairs,
                cover=cover, settings=settings, seed=seed, continuous=target.kind == "continuous",
            )  # fmt: skip
        else:
            model = fit_own(estimator, design, train, values, subjects=subjects, seed=seed)
        scores = _scores(model, target, test, estimator)
        found = ProbeFit(scores, model.strength, model.n_not_converged)
        if estimator is not None and target.kind != "continuous" and not gives_probabilities(estimator):
            return Decided(found, model.model.predict(test[:, None]).astype(np.int64), None), model
        decided = _decide(found, truth, train, settings, lambda: inner_scores(model, train, values, pairs=pairs))
    return decided, model


def value_range(target: Target, rows: Rows) -> tuple[float, float]:
    """Return the least and the largest value of a continuous target."""
    values = target.values[rows].astype(float)
    return float(values.min()), float(values.max())


def _decide(
    found: ProbeFit,
    target: Target,
    train: Rows,
    settings: EvaluationSettings,
    inside: Callable[[], tuple[Rows, Floats]],
) -> Decided:
    n_test = len(found.scores)
    if target.kind == "continuous":
        scores = np.clip(found.scores, *value_range(target, train)) if settings.clip else found.scores
        return Decided(ProbeFit(scores, found.strength, found.n_not_converged), np.zeros(n_test, dtype=np.int64), None)
    shares = np.bincount(target.values[train], minlength=len(target.classes)) / len(train)
    if target.kind == "multiclass":
        prevalence = np.tile(shares, (n_test, 1)) if settings.threshold == "prevalence" else None
        return Decided(found, decide(target.kind, found.scores, prevalence=prevalence), None)
    truth: npt.NDArray[np.generic] | None = None
    inner: Floats | None = None
    if needs_inner_predictions(settings.threshold):
        rows, inner = inside()
        truth = target.values[rows]
    cut = choose_threshold(settings.threshold, prevalence=float(shares[1]), truth=truth, scores=inner)
    return Decided(found, (found.scores >= cut).astype(np.int64), cut)


def _scores(model: FittedModel, target: Target, test: Rows, estimator: BaseEstimator | None) -> Floats:
    """Return predicted numbers, or probabilities or decision values in the columns of the target's classes."""
    x = test[:, None]
    try:
        if target.kind == "continuous":
            found = np.asarray(model.model.predict(x), dtype=float)
        elif estimator is None or gives_probabilities(estimator):
            found = model.model.predict_proba(x)
        else:
            found = model.model.decision_function(x)
    except Exception as error:
        if estimator is None:
            raise
        raise EstimatorError(f"probe: {describe_own(estimator)[0]} could not predict: {error}") from error
    if not np.isfinite(found).all():
        if estimator is None:
            raise ConfigError(f"sgd.learning_rate: the loss is no number at {model.strength:g}. Give lower rates.")
        n = int((~np.isfinite(found).reshape(len(test), -1)).any(axis=1).sum())
        raise EstimatorError(
            f"probe: {describe_own(estimator)[0]} predicts no finite number for {n} of {len(test)} test rows."
        )
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
    return len(tried) == len(train) and np.array_equal(np.sort(tried), np.sort(train))


def _one_class_only(target: Target, train: Rows) -> bool:
    return target.kind != "continuous" and len(np.unique(target.values[train])) == 1


def _one_class(target: Target, train: Rows, n_test: int) -> Decided:
    code = int(target.values[train][0])
    scores = np.tile(np.eye(len(target.classes))[code], (n_test, 1))
    binary = target.kind == "binary"
    fit = ProbeFit(scores[:, 1] if binary else scores, float("nan"))
    return Decided(fit, np.full(n_test, code, dtype=np.int64), 0.5 if binary else None)
