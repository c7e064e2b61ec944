"""Probes fitted on folds: what they say of each scan that they have not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from neurocontrast.evaluation.designs import Design, one_thread
from neurocontrast.evaluation.estimators import (
    EstimatorError,
    FittedModel,
    describe_own,
    fit_built_in,
    fit_own,
    gives_probabilities,
)
from neurocontrast.evaluation.metrics import decide
from neurocontrast.evaluation.probes import PROBES, Probe
from neurocontrast.evaluation.rows import Floats, Rows, Texts
from neurocontrast.evaluation.settings import EvaluationSettings, probe_name
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.splits.inner import Pairs, penalty_folds
from neurocontrast.evaluation.target import Target


@dataclass(frozen=True)
class Prediction:
    """The scores and decisions of a probe on its test rows, and what was chosen; the fields are those of `OutOfFold`.

    The threshold is None unless the target is binary and has probabilities; the strength is NaN for a user's estimator.
    """

    scores: Floats
    decisions: npt.NDArray[np.int64]
    threshold: float | None = None
    strength: float = float("nan")
    n_not_converged: int = 0


@dataclass(frozen=True)
class OutOfFold:
    """Scores, decisions and folds of each scan (n_repeats, n): NaN, 0 and -1 where it was never tested."""

    scores: Floats
    decisions: npt.NDArray[np.int64]
    folds: Rows
    strengths: list[float]
    n_not_converged: int
    thresholds: list[float | None] = field(default_factory=list)

    @property
    def tested(self) -> Rows:
        """Rows that were tested at least once."""
        return np.flatnonzero((self.folds >= 0).any(axis=0))


def fit_probe(
    design: Design,
    target: Target,
    train: Rows,
    test: Rows,
    *,
    subjects: Texts,
    settings: EvaluationSettings,
    seed: int,
    sites: Texts | None = None,
    validation: Rows | None = None,
    estimator: Probe | BaseEstimator | None = None,
    pairs: Pairs | None = None,
) -> tuple[Prediction, FittedModel | None]:
    """Fit a probe on the training rows, and decide about the test rows; one class in training has no model."""
    if target.kind != "continuous" and len(np.unique(target.values[train])) == 1:
        return constant_prediction(target, train, len(test)), None
    if pairs is None:
        pairs = penalty_folds(target, train, subjects, settings=settings, seed=seed, sites=sites, validation=validation)
    estimator = PROBES[probe_name(settings, target.kind)] if estimator is None else estimator
    continuous = target.kind == "continuous"
    with one_thread():
        own = "" if isinstance(estimator, Probe) else describe_own(estimator)[0]
        if isinstance(estimator, Probe):
            model = fit_built_in(estimator, design, train, test, target.values, pairs, settings, continuous=continuous)
        else:
            model = fit_own(estimator, design, train, test, target.values, subjects=subjects, seed=seed)
        scores = _scores(model.estimator, target, model.x_test, own=own)
        if not continuous and not gives_probabilities(model.estimator):
            decisions, threshold = model.estimator.predict(model.x_test).astype(np.int64), None
        else:
            scores, decisions, threshold = decide_scores(scores, target, train, settings)
    found = Prediction(scores, decisions, threshold, model.strength, model.n_not_converged)
    return found, model


def decide_scores(
    scores: Floats, target: Target, train: Rows, settings: EvaluationSettings
) -> tuple[Floats, npt.NDArray[np.int64], float | None]:
    """Return scores, decisions, and of two classes the probability from which a scan is called positive."""
    if target.kind == "continuous":
        return scores, np.zeros(len(scores), dtype=np.int64), None
    shares = np.bincount(target.values[train], minlength=len(target.classes)) / len(train)
    by_share = settings.threshold == "prevalence"
    if target.kind == "multiclass":
        return scores, decide(target.kind, scores, shares=shares if by_share else None), None
    cut = float(shares[1]) if by_share else 0.5 if settings.threshold == "half" else float(settings.threshold)
    return scores, (scores >= cut).astype(np.int64), cut


def _scores(model: Any, target: Target, x: Floats, *, own: str) -> Floats:
    """Return predicted numbers, or probabilities or decision values in the columns of the target's classes."""
    try:
        if target.kind == "continuous":
            found = np.asarray(model.predict(x), dtype=float)
        elif gives_probabilities(model):
            found = model.predict_proba(x)
        else:
            found = model.decision_function(x)
    except Exception as error:  # an estimator of the user's may raise anything; a probe of ours must not
        if not own:
            raise
        raise EstimatorError(f"probe: {own} could not predict: {error}") from error
    wrong = ~np.isfinite(found).reshape(len(x), -1).all(axis=1)
    if wrong.any():
        raise EstimatorError(f"probe: {own} predicts no finite number for {wrong.sum()} of {len(x)} test rows.")
    if target.kind == "continuous":
        return found.reshape(len(x), -1)[:, 0]
    if found.ndim == 1:
        return found if target.kind == "binary" else np.column_stack([-found, found])
    scores = np.full((len(x), len(target.classes)), 0.0 if found.min() >= 0 else float(found.min()))
    classes = np.asarray(model.classes_, dtype=np.intp)
    if found.shape[1] != len(classes):
        raise EstimatorError(
            f"probe: {own} gives {found.shape[1]} scores for {len(classes)} classes. One score a class is needed "
            "(decision_function_shape='ovr')."
        )
    scores[:, classes] = found
    return scores[:, 1] if target.kind == "binary" else scores


def constant_prediction(target: Target, train: Rows, n_test: int) -> Prediction:
    """Return the median, or the shares of the classes, of the training rows for every test row."""
    values = target.values[train]
    if target.kind == "continuous":
        return Prediction(np.full(n_test, np.median(values.astype(float))), np.zeros(n_test, dtype=np.int64))
    shares = np.bincount(values.astype(int), minlength=len(target.classes)) / len(values)
    decisions = np.full(n_test, shares.argmax(), dtype=np.int64)
    if target.kind == "binary":
        return Prediction(np.full(n_test, shares[1]), decisions, 0.5)
    return Prediction(np.tile(shares, (n_test, 1)), decisions)


def gather(target: Target, splits: Sequence[Split], predictions: Sequence[Prediction]) -> OutOfFold:
    """Return the predictions of all splits as arrays over the scans of the target."""
    n, n_repeats = len(target.values), 1 + max(split.repeat for split in splits)
    shape = (n_repeats, n, len(target.classes)) if target.kind == "multiclass" else (n_repeats, n)
    scores, decisions = np.full(shape, np.nan), np.zeros((n_repeats, n), dtype=np.int64)
    folds = np.full((n_repeats, n), -1, dtype=np.intp)
    for split, each in zip(splits, predictions, strict=True):
        place = (split.repeat, split.test)
        scores[place], decisions[place], folds[place] = each.scores, each.decisions, split.fold
    failed = sum(each.n_not_converged for each in predictions)
    thresholds = [each.threshold for each in predictions]
    return OutOfFold(scores, decisions, folds, [each.strength for each in predictions], failed, thresholds)
