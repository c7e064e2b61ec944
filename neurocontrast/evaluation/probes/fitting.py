"""Fit a probe on training rows and predict test rows; average predictions by several encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from neurocontrast.evaluation.metrics import decide
from neurocontrast.evaluation.probe_kinds import PROBES, Probe
from neurocontrast.evaluation.probes.designs import Design, one_thread
from neurocontrast.evaluation.probes.estimators import (
    EstimatorError,
    FittedModel,
    describe_own,
    fit_built_in,
    fit_own,
    gives_probabilities,
)
from neurocontrast.evaluation.probes.members import Designs, MemberDesign
from neurocontrast.evaluation.rows import Floats, Rows, Texts
from neurocontrast.evaluation.settings import EvaluationSettings, probe_name
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.splits.inner import Pairs, penalty_folds
from neurocontrast.evaluation.target import Target


@dataclass(frozen=True)
class Prediction:
    """Scores of test rows by a fitted model, and the class decided on for each row.

    `decisions` are codes of classes, 0 for a continuous target. `threshold` is the probability from
    which a row is decided to be positive, None unless the target is binary and has probabilities.
    `strength` is the value of the model's penalty, NaN for a user's estimator.
    """

    scores: Floats
    decisions: npt.NDArray[np.int64]
    threshold: float | None = None
    strength: float = float("nan")
    n_not_converged: int = 0
    chosen: bool = True
    """False where the strength is the middle of the grid, since no inner fold could be made."""
    weight: float | None = None
    """Share of the first of two blocks of features in the total variance, chosen with the strength;
    None without two blocks. The first block may be a network's features, the second principal
    components."""
    members: tuple[Prediction, ...] = ()
    """Predictions by each encoder of a run, of which this is the mean; empty for one encoder."""


@dataclass(frozen=True)
class FitContext:
    """Subjects, sites, settings and seed by which a model is fitted to rows of a table."""

    subjects: Texts
    """Subject of each scan."""
    settings: EvaluationSettings
    seed: int
    sites: Texts | None = None
    """Site of each scan, for inner folds that leave sites out; None: folds at random."""


def fit_probe(
    design: Design,
    target: Target,
    split: Split,
    context: FitContext,
    *,
    estimator: Probe | BaseEstimator | None = None,
    pairs: Pairs | None = None,
) -> tuple[Prediction, FittedModel | None]:
    """Fit a probe to the training rows of a split, and return scores and decisions of test rows.

    Parameters
    ----------
    design, target, split : Design, Target, Split
        Matrices of rows, values to predict, and the rows to fit on and to predict.
    context : FitContext
        Subjects, sites, settings and seed.
    estimator : Probe or estimator, optional
        Built-in probe, or estimator of scikit-learn; of the settings by default.
    pairs : pairs of rows, optional
        Rows to fit and rows to try a penalty on, in place of inner folds.

    Returns
    -------
    Prediction
        Scores and decisions of the test rows.
    FittedModel or None
        The fitted model; None if all training rows are of one class. Nothing is fitted then, and
        the class is predicted for every test row with probability 1.
    """
    settings = context.settings
    train = split.train
    if target.kind != "continuous" and len(np.unique(target.values[train])) == 1:
        return constant_prediction(target, train, len(split.test)), None
    if pairs is None:
        pairs = penalty_folds(
            target,
            train,
            context.subjects,
            settings=settings,
            seed=context.seed,
            sites=context.sites,
            validation=split.validation,
        )
    if estimator is None:
        estimator = PROBES[probe_name(settings, target.kind)]
    with one_thread():
        if isinstance(estimator, Probe):
            own_name = ""
            model = fit_built_in(
                estimator, design, train, split.test, target.values, pairs, settings
            )
        else:
            own_name = describe_own(estimator)[0]
            model = fit_own(
                estimator,
                design,
                train,
                split.test,
                target.values,
                subjects=context.subjects,
                seed=context.seed,
            )
        scores = _scores(model.estimator, target, model.x_test, own=own_name)
        threshold = None
        if target.kind == "continuous" or gives_probabilities(model.estimator):
            decisions, threshold = decide_scores(scores, target, train, settings)
        else:
            decisions = model.estimator.predict(model.x_test).astype(np.int64)
    prediction = Prediction(
        scores,
        decisions,
        threshold,
        model.strength,
        model.n_not_converged,
        model.chosen,
        model.weight,
    )
    return prediction, model


def fit_and_predict(
    design: Designs,
    target: Target,
    split: Split,
    context: FitContext,
    *,
    estimator: Probe | BaseEstimator | None = None,
) -> Prediction:
    """Fit a probe to the training rows of a split; return the prediction of the split's test rows.

    `design` is a function that gives the features of training and test rows. For a run of several
    encoders it holds one such function for each (`MemberDesign`): a probe is fitted to the features
    of each encoder, and the scores are averaged. The fitted probes are not returned.
    """
    if not isinstance(design, MemberDesign):
        return fit_probe(design, target, split, context, estimator=estimator)[0]
    predictions = []
    for of_member in design.designs:
        predictions.append(fit_probe(of_member, target, split, context, estimator=estimator)[0])
    return average_members(predictions, target, split.train, context.settings)


def average_members(
    predictions: Sequence[Prediction], target: Target, train: Rows, settings: EvaluationSettings
) -> Prediction:
    """Average predictions by several encoders (members) of a run, and decide by the mean.

    Probabilities, decision values or numbers are averaged. `Prediction.strength`, the penalty, is
    the median over the encoders. `Prediction.weight`, the share of the first of two blocks of
    features in the total variance, is the mean, and None if an encoder has no such blocks.
    """
    scores = np.mean(list(map(attrgetter("scores"), predictions)), axis=0)
    threshold = None
    if target.kind == "continuous" or target.has_probabilities:
        decisions, threshold = decide_scores(scores, target, train, settings)
    elif target.kind == "binary":
        decisions = (scores > 0).astype(np.int64)
    else:
        decisions = scores.argmax(axis=1).astype(np.int64)
    weight = None
    weights = list(map(attrgetter("weight"), predictions))
    if None not in weights:
        weight = float(np.mean(weights))
    return Prediction(
        scores,
        decisions,
        threshold,
        strength=float(np.median(list(map(attrgetter("strength"), predictions)))),
        n_not_converged=sum(map(attrgetter("n_not_converged"), predictions)),
        chosen=all(map(attrgetter("chosen"), predictions)),
        weight=weight,
        members=tuple(predictions),
    )


def decide_scores(
    scores: Floats, target: Target, train: Rows, settings: EvaluationSettings
) -> tuple[npt.NDArray[np.int64], float | None]:
    """Return the class decided on for each score, and for two classes the threshold.

    Of two classes, a row is decided to be positive if its score, a probability, is at least the
    threshold: 0.5 for the setting ``threshold=half``, the share of the positive class in the
    training rows `train` for ``threshold=prevalence``, or the number that is set. Of more classes,
    the likeliest is chosen, or with ``threshold=prevalence`` the class with the largest ratio of
    probability to share in `train`. For a continuous target all decisions are 0. Except for two
    classes, the threshold is None.
    """
    by_share = settings.threshold == "prevalence" and target.kind != "continuous"
    shares = _shares(target, train) if by_share else None
    if target.kind != "binary":
        return decide(target.kind, scores, shares=shares), None
    rule = 0.5 if settings.threshold == "half" else settings.threshold
    cut = float(rule if shares is None else shares[1])
    return decide("binary", scores, threshold=cut), cut


def _shares(target: Target, train: Rows) -> Floats:
    """Return the share (n classes,) of each class of the target in the training rows."""
    return np.bincount(target.values[train], minlength=len(target.classes)) / len(train)


def _scores(model: Any, target: Target, x: Floats, *, own: str) -> Floats:
    """Return predicted numbers, or probabilities or decision values by classes of the target.

    `model` is a fitted estimator, and `x` has the features of the test rows. `own` is the name of
    the user's estimator, whose exceptions become an `EstimatorError`. For a built-in probe `own` is
    "", and exceptions are raised unchanged: they would be errors in this package.
    """
    try:
        outputs = _outputs(model, target, x)
    except Exception as error:  # an estimator of the user's may raise anything
        if not own:
            raise
        raise EstimatorError(f"probe: {own} could not predict: {error}") from error
    wrong = ~np.isfinite(outputs).reshape(len(x), -1).all(axis=1)
    if wrong.any():
        raise EstimatorError(
            f"probe: {own} predicts no finite number for {wrong.sum()} of {len(x)} test rows."
        )
    if target.kind == "continuous":
        return outputs.reshape(len(x), -1)[:, 0]
    return _by_class(model, target, outputs, own=own)


def _outputs(model: Any, target: Target, x: Floats) -> Floats:
    """Return the estimator's predictions for rows `x`, as the estimator's own method returns them.

    The method is ``predict`` for a continuous target; for classes ``predict_proba``, or without it
    ``decision_function``.
    """
    if target.kind == "continuous":
        return np.asarray(model.predict(x), dtype=float)
    if gives_probabilities(model):
        probabilities: Floats = model.predict_proba(x)
        return probabilities
    values: Floats = model.decision_function(x)
    return values


def _by_class(model: Any, target: Target, outputs: Floats, *, own: str) -> Floats:
    """Return an estimator's `outputs` as scores in the order of the target's classes.

    Of two classes, only the scores (n,) of the positive one are returned. A class that training
    lacked gets probability 0, or the lowest decision value.
    """
    if outputs.ndim == 1:
        if target.kind == "binary":
            return outputs
        return np.column_stack([-outputs, outputs])
    classes = np.asarray(model.classes_, dtype=np.intp)
    if outputs.shape[1] != len(classes):
        raise EstimatorError(
            f"probe: {own} gives {outputs.shape[1]} scores for {len(classes)} classes. One score "
            "a class is needed (decision_function_shape='ovr')."
        )
    lowest = min(0.0, float(outputs.min()))
    scores = np.full((len(outputs), len(target.classes)), lowest)
    scores[:, classes] = outputs
    if target.kind == "binary":
        return scores[:, 1]
    return scores


def constant_prediction(target: Target, train: Rows, n_test: int) -> Prediction:
    """Return a `Prediction` of `n_test` rows: the training rows' median, or their class shares."""
    if target.kind == "continuous":
        median = np.median(target.values[train].astype(float))
        return Prediction(np.full(n_test, median), np.zeros(n_test, dtype=np.int64))
    shares = _shares(target, train)
    decisions = np.full(n_test, shares.argmax(), dtype=np.int64)
    if target.kind == "binary":
        return Prediction(np.full(n_test, shares[1]), decisions, 0.5)
    return Prediction(np.tile(shares, (n_test, 1)), decisions)
