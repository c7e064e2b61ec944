"""Metrics as functions of weighted scans, so that a value and its bootstrap are one computation.

Every function takes weights of shape (n resamples, n scans): how often each scan counts. Weights
of one give the metric itself. The result has shape (n resamples,), NaN where it is not defined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

import numpy as np
import numpy.typing as npt

from neurocontrast.evaluation.recalibration import recalibration_intercept, recalibration_slope

__all__ = [
    "DESCRIPTIVE",
    "LOWER_IS_BETTER",
    "METRICS",
    "OF_PROBABILITIES",
    "ON_REQUEST",
    "POOLED_ONLY",
    "RANKED",
    "TOP",
    "Kind",
    "compute_metrics",
    "decide",
    "explain_undefined",
    "explain_value",
    "finite_or_none",
    "log_losses",
    "metric_names",
    "top_hits",
]

Floats = npt.NDArray[np.float64]
Kind = Literal["binary", "multiclass", "continuous"]
"""Kinds of targets."""

METRICS: dict[Kind, tuple[str, ...]] = {
    "binary": (
        "auc", "balanced_accuracy", "average_precision", "sensitivity", "specificity", "brier", "log_loss",
        "calibration_slope", "calibration_intercept", "auc_within_fold",
    ),
    "multiclass": (
        "balanced_accuracy", "auc", "average_precision", "accuracy", "top5_accuracy", "brier", "log_loss",
        "calibration_slope",
    ),
    "continuous": ("mae", "r2", "rmse", "pearson", "spearman", "age_bias_slope"),
}  # fmt: skip
"""Names in the order in which they are written; which of them a target has says `metric_names`."""

TOP = 5
"""The true class counts as found by ``top5_accuracy`` where it is among so many likeliest; of more classes only."""

LOWER_IS_BETTER = frozenset({"brier", "log_loss", "mae", "rmse"})
"""Losses and errors."""

DESCRIPTIVE = frozenset({"calibration_slope", "calibration_intercept", "age_bias_slope"})
"""Metrics of which neither more nor less is better: no test asks whether a permutation does as well."""

OF_PROBABILITIES = frozenset({"brier", "log_loss", "calibration_slope", "calibration_intercept"})
"""Metrics that decision values do not have."""

RANKED = ("auc", "average_precision", "calibration_slope")
"""Metrics that sort, or fit, all scans anew for each class and resample."""

POOLED_ONLY = ("auc_within_fold",)
"""Metrics that a single fold or site does not have in a form of their own."""

ON_REQUEST: dict[Kind, tuple[str, ...]] = {"binary": (), "multiclass": (), "continuous": ("bias",)}
"""Metrics that are computed only where they are named: the mean error says how far a new site is off as a whole."""

_LOG_FLOOR = float(np.finfo(float).eps)


def compute_metrics(
    kind: Kind,
    truth: npt.NDArray[np.generic],
    scores: Floats,
    *,
    decisions: npt.NDArray[np.int64] | None = None,
    folds: npt.NDArray[np.intp] | None = None,
    weights: Floats | None = None,
    names: Collection[str] | None = None,
) -> dict[str, Floats]:
    """Return every metric of a kind of target, or those that are named.

    Parameters
    ----------
    kind : {"binary", "multiclass", "continuous"}
        What is predicted.
    truth : array (n,)
        Class codes (binary: 1 is positive), or numbers.
    scores : array (n,) or (n, n classes)
        Probability of the positive class, of every class, or the predicted value.
    decisions : array (n,), optional
        Predicted class codes; by default of the threshold 0.5, or of the likeliest class.
    folds : array (n,), optional
        Fold of each scan, for ``auc_within_fold``; without it, all are one.
    weights : array (n resamples, n), optional
        How often each scan counts; once, by default.
    names : collection of str, optional
        Of `METRICS` and `ON_REQUEST`; what is not named is not computed.
    """
    n_classes = scores.shape[1] if kind == "multiclass" else 0
    wanted = [name for name in metric_names(kind, n_classes) if names is None or name in names]
    wanted += [name for name in ON_REQUEST[kind] if names is not None and name in names]
    counted = np.ones((1, len(truth))) if weights is None else np.asarray(weights, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        if kind == "continuous":
            return _continuous(truth.astype(float), scores, counted, wanted)
        chosen = decide(kind, scores) if decisions is None else decisions
        if kind == "binary":
            return _binary(truth.astype(float), scores, chosen, folds, counted, wanted)
        return _multiclass(truth, scores, chosen, counted, wanted)


def metric_names(kind: Kind, n_classes: int) -> tuple[str, ...]:
    """Return the names of the metrics of a target, in the order in which they are written."""
    return tuple(name for name in METRICS[kind] if name != "top5_accuracy" or n_classes > TOP)


def top_hits(truth: npt.NDArray[np.generic], scores: Floats) -> Floats:
    """Return 1 for each row whose true class is among the `TOP` likeliest, and shares of it where scores tie.

    Classes that tie with the last place share what places are left: a model that says the same of all of k classes
    gets 5 / k, not 1.

    Examples
    --------
    >>> top_hits(np.array([0, 6]), np.array([[0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], [1 / 7] * 7])).round(2).tolist()
    [1.0, 0.71]
    """
    own = np.take_along_axis(scores, truth.astype(np.intp)[:, None], axis=1)
    above, tied = (scores > own).sum(axis=1), (scores == own).sum(axis=1)
    return np.clip((TOP - above) / tied, 0.0, 1.0)


def decide(kind: Kind, scores: Floats, *, shares: Floats | None = None) -> npt.NDArray[np.int64]:
    """Return predicted class codes: of two classes from 0.5 on, of several the likeliest.

    With `shares` (n classes,) of the classes in training, the probability of each of several is divided by its share
    first, and a scan of two is positive from the share of positives on.
    """
    if kind == "binary":
        return (scores >= (0.5 if shares is None else shares[1])).astype(np.int64)
    if shares is None:
        return scores.argmax(axis=1).astype(np.int64)
    ratios = np.divide(scores, shares, out=np.zeros_like(scores), where=shares > 0)
    return ratios.argmax(axis=1).astype(np.int64)


def log_losses(truth: npt.NDArray[np.integer], probabilities: Floats) -> Floats:
    """Return the mean log-loss of class codes (n, b) by probabilities (n, b, classes), for each column."""
    likely = np.take_along_axis(probabilities, truth[:, :, None].astype(np.intp), axis=2)[:, :, 0]
    return -np.log(np.clip(likely, _LOG_FLOOR, 1.0)).mean(axis=0)


def explain_undefined(kind: Kind, truth: npt.NDArray[np.generic], classes: tuple[str, ...]) -> str | None:
    """Return why metrics of these scans are not defined, or None where all of them can be."""
    if kind == "continuous":
        if len(truth) < 2:
            return "one scan: R², correlations and slopes need two"
        constant = np.ptp(truth.astype(float)) == 0
        return "target does not vary: R², correlations and slopes are not defined" if constant else None
    present = np.unique(truth).astype(int)
    if len(present) < 2:
        name = classes[present[0]] if len(present) else "no scan"
        return f"single class ({name}): AUC, balanced accuracy, average precision and calibration are not defined"
    return None


def explain_value(name: str, reason: str | None) -> str:
    """Return why one metric is not defined, given what `explain_undefined` found of the scans."""
    if reason is not None:
        return reason
    if name == "calibration_slope":
        return "the predictions separate the classes, or do not vary: no finite slope fits them"
    return "the predictions do not vary"


def finite_or_none(value: float) -> float | None:
    """Return a number as JSON and tables hold it: None where it is not defined."""
    return float(value) if np.isfinite(value) else None


def _binary(
    truth: Floats,
    scores: Floats,
    decisions: npt.NDArray[np.int64],
    folds: npt.NDArray[np.intp] | None,
    weights: Floats,
    names: list[str],
) -> dict[str, Floats]:
    hits = (decisions == truth).astype(float)
    sensitivity = (weights @ (hits * truth)) / (weights @ truth)
    specificity = (weights @ (hits * (1 - truth))) / (weights @ (1 - truth))
    total = weights.sum(axis=1)
    ways: dict[str, Callable[[], Floats]] = {
        "auc": lambda: _auc(truth, scores, weights),
        "balanced_accuracy": lambda: (sensitivity + specificity) / 2,
        "average_precision": lambda: _average_precision(truth, scores, weights),
        "sensitivity": lambda: sensitivity,
        "specificity": lambda: specificity,
        "brier": lambda: weights @ (scores - truth) ** 2 / total,
        "log_loss": lambda: weights @ -_log(np.where(truth == 1, scores, 1 - scores)) / total,
        "calibration_slope": lambda: recalibration_slope(truth, scores, weights),
        "calibration_intercept": lambda: recalibration_intercept(truth, scores, weights),
        "auc_within_fold": lambda: _auc(truth, scores, weights, folds),
    }
    return {name: ways[name]() for name in names}


def _multiclass(
    truth: npt.NDArray[np.generic], scores: Floats, decisions: npt.NDArray[np.int64], weights: Floats, names: list[str]
) -> dict[str, Floats]:
    one_hot = np.eye(scores.shape[1])[truth.astype(int)]
    hits = (decisions == truth).astype(float)
    total = weights.sum(axis=1)
    recalls = (weights @ (hits[:, None] * one_hot)) / (weights @ one_hot)

    def over_classes(metric: Callable[[Floats, Floats, Floats], Floats]) -> Floats:
        return _mean_of_present([metric(member, scores[:, code], weights) for code, member in enumerate(one_hot.T)])

    two_or_more = np.isfinite(recalls).sum(axis=1) >= 2
    ways: dict[str, Callable[[], Floats]] = {
        "balanced_accuracy": lambda: _mean_of_present(list(recalls.T)),
        "auc": lambda: over_classes(_auc),
        "average_precision": lambda: over_classes(_average_precision),
        "accuracy": lambda: weights @ hits / total,
        "top5_accuracy": lambda: weights @ top_hits(truth, scores) / total,
        "brier": lambda: weights @ ((scores - one_hot) ** 2).sum(axis=1) / total,
        "log_loss": lambda: weights @ -_log((scores * one_hot).sum(axis=1)) / total,
        "calibration_slope": lambda: over_classes(recalibration_slope),
    }
    averaged = ("balanced_accuracy", "auc", "average_precision", "calibration_slope")
    return {name: np.where(two_or_more, ways[name](), np.nan) if name in averaged else ways[name]() for name in names}


def _continuous(truth: Floats, scores: Floats, weights: Floats, names: list[str]) -> dict[str, Floats]:
    total = weights.sum(axis=1)
    squared = weights @ (truth - scores) ** 2
    ways: dict[str, Callable[[], Floats]] = {
        "mae": lambda: weights @ np.abs(truth - scores) / total,
        "r2": lambda: 1 - squared / _deviations(truth[None], weights)[1],
        "rmse": lambda: np.sqrt(squared / total),
        "pearson": lambda: _correlation(truth[None], scores[None], weights),
        "spearman": lambda: _correlation(_ranks(truth, weights), _ranks(scores, weights), weights),
        "age_bias_slope": lambda: _error_slope(truth[None], scores[None], weights),
        "bias": lambda: weights @ (scores - truth) / total,
    }
    values = {name: ways[name]() for name in names}
    return {name: np.where(np.isfinite(found), found, np.nan) for name, found in values.items()}


def _auc(truth: Floats, scores: Floats, weights: Floats, folds: npt.NDArray[np.intp] | None = None) -> Floats:
    """Return the share of pairs ranked rightly; with `folds`, of pairs of the same fold."""
    groups = [np.arange(len(truth))] if folds is None else _groups(folds)
    parts = [_concordance(truth[rows], scores[rows], weights[:, rows]) for rows in groups]
    concordant, pairs = (np.sum([part[side] for part in parts], axis=0) for side in (0, 1))
    return concordant / pairs


def _concordance(truth: Floats, scores: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the weight of pairs ranked rightly, ties counting half, and of all pairs."""
    order, starts = _ties(scores)
    if len(starts) == 1:  # all equal, as those of a baseline without columns: nothing to sort in every resample
        pairs = (weights @ truth) * (weights @ (1 - truth))
        return pairs / 2, pairs
    ordered = weights[:, order]
    positive = np.add.reduceat(ordered * truth[order], starts, axis=1)
    negative = np.add.reduceat(ordered * (1 - truth[order]), starts, axis=1)
    below = np.cumsum(negative, axis=1) - negative
    return (positive * (below + negative / 2)).sum(axis=1), positive.sum(axis=1) * negative.sum(axis=1)


def _average_precision(truth: Floats, scores: Floats, weights: Floats) -> Floats:
    order, starts = _ties(-scores)
    if len(starts) == 1:
        found, called = weights @ truth, weights.sum(axis=1)
        return np.where((called > found) & (found > 0), found / called, np.nan)
    ordered = weights[:, order]
    positive = np.add.reduceat(ordered * truth[order], starts, axis=1)
    found = np.cumsum(positive, axis=1)
    called = np.cumsum(np.add.reduceat(ordered, starts, axis=1), axis=1)
    precision = np.divide(found, called, out=np.zeros_like(found), where=called > 0)
    value = (positive * precision).sum(axis=1) / found[:, -1]
    return np.where(called[:, -1] > found[:, -1], value, np.nan)  # positives only: 1 by construction, tells nothing


def _ranks(values: Floats, weights: Floats) -> Floats:
    order, starts = _ties(values)
    sizes = np.add.reduceat(weights[:, order], starts, axis=1)
    middle = np.cumsum(sizes, axis=1) - (sizes - 1) / 2
    group = np.zeros(len(values), dtype=np.intp)
    group[starts[1:]] = 1
    ranks = np.empty_like(weights)
    ranks[:, order] = middle[:, np.cumsum(group)]
    return ranks


def _correlation(a: Floats, b: Floats, weights: Floats) -> Floats:
    deviations_a, variance_a = _deviations(a, weights)
    deviations_b, variance_b = _deviations(b, weights)
    return (weights * deviations_a * deviations_b).sum(axis=1) / np.sqrt(variance_a * variance_b)


def _error_slope(truth: Floats, scores: Floats, weights: Floats) -> Floats:
    """Return the slope of (predicted − true) on true, by least squares."""
    deviations, squares = _deviations(truth, weights)
    return (weights * deviations * (scores - truth)).sum(axis=1) / squares


def _deviations(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return deviations from the weighted mean, and the sum of their squares: NaN where they are rounding only."""
    deviations = values - (weights * values).sum(axis=1, keepdims=True) / weights.sum(axis=1, keepdims=True)
    squares = (weights * deviations**2).sum(axis=1)
    rounding = 1e-24 * (weights * values**2).sum(axis=1)
    return deviations, np.where(squares > rounding, squares, np.nan)


def _ties(values: Floats) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    return order, np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))


def _groups(folds: npt.NDArray[np.intp]) -> list[npt.NDArray[np.intp]]:
    return [np.flatnonzero(folds == fold) for fold in np.unique(folds)]


def _mean_of_present(values: list[Floats]) -> Floats:
    stacked = np.array(values)
    present = np.isfinite(stacked)
    n_present = present.sum(axis=0)
    means = np.where(present, stacked, 0).sum(axis=0) / np.maximum(n_present, 1)
    return np.where(n_present > 0, means, np.nan)


def _log(probabilities: Floats) -> Floats:
    return np.log(np.clip(probabilities, _LOG_FLOOR, 1.0))
