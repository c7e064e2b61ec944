"""A whole evaluation in memory: from features and metadata to tables and a summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.covariates import CovariateDesign, choose_covariates
from neurocontrast.evaluation.crossval import OutOfFold, cross_validate
from neurocontrast.evaluation.leakage import check_duplicates, check_overlap
from neurocontrast.evaluation.notices import Notice, look_at_cohort, look_at_covariates, look_at_missing, look_at_splits
from neurocontrast.evaluation.permutation import permutation_p_values
from neurocontrast.evaluation.probes import Design
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.split_files import split_table, splits_from_table
from neurocontrast.evaluation.splits import Split, check_class_sizes, check_splits, leave_site_out, stratified
from neurocontrast.evaluation.summaries import fold_table, metric_summary, site_table
from neurocontrast.evaluation.table import check_rows, row_names, select_rows, tidy_table
from neurocontrast.evaluation.tables import cohort_table, example_scans, map_table, prediction_table
from neurocontrast.evaluation.target import Target, read_target
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import digest_of
from neurocontrast.progress import SILENT, Progress
from neurocontrast.seeds import derive_seed

__all__ = ["Evaluation", "Study", "plan_study", "run_study"]

POOLING_GAP = 0.05
"""A pooled AUC that differs more than this from the one within folds is warned about."""


@dataclass(frozen=True)
class Study:
    """Everything that is decided before the first probe is fitted.

    Attributes
    ----------
    settings : EvaluationSettings
        What was asked for.
    table, features : DataFrame, array
        The scans that take part, in one order.
    target : Target
        What is predicted.
    splits : list of Split
        The folds.
    covariates : tuple of str
        Columns of the baseline.
    excluded : dict of str to int
        Scans that do not take part, by reason.
    n_overlap : int
        Subjects that were in pretraining too.
    from_file : bool
        Whether the folds were given.
    notices : list of Notice
        What a reader must know first.
    """

    settings: EvaluationSettings
    table: pd.DataFrame
    features: npt.NDArray[np.floating]
    target: Target
    splits: list[Split]
    covariates: tuple[str, ...]
    excluded: dict[str, int] = field(default_factory=dict)
    n_overlap: int = 0
    from_file: bool = False
    notices: list[Notice] = field(default_factory=list)

    @property
    def subjects(self) -> npt.NDArray[np.object_]:
        """Subject of each scan."""
        return self.table["subject_id"].to_numpy(dtype=object)


@dataclass(frozen=True)
class Evaluation:
    """Result of an evaluation: a JSON-ready summary, and tables by name."""

    summary: dict[str, Any]
    tables: dict[str, pd.DataFrame]


def plan_study(
    table: pd.DataFrame,
    features: npt.NDArray[np.floating],
    *,
    settings: EvaluationSettings,
    info: Mapping[str, Any] | None = None,
    split_rows: pd.DataFrame | None = None,
) -> Study:
    """Check everything that can be checked before computing, and make the folds.

    Parameters
    ----------
    table, features : DataFrame, array (n, p)
        Identifiers and metadata of each scan, and its embedding.
    settings : EvaluationSettings
        What to evaluate and how.
    info : mapping, optional
        What the embeddings say of themselves; ``pretraining_subjects`` holds digests.
    split_rows : DataFrame, optional
        Folds to use instead of new ones, as `read_split_file` returns them.

    Raises
    ------
    ConfigError, DataError, LeakageError
        Each naming column, site, class or subject, and what to do.
    """
    tidy = tidy_table(table)
    check_rows(tidy, features)
    kept = np.flatnonzero(select_rows(tidy, settings.where))
    chosen = tidy.iloc[kept].reset_index(drop=True)
    target, present = read_target(chosen, settings.target, kind=settings.kind, positive=settings.positive)
    chosen, features = chosen[present].reset_index(drop=True), features[kept[present]]
    n_overlap, overlaps = check_overlap(chosen, info or {}, allow_overlap=settings.allow_overlap)
    duplicates = check_duplicates(chosen, features, allow_overlap=settings.allow_overlap)
    splits = _make_splits(chosen, target, settings, split_rows)
    leaving = any(split.held_out_site is not None for split in splits)
    names, dropped = choose_covariates(chosen, settings.covariates, target=settings.target, sites_held_out=leaving)
    n_missing = int((~present).sum())
    excluded = {"not selected by where": len(tidy) - len(kept), f"{settings.target} missing": n_missing}
    notices = [
        *overlaps,
        *duplicates,
        *look_at_cohort(chosen, target, min_site_n=settings.min_site_n),
        *look_at_splits(splits, target, chosen["subject_id"].to_numpy(dtype=object)),
        *look_at_covariates(names, dropped),
        *look_at_missing(settings.target, n_missing),
    ]
    excluded, from_file = {reason: n for reason, n in excluded.items() if n}, split_rows is not None
    return Study(settings, chosen, features, target, splits, names, excluded, n_overlap, from_file, notices)


def run_study(study: Study, *, progress: Progress = SILENT) -> Evaluation:
    """Fit the probes, and compute every table and figure of an evaluation."""
    settings, target = study.settings, study.target
    models = _predict(study, progress)
    folds = fold_table(target, study.splits, models)
    figures = metric_summary(target, folds, models, study.subjects, settings)
    figures["permutation"] = _permute(study, figures["metrics"], progress) if settings.n_permutations else None
    tables = {
        "predictions": prediction_table(study.table, target, models),
        "folds": folds,
        "sites": site_table(study.table, target, models, study.subjects, settings),
        "cohort": cohort_table(study.table, target),
        "map": map_table(study.table, target, study.features, seed=settings.seed, umap=settings.umap),
        "splits": split_table(study.table, study.splits),
        "scans": example_scans(study.table, target),
    }
    notices = [*study.notices, *_look_at_results(figures, models)]
    return Evaluation(_summary(study, figures, notices), tables)


def _make_splits(
    table: pd.DataFrame, target: Target, settings: EvaluationSettings, split_rows: pd.DataFrame | None
) -> list[Split]:
    subjects = table["subject_id"].to_numpy(dtype=object)
    if split_rows is not None:
        splits = splits_from_table(split_rows, table)
    elif settings.splits == "leave-site-out":
        if target.name == "site":
            raise ConfigError(
                "splits: a site that is held out cannot be predicted. For target=site use splits=stratified."
            )
        if settings.n_repeats > 1:
            raise ConfigError(
                f"n_repeats: leaving each site out gives the same folds every time, so it must be 1, got "
                f"{settings.n_repeats}. Leave it out, or use splits=stratified."
            )
        splits = leave_site_out(list(table["site"]), subjects, names=row_names(table, np.arange(len(table))))
    else:
        check_class_sizes(target, subjects, settings.n_folds)
        splits = _deal(table, target, settings, settings.seed)
    check_splits(splits, target, subjects)
    return splits


def _deal(table: pd.DataFrame, target: Target, settings: EvaluationSettings, seed: int) -> list[Split]:
    subjects = table["subject_id"].to_numpy(dtype=object)
    n_folds, n_repeats = settings.n_folds, settings.n_repeats
    return stratified(target, list(table["site"]), subjects, n_folds=n_folds, n_repeats=n_repeats, seed=seed)


def _features_design(study: Study) -> Design:
    features = np.asarray(study.features, dtype=np.float64)
    return lambda train, test: (features[train], features[test])


def _predict(study: Study, progress: Progress) -> dict[str, OutOfFold]:
    designs: dict[str, Design] = {
        "embedding": _features_design(study),
        "baseline": CovariateDesign(study.table, study.covariates),
    }
    models = {}
    with progress.task("Fitting probes", len(designs) * len(study.splits), "fold") as task:
        for name, design in designs.items():
            models[name] = cross_validate(
                design,
                study.target,
                study.splits,
                subjects=study.subjects,
                settings=study.settings,
                advance=task.advance,
            )
    return models


def _permute(study: Study, metrics: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    settings, is_site = study.settings, study.target.name == "site"

    def make_splits(target: Target, permutation: int) -> list[Split]:
        if study.from_file or settings.splits != "stratified":
            return study.splits
        return _deal(study.table, target, settings, derive_seed("permuted-folds", settings.seed, permutation))

    with progress.task("Permuting labels", settings.n_permutations, "permutation") as task:
        p_values = permutation_p_values(
            _features_design(study),
            study.target,
            make_splits,
            sites=[None] * len(study.table) if is_site else list(study.table["site"]),
            subjects=study.subjects,
            settings=settings,
            observed={name: np.nan if part["pooled"] is None else part["pooled"] for name, part in metrics.items()},
            advance=task.advance,
        )
    return {"n": settings.n_permutations, "unit": "subject", "within_site": not is_site, "p_values": p_values}


def _look_at_results(figures: Mapping[str, Any], models: Mapping[str, OutOfFold]) -> list[Notice]:
    found = []
    failed = sum(model.n_not_converged for model in models.values())
    if failed:
        found.append(Notice("not_converged", f"{failed} logistic fits stopped before they had converged."))
    for name, part in (("embedding", "metrics"), ("baseline", "baseline")):
        pooled, within = (figures[part].get(key, {}).get("pooled") for key in ("auc", "auc_within_fold"))
        if pooled is not None and within is not None and abs(pooled - within) > POOLING_GAP:
            found.append(
                Notice(
                    "pooled_auc_mixes_folds",
                    f"The pooled AUC of the {name} is {pooled:.2f}, but {within:.2f} when scans are compared within "
                    "their fold only: the classes are spread unevenly over folds, and models of different folds have "
                    "different base rates. Read auc_within_fold, of the increment too.",
                )
            )
    return found


def _summary(study: Study, figures: Mapping[str, Any], notices: list[Notice]) -> dict[str, Any]:
    settings, target = study.settings, study.target
    folds = (
        split_table(study.table, study.splits)
        .astype(object)
        .fillna("")
        .astype(str)
        .sort_values(["repeat", "participant_id", "session"])
    )
    return {
        "format": 1,
        "target": target.name,
        "kind": target.kind,
        "classes": list(target.classes),
        "positive": target.positive,
        "splits": "file" if study.from_file else settings.splits,
        "splits_digest": digest_of(folds.to_csv(index=False)),
        "n_folds": 1 + max(split.fold for split in study.splits),
        "n_repeats": 1 + max(split.repeat for split in study.splits),
        "seed": settings.seed,
        "n": {
            "scans": len(study.table),
            "subjects": int(study.table["subject_id"].nunique()),
            "sites": int(study.table["site"].nunique()),
            "features": int(study.features.shape[1]),
            "excluded": study.excluded,
        },
        **figures,
        "baseline_covariates": list(study.covariates),
        "warnings": [{"code": notice.code, "message": notice.message} for notice in notices],
        "bootstrap": {"n": settings.n_bootstraps, "unit": "subject", "level": settings.confidence_level},
        "allow_overlap": settings.allow_overlap,
        "n_overlap": study.n_overlap,
    }
