import numpy as np
import pytest
from scipy.special import expit
from sklearn.calibration import calibration_curve

from neurocontrast.evaluation.tables import calibration_table
from neurocontrast.evaluation.target import Target
from tests.evaluation.quick import binary, names, out_of_fold


def table_of(truth, scores):
    model = out_of_fold(scores)
    return calibration_table(binary(truth), {"embedding": model, "baseline": model}, names(len(truth)), level=0.95)


@pytest.fixture(scope="module")
def cohort():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=400)
    return (generator.random(400) < expit(logits)).astype(np.int64), expit(logits)


def test_bins_are_those_of_scikit_learns_quantile_curve(cohort):
    truth, scores = cohort
    table = table_of(truth, scores)
    table = table[table["model"] == "embedding"]
    observed, predicted = calibration_curve(truth, scores, n_bins=10, strategy="quantile")
    np.testing.assert_allclose(table["n"], 40)
    np.testing.assert_allclose(table["mean_predicted"], predicted, atol=2e-2)
    np.testing.assert_allclose(table["observed"], observed, atol=0.06)
    assert (table["n"] * table["observed"]).sum() == pytest.approx(truth.sum())
    assert ((table["observed_low"] <= table["observed"]) & (table["observed"] <= table["observed_high"])).all()


def test_equal_predictions_stay_together_and_few_scans_make_few_bins():
    truth = np.arange(100) % 2
    table = table_of(truth, np.full(100, 0.5))
    assert list(table["n"]) == [100, 100]
    few = table_of(truth[:30], np.linspace(0, 1, 30))
    assert list(few["n"]) == [15, 15, 15, 15]


def test_several_classes_are_each_set_against_the_rest():
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 3, 150)
    model = out_of_fold(generator.dirichlet([1, 1, 1], 150)[None])
    target = Target("dx", "multiclass", truth, ("hc", "bd", "sz"))
    table = calibration_table(target, {"embedding": model}, names(150), level=0.95)
    assert table.groupby("class")["n"].sum().to_dict() == {"hc": 150, "bd": 150, "sz": 150}
    observed = table["n"] * table["observed"]
    assert observed.groupby(table["class"]).sum()["sz"] == pytest.approx((truth == 2).sum())
