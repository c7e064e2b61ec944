"""Metrics as functions of weighted scans, so that a value and its bootstrap are one computation.

Every function takes weights of shape (n resamples, n scans): how often each scan counts. Weights of one give the
metric itself, as scikit-learn computes it. The result has shape (n resamples,), NaN where it is not defined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from neurocontrast.evaluation.recalibration import recalibration_intercept, recalibration_slope

__all__ = ["DESCRIPTIVE", "LOWER_IS_BETTER", "METRICS", "OF_PROBABILITIES", "ON_REQUEST", "POOLED_ONLY", "RANKED",
           "TABLE", "TOP", "Kind", "Metric", "compute_metrics", "decide", "explain_undefined", "explain_value",
           "finite_or_none", "log_losses", "metric_names", "top_hits"]  # fmt: skip

Floats = npt.NDArray[np.float64]
Kind = Literal["binary", "multiclass", "continuous"]

TOP = 5
"""``top5_accuracy`` counts the true class as found among so many likeliest; it is for more classes only."""
_LOG_FLOOR = float(np.finfo(float).eps)


@dataclass
class Scored:
    """Scans with their truth, scores, decisions, folds, and weights (n resamples, n)."""

    truth: npt.NDArray[np.generic]
    scores: Floats
    decisions: npt.NDArray[np.int64]
    folds: npt.NDArray[np.intp] | None
    weights: Floats

    def mean(self, values: Floats) -> Floats:
        """Return the weighted mean of values (n,)."""
        return self.weights @ values / self.weights.sum(axis=1)

    def share(self, of: Floats) -> Floats:
        """Return the weighted share of right decisions among the scans that are marked by ones, in each column."""
        hits = (self.decisions == self.truth).astype(float)
        return (self.weights @ (hits[:, None] * of if of.ndim == 2 else hits * of)) / (self.weights @ of)

    @cached_property
    def y(self) -> Floats:
        """Truth as floats."""
        return self.truth.astype(float)

    @cached_property
    def members(self) -> Floats:
        """Ones where a scan is of a class (n, n classes)."""
        return np.eye(self.scores.shape[1])[self.truth.astype(int)]

    @cached_property
    def recalls(self) -> Floats:
        """Recall of each class (n resamples, n classes)."""
        return self.share(self.members)

    def over_classes(self, metric: Callable[[Floats, Floats, Floats], Floats]) -> Floats:
        """Return the mean over the classes that are present, each against the rest; NaN where one is."""
        found = [metric(member, self.scores[:, code], self.weights) for code, member in enumerate(self.members.T)]
        return self.of_several(_mean_of_present(found))

    def of_several(self, values: Floats) -> Floats:
        """Return values, NaN where fewer than two classes are present."""
        return np.where(np.isfinite(self.recalls).sum(axis=1) >= 2, values, np.nan)


@dataclass(frozen=True)
class Metric:
    """A metric of one kind of target.

    Parameters
    ----------
    name, title : str
        Name in files, and in a sentence.
    function : callable
        Takes `Scored` and returns an array (n resamples,).
    better : {1, -1, 0}
        Whether more is better, less, or neither: no test asks whether a permutation does as well.
    needs : {"scores", "decisions", "probabilities"}
        What is computed from; decision values are no probabilities.
    ranks : bool
        Whether all scans are sorted, or fitted, anew for each class and resample.
    pooled_only : bool
        Whether a single fold or site does not have the metric in a form of its own.
    on_request : bool
        Whether the metric is computed only where it is named.
    """

    name: str
    title: str
    function: Callable[[Scored], Floats]
    better: int = 1
    needs: str = "scores"
    ranks: bool = False
    pooled_only: bool = False
    on_request: bool = False


def _binary_log_loss(on: Scored) -> Floats:
    return on.mean(-_log(np.where(on.truth == 1, on.scores, 1 - on.scores)))


TABLE: dict[Kind, tuple[Metric, ...]] = {
    "binary": (
        Metric("auc", "AUC", lambda on: _auc(on.y, on.scores, on.weights), ranks=True),
        Metric("balanced_accuracy", "balanced accuracy", lambda on: (on.share(on.y) + on.share(1 - on.y)) / 2,
               needs="decisions"),
        Metric("average_precision", "average precision", lambda on: _average_precision(on.y, on.scores, on.weights),
               ranks=True),
        Metric("sensitivity", "sensitivity", lambda on: on.share(on.y), needs="decisions"),
        Metric("specificity", "specificity", lambda on: on.share(1 - on.y), needs="decisions"),
        Metric("brier", "Brier score", lambda on: on.mean((on.scores - on.y) ** 2), -1, "probabilities"),
        Metric("log_loss", "log-loss", _binary_log_loss, -1, "probabilities"),
        Metric("calibration_slope", "calibration slope", lambda on: recalibration_slope(on.y, on.scores, on.weights), 0,
               "probabilities", ranks=True),
        Metric("calibration_intercept", "calibration intercept",
               lambda on: recalibration_intercept(on.y, on.scores, on.weights), 0, "probabilities"),
        Metric("auc_within_fold", "AUC within folds", lambda on: _auc(on.y, on.scores, on.weights, on.folds),
               pooled_only=True),
    ),
    "multiclass": (
        Metric("balanced_accuracy", "balanced accuracy", lambda on: on.of_several(_mean_of_present(list(on.recalls.T))),
               needs="decisions"),
        Metric("auc", "AUC", lambda on: on.over_classes(_auc), ranks=True),
        Metric("average_precision", "average precision", lambda on: on.over_classes(_average_precision), ranks=True),
        Metric("accuracy", "accuracy", lambda on: on.mean((on.decisions == on.truth).astype(float)), needs="decisions"),
        Metric("top5_accuracy", "top-5 accuracy", lambda on: on.mean(top_hits(on.truth, on.scores))),
        Metric("brier", "Brier score", lambda on: on.mean(((on.scores - on.members) ** 2).sum(axis=1)), -1,
               "probabilities"),
        Metric("log_loss", "log-loss", lambda on: on.mean(-_log((on.scores * on.members).sum(axis=1))), -1,
               "probabilities"),
        Metric("calibration_slope", "calibration slope", lambda on: on.over_classes(recalibration_slope), 0,
               "probabilities", ranks=True),
    ),
    "continuous": (
        Metric("mae", "mean absolute error", lambda on: on.mean(np.abs(on.y - on.scores)), -1),
        Metric("r2", "R²",
               lambda on: 1 - on.weights @ (on.y - on.scores) ** 2 / _deviations(on.y[None], on.weights)[1]),
        Metric("rmse", "root mean squared error", lambda on: np.sqrt(on.mean((on.y - on.scores) ** 2)), -1),
        Metric("pearson", "Pearson's r", lambda on: _correlation(on.y[None], on.scores[None], on.weights)),
        Metric("spearman", "Spearman's ρ",
               lambda on: _correlation(_ranks(on.y, on.weights), _ranks(on.scores, on.weights), on.weights)),
        Metric("age_bias_slope", "slope of the error on the truth",
               lambda on: _error_slope(on.y[None], on.scores[None], on.weights), 0),
        Metric("bias", "mean error", lambda on: on.mean(on.scores - on.y), 0, on_request=True),
    ),
}  # fmt: skip
"""All metrics, in the order in which they are written."""

_ALL = [metric for metrics in TABLE.values() for metric in metrics]
METRICS: dict[Kind, tuple[str, ...]] = {
    kind: tuple(metric.name for metric in metrics if not metric.on_request) for kind, metrics in TABLE.items()
}
ON_REQUEST: dict[Kind, tuple[str, ...]] = {
    kind: tuple(metric.name for metric in metrics if metric.on_request) for kind, metrics in TABLE.items()
}
LOWER_IS_BETTER = frozenset(metric.name for metric in _ALL if metric.better < 0)
DESCRIPTIVE = frozenset(metric.name for metric in _ALL if metric.better == 0 and not metric.on_request)
OF_PROBABILITIES = frozenset(metric.name for metric in _ALL if metric.needs == "probabilities")
RANKED = tuple(dict.fromkeys(metric.name for metric in _ALL if metric.ranks))
POOLED_ONLY = tuple(metric.name for metric in _ALL if metric.pooled_only)


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

    Truth is class codes or numbers, scores are probabilities of the positive class or of each class, or predicted
    numbers. Decisions are by default those of the threshold 0.5, or of the likeliest class.
    """
    usual = metric_names(kind, scores.shape[1] if kind == "multiclass" else 0)
    wanted = [each for each in TABLE[kind] if each.name in (usual if names is None else names)
              and each.name in (*usual, *ON_REQUEST[kind])]  # fmt: skip
    counted = np.ones((1, len(truth))) if weights is None else np.asarray(weights, dtype=float)
    if decisions is None:
        decisions = np.zeros(len(truth), dtype=np.int64) if kind == "continuous" else decide(kind, scores)
    with np.errstate(invalid="ignore", divide="ignore"):
        on = Scored(truth, scores, decisions, folds, counted)
        values = {metric.name: metric.function(on) for metric in wanted}
    if kind != "continuous":
        return values
    return {name: np.where(np.isfinite(found), found, np.nan) for name, found in values.items()}


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
