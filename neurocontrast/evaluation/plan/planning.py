"""Everything that is decided before the first probe is fitted: who, what, and in which folds."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator

from neurocontrast.data.columns import matching_rows
from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.documents.notice import Notice
from neurocontrast.documents.result import FixedSplit
from neurocontrast.evaluation.plan.leakage import (
    ALLOWED_COPIES,
    check_duplicates,
    check_overlap,
    pretrained,
)
from neurocontrast.evaluation.plan.models import MODELS, GivenModel, ProbeModel
from neurocontrast.evaluation.plan.notices import look_at_cohort, look_at_size
from neurocontrast.evaluation.plan.plan import Plan, SplitDesign
from neurocontrast.evaluation.plan.units import choose_units
from neurocontrast.evaluation.probe_kinds import PROBES
from neurocontrast.evaluation.probes.adjustment import check_adjustment, look_at_inner_folds
from neurocontrast.evaluation.probes.designs import blocks_of
from neurocontrast.evaluation.probes.estimators import (
    as_estimator,
    check_own,
    describe_own,
    gives_probabilities,
)
from neurocontrast.evaluation.probes.members import members_of
from neurocontrast.evaluation.rows import check_rows, row_names, site_names, tidy_table
from neurocontrast.evaluation.settings import EvaluationSettings, check_probe
from neurocontrast.evaluation.splits import (
    Split,
    check_class_sizes,
    check_splits,
    leave_site_out,
    parts_of,
    stratified,
)
from neurocontrast.evaluation.splits.given import (
    check_fixed,
    describe_splitter,
    fixed_split,
    look_at_fixed,
    look_at_twins,
    read_split_file,
    splits_from_cv,
    splits_from_table,
)
from neurocontrast.evaluation.target import MAX_CLASSES, MAX_IMAGE_CLASSES, Target, read_target
from neurocontrast.exceptions import ConfigError
from neurocontrast.provenance import CONTENT

_OF_FOLDS = ("site_missing", "fold_untested")
"""Warnings that say nothing of the fixed design: images have no site, and most are fitted on."""


def plan_evaluation(
    table: pd.DataFrame,
    features: npt.NDArray[np.floating],
    *,
    settings: EvaluationSettings,
    info: EmbeddingsInfo | None = None,
    split_rows: pd.DataFrame | None = None,
    estimator: BaseEstimator | None = None,
    cv: Any = None,
    network: GivenModel | None = None,
) -> Plan:
    """Check everything that can be checked before computing, and make folds and models.

    Parameters
    ----------
    table, features : DataFrame, array (n, p)
        Identifiers and metadata of each scan, and its embedding.
    settings : EvaluationSettings
        What to evaluate and how.
    info : EmbeddingsInfo, optional
        Description of the embeddings, with the digests of pretraining.
    split_rows : DataFrame, optional
        Folds to use instead of new ones, as `read_split_file` returns them; of the file that the
        settings name by default.
    estimator : estimator, optional
        A scikit-learn classifier, regressor or pipeline to fit instead of the built-in one that the
        settings name. For classes, it is fitted to their codes; of two classes 1 is the positive
        one.
    cv : splitter, or iterable of index pairs, optional
        What makes the folds instead, as `splits_from_cv` calls it.
    network : GivenModel, optional
        Network that is trained in every fold, in place of a probe on frozen features; features are
        then the rows of the scans in their table.
    """
    _check_one_design(settings, cv)
    if split_rows is None and settings.split_file is not None:
        split_rows = read_split_file(settings.split_file)
    scans = _choose_scans(table, features, settings)
    if estimator is None and ":" in settings.probe:
        raise ConfigError(
            f"probe: '{settings.probe}' is an import path. Import it, and give it as estimator."
        )
    if estimator is not None:
        if settings.probe in PROBES:
            raise ConfigError(
                f"probe: '{settings.probe}' and an estimator are given. Leave out the one or the other."
            )
        estimator = as_estimator(estimator)
        check_own(estimator, scans.target, threshold=settings.threshold)
        if scans.target.kind != "continuous" and not gives_probabilities(estimator):
            scans = scans._replace(target=replace(scans.target, has_probabilities=False))
    plan = _plan(scans, settings, info or EmbeddingsInfo(), split_rows, cv)
    if network is None:
        n_features = plan.features.shape[1]
        plan = replace(
            plan,
            blocks=blocks_of(plan.info, n_features),
            members=members_of(plan.info, n_features),
        )
    if estimator is not None:
        plan = replace(plan, estimator=estimator)
        if not plan.target.has_probabilities:
            plan = plan.with_notices(
                [Notice.of("no_probabilities", estimator=describe_own(estimator)[0])]
            )
    plan = plan.with_model(network or ProbeModel("embedding", plan.design(), plan.estimator))
    for make in MODELS:
        plan = plan.with_outcome(make(plan))
    return plan


class _Scans(NamedTuple):
    """Scans that take part, with their target: `rows` of `everything`; and those that do not, by reason."""

    everything: pd.DataFrame
    rows: npt.NDArray[np.intp]
    left_out: dict[str, npt.NDArray[np.bool_]]
    table: pd.DataFrame
    features: npt.NDArray[np.floating]
    target: Target


def _choose_scans(
    table: pd.DataFrame, features: npt.NDArray[np.floating], settings: EvaluationSettings
) -> _Scans:
    """Return the scans of a table that the settings select and that have a target."""
    tidy = tidy_table(table)
    check_rows(tidy, features)
    selected = matching_rows(tidy, settings.where, place="where")
    kept = np.flatnonzero(selected)
    chosen = tidy.iloc[kept].reset_index(drop=True)
    most = MAX_CLASSES if settings.split_column is None else MAX_IMAGE_CLASSES
    target, present = read_target(
        chosen, settings.target, kind=settings.kind, positive=settings.positive, max_classes=most
    )
    check_probe(settings, target)
    rows = kept[present]
    taken = (
        features if len(rows) == len(features) else features[rows]
    )  # no second copy of all there is
    missing = np.isin(np.arange(len(tidy)), kept[~present])
    reasons = {"not selected by where": ~selected, f"{target.name} missing": missing}
    left_out = {reason: part for reason, part in reasons.items() if part.any()}
    return _Scans(tidy, rows, left_out, chosen[present].reset_index(drop=True), taken, target)


def _flow(
    scans: _Scans, splits: list[Split], info: EmbeddingsInfo, *, why_untested: str
) -> pd.DataFrame:
    """Return one row a step, ``step``, ``n_scans``, ``n_subjects`` and ``reason``: which scans came in and left."""
    tested = np.zeros(len(scans.everything), dtype=bool)
    tested[scans.rows[np.unique(np.concatenate([split.test for split in splits]))]] = True
    untested = np.isin(np.arange(len(tested)), scans.rows) & ~tested
    before = [step.content() for step in info.flow]
    steps: list[tuple[str, npt.NDArray[np.bool_], str | None]] = [
        ("embedded", np.ones(len(tested), dtype=bool), None)
    ]
    steps += [("excluded", part, reason) for reason, part in scans.left_out.items()]
    steps += [("excluded", untested, why_untested)] if untested.any() else []
    subjects = scans.everything["subject_id"]
    rows = [
        {
            "step": step,
            "n_scans": int(part.sum()),
            "n_subjects": subjects[part].nunique(),
            "reason": reason,
        }
        for step, part, reason in [*steps, ("evaluated", tested, None)]
    ]
    return pd.DataFrame([*before, *rows], columns=["step", "n_scans", "n_subjects", "reason"])


def _check_one_design(settings: EvaluationSettings, cv: Any) -> None:
    """Refuse settings that say how folds are made where a splitter says the same; a split file goes before them."""
    if cv is None:
        return
    others = {
        "split_file": settings.split_file is not None,
        "split_column": settings.split_column is not None,
        f"splits={settings.splits}": settings.splits != "stratified",
        "n_repeats": settings.n_repeats > 1,
    }
    found = [name for name, given in others.items() if given]
    if found:
        raise ConfigError(
            f"cv: a splitter makes all folds, and {' and '.join(found)} would too. Leave out either."
        )


def _plan(
    scans: _Scans,
    settings: EvaluationSettings,
    info: EmbeddingsInfo,
    split_rows: pd.DataFrame | None,
    cv: Any,
) -> Plan:
    """Make the splits and refuse leaks over them; return the plan, without a model."""
    table = scans.table
    target = scans.target
    splits = _make_splits(scans, settings, split_rows, cv)
    check_adjustment(table, settings, splits, target=target.name)
    subjects = table["subject_id"].to_numpy(dtype=object)
    units = choose_units(
        settings.bootstrap_unit, site_names(table["site"]), subjects, target=target.name
    )
    excluded = {}
    for reason, rows in scans.left_out.items():
        excluded[reason] = int(rows.sum())
    cautions = [
        *look_at_cohort(table, target, splits, min_site_n=settings.min_site_n),
        *look_at_inner_folds(table, target, splits, settings),
    ]
    n_missing = excluded.get(f"{target.name} missing", 0)
    if n_missing:
        cautions.append(Notice.of("excluded_missing_target", target=target.name, n=n_missing))
    cautions += look_at_size(splits, settings)
    cautions += units.notices
    if settings.split_column is None:
        design = _describe_folds(settings, splits, split_rows, cv)
        overlap = check_overlap(table, info, allow_overlap=settings.allow_overlap)
        twins = check_duplicates(table, scans.features, allow_overlap=settings.allow_overlap)
        untested = f"never tested, by the {'split file' if cv is None else 'splitter'}"
    else:
        # Natural images have neither site nor age, and their columns say so.
        cautions = [notice for notice in cautions if notice.code not in _OF_FOLDS]
        cautions += look_at_fixed(splits[0], target)
        overlap = check_overlap(
            table.iloc[splits[0].test],
            info,
            allow_overlap=settings.allow_overlap,
            allowed_copies=ALLOWED_COPIES,
        )
        n_twins, twins = look_at_twins(scans.features, table[CONTENT], splits[0])
        parts = _describe_fixed(settings.split_column, splits[0], table, info, n_twins)
        design = SplitDesign("fixed", fixed=parts)
        untested = "fitted on (train and validation)"
    return Plan(
        settings=settings,
        table=table,
        features=scans.features,
        target=target,
        splits=splits,
        split_design=design,
        units=units,
        overlap=overlap,
        excluded=excluded,
        flow=_flow(scans, splits, info, why_untested=untested),
        notices=[*overlap.notices, *twins, *cautions],
        info=info,
    )


def _describe_folds(
    settings: EvaluationSettings, splits: list[Split], split_rows: pd.DataFrame | None, cv: Any
) -> SplitDesign:
    """Return how the folds of a cross-validation came about: from a file, a splitter or settings."""
    if split_rows is not None:
        return SplitDesign("file")
    if cv is None:
        return SplitDesign(settings.splits)
    name = "custom"
    if splits[0].held_out_site is not None:
        name = "leave-site-out"
    return SplitDesign(name, splitter=describe_splitter(cv))


def _describe_fixed(
    column: str, split: Split, table: pd.DataFrame, info: EmbeddingsInfo, n_twins: int
) -> FixedSplit:
    """Return the parts of the fixed design, and the use of each."""
    parts = parts_of(split)
    sizes = {}
    n_pretrained: dict[str, int | None] = dict.fromkeys(parts)
    for name, rows in parts.items():
        sizes[name] = len(rows)
    if info.pretraining_subjects is not None:
        is_pretrained = pretrained(table, info)
        for name, rows in parts.items():
            n_pretrained[name] = int(is_pretrained[rows].sum())
    chosen_on = "a fifth of train"
    refit_on = ["train"]
    if len(parts["validation"]):
        chosen_on = "validation"
        refit_on.append("validation")
    return FixedSplit(
        column=column,
        n=sizes,
        chosen_on=chosen_on,
        refit_on=refit_on,
        n_fitted=len(split.train),
        n_pretrained=n_pretrained,
        n_duplicates={"test": n_twins},
    )


def _make_splits(
    scans: _Scans, settings: EvaluationSettings, split_rows: pd.DataFrame | None, cv: Any
) -> list[Split]:
    table = scans.table
    target = scans.target
    subjects = table["subject_id"].to_numpy(dtype=object)
    if settings.split_column is not None:
        splits = [fixed_split(table, settings.split_column)]
        check_fixed(splits[0], target, subjects)
        return splits
    if split_rows is not None:
        splits = splits_from_table(split_rows, table)
    elif cv is not None:
        splits = splits_from_cv(
            cv, features=scans.features, target=target, subjects=subjects, sites=table["site"]
        )
    elif settings.splits == "leave-site-out":
        if target.name == "site":
            raise ConfigError(
                "splits: a site that is held out cannot be predicted. Use splits=stratified."
            )
        if settings.n_repeats > 1:
            raise ConfigError(
                f"n_repeats: each site is left out once, so it must be 1, got {settings.n_repeats}."
            )
        splits = leave_site_out(
            site_names(table["site"]), subjects, names=row_names(table, np.arange(len(table)))
        )
    else:
        check_class_sizes(target, subjects, settings.n_folds)
        how = {"n_folds": settings.n_folds, "n_repeats": settings.n_repeats, "seed": settings.seed}
        splits = stratified(target, site_names(table["site"]), subjects, **how)
    check_splits(splits, target, subjects)
    return splits
