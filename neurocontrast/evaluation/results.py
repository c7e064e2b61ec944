"""What a study found, put together: ``evaluation.json``, and warnings that only the results can give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from neurocontrast.evaluation.crossval import OutOfFold
from neurocontrast.evaluation.designs import kept_columns
from neurocontrast.evaluation.estimators import STRENGTH_NAMES, describe_built_in
from neurocontrast.evaluation.fitted import why_not_stored
from neurocontrast.evaluation.metrics import finite_or_none
from neurocontrast.evaluation.own_estimator import describe_own
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.schema import Evaluation, Notice, compose_evaluation
from neurocontrast.evaluation.splits import parts_of
from neurocontrast.evaluation.splits.files import split_table
from neurocontrast.files import digest_of

__all__ = ["describe_split", "look_at_results", "study_summary"]

POOLING_GAP = 0.05
"""A pooled AUC that differs more than this from the one within folds is warned about."""
FEW_MOVED = 0.1
"""A permutation test that changes the labels of a smaller share of the scans is warned about."""


def look_at_results(figures: Mapping[str, Any], models: Mapping[str, OutOfFold]) -> list[Notice]:
    """Return warnings about what was found."""
    found = []
    failed = sum(model.n_not_converged for model in models.values())
    if failed:
        found.append(
            Notice(
                "not_converged",
                f"{failed} fits stopped before they had converged.",
                "Their coefficients are not the best ones; more scans, a smaller C, or more steps usually help.",
            )
        )
    for name, part in (("embedding", "metrics"), ("baseline", "baseline")):
        pooled, within = (figures[part].get(key, {}).get("pooled") for key in ("auc", "auc_within_fold"))
        if pooled is not None and within is not None and abs(pooled - within) > POOLING_GAP:
            found.append(
                Notice(
                    "pooled_auc_mixes_folds",
                    f"The pooled AUC of the {name} is {pooled:.2f}, but {within:.2f} when scans are compared within "
                    "their fold only: the classes are spread unevenly over folds, and models of different folds have "
                    "different base rates. Read auc_within_fold, of the increment too.",
                    "Pooling compares scores of models that were fitted on different scans. The AUC within folds does "
                    "not.",
                )
            )
    if figures["split"] is None and figures["metrics"].get("auc", {}).get("pooled") == 1.0:
        found.append(
            Notice(
                "perfect_separation",
                "The embedding tells the classes apart without one error (AUC 1). Scans of people rarely are: look for "
                "what gives the class away (a scanner, a preprocessing, a label in the image) before believing it. "
                "There is no interval, since every resample is without an error too.",
                "Such a figure comes from a leak more often than from a disease.",
            )
        )
    permutation = figures.get("permutation")
    if permutation and permutation["share_moved"] < FEW_MOVED:
        found.append(
            Notice(
                "permutation_moves_few",
                f"A permutation changes the labels of {permutation['share_moved']:.0%} of the scans only, since labels "
                "are exchanged within site and fold, and few subjects of different labels share both: the permutation "
                "test can find next to nothing. Larger sites, or fewer folds, give it more to exchange.",
                "A large permutation p-value is no evidence against the model here.",
            )
        )
    return found


def _probe_choices(study: Study, model: OutOfFold) -> dict[str, Any]:
    settings, own = study.settings, study.estimator
    continuous = study.target.kind == "continuous"
    return {
        "name": study.probe,
        "own": own is not None,
        "estimator": describe_own(own)[1]
        if own is not None
        else describe_built_in(study.probe, continuous=continuous, settings=settings),
        "strength_name": STRENGTH_NAMES.get(study.probe),
        "strength": finite_or_none(float(np.median(model.strengths))),
        "sgd": {**settings.sgd.model_dump(mode="json"), "schedule": "cosine"} if study.probe == "sgd" else None,
        "why_not_stored": why_not_stored(study),
        "inner_splits": settings.inner_splits,
        "clip": settings.clip,
        "recentre": settings.recentre,
        "recentre_preserve": list(kept_columns(study.table, settings, by="recentre", target=study.target.name)),
    }


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


def study_summary(
    study: Study,
    models: Mapping[str, OutOfFold],
    figures: Mapping[str, Any],
    notices: list[Notice],
) -> Evaluation:
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
