from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from neurocontrast.evaluation.rows import NO_SITE
from neurocontrast.evaluation.splits import stratified
from neurocontrast.evaluation.target import Target


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
    sites = data.draw(st.lists(st.sampled_from(["a", "b", "c", NO_SITE]), min_size=len(owners), max_size=len(owners)))
    n_folds = data.draw(st.integers(2, 5))
    assume(len(set(owners)) >= n_folds)
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


def test_a_class_that_subjects_have_beside_a_common_one_is_spread_over_the_folds():
    """Converters: controls at their first session, patients at a later one. Nobody has the rare class alone."""
    subjects = np.repeat([f"s{number:02d}" for number in range(40)], 3)
    values = np.zeros(120, dtype=np.int64)
    values[2:30:3] = 1  # ten of forty, in one session of three
    target = Target("dx", "binary", values, ("control", "patient"), "patient")
    for seed in range(5):
        splits = stratified(target, ["a"] * 120, subjects, n_folds=5, n_repeats=1, seed=seed)
        assert [int(values[split.test].sum()) for split in splits] == [2] * 5
