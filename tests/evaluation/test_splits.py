from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neurocontrast.evaluation.splits import (
    Split,
    check_class_sizes,
    check_splits,
    leave_site_out,
    stratified,
)
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError, DataError, LeakageError


def binary(codes) -> Target:
    return Target("diagnosis", "binary", np.asarray(codes), ("control", "patient"), "patient")


def continuous(values) -> Target:
    return Target("age", "continuous", np.asarray(values, dtype=float))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_sessions_of_a_subject_never_straddle_a_fold(data):
    n_subjects = data.draw(st.integers(8, 40))
    owners = data.draw(st.lists(st.integers(0, n_subjects - 1), min_size=8, max_size=80))
    subjects = np.array([f"s{owner}" for owner in owners], dtype=object)
    codes = data.draw(st.lists(st.integers(0, 1), min_size=len(owners), max_size=len(owners)))
    sites = data.draw(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=len(owners), max_size=len(owners)))
    n_folds = data.draw(st.integers(2, 5))
    target = data.draw(st.sampled_from([binary(codes), continuous(owners)]))

    splits = stratified(target, sites, subjects, n_folds=n_folds, n_repeats=2, seed=data.draw(st.integers(0, 5)))

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
    splits = stratified(binary(codes), sites, np.arange(203).astype(str), n_folds=5, n_repeats=3, seed=1)
    for mask in [codes == 0, codes == 1, *[(codes == c) & (sites == s) for c in (0, 1) for s in "abcd"]]:
        for repeat in range(3):
            counts = [mask[split.test].sum() for split in splits if split.repeat == repeat]
            assert max(counts) - min(counts) <= 1


def test_a_continuous_target_has_alike_folds():
    values = np.random.default_rng(0).normal(50, 15, 100)
    splits = stratified(continuous(values), ["a"] * 100, np.arange(100).astype(str), n_folds=5, n_repeats=1, seed=0)
    means = [values[split.test].mean() for split in splits]
    assert max(means) - min(means) < 3  # five random folds of 20 differ by about 8


def test_repeats_differ_and_seeds_decide():
    codes, sites, subjects = np.arange(40) % 2, ["a"] * 40, np.arange(40).astype(str)
    first = stratified(binary(codes), sites, subjects, n_folds=4, n_repeats=2, seed=0)
    again = stratified(binary(codes), sites, subjects, n_folds=4, n_repeats=2, seed=0)
    other = stratified(binary(codes), sites, subjects, n_folds=4, n_repeats=2, seed=1)
    assert all(np.array_equal(a.test, b.test) for a, b in zip(first, again, strict=True))
    assert any(not np.array_equal(a.test, b.test) for a, b in zip(first, other, strict=True))
    assert any(not np.array_equal(first[fold].test, first[4 + fold].test) for fold in range(4))


def test_one_site_is_left_out_with_all_its_subjects():
    sites = ["a", "a", "b", "b", "c", "c"]
    subjects = np.array(["1", "2", "1", "3", "4", "5"], dtype=object)  # subject 1 was scanned at a and at b
    splits = leave_site_out(sites, subjects, names=list("uvwxyz"))
    assert [split.held_out_site for split in splits] == ["a", "b", "c"]
    assert splits[0].test.tolist() == [0, 1]
    assert splits[0].train.tolist() == [3, 4, 5]  # not row 2: subject 1 is being tested


def test_leave_site_out_refuses_scans_without_a_site():
    with pytest.raises(DataError, match=r"site is missing for 1 of 3 scans \(sub-2\)"):
        leave_site_out(["a", None, "b"], np.array(list("123")), names=["sub-1", "sub-2", "sub-3"])


def test_leave_site_out_needs_two_sites():
    with pytest.raises(DataError, match="at least two sites, found 'a'"):
        leave_site_out(["a", "a"], np.array(list("12")), names=["1", "2"])


def test_a_planted_leak_is_caught():
    subjects = np.array(["x", "y", "x", "z"], dtype=object)
    leaking = Split(0, 3, np.array([0, 1]), np.array([2, 3]))
    with pytest.raises(LeakageError, match=r"fold 3: 1 subjects stand on both sides \(x\)"):
        check_splits([leaking], binary([0, 1, 0, 1]), subjects)


def test_a_training_fold_with_one_class_is_refused():
    sites = ["a", "a", "b", "b"]
    subjects = np.array(list("1234"), dtype=object)
    splits = leave_site_out(sites, subjects, names=list("1234"))
    with pytest.raises(DataError, match="site 'a' is held out the training scans have 'control' only"):
        check_splits(splits, binary([1, 1, 0, 0]), subjects)


@pytest.mark.parametrize(("n_patients", "hint"), [(4, "--n-folds 4"), (2, "more subjects")])
def test_a_class_smaller_than_the_folds_is_named_with_what_to_do(n_patients, hint):
    codes = [1] * n_patients + [0] * 20
    with pytest.raises(ConfigError, match=f"'patient' has {n_patients}") as error:
        check_class_sizes(binary(codes), np.arange(len(codes)).astype(str), 5)
    assert hint in str(error.value)


def test_sessions_do_not_count_as_subjects():
    codes = [1] * 10 + [0] * 20
    subjects = np.array(["p1", "p2"] * 5 + [f"c{i}" for i in range(20)])
    with pytest.raises(ConfigError, match="'patient' has 2"):
        check_class_sizes(binary(codes), subjects, 5)


def test_a_class_that_subjects_have_beside_a_common_one_is_spread_over_the_folds():
    """Converters: controls at their first session, patients at a later one. Nobody has the rare class alone."""
    subjects = np.repeat([f"s{number:02d}" for number in range(40)], 3)
    values = np.zeros(120, dtype=np.int64)
    values[2:30:3] = 1  # ten of forty, in one session of three
    target = Target("dx", "binary", values, ("control", "patient"), "patient")
    for seed in range(5):
        splits = stratified(target, ["a"] * 120, subjects, n_folds=5, n_repeats=1, seed=seed)
        assert [int(values[split.test].sum()) for split in splits] == [2] * 5
