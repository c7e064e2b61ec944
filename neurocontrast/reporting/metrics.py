"""What each metric is called, which way is better, and how its values are written."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from neurocontrast.reporting.words import IMAGES, SCANS, Words

DASH = "–"
"""How an absent value is shown; a reason stands beside it."""


SHARES = frozenset({"accuracy", "top5_accuracy", "balanced_accuracy", "sensitivity", "specificity"})
"""Metrics that are written in per cent for images, as the field does."""


@dataclass(frozen=True)
class Metric:
    """One metric as a reader meets it; `chance`, `limits` and `ideal` are None where they depend or do not exist.

    `ideal` is the best value of a metric of which neither more nor less is better.
    """

    key: str
    label: str
    short: str
    meaning: str
    higher_is_better: bool = True
    chance: float | None = None
    limits: tuple[float | None, float | None] = (None, None)
    ideal: float | None = None

    @property
    def name(self) -> str:
        """Name for running text: the short one where it is an established one, not a clipped word."""
        return self.label[:1].lower() + self.label[1:] if "." in self.short else self.short


_RATIO = (0.0, 1.0)
_ERROR: Any = {"higher_is_better": False, "limits": (0.0, None)}
_KNOWN = (
    Metric("auc", "Area under the ROC curve", "AUC", "Over pairs of {items} of different classes, how often the right "
           "one gets the higher score; 0.5 is chance, 1 is perfect. With several classes, the mean over classes.",
           chance=0.5, limits=_RATIO),
    Metric("balanced_accuracy", "Balanced accuracy", "Bal. acc.",
           "Share of {items} classified rightly, each class counting the same whatever its size.", limits=_RATIO),
    Metric("average_precision", "Average precision", "Avg. prec.",
           "Area under the precision–recall curve; chance is the share of the class.", limits=_RATIO),
    Metric("accuracy", "Accuracy", "Accuracy", "Share of {items} classified rightly.", limits=_RATIO),
    Metric("top5_accuracy", "Top-5 accuracy", "Top-5 acc.", "Share of {items} whose true class is among the five that "
           "were given the highest probability.", limits=_RATIO),
    Metric("brier", "Brier score", "Brier",
           "Mean squared distance between predicted probability and outcome; 0 is perfect.", False, limits=_RATIO),
    Metric("log_loss", "Log-loss", "Log-loss", "Mean surprise of the predicted probabilities; 0 is perfect.", **_ERROR),
    Metric("sensitivity", "Sensitivity", "Sens.",
           "Share of the positive class that is found, at the threshold used.", limits=_RATIO),
    Metric("specificity", "Specificity", "Spec.",
           "Share of the other class that is left alone, at the threshold used.", limits=_RATIO),
    Metric("mae", "Mean absolute error", "MAE", "How far predictions lie from the truth on average, in the unit of the "
           "target; 0 is perfect.", **_ERROR),
    Metric("r2", "Variance explained (R²)", "R²", "Share of the target's variance that the prediction explains; 0 is "
           "no better than the mean, 1 is perfect.", chance=0.0, limits=(None, 1.0)),
    Metric("pearson", "Pearson correlation", "Pearson r", "Linear correlation of predicted and true values.",
           chance=0.0, limits=(-1.0, 1.0)),
    Metric("spearman", "Spearman correlation", "Spearman ρ", "Correlation of the ranks of predicted and true values.",
           chance=0.0, limits=(-1.0, 1.0)),
    Metric("auc_within_fold", "AUC within folds", "AUC in folds", "Like the AUC, over pairs of the same test fold "
           "only, so that models of different folds are not compared.", chance=0.5, limits=_RATIO),
    Metric("rmse", "Root mean squared error", "RMSE",
           "Like the mean absolute error, large errors counting more.", **_ERROR),
    Metric("calibration_slope", "Calibration slope", "Cal. slope", "Slope of the outcome on the logit of the predicted "
           "probability; 1 is perfect, below 1 probabilities are too extreme.", ideal=1.0),
    Metric("calibration_intercept", "Calibration intercept", "Cal. intercept", "What must be added to the logit so "
           "that predicted and observed share agree; 0 is perfect, below 0 the share is predicted too high.",
           ideal=0.0),
    Metric("bias", "Mean error (predicted − true)", "Bias",
           "How far predictions lie above (+) or below (−) the truth on average; 0 is none.", ideal=0.0),
    Metric("age_bias_slope", "Slope of the error on the true value", "Bias slope", "How the error (predicted − true) "
           "changes with the truth; 0 is none, −1 a prediction that is always the mean.", ideal=0.0),
)  # fmt: skip
_BY_KEY = {metric.key: metric for metric in _KNOWN}
_LEADING = {
    "binary": ("auc", "balanced_accuracy", "average_precision"),
    "multiclass": ("balanced_accuracy", "auc", "accuracy"),
    "continuous": ("mae", "r2"),
}
_LEADING_OF_IMAGES = {
    **_LEADING,
    "binary": ("accuracy", "auc", "average_precision"),
    "multiclass": ("accuracy", "top5_accuracy", "balanced_accuracy"),
}


def describe_metric(key: str, words: Words = SCANS) -> Metric:
    """Return the description of a metric; one that is not known keeps its own name."""
    name = key.replace("_", " ")
    found = _BY_KEY.get(key) or Metric(key, name, name, "")
    if words is IMAGES and key == "accuracy":
        found = replace(found, label="Top-1 accuracy", short="Top-1 acc.")
    return replace(found, meaning=found.meaning.replace("{items}", words.items))


def leading_metrics(kind: str, available: Iterable[str], words: Words = SCANS) -> list[str]:
    """Return the metrics that go into every table, the most important first."""
    names = list(available)
    leading = _LEADING_OF_IMAGES if words is IMAGES else _LEADING
    return [key for key in leading.get(kind, ()) if key in names] or names[:3]


def choose_headline(kind: str, available: Iterable[str], words: Words = SCANS) -> str | None:
    """Return the metric that the report leads with, or None where there is none at all."""
    return next(iter(leading_metrics(kind, available, words)), None)


def chance_level(key: str, n_classes: int, words: Words = SCANS) -> float | None:
    """Return the value of a metric without any information; None where it depends on the cohort.

    Of images it is that of naming classes at random, which does not depend on how many there are of each.
    """
    if n_classes and (key == "balanced_accuracy" or (key == "accuracy" and words is IMAGES)):
        return 1 / n_classes
    if key == "top5_accuracy" and n_classes:
        return min(5 / n_classes, 1.0)
    return describe_metric(key).chance


def point_estimate(values: Any) -> float | None:
    """Return the pooled out-of-fold value of a metric, else its mean over folds; None without the metric or a value."""
    for value in (getattr(values, "pooled", None), getattr(values, "mean", None)):
        if value is not None and math.isfinite(value):
            return float(value)
    return None


def number_text(value: Any, *, digits: int = 3, signed: bool = False) -> str:
    """Write a number for a table; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return DASH
    if abs(value) >= 10:
        digits = min(digits, 1 if abs(value) >= 100 else 2)
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    if float(text) == 0.0:  # no "-0.00"
        text = f"{0:.{digits}f}"
    return text.replace("-", "−")


def interval_text(interval: Any, *, digits: int = 3, signed: bool = False) -> str:
    """Write an interval as "0.70 to 0.85"; a dash where there is none.

    One of no width says only that the resamples were all alike, as happens with a handful of scans.
    """
    if not interval or any(end is None or not math.isfinite(end) for end in interval) or interval[0] == interval[1]:
        return DASH
    low, high = (number_text(float(end), digits=digits, signed=signed) for end in interval)
    return f"{low} to {high}"


def metric_text(key: str, value: float | None, *, digits: int = 1) -> str:
    """Write a value of a metric: accuracies in per cent, others as they are."""
    if key in SHARES and value is not None:
        return f"{number_text(value * 100, digits=digits)}%"
    return number_text(value)


def metric_range(key: str, interval: Any) -> str:
    """Write an interval of a metric: "90.8 to 92.0%"; a dash where there is none."""
    if key in SHARES and interval:
        text = interval_text([end * 100 for end in interval], digits=1)
        return f"{text}%" if text[-1].isdigit() else text
    return interval_text(interval)
