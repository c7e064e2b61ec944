"""Large tables: the same probes in less memory, and a map of some scans."""

from dataclasses import replace

import numpy as np
import pytest

from neurocontrast.evaluation import fit_and_measure
from neurocontrast.evaluation.fit.out_of_fold import cross_validate
from neurocontrast.evaluation.measure import uncertainty
from neurocontrast.evaluation.probes.designs import FeatureDesign
from neurocontrast.evaluation.probes.fitting import fit_probe
from tests.evaluation.quick import plan_kind, warnings


def plan_of(make_cohort, kind="binary", n=400, **options):
    return plan_kind(
        make_cohort, kind, n, **{"n_features": 30, "diagnosis": 0.3, "n_inner_folds": 5} | options
    )


def scores_of(plan):
    return cross_validate(plan.models[0], plan.target, plan.splits, plan.context).scores


@pytest.mark.parametrize("kind", ["binary", "multiclass", "continuous"])
@pytest.mark.parametrize("n_features", [30, 500])
@pytest.mark.parametrize("strength", [1e-3, 1.0])
def test_a_large_table_has_the_probe_of_a_small_one(make_cohort, kind, n_features, strength):
    given = {"C": (strength,), "alpha": (strength,), "n_features": n_features, "n": 200}
    exact, large = (
        scores_of(plan_of(make_cohort, kind, large_table=most, **given)) for most in (10**9, 0)
    )
    np.testing.assert_allclose(large, exact, atol=3e-3 * np.ptp(exact))


@pytest.mark.parametrize("option", [{"harmonise": "combat"}, {"residualise": ("age",)}])
def test_adjusted_features_are_those_of_a_small_table(make_cohort, option):
    exact, large = (
        scores_of(plan_of(make_cohort, C=(1e-2,), large_table=most, **option))
        for most in (10**9, 0)
    )
    np.testing.assert_allclose(large, exact, atol=1e-3)


def test_the_strength_of_a_large_table_is_chosen_on_the_first_inner_fold(make_cohort, monkeypatch):
    plan = plan_of(make_cohort, large_table=0, n_folds=5)
    asked = set()
    seen = FeatureDesign.__call__
    watched = lambda self, *rows: asked.add(tuple(map(len, rows))) or seen(self, *rows)  # noqa: E731
    monkeypatch.setattr(FeatureDesign, "__call__", watched)
    split = plan.splits[0]
    fit_probe(plan.design(), plan.target, split, replace(plan.context, seed=0))
    assert asked == {(256, 64), (320, 80)}


def test_the_evaluation_says_what_a_large_table_has_otherwise(make_cohort):
    result = fit_and_measure(plan_of(make_cohort, n=1300, n_features=4, C=(1e-2,), large_table=800))
    said = warnings(result)["large_table"]
    assert "first of the inner folds" in said
    assert "LogisticRegression(max_iter=1000, tol=1e-05)" in result.evaluation.probe.estimator


@pytest.mark.parametrize(
    ("n", "expected"), [(100, 2000), (25_000, 2000), (50_000, 1000), (1_000_000, 500)]
)
def test_many_scans_have_fewer_resamples(n, expected):
    assert uncertainty.count_resamples(2000, n) == expected
    assert uncertainty.count_resamples(20, n) == 20


def test_figures_that_rank_very_many_scans_have_no_interval(make_cohort, monkeypatch):
    monkeypatch.setattr(uncertainty, "MAX_RANKED", 100)
    figures = fit_and_measure(
        plan_of(make_cohort, "multiclass", C=(1e-2,), n_bootstraps=50)
    ).evaluation.metrics
    assert figures["auc"].interval is None
    assert figures["auc"].pooled > 0.5
    assert figures["accuracy"].interval is not None
