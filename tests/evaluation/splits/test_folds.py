"""Folds: dealt by class and site, or a site at a time, and what is checked of them."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from neurocontrast.evaluation import LeaveSiteOut
from neurocontrast.evaluation.rows import NO_SITE
from neurocontrast.evaluation.splits import (
    Split,
    check_class_sizes,
    check_splits,
    leave_site_out,
    stratified,
    subject_values,
)
from neurocontrast.exceptions import ConfigError, DataError, LeakageError
from tests.evaluation.quick import binary, continuous, names


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_sessions_of_a_subject_never_straddle_a_fold(data):
    n_subjects = data.draw(st.integers(8, 40))
    owners = data.draw(st.lists(st.integers(0, n_subjects - 1), min_size=8, max_size=80))
    subjects = np.array([f"s{owner}" for owner in owners], dtype=object)
    codes = data.draw(st.lists(st.integers(0, 1), min_size=len(owners), max_size=len(owners)))
    sites = data.draw(
        st.lists(
            st.sampled_from(["a", "b", "c", NO_SITE]), min_size=len(owners), max_size=len(owners)
        )
    )
    n_folds = data.draw(st.integers(2, 5))
    assume(len(set(owners)) >= n_folds)
    target = data.draw(st.sampled_from([binary(codes), continuous(owners)]))

    splits = stratified(
        target, sites, subjects, n_folds=n_folds, n_repeats=2, seed=data.draw(st.integers(0, 5))
    )

    assert len(splits) == 2 * n_folds
    for split in splits:
        assert not set(subjects[split.train]) & set(subjects[split.test])
        assert sorted([*split.train, *split.test]) == list(range(len(owners)))
    for repeat in (0, 1):
        tested = np.concatenate([split.test for split in splits if split.repeat == repeat])
        assert sorted(tested) == list(range(len(owners)))


def test_classes_and_class_by_site_differ_by_at_most_one_subject_between_folds():
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 2, 203)
    sites = generator.choice(["a", "b", "c", "d"], 203, p=[0.6, 0.3, 0.08, 0.02])
    splits = stratified(binary(codes), sites, names(203), n_folds=5, n_repeats=3, seed=1)
    for mask in [
        codes == 0,
        codes == 1,
        *[(codes == c) & (sites == s) for c in (0, 1) for s in "abcd"],
    ]:
        for repeat in range(3):
            counts = [mask[split.test].sum() for split in splits if split.repeat == repeat]
            assert max(counts) - min(counts) <= 1


def test_a_continuous_target_has_alike_folds():
    values = np.random.default_rng(0).normal(50, 15, 100)
    splits = stratified(continuous(values), ["a"] * 100, names(100), n_folds=5, n_repeats=1, seed=0)
    means = [values[split.test].mean() for split in splits]
    assert max(means) - min(means) < 3  # five random folds of 20 differ by about 8


def test_repeats_differ_and_seeds_decide():
    target = binary(np.arange(40) % 2)
    sites = ["a"] * 40
    subjects = names(40)
    first, again, other = (
        [
            split.test.tolist()
            for split in stratified(target, sites, subjects, n_folds=4, n_repeats=2, seed=seed)
        ]
        for seed in (0, 0, 1)
    )
    assert first == again != other
    assert first[:4] != first[4:]


def test_a_class_that_subjects_have_beside_a_common_one_is_spread_over_the_folds():
    """Converters: controls at their first session, patients at a later one. Nobody has the rare class alone."""
    subjects = np.repeat([f"s{number:02d}" for number in range(40)], 3)
    values = np.zeros(120, dtype=np.int64)
    values[2:30:3] = 1  # ten of forty, in one session of three
    for seed in range(5):
        splits = stratified(
            binary(values), ["a"] * 120, subjects, n_folds=5, n_repeats=1, seed=seed
        )
        assert [int(values[split.test].sum()) for split in splits] == [2] * 5


def test_one_site_is_left_out_with_all_its_subjects():
    sites = ["a", "a", "b", "b", "c", "c"]
    subjects = np.array(
        ["1", "2", "1", "3", "4", "5"], dtype=object
    )  # subject 1 was scanned at a and at b
    splits = leave_site_out(sites, subjects, names=list("uvwxyz"))
    assert [split.held_out_site for split in splits] == ["a", "b", "c"]
    assert splits[0].test.tolist() == [0, 1]
    assert splits[0].train.tolist() == [3, 4, 5]  # not row 2: subject 1 is being tested


@pytest.mark.parametrize(
    ("sites", "message"),
    [
        (["a", NO_SITE, "b"], r"site is missing for 1 of 3 scans \(sub-2\)"),
        (["a", "a"], "at least two sites, found 'a'"),
    ],
)
def test_leave_site_out_needs_two_sites_and_no_scan_without_one(sites, message):
    people = [f"sub-{place + 1}" for place in range(len(sites))]
    with pytest.raises(DataError, match=message):
        leave_site_out(sites, np.array(people), names=people)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_site_held_out_and_the_people_seen_there_are_never_trained_on(data):
    n = data.draw(st.integers(4, 40))
    groups = np.array(
        [
            (f"s{data.draw(st.integers(0, n))}", data.draw(st.sampled_from(["a", "b", "c"])))
            for _ in range(n)
        ]
    )
    assume(len(set(groups[:, 1])) > 1)
    splits = list(LeaveSiteOut().split(np.zeros(n), groups=groups))
    assert len(splits) == LeaveSiteOut().get_n_splits(groups=groups) == len(set(groups[:, 1]))
    for train, test in splits:
        assert len(set(groups[test, 1])) == 1
        assert not set(groups[test, 1]) & set(groups[train, 1])
        assert not set(groups[test, 0]) & set(groups[train, 0])
    assert sorted(np.concatenate([test for _, test in splits])) == list(range(n))


def test_a_planted_leak_is_caught():
    subjects = np.array(["x", "y", "x", "z"], dtype=object)
    leaking = Split(0, 3, np.array([0, 1]), np.array([2, 3]))
    with pytest.raises(LeakageError, match=r"fold 3: 1 subjects are on both sides \(x\)"):
        check_splits([leaking], binary([0, 1, 0, 1]), subjects)


def test_a_training_fold_with_one_class_is_refused():
    sites = ["a", "a", "b", "b"]
    subjects = np.array(list("1234"), dtype=object)
    splits = leave_site_out(sites, subjects, names=list("1234"))
    with pytest.raises(
        DataError, match="site 'a' is held out, the training scans have 'control' only"
    ):
        check_splits(splits, binary([1, 1, 0, 0]), subjects)


def test_two_training_scans_of_different_ages_can_teach_and_one_or_two_alike_cannot():
    def check(train, ages):
        check_splits(
            [Split(0, 0, np.array(train), np.array([len(ages) - 1]))],
            continuous(ages),
            names(len(ages)),
        )

    check([0, 1], np.array([30.0, 40.0, 50.0]))
    for train in ([0], [0, 1]):
        with pytest.raises(
            DataError, match=f"it does not vary in the {len(train)} scans that remain"
        ):
            check(train, np.array([30.0, 30.0, 50.0]))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (binary([1] * 4 + [0] * 20), "'patient' has 4.*n_folds=4"),
        (binary([1] * 2 + [0] * 20), "'patient' has 2.*more subjects"),
        (continuous(range(9)), "5 folds need at least 10 subjects with 'age', found 9.*n_folds=4"),
        (continuous(range(4)), "found 4.*n_folds=2"),
        (continuous(range(3)), "found 3.*Evaluate a larger cohort"),
    ],
)
def test_too_few_subjects_for_the_folds_are_told_with_what_to_do(target, message):
    with pytest.raises(ConfigError, match=message):
        check_class_sizes(target, names(len(target.values)), 5)
    check_class_sizes(continuous(range(10)), names(10), 5)


def test_a_class_of_which_one_subject_is_left_cannot_be_learned():
    subjects = np.array(["1", "1", "2", "3", "4", "5"], dtype=object)
    codes = [1, 1, 0, 0, 1, 0]
    split = Split(0, 0, np.arange(4), np.array([4, 5]))
    with pytest.raises(DataError, match="only one subject of 'patient' is left to train on"):
        check_splits([split], binary(codes), subjects)
    subjects[1] = "6"
    check_splits([split], binary(codes), subjects)


def test_the_value_of_a_subject_is_its_rarest_or_the_mean():
    owners = np.array(["a", "a", "b", "b", "c"], dtype=object)
    values = np.array([0, 1, 0, 0, 0])  # subject a is of a class that nobody else is of
    assert subject_values(values, owners).tolist() == [1, 0, 0]
    assert subject_values(np.array([1.0, 2, 5, 6, 9]), owners, average=True).tolist() == [
        1.5,
        5.5,
        9,
    ]
