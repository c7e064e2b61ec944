import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neurocontrast.evaluation.measure import check, learning
from neurocontrast.evaluation.measure.finding import Inputs
from neurocontrast.evaluation.measure.learning import (
    draw_of_split,
    draw_order,
    measure_learning_curve,
)
from neurocontrast.evaluation.rows import NO_SITE
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError
from neurocontrast.reporting.findings import FINDINGS
from tests.evaluation import quick


def learning_curve(plan):
    measurement = measure_learning_curve(Inputs(plan, {}))
    record = measurement.records["learning_curve"]
    if record is not None:
        record = record.model_dump(mode="json", exclude_unset=True)
    return record, measurement.tables.get("learning_curve")


def make_plan(cohort, **options):
    plan = quick.make_plan(cohort, **{"n_folds": 3, "n_draws": 2, **options})
    check(plan, FINDINGS)
    return plan


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_every_beginning_of_a_draw_has_the_classes_in_their_shares(data):
    n = data.draw(st.integers(6, 60))
    codes = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    sites = data.draw(st.lists(st.sampled_from(["a", "b", NO_SITE]), min_size=n, max_size=n))
    subjects = np.array([f"s{row}" for row in range(n)], dtype=object)
    target = Target("dx", "multiclass", codes, ("a", "b", "c"))
    order = draw_order(target, sites, subjects, seed=data.draw(st.integers(0, 9)))
    assert sorted(order) == sorted(subjects)
    drawn = codes[[int(subject[1:]) for subject in order]]
    for code in range(3):
        share = (codes == code).mean()
        counts = np.cumsum(drawn == code)
        assert np.all(np.abs(counts - share * np.arange(1, n + 1)) <= 3)  # one for each class


def test_sites_are_drawn_in_their_shares_and_draws_differ():
    generator = np.random.default_rng(0)
    codes = np.arange(300) % 2
    sites = generator.choice(["a", "b", "c"], 300, p=[0.6, 0.3, 0.1])
    subjects = np.array([f"s{row:03d}" for row in range(300)], dtype=object)
    target = Target("dx", "binary", codes, ("control", "patient"), "patient")
    orders = [draw_order(target, list(sites), subjects, seed=seed) for seed in (0, 1)]
    for order in orders:
        drawn = sites[[int(subject[1:]) for subject in order[:60]]]
        for site in "abc":
            assert abs((drawn == site).sum() - 60 * (sites == site).mean()) <= 3
    assert set(orders[0][:60]) != set(orders[1][:60])


def test_the_curve_rises_and_its_figures_are_those_of_its_table(make_cohort):
    plan = make_plan(make_cohort(200, n_features=60, diagnosis=0.7), train_sizes=(20, 120))
    summary, table = learning_curve(plan)
    assert list(table.columns[:5]) == ["n_train", "draw", "repeat", "fold", "auc"]
    assert len(table) == 2 * 2 * 3
    points = summary["metrics"]["auc"]
    assert [point["n_train"] for point in points] == [20, 120]
    assert points[1]["mean"] > points[0]["mean"] + 0.03
    for point in points:
        part = table[table["n_train"] == point["n_train"]]["auc"]
        assert (point["mean"], point["sd"], point["n"]) == pytest.approx(
            (part.mean(), part.std(), 6)
        )
    assert summary["baseline"]["auc"][1]["mean"] < points[1]["mean"]
    json.dumps(summary, allow_nan=False)


def test_folds_and_draws_are_the_same_for_every_encoder(make_cohort):
    one = make_cohort(90)
    other = make_cohort(90, n_features=7, seed=0)
    other.features = np.random.default_rng(5).normal(size=other.features.shape)
    other.table = one.table
    studies = [make_plan(cohort, train_sizes=(20,)) for cohort in (one, other)]
    for a, b in zip(*(plan.splits for plan in studies), strict=True):
        np.testing.assert_array_equal(a.test, b.test)
        orders = [draw_of_split(plan.table, plan.target, a, 1, 0) for plan in studies]
        np.testing.assert_array_equal(*orders)
    curves = [learning_curve(plan)[1] for plan in studies]
    np.testing.assert_array_equal(curves[0]["baseline_auc"], curves[1]["baseline_auc"])


def test_each_size_is_that_many_subjects_with_all_their_sessions(make_cohort, monkeypatch):
    fitted = []
    fit = learning._fit
    monkeypatch.setattr(learning, "_fit", lambda *given: fitted.append(given[2]) or fit(*given))
    plan = make_plan(make_cohort(90, n_sessions=2), train_sizes=(20, 40), n_draws=1, C=(1e-2,))
    measure_learning_curve(Inputs(plan, {}))
    assert [len(set(plan.subjects[train])) for train in fitted] == [20, 40] * 3
    assert [len(train) for train in fitted] == [40, 80] * 3


def test_all_training_subjects_are_the_fold_itself(make_cohort):
    """The largest size has the training rows of the fold: the same scores but for the inner folds' chance."""
    cohort = make_cohort(90, n_sessions=2)
    result = quick.evaluate_study(make_plan(cohort, train_sizes=(60,), n_draws=1, C=(1e-2,)))
    np.testing.assert_allclose(
        result.tables["learning_curve"]["auc"], result.tables["folds"]["auc"]
    )
    assert result.evaluation.content()["learning_curve"]["sizes"] == [60]


def test_curves_of_age_and_of_sites_held_out(make_cohort):
    cohort = make_cohort(120, n_sites=3, age=2.0)
    summary, _ = learning_curve(make_plan(cohort, target="age", train_sizes=(10, 50)))
    assert summary["metrics"]["mae"][1]["mean"] < summary["metrics"]["mae"][0]["mean"]
    _, table = learning_curve(make_plan(cohort, splits="leave-site-out", train_sizes=(30,)))
    assert len(table) == 3 * 2
    assert learning_curve(make_plan(cohort)) == (None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"train_sizes": (50, 61, 500)},
            "61, 500 cannot be had: the smallest training fold has 60 subjects",
        ),
        ({"train_sizes": (1,)}, r"sizes from 4 \(two subjects of every class\) to 60"),
        ({"train_sizes": (1,), "target": "age"}, "Give sizes from 2"),
    ],
)
def test_sizes_that_cannot_be_had_are_refused_with_what_is_available(make_cohort, options, message):
    with pytest.raises(ConfigError, match=message):
        make_plan(make_cohort(90, n_sessions=2), **options)
