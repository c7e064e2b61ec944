"""Compose the content of ``evaluation.json``, and tables, from a plan and its predictions."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from neurocontrast.documents.notice import Notice
from neurocontrast.documents.result import (
    FORMAT,
    Bootstrap,
    Counts,
    Permutation,
    Probe,
    Result,
    Threshold,
)
from neurocontrast.evaluation.fit.distribution import Reference
from neurocontrast.evaluation.fit.fits import Fits, fit
from neurocontrast.evaluation.fit.out_of_fold import OutOfFold, Predictions
from neurocontrast.evaluation.fit.stored_probe import FittedProbe
from neurocontrast.evaluation.measure.model_figures import Figures, metric_summary
from neurocontrast.evaluation.measure.significance import permutation_test
from neurocontrast.evaluation.measure.tables import plan_tables
from neurocontrast.evaluation.measure.uncertainty import count_resamples
from neurocontrast.evaluation.metrics import LOWER_IS_BETTER, finite_or_none
from neurocontrast.evaluation.plan.models import Model, ProbeModel
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.evaluation.rows import NO_SITE
from neurocontrast.evaluation.splits import Split, stratified
from neurocontrast.evaluation.splits.given import split_table
from neurocontrast.evaluation.target import Target
from neurocontrast.files import digest_of
from neurocontrast.progress import SILENT, Progress
from neurocontrast.seeds import derive_seed

POOLING_GAP = 0.05
"""Difference of the pooled AUC from the AUC within folds above which a warning is given."""
FEW_MOVED = 0.1
"""Share of scans that get another label in a permutation, below which a warning is given."""


@dataclass(frozen=True)
class MeasuredPlan:
    """Evaluation in memory: content of ``evaluation.json``, tables, predictions and the probe."""

    evaluation: Result
    """Content of ``evaluation.json``."""
    tables: dict[str, pd.DataFrame]
    """Tables by the name of the table's file."""
    predictions: Predictions
    """Out-of-fold predictions of each model, by its name."""
    reference: Reference | str | None
    """Distribution of the scans that the probe was fitted on, the reason as text why it could not
    be learned, or None with ``outlyingness=false``."""
    probe: FittedProbe | None
    """Probe of the embedding, fitted to all scans; None where the estimator cannot be stored."""
    choices: Mapping[str, Any] = field(default_factory=dict)
    """Settings as ``config.yaml`` holds them."""


def fit_and_measure(plan: Plan, *, progress: Progress = SILENT) -> MeasuredPlan:
    """Fit a plan's models; return their metrics, tables, predictions and the stored probe.

    Findings, such as how well the site can be predicted, are not computed; `measure` adds them.

    Parameters
    ----------
    plan : Plan
        As `plan_evaluation` returned it.
    progress : Progress
        Receives progress messages.
    """
    return measure_models(plan, fit(plan, progress), progress)


def measure_models(plan: Plan, fits: Fits, progress: Progress = SILENT) -> MeasuredPlan:
    """Compute tables and metrics of a plan's models from their predictions, `fits`.

    Returned is the evaluation in memory, with warnings in the content of ``evaluation.json``.
    Nothing is written. `measure` calls this function, and adds findings such as how well the site
    can be predicted.
    """
    predictions = fits.predictions
    tables = plan_tables(plan, predictions)
    for model in plan.models:
        tables |= model.tables
    if plan.info.training_metrics:
        tables["training"] = pd.DataFrame(plan.info.training_metrics)
    figures = metric_summary(plan, tables["folds"], predictions, progress)
    permutation = permutation_summary(plan, predictions["embedding"], progress)
    notices = [*plan.notices, *_look_at_results(plan, figures, permutation, predictions)]
    leading = plan.target.metric_names[0]
    for model in plan.models:
        if model.baseline:
            by = plan.estimator_title(model)
            beside = key_beside(plan.models, model)
            notices += look_at_baseline(figures, model, leading, by=by, beside=beside)
    evaluation = _compose(plan, predictions, figures, permutation, notices)
    return MeasuredPlan(evaluation, tables, predictions, fits.reference, fits.probe, plan.choices)


def permutation_summary(plan: Plan, model: OutOfFold, progress: Progress) -> Permutation | None:
    """Return the section ``permutation`` of ``evaluation.json``: a test against permuted labels.

    `model` holds the predictions of the embedding's model, which is fitted anew to labels that are
    exchanged between subjects. None with ``n_permutations=0``, and for a network that is trained in
    the folds.
    """
    settings = plan.settings
    is_site = plan.target.name == "site"
    n = settings.n_permutations
    sites = plan.sites
    tested = plan.models[0]
    if not n or not isinstance(tested, ProbeModel):
        return None

    def redeal(target: Target, permutation: int) -> list[Split]:
        seed = derive_seed("permuted-folds", settings.seed, permutation)
        return stratified(
            target, sites, plan.subjects, n_folds=settings.n_folds, n_repeats=1, seed=seed
        )

    redeal_or_none = None
    if plan.split_design.name == "stratified":
        redeal_or_none = redeal
    context = plan.context
    if is_site:
        context = replace(context, sites=np.full(len(sites), NO_SITE, dtype=object))
    n_folds = sum(split.repeat == 0 for split in plan.splits)
    started = time.perf_counter()
    with progress.task("Permuting labels", n * n_folds, "fold") as task:
        result = permutation_test(
            tested,
            plan.target,
            plan.splits,
            model,
            context,
            redeal=redeal_or_none,
            advance=task.advance,
        )
    observed = {}
    for name, value in result.observed.items():
        observed[name] = finite_or_none(value)
    return Permutation(
        n=n,
        unit="subject",
        within_site=not is_site,
        within_fold=result.within_fold,
        share_moved=result.share_moved,
        repeat=0,
        observed=observed,
        p_values=result.p_values,
        seconds=round(time.perf_counter() - started, 1),
    )


def key_beside(models: Iterable[Model], model: Model) -> str:
    """Return the name of the model that reads the features of `model` and the embedding together.

    The name is "" if there is no such model among `models`.
    """
    first = model.name
    if model.baseline is not None and model.baseline.of:
        first = model.baseline.of
    for pair in models:
        if pair.baseline is not None and pair.baseline.beside == first:
            return pair.name
    return ""


def look_at_baseline(
    figures: Figures, model: Model, metric: str, *, by: str = "", beside: str = ""
) -> list[Notice]:
    """Return a warning where a model without an encoder or network does as well as the embedding.

    Model and embedding are compared by `metric`; `by` names the model's estimator in the warning.
    `beside` is the name of a second model, of the same features and the embedding together: if the
    second model does better than the features alone, the warning says so.
    """
    ours = figures.pooled("embedding", metric)
    theirs = figures.pooled(model.name, metric)
    if model.baseline is None or not model.baseline.over or ours is None or theirs is None:
        return []
    if _is_better(metric, ours, theirs):
        return []
    measures = model.baseline.plural
    if by:
        measures += f" by {by}"
    together = figures.pooled(beside, metric)
    values = {
        "model": model.name,
        "What": measures[:1].upper() + measures[1:],
        "metric": {"auc": "AUC", "mae": "MAE"}.get(metric, metric.replace("_", " ")),
        "theirs": theirs,
        "ours": ours,
        "together": together,
        "over": model.baseline.over,
    }
    if model.baseline.lacks:
        return [Notice.of("network_no_gain", **values)]
    if together is not None and _is_better(metric, together, theirs):
        if model.baseline.of:
            return [Notice.of("kernel_as_good_alone", **values)]
        return [Notice.of("as_good_alone", **values)]
    return [Notice.of("as_good", **values)]


def _is_better(metric: str, value: float, other: float) -> bool:
    """Tell whether `value` of a metric is better than `other`; of an error, the lower value is."""
    if metric in LOWER_IS_BETTER:
        return value < other
    return value > other


def _look_at_results(
    plan: Plan, figures: Figures, permutation: Permutation | None, predictions: Predictions
) -> Iterable[Notice]:
    """Yield warnings on the fits, AUCs and permutations of an evaluation's models.

    Warned of are solvers that stopped early, penalties that were not chosen, an AUC of all folds'
    predictions together that differs from the AUC within folds, an AUC of 1, and permutations that
    give few scans another label.
    """
    fits = [fit for of_model in predictions.values() for fit in of_model.fits]
    failed = sum(fit.n_not_converged for fit in fits)
    not_chosen = sum(not fit.chosen for fit in fits)
    if failed:
        yield Notice.of("not_converged", n=failed)
    if not_chosen:
        yield Notice.of("penalty_not_chosen", n=not_chosen)
    for name in ("embedding", "baseline"):
        pooled = figures.pooled(name, "auc")
        within = figures.pooled(name, "auc_within_fold")
        if pooled is not None and within is not None and abs(pooled - within) > POOLING_GAP:
            yield Notice.of("pooled_auc_mixes_folds", model=name, pooled=pooled, within=within)
    if not plan.fixed and figures.pooled("embedding", "auc") == 1.0:
        yield Notice.of("perfect_separation")
    if permutation is not None and (permutation.share_moved or 0.0) < FEW_MOVED:
        held = ""
        if permutation.units_within:
            held = f", since labels are exchanged within {' and '.join(permutation.units_within)}"
        yield Notice.of("permutation_moves_few", share=permutation.share_moved, held=held)


def _describe_probe(plan: Plan, embedding: OutOfFold) -> Probe:
    """Return the section ``probe`` of ``evaluation.json``: estimator, penalty and features.

    `embedding` holds the out-of-fold predictions and fits of the probe on the embedding; the
    penalty's strength is the median over the fits. If the features are of several encoders, or are
    a network's features and principal components (two blocks), the section says so.
    """
    strengths = [fit.strength for fit in embedding.fits]
    changes: dict[str, object] = {
        "strength": finite_or_none(float(np.median(strengths))),
        "why_not_stored": plan.why_not_stored,
        "inner_splits": plan.settings.inner_splits,
    }
    changes |= _describe_blocks(plan, embedding)
    changes |= _describe_members(plan)
    return plan.probe.model_copy(update=changes)


def _describe_blocks(plan: Plan, embedding: OutOfFold) -> dict[str, object]:
    """Return keys of section ``probe`` (``evaluation.json``) on groups of feature columns, blocks.

    The dictionary is empty for one encoder's network alone, and has one word for joined encoders.
    For a network and principal components it also has the share of each of the two in the total
    variance, in each fold and on average, if the probe has such shares.
    """
    if plan.blocks and not plan.own_blocks:
        return {"blocks": "joined"}
    if not plan.own_blocks:
        return {}
    weights = np.array(list(map(attrgetter("weight"), embedding.fits)), dtype=float)
    if np.isnan(weights).all():
        return {"blocks": "beside"}
    network, components = map(attrgetter("name"), plan.own_blocks)
    mean = float(np.nanmean(weights))
    return {
        "blocks": "beside",
        "weights": {network: mean, components: 1 - mean},
        "fold_weights": {
            network: list(map(finite_or_none, weights)),
            components: list(map(finite_or_none, 1 - weights)),
        },
    }


def _describe_members(plan: Plan) -> dict[str, object]:
    """Return the number of a run's encoders, and the kind of prediction averaged over them, by key.

    The keys and values are for the section ``probe`` of ``evaluation.json``. Averaged are numbers,
    probabilities or decision values, which a probe for each encoder predicts. The dictionary is
    empty if the run has one encoder.
    """
    if plan.n_members < 2:
        return {}
    averaged = "numbers"
    if plan.target.kind != "continuous":
        averaged = "probabilities"
        if not plan.target.has_probabilities:
            averaged = "decision values"
    return {"n_members": plan.n_members, "averaged": averaged}


def _compose(
    plan: Plan,
    predictions: Predictions,
    figures: Figures,
    permutation: Permutation | None,
    notices: list[Notice],
) -> Result:
    """Return the content of ``evaluation.json`` on the models: metrics, probe, counts, warnings.

    Sections that are measured later, such as how well the site can be predicted, and the versions
    of software are added by callers.
    """
    settings = plan.settings
    target = plan.target
    dealt = split_table(plan.table, plan.splits).astype(object).fillna("").astype(str)
    dealt = dealt.sort_values(["repeat", "participant_id", "session"])
    embedding = predictions["embedding"]
    baselines = {}
    keys = dict[str, Any](baseline_covariates=list(plan.covariates))
    for model in plan.models:
        keys |= model.result_keys
        if model.baseline:
            baselines[model.name] = model.baseline.describe()
    design = plan.split_design
    if design.splitter is not None:
        keys["splitter"] = design.splitter
    run = None
    if plan.info.content().get("run"):
        run = plan.info.run
    return Result(
        format=FORMAT,
        target=target.name,
        kind=target.kind,
        classes=list(target.classes),
        positive=target.positive,
        split=design.fixed,
        splits=design.name,
        n_overlap=len(plan.overlap.subjects),
        overlap_by=list(plan.overlap.compared),
        splits_digest=digest_of(dealt.to_csv(index=False)),
        n_folds=1 + max(split.fold for split in plan.splits),
        n_repeats=1 + max(split.repeat for split in plan.splits),
        seed=settings.seed,
        probe=_describe_probe(plan, embedding),
        n=Counts(
            scans=len(plan.table),
            subjects=int(plan.table["subject_id"].nunique()),
            sites=int(plan.table["site"].nunique()),
            features=plan.n_features,
            excluded=plan.excluded,
        ),
        metrics=figures.metrics,
        baseline=figures.baseline,
        increment=figures.increment,
        models=figures.models,
        permutation=permutation,
        rivals=baselines,
        estimators=plan.estimators,
        threshold=Threshold(
            rule=settings.threshold, values=[fit.threshold for fit in embedding.fits]
        ),
        warnings=notices,
        bootstrap=Bootstrap(
            n=count_resamples(settings.n_bootstraps, len(embedding.tested)),
            method="BCa",
            unit=plan.units.name,
            n_units=len(set(plan.units.labels[embedding.tested])),
            level=settings.confidence_level,
        ),
        allow_overlap=settings.allow_overlap,
        simulated=plan.info.simulated,
        simulation=plan.info.simulation,
        run=run,
        objective=plan.info.objective,
        embeddings=plan.origin,
        software=["scikit-learn"],
        **keys,
    )
