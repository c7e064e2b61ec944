from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.calibration import calibration_curve

from neurocontrast.evaluation.models import OutOfFold
from neurocontrast.evaluation.tables import calibration_table
from neurocontrast.evaluation.target import Target


def scored(truth, scores):
    scores = np.atleast_2d(scores)
    folds = np.tile(np.arange(len(truth)) % 5, (len(scores), 1))
    model = OutOfFold(scores, (scores >= 0.5).astype(np.int64), folds, [], 0)
    return Target("dx", "binary", truth, ("control", "patient"), "patient"), {"embedding": model, "baseline": model}


@pytest.fixture(scope="module")
def cohort():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=400)
    return (generator.random(400) < expit(logits)).astype(np.int64), expit(logits)


def test_bins_are_those_of_scikit_learns_quantile_curve(cohort):
    truth, scores = cohort
    table = calibration_table(*scored(truth, scores), np.arange(400).astype(str), level=0.95)
    table = table[table["model"] == "embedding"]
    observed, predicted = calibration_curve(truth, scores, n_bins=10, strategy="quantile")
    np.testing.assert_allclose(table["n"], 40)
    np.testing.assert_allclose(table["mean_predicted"], predicted, atol=2e-2)
    np.testing.assert_allclose(table["observed"], observed, atol=0.06)
    assert (table["n"] * table["observed"]).sum() == pytest.approx(truth.sum())
    assert ((table["observed_low"] <= table["observed"]) & (table["observed"] <= table["observed_high"])).all()


def test_equal_predictions_stay_together_and_few_scans_make_few_bins():
    truth = np.arange(100) % 2
    table = calibration_table(*scored(truth, np.full(100, 0.5)), np.arange(100).astype(str), level=0.95)
    assert list(table["n"]) == [100, 100]
    few = calibration_table(*scored(truth[:30], np.linspace(0, 1, 30)), np.arange(30).astype(str), level=0.95)
    assert list(few["n"]) == [15, 15, 15, 15]


def test_several_classes_are_each_set_against_the_rest():
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 3, 150)
    scores = generator.dirichlet([1, 1, 1], 150)[None]
    model = OutOfFold(scores, scores.argmax(-1), np.zeros((1, 150), np.intp), [], 0)
    target = Target("dx", "multiclass", truth, ("hc", "bd", "sz"))
    table = calibration_table(target, {"embedding": model}, np.arange(150).astype(str), level=0.95)
    assert table.groupby("class")["n"].sum().to_dict() == {"hc": 150, "bd": 150, "sz": 150}
    observed = table["n"] * table["observed"]
    assert observed.groupby(table["class"]).sum()["sz"] == pytest.approx((truth == 2).sum())
