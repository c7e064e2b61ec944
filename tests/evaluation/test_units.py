from __future__ import annotations

import numpy as np
import pytest

from neurocontrast.evaluation.fitting import OutOfFold
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import bootstrap_metrics, choose_units


def test_sites_that_share_a_subject_are_drawn_together():
    sites = ["a", "a", "b", "b", "c", "d", "e", "f"]
    subjects = np.array(["1", "2", "2", "3", "4", "5", "6", "7"], dtype=object)
    units = choose_units("site", sites, subjects, target="diagnosis")
    assert units.n == 5
    assert len(set(units.labels[:4])) == 1
    assert len(set(units.labels)) == 5


@pytest.mark.parametrize(("unit", "low", "high"), [("site", 0.88, 0.99), ("subject", 0.0, 0.75)])
def test_where_sites_differ_only_resampled_sites_cover_the_truth(unit, low, high):
    """Errors of 25 sites of 20 have a part in common: a mean error varies more than subjects alone let it."""
    covered, n_simulations = 0, 150
    for simulation in range(n_simulations):
        generator = np.random.default_rng(simulation)
        sites = np.repeat(np.arange(25), 20)
        truth = generator.normal(50, 10, 500)
        predicted = truth + np.abs(10 + generator.normal(0, 2, 25)[sites] + generator.normal(0, 1, 500))
        target = Target("age", "continuous", truth)
        model = OutOfFold(predicted[None], np.zeros((1, 500), np.int64), np.zeros((1, 500), np.intp), [], 0)
        units = choose_units(unit, list(sites.astype(str)), np.arange(500).astype(str).astype(object), target="age")
        drawn = bootstrap_metrics(target, {"m": model}, units.labels, n_bootstraps=200, seed=simulation, names=["mae"])[
            "m"
        ]["mae"]
        ends = drawn.interval(level=0.95) or (np.nan, np.nan)
        covered += ends[0] <= 10 <= ends[1]
    assert low <= covered / n_simulations <= high
