"""Test the probe fitted to all scans on an external test set of other people."""

from collections.abc import Mapping
from dataclasses import replace

from neurocontrast.documents.findings import ExternalBaseline, ExternalMetric, ExternalTest
from neurocontrast.documents.result import Counts
from neurocontrast.evaluation.fit.out_of_fold import OutOfFold, gather
from neurocontrast.evaluation.measure.finding import Inputs, Measurement
from neurocontrast.evaluation.measure.model_figures import subtract_metrics
from neurocontrast.evaluation.measure.outside import measure_rows
from neurocontrast.evaluation.measure.sites import site_table
from neurocontrast.evaluation.measure.subgroups import resample
from neurocontrast.evaluation.measure.tables import prediction_table
from neurocontrast.evaluation.measure.uncertainty import Resamples
from neurocontrast.evaluation.metrics import (
    POOLED_ONLY,
    explain_undefined,
    explain_value,
    finite_or_none,
)
from neurocontrast.evaluation.plan.plan import External, Plan
from neurocontrast.progress import Progress


def measure_external_test(inputs: Inputs) -> Measurement:
    """Test the models, fitted to all training scans, on an external test set of other people.

    Returned are the section `ExternalTest` of ``evaluation.json``, warnings, and tables of
    predictions, of sites, and of distances from the training scans. The section is None, and there
    are no tables, if the plan has no external test set.
    """
    external = inputs.plan.external
    if external is None:
        return Measurement({ExternalTest.key: None})
    plan = external.plan
    predictions = _predict(plan, inputs.progress)
    tables = {
        "external_predictions": prediction_table(plan.table, plan.target, predictions),
        "external_sites": site_table(plan, predictions),
    }
    outside = measure_rows(plan, plan.splits[0].test, inputs.reference, "probe")
    if outside.table is not None:
        tables["external_outlyingness"] = outside.table
    record = _record(external, predictions).model_copy(update={"outlyingness": outside.counts})
    notices = [notice.of_external_test() for notice in outside.notices]
    return Measurement({ExternalTest.key: record}, tables, notices)


def _predict(plan: Plan, progress: Progress) -> dict[str, OutOfFold]:
    """Fit each model of the plan to all training scans, and predict the external scans.

    `plan` has one split, into training and external scans. Returned is name of a model →
    predictions.
    """
    split = plan.splits[0]
    context = replace(plan.context, seed=plan.final_seed)
    predictions = {}
    with progress.task("Testing on the external scans", len(plan.models), "model") as task:
        for model in plan.models:
            prediction = model.predict(plan.target, split, context)
            predictions[model.name] = gather(plan.target, [split], [prediction])
            task.advance()
    return predictions


def _record(external: External, predictions: dict[str, OutOfFold]) -> ExternalTest:
    """Return the section on the external test for ``evaluation.json``: numbers of people, metrics.

    `predictions` holds each model's predictions of the external scans, by the name of the model.
    """
    plan = external.plan
    rows = plan.splits[0].test
    names = [name for name in plan.target.metric_names if name not in POOLED_ONLY]
    drawn = resample(plan, predictions, rows, names, plan.subjects, "external-intervals")
    embedding, baseline, *others = predictions
    baselines = {}
    for key in others:
        baselines[key] = ExternalBaseline(
            metrics=_list_metrics(plan, drawn[key]),
            increment=subtract_metrics(plan, drawn[embedding], drawn[key], drawn[embedding]),
        )
    tested = plan.table.iloc[rows]
    n_tested = Counts(
        scans=len(rows),
        subjects=tested["subject_id"].nunique(),
        sites=tested["site"].nunique(),
        excluded=external.excluded,
    )
    fit = predictions[embedding].fits[0]
    record = ExternalTest(
        file=external.origin.file,
        digest=external.origin.digest,
        n=n_tested,
        sites=sorted(tested["site"].dropna().unique()),
        n_train=len(plan.splits[0].train),
        strength=finite_or_none(fit.strength),
        threshold=fit.threshold,
        metrics=_list_metrics(plan, drawn[embedding]),
        baseline=_list_metrics(plan, drawn[baseline]),
        baseline_covariates=list(plan.covariates),
        increment=subtract_metrics(plan, drawn[embedding], drawn[baseline], drawn[embedding]),
        rivals=baselines,
        n_overlap=external.n_overlap,
        overlap_by=list(external.overlap_by),
    )
    if fit.weight is None:
        return record
    return record.model_copy(update={"weight": fit.weight})


def _list_metrics(plan: Plan, drawn: Mapping[str, Resamples]) -> dict[str, ExternalMetric]:
    """Return name of a metric → `ExternalMetric`, a model's value with its interval.

    `drawn` holds, by the metric's name, the metric's value and its values on bootstrap resamples of
    the scans. If a metric is undefined, the fields `value` and `interval` of its `ExternalMetric`
    are None, and the field `reason` says why.
    """
    target = plan.target
    truth = target.values[plan.splits[0].test]
    why_undefined = explain_undefined(target.kind, truth, target.classes)
    metrics = {}
    for name, resamples in drawn.items():
        figure = resamples.figure(level=plan.settings.confidence_level)
        metrics[name] = ExternalMetric(value=figure.value, interval=figure.interval)
        if figure.value is None:
            reason = explain_value(name, why_undefined)
            metrics[name] = metrics[name].model_copy(update={"reason": reason})
    return metrics
