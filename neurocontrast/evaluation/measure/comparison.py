"""Compare evaluations on the same folds by metrics, and by how well the site can be predicted."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.documents.figures import Estimate
from neurocontrast.documents.findings import NewSite, Outlyingness
from neurocontrast.documents.result import Result
from neurocontrast.evaluation.fit.out_of_fold import OutOfFold
from neurocontrast.evaluation.measure.confounds import site_reading
from neurocontrast.evaluation.measure.significance import fold_p_value, holm, mcnemar_test
from neurocontrast.evaluation.measure.uncertainty import Resampling, bootstrap_metrics
from neurocontrast.evaluation.metrics import RANKED, top_hits
from neurocontrast.evaluation.plan.units import choose_units
from neurocontrast.evaluation.rows import site_names
from neurocontrast.evaluation.target import Target
from neurocontrast.seeds import derive_seed

PRIMARY = {"binary": "auc", "multiclass": "balanced_accuracy", "continuous": "mae"}
"""Metric plotted against how well the site can be predicted, for each kind of target."""

Texts = npt.NDArray[np.object_]
SCAN_KEYS = ["participant_id", "session"]


@dataclass(frozen=True)
class ComparedEvaluation:
    """Evaluation in a comparison: ``evaluation.json``, tables, and where the tested scans are from.

    `record` is the content of ``evaluation.json``. `predictions`, `folds` and `confounds` are
    tables of the evaluation; `confounds` is None if the evaluation did not measure confounds.
    `sites_tested` says whether tested scans are of sites in the training folds: ``known``,
    ``unseen`` or ``mixed``. `fixed` says whether a column of the table of scans gave the one test
    set.
    """

    record: Result
    predictions: pd.DataFrame
    folds: pd.DataFrame
    confounds: pd.DataFrame | None
    sites_tested: str
    fixed: bool


def compare_models(
    evaluations: Mapping[str, ComparedEvaluation], *, n_bootstraps: int, level: float, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tabulate metrics of evaluations, and the other evaluations' metrics minus the first one's.

    Each evaluation takes part with one model, that of the embedding. The first table has a row for
    each metric and model, the second a row for each metric and model but the first one. Intervals
    are BCa intervals over the same resamples for all models, of the subjects or sites that the
    first evaluation resampled. ``p_value`` is of the corrected resampled t-test over folds, or, for
    a single test set that a column gave, of `_paired_test`; ``p_adjusted`` is corrected for the
    number of models compared by the metric (Holm). If sites are held out, folds are no random
    draws, and both p-values are empty. With several classes in such a test set, metrics that rank
    scans have no interval.
    """
    reference, *others = evaluations
    first = evaluations[reference]
    target, units = _target_of(first)
    predictions = {
        name: _out_of_fold(evaluation, target) for name, evaluation in evaluations.items()
    }
    drawn = bootstrap_metrics(
        target,
        predictions,
        Resampling(units, n_bootstraps, derive_seed("compare", seed)),
        rows=predictions[reference].tested,
        plain=RANKED if first.fixed and target.kind == "multiclass" else (),
    )
    table = []
    differences = []
    for metric in target.metric_names:
        for name in predictions:
            figure = drawn[name][metric].figure(level=level)
            ends = {"value": figure.value, "low": figure.low, "high": figure.high}
            table.append({"model": name, "metric": metric, **ends})
        rows_of_metric = []
        for name in others:
            figure = (drawn[name][metric] - drawn[reference][metric]).figure(level=level)
            row = {
                "metric": metric,
                "model": name,
                "reference": reference,
                "difference": figure.value,
                "low": figure.low,
                "high": figure.high,
            }
            if first.fixed:
                test = _paired_test(
                    target, metric, predictions[name], predictions[reference], units
                )
            else:
                test = _test_over_folds(evaluations[name].folds, first.folds, metric)
            rows_of_metric.append(row | test)
        adjusted = holm([row["p_value"] for row in rows_of_metric])
        for row, p_adjusted in zip(rows_of_metric, adjusted, strict=True):
            differences.append(row | {"p_adjusted": p_adjusted})
    return pd.DataFrame(table), pd.DataFrame(differences)


def _target_of(evaluation: ComparedEvaluation) -> tuple[Target, Texts]:
    """Return true values of the tested scans, and the subject or site that each scan belongs to.

    True values and owners are read from the `predictions` of `evaluation`. They are subjects if the
    evaluation's bootstrap resampled subjects, and sites if it resampled sites.
    """
    record = evaluation.record
    rows = evaluation.predictions.drop_duplicates(SCAN_KEYS)
    classes = tuple(record.classes)
    values = rows["y_true"].to_numpy()
    if record.kind != "continuous":
        values = pd.Categorical(rows["y_true"], categories=classes).codes.astype(np.int64)
    target = Target(record.target, record.kind, values, classes, record.positive)
    subjects = rows["subject_id"].to_numpy(dtype=object)
    unit = record.bootstrap.unit or "subject"
    return target, choose_units(unit, site_names(rows["site"]), subjects, target=target.name).labels


def score_columns(record: Result) -> list[str]:
    """Return the names of the columns with a model's scores in ``predictions.tsv``.

    The name is ``y_score``, or, if the `record` of the evaluation has several classes,
    ``score_CLASS`` for each class.
    """
    if record.kind == "multiclass":
        return [f"score_{name}" for name in record.classes]
    return ["y_score"]


def _out_of_fold(evaluation: ComparedEvaluation, target: Target) -> OutOfFold:
    """Return a model's scores, decisions and folds, read from ``predictions.tsv`` of an evaluation.

    The model is that of the embedding; arrays are (n_repeats, n_scans), with a further axis for the
    scores of several classes. `target` is the one that `_target_of` returned: scans are in the
    order of its values.
    """
    table = evaluation.predictions
    n = len(target.values)
    n_repeats = int(table["repeat"].max()) + 1
    cells = table["repeat"].to_numpy(), table.groupby(SCAN_KEYS, sort=True).ngroup().to_numpy()
    columns = score_columns(evaluation.record)
    scores = np.full((n_repeats, n, len(columns)), np.nan)
    scores[cells] = table[columns].to_numpy(dtype=float)
    decisions = np.zeros((n_repeats, n), dtype=np.int64)
    folds = np.full((n_repeats, n), -1, dtype=np.intp)
    folds[cells] = table["fold"]
    if target.kind != "continuous":
        decisions[cells] = pd.Categorical(table["y_pred"], categories=target.classes).codes
    return OutOfFold(scores if target.kind == "multiclass" else scores[..., 0], decisions, folds)


def _test_over_folds(model: pd.DataFrame, reference: pd.DataFrame, metric: str) -> dict[str, Any]:
    """Test the difference of a metric between two models over folds (Nadeau and Bengio, 2003).

    `model` and `reference` are the tables ``folds.tsv`` of two evaluations. Returned are cells of a
    table's row: ``n_folds``, ``p_value`` and ``test``. The last two are None with fewer than two
    folds, where folds hold sites out, or if a table lacks the metric.
    """
    name = metric.removesuffix("_within_fold")  # within one fold, the two are one
    model, reference = (
        table.sort_values(["repeat", "fold"], ignore_index=True) for table in (model, reference)
    )
    if not {name} <= set(model) & set(reference):  # a metric that older evaluations did not have
        return {"n_folds": 0, "p_value": None, "test": None}
    differences = (model[name] - reference[name]).dropna()
    p_value = fold_p_value(differences, model)
    test = "nadeau-bengio" if len(differences) > 1 and model["held_out_site"].isna().all() else None
    return {"n_folds": len(differences), "p_value": p_value, "test": test}


def _paired_test(
    target: Target, metric: str, model: OutOfFold, reference: OutOfFold, units: Texts
) -> dict[str, Any]:
    """Test the difference of a metric between two models on one test set by McNemar's test.

    Returned are cells of a table's row: ``n_folds``, ``p_value`` and ``test``. The test is made for
    accuracy, top-5 accuracy, sensitivity and specificity. For other metrics, and where two scans
    are of one subject or site (`units` names that of each scan), ``p_value`` and ``test`` are None:
    McNemar's test needs independent images.
    """
    rows = model.tested
    no_test = {"n_folds": 1, "p_value": None, "test": None}
    truth = target.values[rows]
    both = (model, reference)
    if len(set(units[rows])) < len(rows):
        return no_test
    hits = [predictions.decisions[0, rows] == truth for predictions in both]
    if metric == "top5_accuracy":
        hits = [top_hits(truth, predictions.scores[0, rows]) >= 0.5 for predictions in both]
    elif target.kind == "binary" and metric in ("sensitivity", "specificity"):
        of_class = truth == (metric == "sensitivity")
        hits = [is_hit[of_class] for is_hit in hits]
    elif metric != "accuracy":
        return no_test
    return no_test | {"p_value": mcnemar_test(*hits), "test": "mcnemar"}


def at_unseen_sites(evaluation: ComparedEvaluation, metric: str) -> dict[str, float | None]:
    """Return a metric at sites that the probe has not seen, and its ratio to that at known sites.

    The metric is that of the embedding's probe, and known sites are those with scans among the
    probe's training scans; which sites the encoder has seen does not count. Keys are ``unseen`` and
    ``ratio``, and ``unseen_low``, ``unseen_high`` … for the ends of intervals. All values are None
    if the evaluation did not test at unseen sites.
    """
    new_site = evaluation.record.part(NewSite) or NewSite()
    figures = dict[str, float | None]()
    for name in ("unseen", "ratio"):
        estimate = getattr(new_site, name).get("embedding", {}).get(metric, Estimate())
        figures |= estimate.as_columns(name)
    return figures


_TRADEOFF = [
    "site_balanced_accuracy",
    "site_low",
    "site_high",
    "site_chance",
    "metric",
    "known",
    "known_low",
    "known_high",
    "unseen",
    "unseen_low",
    "unseen_high",
    "ratio",
    "ratio_low",
    "ratio_high",
    "constant",
    "n",
    "n_outside",
]


def tradeoff_table(
    evaluations: Mapping[str, ComparedEvaluation], models: pd.DataFrame
) -> pd.DataFrame:
    """Tabulate how well evaluations predict the site, and the target at known and unseen sites.

    `models` has a row for each evaluation: the evaluation's key in `evaluations` (``model``), the
    name of one metric, the same in all rows, and the metric's value and interval. The returned
    table has a row for each evaluation. A site is unseen if the probe was not fitted on scans of
    the site. If an evaluation holds sites out, its value in `models` is of unseen sites. The table
    has no rows if none of the evaluations has any of three numbers: how well the site is predicted,
    the metric at unseen sites, the number of scans outside the training distribution.
    """
    rows = []
    for row in models.to_dict("records"):
        rows.append(_tradeoff_row(row, evaluations[row["model"]]))
    table = pd.DataFrame(rows).reindex(columns=["model", *_TRADEOFF])
    measured = table[["site_balanced_accuracy", "unseen", "n_outside"]].notna().any(axis=None)
    return table if measured else table.iloc[:0]


def _tradeoff_row(
    row: Mapping[Hashable, Any], evaluation: ComparedEvaluation
) -> dict[Hashable, Any]:
    """Return a row of `tradeoff_table`: an evaluation's metric, with columns from the evaluation.

    `row` is a row of the table of metrics: the name of the evaluation (``model``), the name of a
    metric of the target (``metric``), its value and the ends of its interval. A site is known if
    the probe was trained on scans of the site, and unseen if not. All columns of `row` are kept,
    and these are added: ``site_…``, how well the site is predicted from the features; ``unseen``,
    ``unseen_low`` and ``unseen_high`` with the value of `row` if all tested sites are unseen, or
    else ``known``, ``known_low`` and ``known_high``, with the value of `row` if all are known, and
    the evaluation's metric at known sites if not; ``constant``, the metric of a constant prediction
    at unseen sites; ``n`` and ``n_outside``, the number of scans and of scans outside the training
    distribution.
    """
    metric = row["metric"]
    new_site = evaluation.record.part(NewSite) or NewSite()
    outside = evaluation.record.part(Outlyingness) or Outlyingness()
    sites_tested = evaluation.sites_tested
    figures: Mapping[Any, Any] = row
    if sites_tested == "mixed":
        # Scans without a site, or some sites held out: not all figures are of known sites.
        at_home = new_site.home.get("embedding", {}).get(metric, Estimate())
        figures = at_home.model_dump()
        sites_tested = "known"
    constant = new_site.unseen.get("constant", {}).get(metric, Estimate())
    columns = dict(row)
    reading = site_reading(evaluation.confounds)
    if reading is not None:
        columns["site_balanced_accuracy"] = reading["value"]
        for key in ("low", "high", "chance"):
            columns[f"site_{key}"] = reading.get(key)
    columns[sites_tested] = figures["value"]
    columns[f"{sites_tested}_low"] = figures["low"]
    columns[f"{sites_tested}_high"] = figures["high"]
    columns["constant"] = constant.value
    columns["n"] = outside.n
    columns["n_outside"] = outside.n_outside
    return columns
