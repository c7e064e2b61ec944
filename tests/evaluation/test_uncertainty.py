from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from neurocontrast.evaluation.crossval import OutOfFold
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import (
    bootstrap_metrics,
    percentile_interval,
    pooled_metrics,
    resample_counts,
)


def scored(codes: np.ndarray, scores: np.ndarray) -> tuple[Target, OutOfFold]:
    target = Target("dx", "binary", codes, ("control", "patient"), "patient")
    scores = np.atleast_2d(scores)
    folds = np.tile(np.arange(len(codes)) % 2, (len(scores), 1))
    return target, OutOfFold(scores, (scores >= 0.5).astype(np.int64), folds, [], 0)


def test_a_subject_is_drawn_with_all_of_its_scans():
    subjects = np.array(["a", "b", "a", "c"], dtype=object)
    (weights,) = resample_counts(subjects, n_bootstraps=50, seed=0)
    np.testing.assert_array_equal(weights[:, 0], weights[:, 2])
    np.testing.assert_array_equal(weights[:, [0, 1, 3]].sum(axis=1), 3)


def test_pooled_is_the_mean_of_the_repeats():
    codes = np.array([0, 0, 1, 1])
    target, twice = scored(codes, np.array([[0.1, 0.2, 0.8, 0.9], [0.9, 0.2, 0.8, 0.1]]))
    assert pooled_metrics(target, twice)["auc"][0] == pytest.approx((1.0 + 0.25) / 2)


def test_models_share_their_resamples():
    generator = np.random.default_rng(0)
    codes, scores = np.arange(60) % 2, generator.random(60)
    target, model = scored(codes, scores)
    drawn = bootstrap_metrics(
        target, {"embedding": model, "baseline": model}, np.arange(60).astype(str), n_bootstraps=40, seed=1
    )
    np.testing.assert_array_equal(drawn["embedding"]["auc"], drawn["baseline"]["auc"])


def test_an_interval_is_withheld_where_resamples_are_undefined():
    assert percentile_interval(np.array([1.0] * 90 + [np.nan] * 10), level=0.95) is None
    assert percentile_interval(np.array([np.nan] * 5), level=0.95) is None
    low, high = percentile_interval(np.append(np.arange(101.0), np.nan), level=0.9) or (None, None)
    assert (low, high) == pytest.approx((5, 95))


@pytest.mark.parametrize("n_sessions", [1, 3])
def test_the_interval_of_an_auc_covers_the_truth(n_sessions):
    """Scores of known AUC; sessions of a subject are strongly alike, which only a cluster bootstrap respects."""
    effect, n_subjects, n_simulations = 1.0, 80, 150
    truth = norm.cdf(effect / np.sqrt(2))
    covered = 0
    for simulation in range(n_simulations):
        generator = np.random.default_rng(simulation)
        codes = np.tile(np.arange(n_subjects) % 2, n_sessions)
        own = np.tile(generator.normal(size=n_subjects), n_sessions)
        noise = generator.normal(size=codes.size)
        share = 0.0 if n_sessions == 1 else 0.9
        scores = norm.cdf(effect * (codes - 0.5) + np.sqrt(share) * own + np.sqrt(1 - share) * noise)
        target, model = scored(codes, scores)
        subjects = np.tile(np.arange(n_subjects), n_sessions).astype(str)
        drawn = bootstrap_metrics(target, {"m": model}, subjects, n_bootstraps=300, seed=simulation)["m"]["auc"]
        low, high = percentile_interval(drawn, level=0.95) or (1.0, 0.0)
        covered += low <= truth <= high
    assert 0.89 <= covered / n_simulations <= 0.99
