"""What the probe of all scans says of an external test set, with intervals for one held-out set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from neurocontrast.evaluation.crossval import OutOfFold
from neurocontrast.evaluation.distribution import TrainingDistribution
from neurocontrast.evaluation.external import External
from neurocontrast.evaluation.fitted import final_seed
from neurocontrast.evaluation.fitting import study_designs
from neurocontrast.evaluation.groups import site_table
from neurocontrast.evaluation.intervals import Resamples
from neurocontrast.evaluation.metrics import POOLED_ONLY, explain_undefined, explain_value, finite_or_none
from neurocontrast.evaluation.outlyingness import measure_external
from neurocontrast.evaluation.probe_kinds import Decided, fit_and_decide
from neurocontrast.evaluation.schema import Notice
from neurocontrast.evaluation.significance import delong_interval, delong_test
from neurocontrast.evaluation.tables import prediction_table
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import bootstrap_metrics, pooled_metrics
from neurocontrast.progress import SILENT, Progress
from neurocontrast.seeds import derive_seed

__all__ = ["Tested", "run_external"]

Models = dict[str, OutOfFold]


@dataclass(frozen=True)
class Tested:
    """``external`` of evaluation.json, its tables by name, and warnings; nothing without an external test set."""

    summary: dict[str, Any] | None = None
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)


def run_external(
    external: External | None,
    *,
    distribution: TrainingDistribution | str | None = None,
    progress: Progress = SILENT,
) -> Tested:
    """Apply the probe of all scans to the external test set, and say how far its scans lie from those.

    Parameters
    ----------
    external : External or None
        As `plan_external` returned it.
    distribution : TrainingDistribution, str or None
        Of the scans that the probe is fitted on, or why there is none; None where it is not asked for.
    progress : Progress
        Told how far the work is.
    """
    if external is None:
        return Tested()
    study, split = external.study, external.split
    models: Models = {}
    designs = study_designs(study)
    with progress.task("Testing on the external scans", len(designs), "model") as task:
        for name, design in designs.items():
            decided = fit_and_decide(
                design,
                study.target,
                split.train,
                split.test,
                subjects=study.subjects,
                settings=study.settings,
                seed=final_seed(study),
                sites=study.sites,
                validation=split.validation,
                estimator=study.estimator_of(name),
            )
            models[name] = _as_predictions(decided, split.test, study.target)
            task.advance()
    tables = {
        "external_predictions": prediction_table(study.table, study.target, models),
        "external_sites": site_table(study.table, study.target, models, study.subjects, study.settings),
    }
    outlying = measure_external(study, split, distribution)
    if outlying.table is not None:
        tables["external_outlyingness"] = outlying.table
    return Tested({**_summary(external, models), "outlyingness": outlying.summary}, tables, outlying.notices)


def _as_predictions(decided: Decided, test: npt.NDArray[np.intp], target: Target) -> OutOfFold:
    n = len(target.values)
    shape = (1, n, len(target.classes)) if target.kind == "multiclass" else (1, n)
    scores, decisions = np.full(shape, np.nan), np.zeros((1, n), dtype=np.int64)
    folds = np.full((1, n), -1, dtype=np.intp)
    scores[0, test], decisions[0, test], folds[0, test] = decided.fit.scores, decided.decisions, 0
    fit = decided.fit
    return OutOfFold(scores, decisions, folds, [fit.strength], fit.n_not_converged, [decided.threshold])


def _summary(external: External, models: Models) -> dict[str, Any]:
    study, rows, settings = external.study, external.split.test, external.study.settings
    names = [name for name in study.target.metric_names if name not in POOLED_ONLY]
    resamples: dict[str, dict[str, Resamples]] = {}
    if settings.n_bootstraps:
        seed = derive_seed("external-intervals", settings.seed)
        resamples = bootstrap_metrics(
            study.target, models, study.subjects, n_bootstraps=settings.n_bootstraps, seed=seed, rows=rows, names=names
        )
    parts = {name: _metrics(external, model, resamples.get(name), names) for name, model in models.items()}
    tested = study.table.iloc[rows]
    return {
        "n": {
            "scans": len(rows),
            "subjects": int(tested["subject_id"].nunique()),
            "sites": int(tested["site"].nunique()),
            "excluded": external.excluded,
        },
        "sites": sorted(tested["site"].dropna().unique()),
        "n_train": len(external.split.train),
        "strength": finite_or_none(models["embedding"].strengths[0]),
        "threshold": models["embedding"].thresholds[0],
        "metrics": parts["embedding"],
        "baseline": parts["baseline"],
        "baseline_covariates": list(study.covariates),
        "increment": _increment(external, models, parts, resamples),
        "n_overlap": external.n_overlap,
    }


def _metrics(
    external: External, model: OutOfFold, drawn: dict[str, Resamples] | None, names: list[str]
) -> dict[str, dict[str, Any]]:
    study, rows, level = external.study, external.split.test, external.study.settings.confidence_level
    values = pooled_metrics(study.target, model, rows=rows)
    reason = explain_undefined(study.target.kind, study.target.values[rows], study.target.classes)
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        value = finite_or_none(values[name][0])
        interval = None if drawn is None or value is None else drawn[name].interval(level=level)
        method = None if interval is None else "bootstrap"
        if name == "auc" and _delong_applies(external):
            low, high = delong_interval(study.target.values[rows], model.scores[0, rows], level=level)[1]
            # Classes told apart perfectly have no spread to estimate from; that does not make the AUC certain.
            interval, method = ((low, high), "delong") if low < high else (None, None)
        found[name] = {"value": value, "interval": interval and list(interval), "interval_method": method}
        if value is None:
            found[name]["reason"] = explain_value(name, reason)
    return found


def _increment(
    external: External, models: Models, parts: dict[str, dict[str, dict[str, Any]]], resamples: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    rows, level = external.split.test, external.study.settings.confidence_level
    found: dict[str, dict[str, Any]] = {}
    for name, part in parts["embedding"].items():
        ours, theirs = part["value"], parts["baseline"][name]["value"]
        difference = None if ours is None or theirs is None else ours - theirs
        interval = None
        if resamples and difference is not None:
            drawn = resamples["embedding"][name] - resamples["baseline"][name]
            interval = drawn.interval(level=level)
        found[name] = {
            "difference": difference,
            "interval": interval and list(interval),
            "interval_method": None if interval is None else "bootstrap",
        }
    if "auc" in found and _delong_applies(external):
        scores = [models[name].scores[0, rows] for name in ("embedding", "baseline")]
        test = delong_test(external.study.target.values[rows], *scores)
        reach = float(stats.norm.ppf((1 + level) / 2)) * test.standard_error
        interval = [test.difference - reach, test.difference + reach]
        spread = test.standard_error > 0
        found["auc"] |= {"interval": interval if spread else None, "interval_method": "delong" if spread else None}
        found["auc"]["p_value"] = test.p_value if np.isfinite(test.p_value) else None
    return found


def _delong_applies(external: External) -> bool:
    """One scan a subject, two classes, two scans of each."""
    study, rows = external.study, external.split.test
    if study.target.kind != "binary" or len(set(study.subjects[rows])) < len(rows):
        return False
    return bool(np.bincount(study.target.values[rows], minlength=2).min() >= 2)
