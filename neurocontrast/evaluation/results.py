"""A whole evaluation in memory: from a plan to tables and ``evaluation.json``."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from neurocontrast.evaluation.distribution import Reference
from neurocontrast.evaluation.fits import Fits, fit
from neurocontrast.evaluation.metrics import (
    DESCRIPTIVE,
    LOWER_IS_BETTER,
    RANKED,
    explain_undefined,
    explain_value,
    finite_or_none,
)
from neurocontrast.evaluation.models import Model, OutOfFold, ProbeModel
from neurocontrast.evaluation.models.kernel import OF_KERNEL
from neurocontrast.evaluation.record import Evaluation, Notice, compose_evaluation
from neurocontrast.evaluation.rows import NO_SITE
from neurocontrast.evaluation.significance import fold_p_value, holm, permutation_test
from neurocontrast.evaluation.splits import Split, stratified
from neurocontrast.evaluation.splits.given import split_table
from neurocontrast.evaluation.stored_probe import FittedProbe
from neurocontrast.evaluation.study import Study
from neurocontrast.evaluation.tables import model_prefix, study_tables
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import (
    MAX_RANKED,
    Resamples,
    bootstrap_metrics,
    count_resamples,
)
from neurocontrast.files import digest_of
from neurocontrast.progress import SILENT, Progress
from neurocontrast.seeds import derive_seed

Models = dict[str, OutOfFold]

POOLING_GAP = 0.05
"""A pooled AUC that differs more than this from the one within folds is warned about."""
FEW_MOVED = 0.1
"""A permutation test that changes the labels of a smaller share of the scans is warned about."""


@dataclass(frozen=True)
class StudyResult:
    """What the models of a study predicted, and the figures of it."""

    evaluation: Evaluation
    """Content of ``evaluation.json``."""
    tables: dict[str, pd.DataFrame]
    """Tables by the name of their file."""
    models: Models
    """Out-of-fold predictions of each model."""
    reference: Reference | str | None
    """Distribution of the scans that the probe was fitted on; the reason why there is none; None if not asked for."""
    probe: FittedProbe | None
    """The probe fitted on all scans, if it can be stored."""
    choices: Mapping[str, Any] = field(default_factory=dict)
    """Settings as ``config.yaml`` holds them."""


def run_study(study: Study, *, progress: Progress = SILENT) -> StudyResult:
    """Fit the models, and compute their tables and figures, without any finding.

    Parameters
    ----------
    study : Study
        As `plan_study` returned it.
    progress : Progress
        Receives progress messages.
    """
    return measure_models(study, fit(study, progress), progress)


def measure_models(study: Study, fits: Fits, progress: Progress = SILENT) -> StudyResult:
    """Compute tables and figures of the models; `neurocontrast.evaluation.measure` adds the findings."""
    models = fits.models
    tables = study_tables(study, models)
    for model in study.models:
        tables |= model.tables
    if study.info.training_metrics:
        tables["training"] = pd.DataFrame(study.info.training_metrics)
    figures = metric_summary(study, tables["folds"], models, progress)
    figures["permutation"] = permutation_summary(study, models["embedding"], progress)
    notices = [*study.notices, *_look_at_results(study, figures, models)]
    leading = study.target.metric_names[0]
    for model in study.models:
        if model.rival:
            by = study.estimator_title(model)
            notices += look_at_rival(figures, model, leading, by=by)
    evaluation = _compose(study, models, figures, notices)
    return StudyResult(evaluation, tables, models, fits.reference, fits.probe, study.choices)


def permutation_summary(
    study: Study, model: OutOfFold, progress: Progress
) -> dict[str, Any] | None:
    """Return ``permutation`` of evaluation.json; None where no permutation is asked for."""
    settings = study.settings
    is_site = study.target.name == "site"
    n = settings.n_permutations
    sites = study.sites
    tested = study.models[0]
    if not n or not isinstance(tested, ProbeModel):
        return None

    def redeal(target: Target, permutation: int) -> list[Split]:
        seed = derive_seed("permuted-folds", settings.seed, permutation)
        return stratified(
            target, sites, study.subjects, n_folds=settings.n_folds, n_repeats=1, seed=seed
        )

    n_folds = sum(split.repeat == 0 for split in study.splits)
    started = time.perf_counter()
    with progress.task("Permuting labels", n * n_folds, "fold") as task:
        result = permutation_test(
            tested,
            study.target,
            study.splits,
            model,
            sites=np.full(len(sites), NO_SITE, dtype=object) if is_site else sites,
            subjects=study.subjects,
            settings=settings,
            redeal=redeal if study.split_design.name == "stratified" else None,
            advance=task.advance,
        )
    return {
        "n": n,
        "unit": "subject",
        "within_site": not is_site,
        "repeat": 0,
        **result._asdict(),
        "observed": {name: finite_or_none(value) for name, value in result.observed.items()},
        "seconds": round(time.perf_counter() - started, 1),
    }


def metric_summary(
    study: Study, folds: pd.DataFrame, models: Models, progress: Progress = SILENT
) -> dict[str, Any]:
    """Return ``metrics``, ``baseline`` and ``increment`` of evaluation.json, and those of further models by name.

    ``mean`` and ``sd`` are over the folds in which a metric is defined, ``pooled`` is of all
    out-of-fold predictions together (averaged over repeats), ``interval`` is of ``pooled``, over
    resamples of the study's units. A metric that is not defined is None and has a ``reason``.
    """
    target = study.target
    settings = study.settings
    rows = models["embedding"].tested
    too_long = study.fixed and len(target.classes) * len(rows) > MAX_RANKED
    with progress.task("Resampling", None, "resample") as task:
        drawn = bootstrap_metrics(
            target,
            models,
            study.units.labels,
            n_bootstraps=count_resamples(settings.n_bootstraps, len(rows)),
            seed=derive_seed("intervals", settings.seed),
            rows=rows,
            plain=RANKED if too_long else (),
            advance=task.advance,
        )
    reason = explain_undefined(target.kind, target.values[rows], target.classes)

    def estimate(resamples: Resamples, name: str) -> dict[str, Any]:
        found = resamples.figure(level=settings.confidence_level)
        return {
            name: found["value"],
            "interval": None if found["low"] is None else [found["low"], found["high"]],
        }

    def described(model: str, name: str) -> dict[str, Any]:
        column = model_prefix(model) + name.removesuffix(
            "_within_fold"
        )  # within one fold, the two are one
        per_fold = folds[column].dropna().to_numpy(dtype=float) if column in folds else np.array([])
        found = {
            "mean": finite_or_none(per_fold.mean()) if len(per_fold) else None,
            "sd": finite_or_none(per_fold.std(ddof=1)) if len(per_fold) > 1 else None,
            **estimate(drawn[model][name], "pooled"),
            "n_folds_defined": len(per_fold),
        }
        return found | ({"reason": explain_value(name, reason)} if found["pooled"] is None else {})

    def against(other: str, name: str, model: str = "embedding") -> dict[str, Any]:
        return estimate(drawn[model][name] - drawn[other][name], "difference")

    names = target.metric_names
    keys = {"embedding": "metrics"}
    figures = {
        keys.get(model, model): {name: described(model, name) for name in names} for model in models
    }
    figures["increment"] = {name: against("baseline", name) for name in names}
    for other in (model.name for model in study.models if model.rival):
        figures[f"{other}_increment"] = {
            name: against(other, name) | {"p_value": _p_value(folds, other, name)} for name in names
        }
    for pair, first in _pairs(study).items():
        figures[f"{pair}_gain_increment"] = {
            name: against(first, name, model=pair) for name in names
        }
    _adjust_p_values(study, figures)
    return figures


def _p_value(folds: pd.DataFrame, other: str, name: str) -> float | None:
    """Return the p-value over folds of the embedding and another model having the same metric."""
    column = name.removesuffix("_within_fold")
    if column not in folds or name in DESCRIPTIVE:  # neither more nor less of it is better
        return None
    return fold_p_value(
        folds[column].astype(float) - folds[f"{other}_{column}"].astype(float), folds
    )


def _pairs(study: Study) -> dict[str, str]:
    """Return the models with the embedding beside, and for each the model without."""
    names = set(map(attrgetter("name"), study.models))
    pairs = {}
    for model in study.models:
        if model.rival is not None and model.rival.beside in names:
            pairs[model.name] = model.rival.beside
    return pairs


def _adjust_p_values(study: Study, figures: Mapping[str, Any]) -> None:
    """Adjust the p-values of each metric by Holm, where there are several rivals."""
    increments = []
    for model in study.models:
        if model.rival:
            increments.append(figures[f"{model.name}_increment"])
    if len(increments) < 2:
        return
    for name in study.target.metric_names:
        adjusted = holm([increment[name]["p_value"] for increment in increments])
        for increment, p_value in zip(increments, adjusted, strict=True):
            increment[name]["p_adjusted"] = p_value


def look_at_rival(
    figures: Mapping[str, Any], model: Model, metric: str, *, by: str = ""
) -> list[Notice]:
    """Return a warning where a model without an encoder or network does as well as the embedding.

    They are compared by the leading `metric`; `by` names the model's estimator. Where the embedding
    beside the features of the model, or of the linear one on the same scans, does better than the
    model alone, the warning says so.
    """
    ours, theirs = (figures[part].get(metric, {}).get("pooled") for part in ("metrics", model.name))
    if model.rival is None or not model.rival.over or ours is None or theirs is None:
        return []
    if _is_better(metric, ours, theirs):
        return []
    what = model.rival.what
    if by:
        what += f" by {by}"
    linear = model.name.removesuffix(OF_KERNEL)
    together = figures.get(f"{linear}_beside", {}).get(metric, {}).get("pooled")
    facts = {
        "model": model.name,
        "What": what[:1].upper() + what[1:],
        "metric": {"auc": "AUC", "mae": "MAE"}.get(metric, metric.replace("_", " ")),
        "theirs": theirs,
        "ours": ours,
        "together": together,
        "over": model.rival.over,
    }
    if model.rival.lacks:
        return [Notice.of("network_no_gain", **facts)]
    if together is not None and _is_better(metric, together, theirs):
        if linear != model.name:
            return [Notice.of("kernel_as_good_alone", **facts)]
        return [Notice.of("as_good_alone", **facts)]
    return [Notice.of("as_good", **facts)]


def _is_better(metric: str, value: float, other: float) -> bool:
    """Tell whether a value of a metric is better than another one."""
    if metric in LOWER_IS_BETTER:
        return value < other
    return value > other


def _look_at_results(study: Study, figures: Mapping[str, Any], models: Models) -> Iterable[Notice]:
    fits = [fit for model in models.values() for fit in model.fits]
    failed = sum(fit.n_not_converged for fit in fits)
    not_chosen = sum(not fit.chosen for fit in fits)
    if failed:
        yield Notice.of("not_converged", n=failed)
    if not_chosen:
        yield Notice.of("penalty_not_chosen", n=not_chosen)
    for name, part in (("embedding", "metrics"), ("baseline", "baseline")):
        pooled, within = (
            figures[part].get(key, {}).get("pooled") for key in ("auc", "auc_within_fold")
        )
        if pooled is not None and within is not None and abs(pooled - within) > POOLING_GAP:
            yield Notice.of("pooled_auc_mixes_folds", model=name, pooled=pooled, within=within)
    if not study.fixed and figures["metrics"].get("auc", {}).get("pooled") == 1.0:
        yield Notice.of("perfect_separation")
    permutation = figures.get("permutation")
    if permutation and permutation["share_moved"] < FEW_MOVED:
        within = " and ".join(unit for unit in ("site", "fold") if permutation[f"within_{unit}"])
        held = f", since labels are exchanged within {within}" if within else ""
        yield Notice.of("permutation_moves_few", share=permutation["share_moved"], held=held)


def _describe_blocks(study: Study, embedding: OutOfFold) -> dict[str, object]:
    """Return how blocks were weighed, of the section ``probe``; nothing for one block."""
    if study.blocks and not study.own_blocks:
        return {"blocks": "joined"}
    if not study.own_blocks:
        return {}
    weights = np.array(list(map(attrgetter("weight"), embedding.fits)), dtype=float)
    if np.isnan(weights).all():
        return {"blocks": "beside"}
    network, components = map(attrgetter("name"), study.own_blocks)
    mean = float(np.nanmean(weights))
    return {
        "blocks": "beside",
        "weights": {network: mean, components: 1 - mean},
        "fold_weights": {
            network: list(map(finite_or_none, weights)),
            components: list(map(finite_or_none, 1 - weights)),
        },
    }


def _describe_members(study: Study) -> dict[str, object]:
    """Return how many members were averaged, of the section ``probe``; nothing for one encoder."""
    if study.n_members < 2:
        return {}
    averaged = "numbers"
    if study.target.kind != "continuous":
        averaged = "probabilities"
        if not study.target.has_probabilities:
            averaged = "decision values"
    return {"n_members": study.n_members, "averaged": averaged}


def _compose(
    study: Study, models: Models, figures: Mapping[str, Any], notices: list[Notice]
) -> Evaluation:
    settings = study.settings
    target = study.target
    dealt = split_table(study.table, study.splits).astype(object).fillna("").astype(str)
    dealt = dealt.sort_values(["repeat", "participant_id", "session"])
    design = study.split_design
    splitter = {}
    if design.splitter is not None:
        splitter["splitter"] = design.splitter
    embedding = models["embedding"]
    content = {
        "target": target.name,
        "kind": target.kind,
        "classes": list(target.classes),
        "positive": target.positive,
        "split": design.fixed,
        "splits": design.name,
        **splitter,
        "n_overlap": len(study.overlap.subjects),
        "overlap_by": list(study.overlap.compared),
        "splits_digest": digest_of(dealt.to_csv(index=False)),
        "n_folds": 1 + max(split.fold for split in study.splits),
        "n_repeats": 1 + max(split.repeat for split in study.splits),
        "seed": settings.seed,
        "probe": {
            **study.probe,
            "strength": finite_or_none(float(np.median([fit.strength for fit in embedding.fits]))),
            "why_not_stored": study.why_not_stored,
            "inner_splits": settings.inner_splits,
            **_describe_blocks(study, embedding),
            **_describe_members(study),
        },
        "n": {
            "scans": len(study.table),
            "subjects": int(study.table["subject_id"].nunique()),
            "sites": int(study.table["site"].nunique()),
            "features": study.n_features,
            "excluded": study.excluded,
        },
        **figures,
        "rivals": {model.name: model.rival.describe() for model in study.models if model.rival},
        "estimators": study.estimators,
        **dict(chain.from_iterable(model.about.items() for model in study.models)),
        "threshold": {
            "rule": settings.threshold,
            "values": [fit.threshold for fit in embedding.fits],
        },
        "warnings": notices,
        "bootstrap": {
            "n": count_resamples(settings.n_bootstraps, len(embedding.tested)),
            "method": "BCa",
            "unit": study.units.name,
            "n_units": len(set(study.units.labels[embedding.tested])),
            "level": settings.confidence_level,
        },
        "allow_overlap": settings.allow_overlap,
        "simulated": study.info.simulated,
        "simulation": study.info.simulation,
        "run": study.info.content().get("run"),
        "objective": study.info.objective,
        "embeddings": study.origin,
        "software": ["scikit-learn"],
    }
    return compose_evaluation(content)
