from __future__ import annotations

import numpy as np
import pytest

from neurocontrast.evaluation import EvaluationSettings, plan_study, run_study
from neurocontrast.evaluation.permutation import permute_labels
from neurocontrast.evaluation.target import Target

FAST = {"n_bootstraps": 0, "umap": False, "C": (1e-2, 1.0), "n_folds": 3, "n_inner_folds": 2}


def p_values(cohort, **options):
    settings = EvaluationSettings(**{**FAST, **options})
    result = run_study(plan_study(cohort.table, cohort.features, settings=settings))
    return result.summary["permutation"]["p_values"]


def test_labels_move_within_site_and_with_their_subject():
    generator = np.random.default_rng(0)
    subjects = np.array([f"s{row % 30}" for row in range(60)], dtype=object)
    sites = [f"site-{int(name[1:]) % 3}" for name in subjects]
    values = generator.normal(size=60)
    permuted = permute_labels(Target("age", "continuous", values), sites, subjects, generator).values
    for site in set(sites):
        rows = np.array(sites) == site
        assert sorted(permuted[rows]) == sorted(values[rows])
    assert not np.array_equal(permuted, values)
    pairs = {(values[row], values[row + 30]) for row in range(30)}
    assert {(permuted[row], permuted[row + 30]) for row in range(30)} == pairs


def test_a_signal_is_better_than_every_permutation(make_cohort):
    found = p_values(make_cohort(60, n_features=6), n_permutations=19)
    assert found["auc"] == pytest.approx(1 / 20)
    assert found["brier"] == pytest.approx(1 / 20)


def test_having_recognised_the_site_is_not_enough(make_cohort):
    cohort = make_cohort(90, n_features=6, diagnosis=0.0, site=3.0)
    patients = (cohort.table["site"] == "site-0") ^ (np.random.default_rng(0).random(90) < 0.1)
    cohort.table["diagnosis"] = np.where(patients, "patient", "control")
    assert p_values(cohort, n_permutations=19)["auc"] > 0.05


@pytest.mark.parametrize("options", [{"splits": "leave-site-out"}, {"target": "age"}, {"target": "site"}])
def test_every_kind_of_evaluation_can_be_permuted(make_cohort, options):
    found = p_values(make_cohort(60, n_features=6, site=1.0), n_permutations=3, **options)
    assert all(value is None or 0.25 <= value <= 1 for value in found.values())


def test_the_same_seed_permutes_alike(make_cohort):
    cohort = make_cohort(40, n_features=4, diagnosis=0.2)
    assert p_values(cohort, n_permutations=9) == p_values(cohort, n_permutations=9)


@pytest.mark.slow
def test_without_signal_five_percent_are_found(make_cohort):
    """With 19 permutations p ≤ 0.05 means better than all of them: one cohort in twenty."""
    found = 0
    for seed in range(100):
        cohort = make_cohort(40, n_features=4, diagnosis=0.0, age=0.0, site=1.0, seed=seed)
        found += p_values(cohort, n_permutations=19, seed=seed)["auc"] <= 0.05
    assert found <= 12  # of a binomial of 100 and 0.05, 12 or fewer have probability 0.998
