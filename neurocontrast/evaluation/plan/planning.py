"""Decide before the first fit: who is evaluated, which target, in which folds, by which models."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator

from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.plan.folds import (
    check_one_design,
    describe_splits,
    make_splits,
    why_untested,
)
from neurocontrast.evaluation.plan.leakage import check_leaks
from neurocontrast.evaluation.plan.models import MODELS, GivenModel, ProbeModel
from neurocontrast.evaluation.plan.notices import look_at_cohort, look_at_size
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.evaluation.plan.scans import Scans, choose_scans, tabulate_flow
from neurocontrast.evaluation.plan.units import choose_units
from neurocontrast.evaluation.probe_kinds import PROBES
from neurocontrast.evaluation.probes.adjustment import check_adjustment, look_at_inner_folds
from neurocontrast.evaluation.probes.designs import Block, blocks_of
from neurocontrast.evaluation.probes.estimators import (
    as_estimator,
    check_own,
    describe_own,
    gives_probabilities,
)
from neurocontrast.evaluation.probes.members import Member, members_of
from neurocontrast.evaluation.rows import site_names
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.splits.given import look_at_fixed
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError

_OF_FOLDS = ("site_missing", "fold_untested")
"""Codes of warnings that do not apply where a column names the test rows: images have no site, and
most images are trained on, never tested."""


def plan_evaluation(
    table: pd.DataFrame,
    features: npt.NDArray[np.floating],
    *,
    settings: EvaluationSettings,
    info: EmbeddingsInfo | None = None,
    estimator: BaseEstimator | None = None,
    cv: Any = None,
    network: GivenModel | None = None,
) -> Plan:
    """Check table, features and settings before any fit, and plan folds, models and warnings.

    Parameters
    ----------
    table, features : DataFrame, array (n, p)
        Identifiers and metadata of each scan, and its embedding.
    settings : EvaluationSettings
        Target, folds, probe and all other choices.
    info : EmbeddingsInfo, optional
        Description of the embeddings, with the digests of pretraining.
    estimator : estimator, optional
        A scikit-learn classifier, regressor or pipeline to fit instead of the built-in one that the
        settings name. For classes, it is fitted to their codes; of two classes 1 is the positive
        one.
    cv : splitter, or iterable of index pairs, optional
        Splitter that makes the folds in place of the settings, as `splits_from_cv` calls it.
    network : GivenModel, optional
        Network that is trained in every fold, in place of a probe on frozen features; features are
        then the rows of the scans in their table.
    """
    info = info or EmbeddingsInfo()
    check_one_design(settings, cv)
    scans = choose_scans(table, features, settings)
    estimator = _check_estimator(estimator, settings, scans.target)
    target = _with_kind_of_scores(scans.target, estimator)
    splits = make_splits(scans, settings, cv)
    check_adjustment(scans.table, settings, splits, target=target.name)
    units = choose_units(
        settings.bootstrap_unit,
        site_names(scans.table["site"]),
        scans.table["subject_id"].to_numpy(dtype=object),
        target=target.name,
    )
    leaks = check_leaks(scans.table, scans.features, splits, settings, info)
    notices = [*leaks.notices, *_look_at(scans, splits, settings), *units.notices]
    if settings.split_column is not None:
        notices += look_at_fixed(splits[0], target)
    if estimator is not None and not target.has_probabilities:
        notices.append(Notice.of("no_probabilities", estimator=describe_own(estimator)[0]))
    blocks: tuple[Block, ...] = ()
    members: tuple[Member, ...] = ()
    if network is None:
        blocks = blocks_of(info, scans.features.shape[1])
        members = members_of(info, scans.features.shape[1])
    plan = Plan(
        settings=settings,
        table=scans.table,
        features=scans.features,
        target=target,
        splits=splits,
        split_design=describe_splits(splits, scans, settings, cv, info, n_twins=leaks.n_twins),
        units=units,
        overlap=leaks.overlap,
        excluded=scans.count_left_out(),
        blocks=blocks,
        members=members,
        estimator=estimator,
        flow=tabulate_flow(scans, splits, info, why_untested=why_untested(settings, cv)),
        notices=notices,
        info=info,
    )
    plan = plan.with_model(network or ProbeModel("embedding", plan.design(), estimator))
    for make_model in MODELS:
        plan = plan.with_outcome(make_model(plan))
    return plan


def _check_estimator(
    estimator: BaseEstimator | None, settings: EvaluationSettings, target: Target
) -> BaseEstimator | None:
    """Return the user's estimator, checked against settings and target; None without one."""
    if estimator is None:
        if ":" in settings.probe:
            raise ConfigError(
                f"probe: '{settings.probe}' is an import path. Import it, and give it as estimator."
            )
        return None
    if settings.probe in PROBES:
        raise ConfigError(
            f"probe: '{settings.probe}' and an estimator are given. Leave out the one or the other."
        )
    estimator = as_estimator(estimator)
    check_own(estimator, target, threshold=settings.threshold)
    return estimator


def _with_kind_of_scores(target: Target, estimator: BaseEstimator | None) -> Target:
    """Return the target, marked as scored by probabilities or by a classifier's decision values.

    The target is unchanged if it is continuous, or without a user's `estimator`.
    """
    if estimator is None or target.kind == "continuous":
        return target
    return replace(target, has_probabilities=gives_probabilities(estimator))


def _look_at(scans: Scans, splits: list[Split], settings: EvaluationSettings) -> list[Notice]:
    """Return warnings about the evaluated scans, folds, missing targets, and numbers of scans.

    `scans` are the scans that take part, with their target, and `splits` the folds. The warning on
    numbers says that a fold trains on more scans than the setting `large_table`. If a column names
    the test rows, warnings of scans without a site, or in no test fold, are left out.
    """
    table = scans.table
    target = scans.target
    notices = [
        *look_at_cohort(table, target, splits, min_site_n=settings.min_site_n),
        *look_at_inner_folds(table, target, splits, settings),
    ]
    n_missing = scans.count_left_out().get(f"{target.name} missing", 0)
    if n_missing:
        notices.append(Notice.of("excluded_missing_target", target=target.name, n=n_missing))
    notices += look_at_size(splits, settings)
    if settings.split_column is None:
        return notices
    # Natural images have neither site nor age, and their columns say so.
    return [notice for notice in notices if notice.code not in _OF_FOLDS]
