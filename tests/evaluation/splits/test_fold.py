from __future__ import annotations

import numpy as np
import pytest

from neurocontrast.evaluation.splits import Split, check_class_sizes, check_splits, leave_site_out, subject_values
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError, DataError, LeakageError


def binary(codes) -> Target:
    return Target("diagnosis", "binary", np.asarray(codes), ("control", "patient"), "patient")


def test_a_planted_leak_is_caught():
    subjects = np.array(["x", "y", "x", "z"], dtype=object)
    leaking = Split(0, 3, np.array([0, 1]), np.array([2, 3]))
    with pytest.raises(LeakageError, match=r"fold 3: 1 subjects are on both sides \(x\)"):
        check_splits([leaking], binary([0, 1, 0, 1]), subjects)


def test_a_training_fold_with_one_class_is_refused():
    sites = ["a", "a", "b", "b"]
    subjects = np.array(list("1234"), dtype=object)
    splits = leave_site_out(sites, subjects, names=list("1234"))
    with pytest.raises(DataError, match="site 'a' is held out the training scans have 'control' only"):
        check_splits(splits, binary([1, 1, 0, 0]), subjects)


def test_two_training_scans_of_different_ages_can_teach_and_one_or_two_alike_cannot():
    def check(train, ages):
        subjects = np.arange(len(ages)).astype(str)
        check_splits(
            [Split(0, 0, np.array(train), np.array([len(ages) - 1]))], Target("age", "continuous", ages), subjects
        )

    check([0, 1], np.array([30.0, 40.0, 50.0]))
    for train in ([0], [0, 1]):
        with pytest.raises(DataError, match=f"'age': does not vary in the {len(train)} scans that remain"):
            check(train, np.array([30.0, 30.0, 50.0]))


@pytest.mark.parametrize(("n_patients", "hint"), [(4, "n_folds=4"), (2, "more subjects")])
def test_a_class_smaller_than_the_folds_is_named_with_what_to_do(n_patients, hint):
    codes = [1] * n_patients + [0] * 20
    with pytest.raises(ConfigError, match=f"'patient' has {n_patients}") as error:
        check_class_sizes(binary(codes), np.arange(len(codes)).astype(str), 5)
    assert hint in str(error.value)


@pytest.mark.parametrize(("n", "hint"), [(9, "n_folds=4"), (4, "n_folds=2"), (3, "Evaluate a larger cohort")])
def test_folds_of_a_number_need_two_subjects_each(n, hint):
    ages = Target("age", "continuous", np.arange(float(n)))
    with pytest.raises(ConfigError, match=f"5 folds need at least 10 subjects with 'age', found {n}.*{hint}"):
        check_class_sizes(ages, np.arange(n).astype(str), 5)
    check_class_sizes(Target("age", "continuous", np.arange(10.0)), np.arange(10).astype(str), 5)


def test_a_class_of_which_one_subject_is_left_cannot_be_learned():
    subjects, codes = np.array(["1", "1", "2", "3", "4", "5"], dtype=object), [1, 1, 0, 0, 1, 0]
    split = Split(0, 0, np.arange(4), np.array([4, 5]))
    with pytest.raises(DataError, match="only one subject of 'patient' is left to train on"):
        check_splits([split], binary(codes), subjects)
    subjects[1] = "6"
    check_splits([split], binary(codes), subjects)


def test_the_value_of_a_subject_is_its_rarest_or_the_mean():
    owners = np.array(["a", "a", "b", "b", "c"], dtype=object)
    values = np.array([0, 1, 0, 0, 0])  # subject a is of a class that nobody else is of
    assert subject_values(values, owners).tolist() == [1, 0, 0]
    assert subject_values(np.array([1.0, 2, 5, 6, 9]), owners, average=True).tolist() == [1.5, 5.5, 9]
