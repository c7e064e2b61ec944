"""Both splitters in the hands of scikit-learn."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    permutation_test_score,
)

from neurocontrast.evaluation import LeaveSiteOut, SiteStratifiedGroupKFold
from neurocontrast.evaluation.splits.splitters import subjects_and_sites
from neurocontrast.exceptions import ConfigError, DataError
from tests.evaluation.quick import make_plan


@pytest.fixture(scope="module")
def cohort(make_cohort):
    return make_cohort(60, n_sessions=2)


@pytest.fixture(scope="module")
def groups(cohort):
    return cohort.table[["subject_id", "site"]]


@pytest.mark.parametrize("splitter", [SiteStratifiedGroupKFold(4, random_state=0), LeaveSiteOut()])
def test_cross_validate_and_cross_val_predict_take_two_columns_of_groups(cohort, groups, splitter):
    y = cohort.table["diagnosis"]
    found = cross_validate(
        LogisticRegression(),
        cohort.features,
        y,
        groups=groups,
        cv=splitter,
        return_indices=True,
        scoring="roc_auc",
    )
    assert len(found["test_score"]) == splitter.get_n_splits(cohort.features, y, groups)
    for train, test in zip(found["indices"]["train"], found["indices"]["test"], strict=True):
        assert not set(groups["subject_id"].iloc[train]) & set(groups["subject_id"].iloc[test])
    predicted = cross_val_predict(
        LogisticRegression(), cohort.features, y, groups=groups.to_numpy(), cv=splitter
    )
    assert set(predicted) == {"control", "patient"}


@pytest.mark.parametrize("splitter", [SiteStratifiedGroupKFold(3, random_state=0), LeaveSiteOut()])
def test_permutation_test_score_takes_both_by_metadata_routing_and_sites_as_one_column(
    cohort, groups, splitter
):
    """Its `groups` are those within which labels are permuted, in one column."""
    x = cohort.features
    y = cohort.table["diagnosis"]
    given = {"cv": splitter, "n_permutations": 9, "random_state": 0}
    with sklearn.config_context(enable_metadata_routing=True):
        params = {"groups": groups["subject_id"], "sites": groups["site"]}
        score, permuted, p = permutation_test_score(
            LogisticRegression(), x, y, params=params, **given
        )
    assert score > permuted.max()
    assert p == pytest.approx(0.1)
    assert score == pytest.approx(
        cross_val_score(LogisticRegression(), x, y, groups=groups, cv=splitter).mean()
    )
    if isinstance(splitter, LeaveSiteOut):
        assert (
            permutation_test_score(LogisticRegression(), x, y, groups=groups["site"], **given)[2]
            == p
        )


@pytest.mark.parametrize("separate", [False, True])
def test_a_grid_search_inside_of_cross_validate_gets_its_groups_by_metadata_routing(
    cohort, groups, separate
):
    seen = []

    class Watched(SiteStratifiedGroupKFold):
        def split(self, X, y=None, groups=None, sites=None):
            subjects = subjects_and_sites(groups, sites, splitter="Watched")[0]
            for train, test in super().split(X, y, groups, sites):
                seen.append(set(subjects[train]) & set(subjects[test]))
                yield train, test

    params = (
        {"groups": groups["subject_id"], "sites": groups["site"]}
        if separate
        else {"groups": groups}
    )
    search = GridSearchCV(LogisticRegression(), {"C": [0.01, 1.0]}, cv=Watched(3, random_state=1))
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(
            search,
            cohort.features,
            cohort.table["diagnosis"],
            params=params,
            cv=LeaveSiteOut(),
            return_estimator=True,
        )
    assert len(found["estimator"]) == 3
    assert seen == [set()] * 9


def test_an_int_deals_the_folds_of_an_evaluation_with_that_seed(cohort, groups):
    for target in ("diagnosis", "age"):
        study = make_plan(cohort, target=target, seed=7)
        dealt = list(
            SiteStratifiedGroupKFold(3, random_state=7).split(groups, cohort.table[target], groups)
        )
        assert [test.tolist() for _, test in dealt] == [
            split.test.tolist() for split in study.splits
        ]


def test_random_state_is_read_as_scikit_learn_reads_it(cohort, groups):
    def folds(state):
        pairs = SiteStratifiedGroupKFold(3, random_state=state).split(
            groups, cohort.table["diagnosis"], groups
        )
        return [test.tolist() for _, test in pairs]

    assert folds(3) == folds(3)
    assert folds(np.random.RandomState(3)) == folds(np.random.RandomState(3))
    shared = np.random.RandomState(3)
    assert folds(shared) != folds(shared)
    assert folds(None) != folds(None)


@pytest.mark.parametrize(
    ("groups", "sites", "message"),
    [
        (None, None, "needs subject and site of each row"),
        (list("abcd"), None, r"found groups of shape \(4,\)"),
        (list("abcd"), list("abc"), r"sites=sites of one value a row"),
        (
            pd.DataFrame({"subject": ["a", None, "c", ""], "place": list("xxyy")}),
            None,
            r"2 of 4 rows \(first: \[1, 3",
        ),
    ],
)
def test_groups_that_do_not_serve_are_refused(groups, sites, message):
    with pytest.raises(DataError, match=message):
        subjects_and_sites(groups, sites, splitter="LeaveSiteOut")


def test_arguments_that_cannot_be_are_refused(groups):
    for wrong in ({"n_splits": 1}, {"n_repeats": 0}, {"kind": "ordinal"}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            SiteStratifiedGroupKFold(**wrong)
    splitter = SiteStratifiedGroupKFold(3)
    with pytest.raises(DataError, match="as many subjects, found 2"):
        list(
            splitter.split(
                range(4), [0, 1, 0, 1], groups=[["a", "x"], ["a", "x"], ["b", "x"], ["b", "x"]]
            )
        )
    with pytest.raises(DataError, match="needs the target"):
        list(splitter.split(groups, groups=groups))


@pytest.mark.parametrize(
    "column", [list("aabbcc"), np.array(list("aabbcc")), pd.DataFrame({"site": list("aabbcc")})]
)
def test_one_column_of_groups_is_the_site(column):
    splitter = LeaveSiteOut()
    assert splitter.get_n_splits(groups=column) == 3
    assert [test.tolist() for _, test in splitter.split(np.zeros((6, 2)), groups=column)] == [
        [0, 1],
        [2, 3],
        [4, 5],
    ]


@pytest.mark.parametrize(
    "column",
    [
        list("abcdef"),
        pd.Series(list("aabbcc"), name="subject_id"),
        pd.DataFrame({"participant_id": list("aabbcc")}),
    ],
)
def test_one_column_of_subjects_is_not_taken_for_sites(column):
    with pytest.raises(DataError, match="takes one column as sites, and these are subjects"):
        list(LeaveSiteOut().split(np.zeros((6, 2)), groups=column))
