"""Compute each model's metrics with intervals, and differences between models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np
import pandas as pd

from neurocontrast.documents.figures import Increment, Metric, ModelFigures
from neurocontrast.evaluation.fit.out_of_fold import Predictions
from neurocontrast.evaluation.measure.significance import fold_p_value, holm
from neurocontrast.evaluation.measure.tables import model_prefix
from neurocontrast.evaluation.measure.uncertainty import (
    MAX_RANKED,
    Resamples,
    Resampling,
    bootstrap_metrics,
    count_resamples,
)
from neurocontrast.evaluation.metrics import (
    DESCRIPTIVE,
    RANKED,
    explain_undefined,
    explain_value,
    finite_or_none,
)
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.progress import SILENT, Progress
from neurocontrast.seeds import derive_seed

Drawn = Mapping[str, Resamples]
"""Name of a metric → resamples of one model's metric."""
_LEADING = ("embedding", "baseline")
"""Names of the two models that every plan has, whose metrics are in `Figures.metrics` and
`Figures.baseline`, not in `Figures.models`."""


@dataclass(frozen=True)
class Figures:
    """Metrics of all models, and the embedding's metrics minus each other model's."""

    metrics: dict[str, Metric]
    """Metrics of the embedding."""
    baseline: dict[str, Metric] = field(default_factory=dict)
    """Metrics of the covariates."""
    increment: dict[str, Increment] = field(default_factory=dict)
    """Metrics of the embedding minus metrics of the covariates."""
    models: dict[str, ModelFigures] = field(default_factory=dict)
    """Name of another model → its metrics, and the embedding's metrics minus the model's."""

    def pooled(self, model: str, metric: str) -> float | None:
        """Return a model's metric of all folds' predictions together; None where undefined."""
        metrics = {"embedding": self.metrics, "baseline": self.baseline}.get(model)
        if metrics is None:
            metrics = self.models.get(model, ModelFigures()).metrics
        return metrics.get(metric, Metric()).pooled


def metric_summary(
    plan: Plan, folds: pd.DataFrame, predictions: Predictions, progress: Progress = SILENT
) -> Figures:
    """Return all models' metrics, and the embedding's minus each other model's, as `Figures`.

    `folds` is the table ``folds.tsv`` in memory. Of each metric, ``mean`` and ``sd`` are over the
    folds in which the metric is defined, ``pooled`` is of all out-of-fold predictions together
    (averaged over repeats), ``interval`` is of ``pooled``, by a bootstrap that resamples subjects
    or sites as `Plan.units` of `plan` says. A metric that is not defined is None and has a
    ``reason``.
    """
    drawn = _draw(plan, predictions, progress)
    target = plan.target
    tested = predictions["embedding"].tested
    reason = explain_undefined(target.kind, target.values[tested], target.classes)
    names = target.metric_names
    metrics = {}
    for name in predictions:
        metrics[name] = _describe_metrics(plan, folds, name, drawn[name], reason)
    increments = {}
    for model in plan.models:
        if model.baseline:
            gains = subtract_metrics(plan, drawn["embedding"], drawn[model.name], names)
            increments[model.name] = _with_p_values(gains, folds, model.name)
    _adjust_p_values(increments)
    gains_of_pairs = {}
    for pair, without in _pairs(plan).items():
        gains_of_pairs[pair] = subtract_metrics(plan, drawn[pair], drawn[without], names)
    further = {}
    for name in predictions:
        if name in _LEADING:
            continue
        further[name] = ModelFigures(
            metrics=metrics[name],
            increment=increments.get(name, {}),
            gain=gains_of_pairs.get(name, {}),
        )
    return Figures(
        metrics["embedding"],
        metrics["baseline"],
        subtract_metrics(plan, drawn["embedding"], drawn["baseline"], names),
        further,
    )


def _draw(plan: Plan, predictions: Predictions, progress: Progress) -> Mapping[str, Drawn]:
    """Compute the metrics of all models on the same resamples of subjects or sites.

    Returned is name of a model → name of a metric → `Resamples`: the metric of all scans and on
    each resample. A metric is computed from the out-of-fold predictions of all folds together.
    """
    rows = predictions["embedding"].tested
    too_long = plan.fixed and len(plan.target.classes) * len(rows) > MAX_RANKED
    resampling = Resampling(
        plan.units.labels,
        count_resamples(plan.settings.n_bootstraps, len(rows)),
        derive_seed("intervals", plan.settings.seed),
    )
    with progress.task("Resampling", None, "resample") as task:
        return bootstrap_metrics(
            plan.target,
            predictions,
            resampling,
            rows=rows,
            plain=RANKED if too_long else (),
            advance=task.advance,
        )


def _describe_metrics(
    plan: Plan, folds: pd.DataFrame, model: str, drawn: Drawn, reason: str | None
) -> dict[str, Metric]:
    """Return name of a metric → `Metric`: a model's mean over folds, and value of all predictions.

    `folds` is the table ``folds.tsv``, in which the columns of the model called `model` are read;
    `drawn` holds the values and resamples of the model's metrics over all predictions. `reason`
    says why metrics of the tested scans are not defined; None if they are.
    """
    metrics = {}
    for name in plan.target.metric_names:
        # Within one fold, a metric and its mean within folds are one.
        column = model_prefix(model) + name.removesuffix("_within_fold")
        per_fold = np.array([])
        if column in folds:
            per_fold = folds[column].dropna().to_numpy(dtype=float)
        mean = None
        if len(per_fold):
            mean = finite_or_none(per_fold.mean())
        deviation = None
        if len(per_fold) > 1:
            deviation = finite_or_none(per_fold.std(ddof=1))
        figure = drawn[name].figure(level=plan.settings.confidence_level)
        metric = Metric(
            mean=mean,
            sd=deviation,
            pooled=figure.value,
            interval=figure.interval,
            n_folds_defined=len(per_fold),
        )
        if figure.value is None:
            metric = metric.model_copy(update={"reason": explain_value(name, reason)})
        metrics[name] = metric
    return metrics


def subtract_metrics(
    plan: Plan, model: Drawn, other: Drawn, names: Iterable[str]
) -> dict[str, Increment]:
    """Return name of a metric → `Increment`: the metric of `model` minus that of `other`, interval.

    `model` and `other` hold, by the metric's name, values of two models on the same resamples.
    """
    gains = {}
    for name in names:
        figure = (model[name] - other[name]).figure(level=plan.settings.confidence_level)
        gains[name] = Increment(difference=figure.value, interval=figure.interval)
    return gains


def _with_p_values(
    gains: Mapping[str, Increment], folds: pd.DataFrame, other: str
) -> dict[str, Increment]:
    """Return the embedding's gains over the model `other`, with p-values of a test over folds.

    `gains` is name of a metric → difference, and `folds` the table ``folds.tsv``. The p-value is
    None for a metric of which neither more nor less is better, such as the calibration slope.
    """
    tested = {}
    for name, gain in gains.items():
        column = name.removesuffix("_within_fold")
        p_value = None
        if column in folds and name not in DESCRIPTIVE:
            # Of a descriptive metric, neither more nor less is better.
            theirs = folds[model_prefix(other) + column].astype(float)
            p_value = fold_p_value(folds[column].astype(float) - theirs, folds)
        tested[name] = gain.model_copy(update={"p_value": p_value})
    return tested


def _adjust_p_values(increments: dict[str, dict[str, Increment]]) -> None:
    """Write p-values adjusted for the number of compared models (Holm) into `increments`.

    `increments` is name of a model that the embedding is compared with → name of a metric →
    difference. P-values are adjusted metric by metric. Nothing is changed for a single model.
    """
    if len(increments) < 2:
        return
    for name in next(iter(increments.values())):
        adjusted = holm([gains[name].p_value for gains in increments.values()])
        for gains, p_value in zip(increments.values(), adjusted, strict=True):
            gains[name] = gains[name].model_copy(update={"p_adjusted": p_value})


def _pairs(plan: Plan) -> dict[str, str]:
    """Return name of a model of measures with embedding → name of the model of measures alone.

    Measures are features without an encoder, such as regional measures. Only pairs of models in the
    plan are returned.
    """
    names = set(map(attrgetter("name"), plan.models))
    pairs = {}
    for model in plan.models:
        if model.baseline is not None and model.baseline.beside in names:
            pairs[model.name] = model.baseline.beside
    return pairs
