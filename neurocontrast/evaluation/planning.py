"""Everything that is decided before the first probe is fitted: who, what, and in which folds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.adjustment import check_adjustment
from neurocontrast.evaluation.covariates import choose_covariates
from neurocontrast.evaluation.draws import check_train_sizes
from neurocontrast.evaluation.fixed import check_fixed, check_seen, fixed_split, look_at_fixed, look_at_twins
from neurocontrast.evaluation.flow import flow_table
from neurocontrast.evaluation.generalisation import check_generalisation, look_at_inner_splits, look_at_recentring
from neurocontrast.evaluation.leakage import check_duplicates, check_overlap
from neurocontrast.evaluation.notices import Notice, look_at_cohort, look_at_covariates, look_at_missing, look_at_splits
from neurocontrast.evaluation.probe_kinds import check_probe, probe_name
from neurocontrast.evaluation.sensitive import choose_sensitive
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.similarity import check_similarity
from neurocontrast.evaluation.split_files import splits_from_table
from neurocontrast.evaluation.splits import Split, check_class_sizes, check_splits, leave_site_out, stratified
from neurocontrast.evaluation.table import check_rows, row_names, select_rows, tidy_table
from neurocontrast.evaluation.target import MAX_CLASSES, MAX_IMAGE_CLASSES, Target, read_target
from neurocontrast.evaluation.units import Units, choose_units
from neurocontrast.exceptions import ConfigError

__all__ = ["Study", "deal_folds", "plan_study"]

_USUAL_COVARIATES = EvaluationSettings.model_fields["covariates"].default
_OF_FOLDS = ("site_missing", "fold_untested")
_OF_PEOPLE = (*_OF_FOLDS, "baseline_empty", "baseline_incomplete")
"""Warnings that say nothing of the fixed design: images have neither site nor age, and most are fitted on."""


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
    units : Units
        What a bootstrap resamples.
    excluded : dict of str to int
        Scans that do not take part, by reason.
    n_overlap : int
        Subjects that were in pretraining too.
    from_file : bool
        Whether the folds were given.
    notices : list of Notice
        What a reader must know first.
    flow : DataFrame
        How many scans came in, which were left out and why.
    sensitive : tuple of str
        Columns that a fair embedding should not tell.
    seen : dict of str to int or None, n_twins : int
        Of the fixed design: rows of each part that pretraining has seen, and rows of test that are fitted on too
        under another name.
    """

    settings: EvaluationSettings
    table: pd.DataFrame
    features: npt.NDArray[np.floating]
    target: Target
    splits: list[Split]
    covariates: tuple[str, ...]
    units: Units
    excluded: dict[str, int] = field(default_factory=dict)
    n_overlap: int = 0
    from_file: bool = False
    notices: list[Notice] = field(default_factory=list)
    flow: pd.DataFrame = field(default_factory=pd.DataFrame)
    sensitive: tuple[str, ...] = ()
    seen: dict[str, int | None] = field(default_factory=dict)
    n_twins: int = 0

    @property
    def subjects(self) -> npt.NDArray[np.object_]:
        """Subject of each scan."""
        return self.table["subject_id"].to_numpy(dtype=object)

    @property
    def sites(self) -> npt.NDArray[np.object_]:
        """Site of each scan; None where it has none."""
        return np.array([None if pd.isna(site) else site for site in self.table["site"]], dtype=object)

    @property
    def probe(self) -> str:
        """Kind of probe: logistic, ridge, svm or knn."""
        return probe_name(self.settings, self.target.kind)

    @property
    def fixed(self) -> bool:
        """Whether a column says what is fitted on and what is tested."""
        return self.settings.split_column is not None

    @property
    def fitted_rows(self) -> npt.NDArray[np.intp]:
        """Rows that the stored probe is fitted on: all of them, but of the fixed design those of no test."""
        return self.splits[0].train if self.fixed else np.arange(len(self.table))

    @property
    def adjusted(self) -> bool:
        """Whether features are harmonised or freed of covariates in every fold."""
        return self.settings.harmonise != "none" or bool(self.settings.residualise)


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
    scans = _choose_scans(table, features, settings)
    if settings.split_column is not None:
        study = _check_fixed_leaks(_with_folds(scans, settings, split_rows), info or {})
        return replace(study, flow=scans.flow(study.splits, info or {}, fixed=True))
    n_overlap, overlaps = check_overlap(scans.table, info or {}, allow_overlap=settings.allow_overlap)
    duplicates = check_duplicates(scans.table, scans.features, allow_overlap=settings.allow_overlap)
    study = _with_folds(scans, settings, split_rows)
    flow = scans.flow(study.splits, info or {})
    return replace(study, n_overlap=n_overlap, flow=flow, notices=[*overlaps, *duplicates, *study.notices])


def _check_fixed_leaks(study: Study, info: Mapping[str, Any]) -> Study:
    split, allowed = study.splits[0], study.settings.allow_overlap
    seen, overlaps = check_seen(study.table, split, info, allow_overlap=allowed)
    n_twins, twins = look_at_twins(study.features, split)
    notices = [*overlaps, *twins, *study.notices]
    return replace(study, n_overlap=seen["test"] or 0, seen=seen, n_twins=n_twins, notices=notices)


def _with_folds(scans: _Scans, settings: EvaluationSettings, split_rows: pd.DataFrame | None) -> Study:
    chosen, target = scans.table, scans.target
    splits = _make_splits(chosen, target, settings, split_rows)
    check_train_sizes(chosen, target, splits, settings)
    check_adjustment(chosen, settings, splits, target=target.name)
    check_generalisation(chosen, settings, target=target.name)
    leaving = any(split.held_out_site is not None for split in splits)
    names, dropped = choose_covariates(chosen, settings.covariates, target=settings.target, sites_held_out=leaving)
    subjects, sites = chosen["subject_id"].to_numpy(dtype=object), list(chosen["site"])
    units = choose_units(settings.bootstrap_unit, sites, subjects, target=target.name)
    sensitive = choose_sensitive(chosen, settings.sensitive, target=target.name)
    notices = [
        *look_at_cohort(chosen, target, min_site_n=settings.min_site_n),
        *look_at_splits(splits, target, subjects),
        *look_at_covariates(names, dropped),
        *look_at_recentring(chosen, target, settings),
        *look_at_inner_splits(chosen, target, splits, settings),
        *look_at_missing(settings.target, scans.excluded.get(f"{settings.target} missing", 0)),
        *units.notices,
    ]
    if settings.split_column is not None:  # natural images have neither site nor age, and the columns say so
        unsaid = _OF_PEOPLE if settings.covariates in ((), _USUAL_COVARIATES) else _OF_FOLDS
        notices = [each for each in notices if each.code not in unsaid] + look_at_fixed(splits[0], target)
    excluded, from_file = scans.excluded, split_rows is not None
    return Study(
        settings, chosen, scans.features, target, splits, names, units, excluded, from_file=from_file, notices=notices,
        sensitive=sensitive,
    )  # fmt: skip


@dataclass(frozen=True)
class _Scans:
    """Scans that take part, out of all that there are."""

    everything: pd.DataFrame
    rows: npt.NDArray[np.intp]
    selected: npt.NDArray[np.bool_]
    table: pd.DataFrame
    features: npt.NDArray[np.floating]
    target: Target

    @property
    def excluded(self) -> dict[str, int]:
        counts = {
            "not selected by where": int((~self.selected).sum()),
            f"{self.target.name} missing": int(self.selected.sum()) - len(self.rows),
        }
        return {reason: n for reason, n in counts.items() if n}

    def flow(self, splits: list[Split], info: Mapping[str, Any], *, fixed: bool = False) -> pd.DataFrame:
        present, tested = np.zeros((2, len(self.everything)), dtype=bool)
        present[self.rows] = True
        tested[self.rows[np.unique(np.concatenate([split.test for split in splits]))]] = True
        return flow_table(
            self.everything,
            info=info,
            selected=self.selected,
            present=present,
            tested=tested,
            target=self.target.name,
            why_untested="fitted on (train and validation)" if fixed else "never tested, by the split file",
        )


def _choose_scans(table: pd.DataFrame, features: npt.NDArray[np.floating], settings: EvaluationSettings) -> _Scans:
    tidy = tidy_table(table)
    check_rows(tidy, features)
    selected = select_rows(tidy, settings.where)
    kept = np.flatnonzero(selected)
    chosen = tidy.iloc[kept].reset_index(drop=True)
    most = MAX_CLASSES if settings.split_column is None else MAX_IMAGE_CLASSES
    target, present = read_target(
        chosen, settings.target, kind=settings.kind, positive=settings.positive, max_classes=most
    )
    check_probe(settings, target)
    check_similarity(target, settings)
    rows = kept[present]
    taken = features if len(rows) == len(features) else features[rows]  # no second copy of all there is
    return _Scans(tidy, rows, selected, chosen[present].reset_index(drop=True), taken, target)


def _make_splits(
    table: pd.DataFrame, target: Target, settings: EvaluationSettings, split_rows: pd.DataFrame | None
) -> list[Split]:
    subjects = table["subject_id"].to_numpy(dtype=object)
    if settings.split_column is not None:
        split = fixed_split(table, settings.split_column)
        check_fixed(split, target, subjects)
        return [split]
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
        splits = deal_folds(table, target, settings, settings.seed)
    check_splits(splits, target, subjects)
    return splits


def deal_folds(table: pd.DataFrame, target: Target, settings: EvaluationSettings, seed: int) -> list[Split]:
    """Return stratified folds of a table, as many and as often as the settings say."""
    subjects = table["subject_id"].to_numpy(dtype=object)
    n_folds, n_repeats = settings.n_folds, settings.n_repeats
    return stratified(target, list(table["site"]), subjects, n_folds=n_folds, n_repeats=n_repeats, seed=seed)
