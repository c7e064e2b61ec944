from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedShuffleSplit,
)

from neurocontrast.evaluation import EvaluationSettings, LeaveSiteOut, SiteStratifiedGroupKFold, plan_study, run_study
from neurocontrast.exceptions import ConfigError, DataError, LeakageError

FAST = {"n_bootstraps": 0, "C": (1e-2, 1.0), "confounds": False, "outlyingness": False}


def study_of(cohort, cv, **options):
    return plan_study(cohort.table, cohort.features, settings=EvaluationSettings(**FAST, **options), cv=cv)


@pytest.fixture(scope="module")
def cohort(make_cohort):
    return make_cohort(60)


@pytest.fixture(scope="module")
def sessions(make_cohort):
    return make_cohort(40, n_sessions=2)


def test_our_own_splitters_make_the_folds_that_their_names_make(cohort):
    for cv, options in (
        (SiteStratifiedGroupKFold(5, n_repeats=2, random_state=3), {"n_repeats": 2, "seed": 3}),
        (LeaveSiteOut(), {"splits": "leave-site-out"}),
    ):
        named = plan_study(cohort.table, cohort.features, settings=EvaluationSettings(**FAST, **options))
        for ours, theirs in zip(study_of(cohort, cv).splits, named.splits, strict=True):
            assert (ours.repeat, ours.fold, ours.held_out_site) == (theirs.repeat, theirs.fold, theirs.held_out_site)
            assert np.array_equal(ours.test, theirs.test)


def test_sites_held_out_by_a_splitter_are_held_out_for_the_baseline_too(cohort):
    study = study_of(cohort, LeaveSiteOut())
    assert study.facts["splits"] == "leave-site-out"
    assert "site" not in study.covariates
    codes = cohort.table["site"].astype("category").cat.codes.to_numpy()
    same = study_of(cohort, PredefinedSplit(codes))
    assert [split.held_out_site for split in same.splits] == ["site-0", "site-1", "site-2"]


def test_a_group_aware_splitter_gets_the_subjects(sessions):
    for cv in (GroupKFold(4), StratifiedGroupKFold(4)):
        study = study_of(sessions, cv)
        assert len(study.splits) == 4
        assert study.facts["splits"] == "custom"


def test_a_splitter_without_routing_gets_what_its_signature_names(sessions):
    class Mine:
        def split(self, X, y, sites):
            for site in sorted(set(sites)):
                yield np.flatnonzero(sites != site), sites == site  # rows as a mask serve too

    study = study_of(sessions, Mine())
    assert [split.held_out_site for split in study.splits] == ["site-0", "site-1", "site-2"]
    assert study.facts["splitter"] == "Mine"  # and no address of an object


def test_repeats_are_recognised_by_scans_that_are_tested_again(cohort):
    study = study_of(cohort, RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0))
    assert [(split.repeat, split.fold) for split in study.splits] == [(r, f) for r in range(2) for f in range(3)]
    summary = run_study(study).evaluation.content()
    assert (summary["n_folds"], summary["n_repeats"], summary["splits"]) == (3, 2, "custom")
    assert summary["splitter"] == "RepeatedStratifiedKFold(n_repeats=2, n_splits=3, random_state=0)"


def test_scans_that_no_split_tests_are_said(cohort):
    study = study_of(
        cohort,
        list(
            StratifiedShuffleSplit(2, test_size=0.2, random_state=0).split(cohort.features, cohort.table["diagnosis"])
        ),
    )
    assert "fold_untested" in {notice.code for notice in study.notices}
    assert study.facts["splitter"] == "pairs of training and test rows"
    assert "never tested, by the splitter" in set(study.flow["reason"])


def test_a_splitter_that_parts_the_sessions_of_a_subject_is_refused(sessions):
    with pytest.raises(LeakageError, match="are on both sides"):
        study_of(sessions, KFold(5))


@pytest.mark.parametrize(
    ("pairs", "error", "message"),
    [
        ([([0, 1], [1, 2]), ([2], [3])], LeakageError, r"split 0 trains on 1 rows that it tests too \(\[1\]\)"),
        ([([0, 1], [2]), ([0, 1], [])], DataError, "test rows of split 1 must be"),
        ([([], [2]), ([0, 1], [3])], DataError, "training rows of split 0 must be"),
        (
            [([0, 1], [2]), ([0, 1], [60])],
            DataError,
            "test rows of split 1 must be different whole numbers from 0 to 59",
        ),
        ([([0, 0], [2]), ([0, 1], [3])], DataError, "training rows of split 0 must be different"),
        ([([0, 1], 2), ([0, 1], [3])], DataError, "test rows of split 0 must be"),
        ([([[0], [1]], [2]), ([0, 1], [3])], DataError, "training rows of split 0 must be"),
        ([([0, 1], [2])], DataError, "at least two splits are needed"),
        ([(0, 1, 2)], DataError, "split 0 must be a pair"),
    ],
)
def test_pairs_that_are_no_split_are_named(cohort, pairs, error, message):
    with pytest.raises(error, match=message):
        study_of(cohort, pairs)


@pytest.mark.parametrize("cv", [5, "leave-site-out"])
def test_what_is_no_splitter_is_refused(cohort, cv):
    with pytest.raises(ConfigError, match="cv: must be a splitter"):
        study_of(cohort, cv)


def test_what_a_splitter_refuses_is_told_with_what_it_was_given(cohort):
    with pytest.raises(DataError, match=r"LeaveOneGroupOut\(\).*X \(features\), y \(diagnosis\), groups"):
        study_of(cohort, _Refusing())


class _Refusing(LeaveOneGroupOut):
    def split(self, X, y=None, groups=None):
        raise ValueError("not these")

    def __repr__(self):
        return "LeaveOneGroupOut()"


def test_settings_that_make_folds_too_are_refused(cohort):
    with pytest.raises(ConfigError, match="splits=leave-site-out would too"):
        study_of(cohort, GroupKFold(3), splits="leave-site-out")
