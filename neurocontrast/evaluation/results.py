"""What a study found, put together: metrics, warnings that only the results can give, and ``evaluation.json``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from neurocontrast.evaluation.designs import kept_columns
from neurocontrast.evaluation.estimators import describe_built_in, describe_own
from neurocontrast.evaluation.fitting import OutOfFold
from neurocontrast.evaluation.metrics import (
    POOLED_ONLY,
    compute_metrics,
    explain_undefined,
    explain_value,
    finite_or_none,
)
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.probes import get_probe
from neurocontrast.evaluation.schema import Evaluation, Notice, compose_evaluation
from neurocontrast.evaluation.splits import parts_of
from neurocontrast.evaluation.splits.given import split_table
from neurocontrast.evaluation.uncertainty import Resamples, bootstrap_metrics, pooled_metrics, resampled_names
from neurocontrast.files import digest_of
from neurocontrast.seeds import derive_seed

__all__ = ["compose", "describe_split", "fold_table", "look_at_results", "metric_summary"]

Models = dict[str, OutOfFold]

POOLING_GAP = 0.05
"""A pooled AUC that differs more than this from the one within folds is warned about."""
FEW_MOVED = 0.1
"""A permutation test that changes the labels of a smaller share of the scans is warned about."""


def look_at_results(figures: Mapping[str, Any], models: Models) -> Iterable[Notice]:
    """Yield warnings about what was found."""
    failed = sum(model.n_not_converged for model in models.values())
    if failed:
        yield Notice(
            "not_converged",
            f"{failed} fits stopped before they had converged.",
            "Their coefficients are not the best ones; more scans, a smaller C, or more steps usually help.",
        )
    for name, part in (("embedding", "metrics"), ("baseline", "baseline")):
        pooled, within = (figures[part].get(key, {}).get("pooled") for key in ("auc", "auc_within_fold"))
        if pooled is not None and within is not None and abs(pooled - within) > POOLING_GAP:
            yield Notice(
                "pooled_auc_mixes_folds",
                f"The pooled AUC of the {name} is {pooled:.2f}, but {within:.2f} when scans are compared within "
                "their fold only: the classes are spread unevenly over folds, and models of different folds have "
                "different base rates. Read auc_within_fold, of the increment too.",
                "Pooling compares scores of models that were fitted on different scans. The AUC within folds does not.",
            )
    if figures["split"] is None and figures["metrics"].get("auc", {}).get("pooled") == 1.0:
        yield Notice(
            "perfect_separation",
            "The embedding tells the classes apart without one error (AUC 1). Scans of people rarely are: look for "
            "what gives the class away (a scanner, a preprocessing, a label in the image) before believing it. "
            "There is no interval, since every resample is without an error too.",
            "Such a figure comes from a leak more often than from a disease.",
        )
    permutation = figures.get("permutation")
    if permutation and permutation["share_moved"] < FEW_MOVED:
        yield Notice(
            "permutation_moves_few",
            f"A permutation changes the labels of {permutation['share_moved']:.0%} of the scans only, since labels "
            "are exchanged within site and fold, and few subjects of different labels share both: the permutation "
            "test can find next to nothing. Larger sites, or fewer folds, give it more to exchange.",
            "A large permutation p-value is no evidence against the model here.",
        )


def fold_table(study: Study, models: Models) -> pd.DataFrame:
    """Return one row a split: sizes, metrics of every model, and the strength that the probe chose."""
    target, rows = study.target, []
    for number, split in enumerate(study.splits):
        row: dict[str, Any] = {
            "repeat": split.repeat,
            "fold": split.fold,
            "n_train": len(split.train),
            "n_test": len(split.test),
            "n_positive_test": int((target.values[split.test] == 1).sum()) if target.kind == "binary" else None,
        }
        for name, model in models.items():
            place = (split.repeat, split.test)
            values = compute_metrics(
                target.kind, target.values[split.test], model.scores[place], decisions=model.decisions[place]
            )
            names = [metric for metric in target.metric_names if metric not in POOLED_ONLY]
            row |= {_prefix(name) + metric: finite_or_none(values[metric][0]) for metric in names}
        if study.strength_name is not None:
            row[study.strength_name] = models["embedding"].strengths[number]
        row["held_out_site"] = split.held_out_site
        rows.append(row)
    return pd.DataFrame(rows)


def metric_summary(study: Study, folds: pd.DataFrame, models: Models) -> dict[str, Any]:
    """Return ``metrics``, ``baseline`` and ``increment`` of evaluation.json, and where there are voxels theirs.

    ``mean`` and ``sd`` are over the folds in which a metric is defined, ``pooled`` is of all out-of-fold predictions
    together (averaged over repeats), ``interval`` is of ``pooled``, over resamples of the study's units. A metric that
    is not defined is None and has a ``reason``.
    """
    target, settings, rows = study.target, study.settings, models["embedding"].tested
    pooled = {name: pooled_metrics(target, model, rows=rows) for name, model in models.items()}
    resamples: dict[str, dict[str, Resamples]] = {}
    if settings.n_bootstraps:
        resamples = bootstrap_metrics(
            target, models, study.units.labels, n_bootstraps=settings.n_bootstraps,
            seed=derive_seed("intervals", settings.seed), rows=rows,
            names=resampled_names(target, rows, fixed=study.fixed),
        )  # fmt: skip
    reason = explain_undefined(target.kind, target.values[rows], target.classes)

    def interval(drawn: Resamples | None, value: float | None) -> list[float] | None:
        found = None if drawn is None or value is None else drawn.interval(level=settings.confidence_level)
        return None if found is None else list(found)

    def described(model: str, name: str) -> dict[str, Any]:
        column = _prefix(model) + name.removesuffix("_within_fold")  # within one fold, the two are one
        per_fold = folds[column].dropna().to_numpy(dtype=float) if column in folds else np.array([])
        value = finite_or_none(pooled[model][name][0])
        found: dict[str, Any] = {
            "mean": finite_or_none(per_fold.mean()) if len(per_fold) else None,
            "sd": finite_or_none(per_fold.std(ddof=1)) if len(per_fold) > 1 else None,
            "pooled": value,
            "interval": interval(resamples.get(model, {}).get(name), value),
            "n_folds_defined": len(per_fold),
        }
        return found | ({"reason": explain_value(name, reason)} if value is None else {})

    def against(other: str, name: str) -> dict[str, Any]:
        difference = finite_or_none(pooled["embedding"][name][0] - pooled[other][name][0])
        ours = resamples.get("embedding", {})
        drawn = ours[name] - resamples[other][name] if name in ours else None
        return {"difference": difference, "interval": interval(drawn, difference)}

    keys = {"embedding": "metrics", "baseline": "baseline", "voxels": "voxels"}
    increments = {"baseline": "increment", "voxels": "voxels_increment"}
    names = target.metric_names
    figures = {keys[model]: {name: described(model, name) for name in names} for model in models}
    return figures | {
        key: {name: against(other, name) for name in names} for other, key in increments.items() if other in models
    }


def _prefix(model: str) -> str:
    return "" if model == "embedding" else f"{model}_"


def describe_split(study: Study) -> dict[str, Any] | None:
    """Return ``split`` of evaluation.json: the parts of the fixed design, and what was done with each; else None."""
    if not study.fixed:
        return None
    split = study.splits[0]
    parts = parts_of(split)
    validated = len(parts["validation"]) > 0
    return {
        "column": study.settings.split_column,
        "n": {name: len(rows) for name, rows in parts.items()},
        "chosen_on": "validation" if validated else "a fifth of train",
        "refit_on": ["train", "validation"] if validated else ["train"],
        "n_fitted": len(split.train),
        "n_pretrained": study.seen,
        "n_duplicates": {"test": study.n_twins},
    }


def compose(study: Study, models: Models, figures: Mapping[str, Any], notices: list[Notice]) -> Evaluation:
    """Return the evaluation of a study; `figures` are its metrics and what goes with them."""
    settings, target = study.settings, study.target
    folds = (
        split_table(study.table, study.splits)
        .astype(object)
        .fillna("")
        .astype(str)
        .sort_values(["repeat", "participant_id", "session"])
    )
    content = {
        "target": target.name,
        "kind": target.kind,
        "classes": list(target.classes),
        "positive": target.positive,
        "splits": study.how_split,
        **({} if study.splitter is None else {"splitter": study.splitter}),
        "splits_digest": digest_of(folds.to_csv(index=False)),
        "n_folds": 1 + max(split.fold for split in study.splits),
        "n_repeats": 1 + max(split.repeat for split in study.splits),
        "seed": settings.seed,
        "probe": _probe_choices(study, models["embedding"]),
        "n": {
            "scans": len(study.table),
            "subjects": int(study.table["subject_id"].nunique()),
            "sites": int(study.table["site"].nunique()),
            "features": int(study.features.shape[1]),
            "excluded": study.excluded,
        },
        **figures,
        "threshold": {"rule": settings.threshold, "values": models["embedding"].thresholds},
        "baseline_covariates": list(study.covariates),
        "warnings": notices,
        "bootstrap": {
            "n": settings.n_bootstraps,
            "method": "BCa",
            "unit": study.units.name,
            "n_units": len(set(study.units.labels[study.splits[0].test])) if study.fixed else study.units.n,
            "level": settings.confidence_level,
        },
        "allow_overlap": settings.allow_overlap,
        "n_overlap": study.n_overlap,
    }
    return compose_evaluation(content)


def _probe_choices(study: Study, model: OutOfFold) -> dict[str, Any]:
    settings, own = study.settings, study.estimator
    kept = kept_columns(study.table, settings, by="recentre", target=study.target.name)
    if own is None:
        probe, continuous = get_probe(study.probe), study.target.kind == "continuous"
        text = describe_built_in(study.probe, continuous=continuous, settings=settings)
        about = {"estimator": text, "title": probe.title, "citation": probe.citation}
    else:
        about = {"estimator": describe_own(own)[1]}
    return {
        "name": study.probe,
        "own": own is not None,
        **about,
        "strength_name": study.strength_name,
        "strength": finite_or_none(float(np.median(model.strengths))),
        "sgd": {**settings.sgd.model_dump(mode="json"), "schedule": "cosine"} if study.probe == "sgd" else None,
        "why_not_stored": study.why_not_stored,
        "inner_splits": settings.inner_splits,
        "clip": settings.clip,
        "recentre": settings.recentre,
        "recentre_preserve": list(kept),
    }
