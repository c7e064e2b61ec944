"""Inner folds, which try the penalty, seen without any model."""

import numpy as np
import pytest

from neurocontrast.evaluation.rows import NO_SITE
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits.inner import (
    inner_folds,
    penalty_folds,
    site_inner_folds,
    validation_split,
)
from neurocontrast.evaluation.target import Target
from tests.evaluation.quick import binary, continuous, names

BY_SITE = EvaluationSettings(inner_splits="leave-site-out", n_inner_folds=4)


def ages(n: int) -> Target:
    return continuous(np.arange(n))


def people(*sizes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, subjects and sites; `sizes` are the people of each site."""
    n = sum(sizes)
    return np.arange(n), names(n), np.repeat(names(len(sizes)), sizes)


def parts(pairs):
    return [(fitted.tolist(), tried.tolist()) for fitted, tried in pairs]


def test_each_site_of_ten_people_or_more_is_left_out_and_smaller_ones_are_fitted_on():
    train, subjects, sites = people(10, 11, 9)
    found = site_inner_folds(ages(30), train, subjects, sites)
    left_out = sorted(tried.tolist() for _, tried in found)
    assert left_out == [list(range(10)), list(range(10, 21))]
    for fitted, tried in found:
        assert sorted([*fitted, *tried]) == list(range(30))


def test_more_than_ten_sites_are_left_out_in_ten_groups():
    train, subjects, sites = people(*[10] * 12)
    found = site_inner_folds(ages(120), train, subjects, sites)
    assert sorted(len(tried) for _, tried in found) == [10] * 8 + [20] * 2


def test_a_traveller_is_never_fitted_while_tried():
    train, subjects, sites = people(12, 12, 12)
    subjects[0] = subjects[12] = "traveller"
    found = site_inner_folds(ages(36), train, subjects, sites)
    assert len(found) == 3
    for fitted, tried in found:
        assert not set(subjects[fitted]) & set(subjects[tried])


def test_scans_without_a_site_form_one():
    train, subjects, sites = people(10, 10)
    sites[:10] = NO_SITE
    assert sorted(
        len(tried) for _, tried in site_inner_folds(ages(20), train, subjects, sites)
    ) == [10, 10]


def test_a_fold_whose_fitted_rows_lack_a_class_is_left_out():
    train, subjects, sites = people(10, 10, 10)
    codes = np.zeros(30, dtype=int)
    codes[:5] = 1  # patients at the first site alone
    found = site_inner_folds(binary(codes), train, subjects, sites)
    assert [set(sites[tried]) for _, tried in found] == [{"1"}, {"2"}]
    codes[:5] = 0
    codes[::10] = 1
    assert len(site_inner_folds(binary(codes), train, subjects, sites)) == 3


def test_random_folds_test_every_row_once_and_keep_subjects_together():
    subjects = np.repeat(names(30), 2)
    train = np.arange(3, 57)
    found = inner_folds(ages(60), train, subjects, n_folds=4, seed=0)
    assert len(found) == 4
    assert sorted(np.concatenate([tried for _, tried in found])) == train.tolist()
    for fitted, tried in found:
        assert sorted([*fitted, *tried]) == train.tolist()
        assert not set(subjects[fitted]) & set(subjects[tried])
    assert parts(found) == parts(inner_folds(ages(60), train, subjects, n_folds=4, seed=0))
    assert parts(found) != parts(inner_folds(ages(60), train, subjects, n_folds=4, seed=1))


@pytest.mark.parametrize(("n_patients", "even"), [(19, True), (20, False)])
def test_a_class_below_five_a_fold_is_spread_evenly(n_patients, even):
    codes = np.zeros(100, dtype=int)
    codes[:n_patients] = 1
    train = np.arange(100)
    subjects = names(100)
    spreads = [
        np.ptp(
            [
                codes[tried].sum()
                for _, tried in inner_folds(binary(codes), train, subjects, n_folds=4, seed=seed)
            ]
        )
        for seed in range(10)
    ]
    assert bool(max(spreads) <= 1) is even


def test_fewer_subjects_of_a_class_than_folds_give_as_many_folds_and_one_gives_none():
    codes = np.array([1] * 3 + [0] * 9)
    train = np.arange(12)
    subjects = names(12)
    assert len(inner_folds(binary(codes), train, subjects, n_folds=5, seed=0)) == 3
    codes[:2] = 0
    assert inner_folds(binary(codes), train, subjects, n_folds=5, seed=0) == []
    assert len(inner_folds(ages(12), train[:3], subjects, n_folds=5, seed=0)) == 3
    assert inner_folds(ages(12), train[:1], subjects, n_folds=5, seed=0) == []


def test_the_penalty_is_tried_on_validation_rows_or_on_a_fifth_or_on_all_folds():
    train, subjects, sites = people(*[25] * 4)
    options = {"settings": EvaluationSettings(n_inner_folds=4, large_table=100), "seed": 0}
    assert len(penalty_folds(ages(100), train, subjects, **options)) == 4
    ((fitted, tried),) = penalty_folds(
        ages(100), train, subjects, validation=np.array([2, 5]), **options
    )
    assert tried.tolist() == [2, 5]
    assert len(fitted) == 98
    ((_, tried),) = penalty_folds(
        ages(100), train, subjects, validation=np.array([], dtype=int), **options
    )
    assert len(tried) == 20
    options["settings"] = EvaluationSettings(n_inner_folds=4, large_table=99)
    ((_, tried),) = penalty_folds(ages(100), train, subjects, sites=sites, **options)
    assert len(tried) == 25
    options["settings"] = BY_SITE.model_copy(update={"large_table": 99})
    found = penalty_folds(ages(100), train, subjects, sites=sites, **options)
    assert [len(set(sites[tried])) for _, tried in found] == [1, 1, 1, 1]


def test_early_stopping_looks_at_a_part_as_large_as_an_inner_fold():
    train, subjects, sites = people(10, 25, 39, 26)
    fitted, tried = validation_split(
        ages(100), train, subjects, sites=sites, settings=BY_SITE, seed=0
    )
    assert set(sites[tried]) == {"1"}  # of 100 rows the nearest to a quarter
    assert len(fitted) == 75
    plain = EvaluationSettings(n_inner_folds=4)
    fitted, tried = validation_split(
        ages(100), train, subjects, sites=sites, settings=plain, seed=0
    )
    assert (len(fitted), len(tried)) == (75, 25)
    twice = np.repeat(names(50), 2)
    fitted, tried = validation_split(ages(100), train, twice, sites=sites, settings=plain, seed=0)
    assert len(tried) in (24, 26)
    assert not set(twice[fitted]) & set(twice[tried])
    one = np.array([1] + [0] * 99)
    fitted, tried = validation_split(
        binary(one), train, subjects, sites=sites, settings=plain, seed=0
    )
    assert (len(fitted), len(tried)) == (100, 0)
    one[1] = 1
    fitted, tried = validation_split(
        binary(one), train, subjects, sites=sites, settings=plain, seed=0
    )
    assert one[tried].sum() == 1
