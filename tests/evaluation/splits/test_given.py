"""Splits of the user's own: a file, a splitter, or pairs of rows."""

from dataclasses import replace

import numpy as np
import pandas as pd
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

from neurocontrast.evaluation import (
    LeaveSiteOut,
    SiteStratifiedGroupKFold,
    fit_and_measure,
)
from neurocontrast.exceptions import ConfigError, DataError, LeakageError
from tests.evaluation.quick import evaluate_study, make_plan, warnings


@pytest.fixture(scope="module")
def cohort(make_cohort):
    return make_cohort(60)


@pytest.fixture(scope="module")
def sessions(make_cohort):
    return make_cohort(40, n_sessions=2)


@pytest.fixture
def folds(sessions) -> pd.DataFrame:
    frame = sessions.table[["participant_id", "session"]].copy()
    frame["repeat"] = 0
    frame["fold"] = np.tile(np.arange(40) % 4, 2)
    return frame


@pytest.fixture
def plan_by_file(sessions, tmp_path):
    def from_rows(rows: pd.DataFrame, cohort=sessions):
        rows.to_csv(tmp_path / "splits.tsv", sep="\t", index=False)
        return make_plan(cohort, split_file=str(tmp_path / "splits.tsv"))

    return from_rows


@pytest.mark.parametrize("options", [{"n_repeats": 2, "n_folds": 3}, {"splits": "leave-site-out"}])
def test_the_written_splits_are_the_same_splits_again(sessions, plan_by_file, options):
    first = make_plan(sessions, **options)
    result = evaluate_study(first)
    again = plan_by_file(result.tables["splits"])
    for a, b in zip(first.splits, again.splits, strict=True):
        assert (a.repeat, a.fold, a.held_out_site) == (b.repeat, b.fold, b.held_out_site)
        np.testing.assert_array_equal(a.test, b.test)
        np.testing.assert_array_equal(a.train, b.train)
    repeated = evaluate_study(again)
    assert repeated.evaluation.content()["splits"] == "file"
    assert (
        repeated.evaluation.content()["splits_digest"]
        == result.evaluation.content()["splits_digest"]
    )
    pd.testing.assert_frame_equal(repeated.tables["predictions"], result.tables["predictions"])
    assert first.covariates == again.covariates


def test_scans_without_a_fold_are_trained_on_and_never_tested(folds, plan_by_file):
    folds["fold"] = folds["fold"].map({0: "0", 1: "1", 2: "n/a", 3: ""})
    plan = plan_by_file(folds)
    assert len(plan.splits) == 2
    assert [len(split.test) for split in plan.splits] == [20, 20]
    assert [len(split.train) for split in plan.splits] == [60, 60]
    result = evaluate_study(plan)
    assert len(result.tables["predictions"]) == 40
    assert result.tables["sites"]["n"].sum() == 40


@pytest.mark.parametrize("fold", [0, "n/a"])
def test_a_subject_in_two_folds_is_refused(folds, plan_by_file, fold):
    folds["fold"] = folds["fold"].astype(object)
    folds.loc[3, "fold"] = fold
    with pytest.raises(
        LeakageError, match=r"scans of 1 subjects are in different folds \(sub-0003\)"
    ):
        plan_by_file(folds)


def test_where_sites_are_held_out_a_subject_of_two_sites_is_never_trained_on_and_tested(
    sessions, folds, plan_by_file
):
    table = sessions.table.copy()
    table.loc[3, "site"] = next(
        site for site in table["site"].unique() if site != table.loc[3, "site"]
    )
    folds["fold"] = table["site"].astype("category").cat.codes
    plan = plan_by_file(folds, replace(sessions, table=table))
    assert all(split.held_out_site for split in plan.splits)
    for split in plan.splits:
        assert not set(plan.subjects[split.train]) & set(plan.subjects[split.test])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="fold"), "missing columns: 'fold'; found: 'participant_id'"),
        (lambda f: f.rename(columns={"fold": "folds"}), "Did you mean 'folds'"),
        (
            lambda f: f.assign(fold="first"),
            "column 'fold': must be 0, 1, 2 …, found row 2: 'first'",
        ),
        (lambda f: f.assign(repeat=-1), "column 'repeat'"),
        (lambda f: f.iloc[1:], "lacks 1 of the 80 scans to evaluate .sub-0000 session 1."),
        (lambda f: pd.concat([f, f.iloc[:1]]), "lists scans twice .sub-0000."),
        (
            lambda f: pd.concat([f, f[:1].assign(participant_id="x")]),
            "1 scans that are not among .* .x session 1.",
        ),
        (lambda f: f.assign(fold=f["fold"] + 1), "no scan in fold 0"),
        (lambda f: f.assign(fold=""), "repeat 0 has an empty fold in every row"),
        (lambda f: f.iloc[:0], "has no rows"),
        (
            lambda f: f.assign(fold="1e300"),
            "column 'fold': must be 0, 1, 2 …, found row 2: '1e300'",
        ),
    ],
)
def test_a_wrong_split_file_is_answered(folds, plan_by_file, change, message):
    with pytest.raises(DataError, match=message):
        plan_by_file(change(folds))


def test_the_sites_that_folds_hold_out_are_found_whatever_a_column_says(
    sessions, folds, plan_by_file
):
    def held_out() -> set[str | None]:
        return {split.held_out_site for split in plan_by_file(folds).splits}

    folds["held_out_site"] = sessions.table["site"]  # folds dealt at random, said to hold out sites
    assert held_out() == {None}
    folds["fold"] = sessions.table["site"].map({"site-0": 0, "site-1": 1, "site-2": 1})
    assert held_out() == {None}
    folds["fold"] = sessions.table["site"].map({"site-0": "0", "site-1": "1", "site-2": ""})
    assert held_out() == {"site-0", "site-1"}
    folds = folds.drop(columns="held_out_site")
    assert held_out() == {"site-0", "site-1"}


def test_our_own_splitters_make_the_folds_that_their_names_make(cohort):
    for cv, options in (
        (SiteStratifiedGroupKFold(3, n_repeats=2, random_state=3), {"n_repeats": 2, "seed": 3}),
        (LeaveSiteOut(), {"splits": "leave-site-out"}),
    ):
        named = make_plan(cohort, **options)
        for ours, theirs in zip(make_plan(cohort, cv=cv).splits, named.splits, strict=True):
            assert (ours.repeat, ours.fold, ours.held_out_site) == (
                theirs.repeat,
                theirs.fold,
                theirs.held_out_site,
            )
            assert np.array_equal(ours.test, theirs.test)


def test_sites_held_out_by_a_splitter_are_held_out_for_the_baseline_too(cohort):
    plan = make_plan(cohort, cv=LeaveSiteOut())
    assert plan.split_design.name == "leave-site-out"
    assert "site" not in plan.covariates
    codes = cohort.table["site"].astype("category").cat.codes.to_numpy()
    same = make_plan(cohort, cv=PredefinedSplit(codes))
    assert [split.held_out_site for split in same.splits] == ["site-0", "site-1", "site-2"]


def test_a_group_aware_splitter_gets_the_subjects(sessions):
    for cv in (GroupKFold(4), StratifiedGroupKFold(4)):
        plan = make_plan(sessions, cv=cv)
        assert len(plan.splits) == 4
        assert plan.split_design.name == "custom"


def test_a_splitter_without_routing_gets_what_its_signature_names(sessions):
    class Mine:
        def split(self, X, y, sites):
            for site in sorted(set(sites)):
                yield np.flatnonzero(sites != site), sites == site  # rows as a mask serve too

    plan = make_plan(sessions, cv=Mine())
    assert [split.held_out_site for split in plan.splits] == ["site-0", "site-1", "site-2"]
    assert plan.split_design.splitter == "Mine"  # and no address of an object


def test_repeats_are_recognised_by_scans_that_are_tested_again(cohort):
    plan = make_plan(cohort, cv=RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0))
    assert [(split.repeat, split.fold) for split in plan.splits] == [
        (r, f) for r in range(2) for f in range(3)
    ]
    summary = fit_and_measure(plan).evaluation.content()
    assert (summary["n_folds"], summary["n_repeats"], summary["splits"]) == (3, 2, "custom")
    assert summary["splitter"] == "RepeatedStratifiedKFold(n_repeats=2, n_splits=3, random_state=0)"


def test_scans_that_no_split_tests_are_said(cohort):
    pairs = StratifiedShuffleSplit(2, test_size=0.2, random_state=0).split(
        cohort.features, cohort.table["diagnosis"]
    )
    plan = make_plan(cohort, cv=list(pairs))
    assert "fold_untested" in warnings(plan)
    assert plan.split_design.splitter == "pairs of training and test rows"
    assert "never tested, by the splitter" in set(plan.flow["reason"])
    tested = np.unique(np.concatenate([split.test for split in plan.splits]))
    assert fit_and_measure(plan).evaluation.bootstrap.n_units == len(tested) < 60


def test_a_splitter_that_parts_the_sessions_of_a_subject_is_refused(sessions):
    with pytest.raises(LeakageError, match="are on both sides"):
        make_plan(sessions, cv=KFold(5))


@pytest.mark.parametrize(
    ("pairs", "error", "message"),
    [
        (
            [([0, 1], [1, 2]), ([2], [3])],
            LeakageError,
            r"split 0 trains on 1 rows that it tests too \(\[1\]\)",
        ),
        ([([0, 1], [2]), ([0, 1], [])], DataError, "test rows of split 1 must be"),
        ([([], [2]), ([0, 1], [3])], DataError, "training rows of split 0 must be"),
        (
            [([0, 1], [2]), ([0, 1], [60])],
            DataError,
            "split 1 must be different whole numbers from 0 to 59",
        ),
        ([([0, 0], [2]), ([0, 1], [3])], DataError, "training rows of split 0 must be different"),
        ([([0, 1], 2), ([0, 1], [3])], DataError, "test rows of split 0 must be"),
        ([([[0], [1]], [2]), ([0, 1], [3])], DataError, "training rows of split 0 must be"),
        ([([0, 1], [2])], DataError, "at least two splits are needed"),
        ([(0, 1, 2)], DataError, "split 0 must be a pair"),
        (
            [(np.arange(90) < 30, np.arange(90) >= 60)],
            DataError,
            "training rows of split 0 must be",
        ),
    ],
)
def test_pairs_that_are_no_split_are_named(cohort, pairs, error, message):
    with pytest.raises(error, match=message):
        make_plan(cohort, cv=pairs)


class Refusing(LeaveOneGroupOut):
    def split(self, X, y=None, groups=None):
        raise ValueError("not these")

    def __repr__(self):
        return "LeaveOneGroupOut()"


@pytest.mark.parametrize(
    ("cv", "options", "error", "message"),
    [
        (5, {}, ConfigError, "cv: must be a splitter"),
        ("leave-site-out", {}, ConfigError, "cv: must be a splitter"),
        (
            Refusing(),
            {},
            DataError,
            r"LeaveOneGroupOut\(\).*X \(features\), y \(diagnosis\), groups",
        ),
        (
            GroupKFold(3),
            {"splits": "leave-site-out"},
            ConfigError,
            "splits=leave-site-out would too",
        ),
    ],
)
def test_what_makes_no_folds_is_told(cohort, cv, options, error, message):
    with pytest.raises(error, match=message):
        make_plan(cohort, cv=cv, **options)
