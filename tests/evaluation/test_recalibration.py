import numpy as np
import pytest
from scipy import optimize
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from neurocontrast.evaluation.metrics import explain_value, recalibration_intercept, recalibration_slope

ONCE = np.ones((1, 4))


@pytest.fixture(scope="module", params=["ample", "few", "tied"])
def drawn(request):
    generator = np.random.default_rng(3)
    n = 25 if request.param == "few" else 200
    truth = np.arange(n) % 2.0
    scores = expit(0.4 + 2.0 * generator.normal(size=n) + 0.8 * (truth - 0.5))
    scores = np.clip(np.round(scores, 1), 0.05, 0.95) if request.param == "tied" else scores
    return truth, scores, generator.multinomial(n, np.full(n, 1 / n), size=30).astype(float)


def test_the_slope_is_that_of_an_unpenalised_logistic_regression_on_the_logit(drawn):
    truth, scores, weights = drawn
    found = recalibration_slope(truth, scores, weights)
    for row, counts in enumerate(weights):
        model = LogisticRegression(C=np.inf, tol=1e-12, max_iter=5000)
        model.fit(logit(scores)[:, None], truth, sample_weight=counts)
        assert found[row] == pytest.approx(model.coef_[0, 0], rel=1e-4)


def test_the_intercept_makes_expected_and_observed_positives_equal(drawn):
    truth, scores, weights = drawn
    found = recalibration_intercept(truth, scores, weights)
    for row, counts in enumerate(weights):
        gap = lambda shift: counts @ (expit(shift + logit(scores)) - truth)  # noqa: B023, E731
        assert found[row] == pytest.approx(optimize.brentq(gap, -50, 50, xtol=1e-12), abs=1e-8)


def test_right_probabilities_have_slope_one_and_intercept_zero_and_wrong_ones_have_not():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=200_000)
    truth = (generator.random(len(logits)) < expit(logits)).astype(float)
    once = np.ones((1, len(logits)))
    assert recalibration_slope(truth, expit(logits), once)[0] == pytest.approx(1, abs=0.03)
    assert recalibration_intercept(truth, expit(logits), once)[0] == pytest.approx(0, abs=0.03)
    assert recalibration_slope(truth, expit(2 * logits), once)[0] == pytest.approx(0.5, abs=0.02)
    assert recalibration_intercept(truth, expit(logits + 0.7), once)[0] == pytest.approx(-0.7, abs=0.03)


@pytest.mark.parametrize(
    "scores", [[0.1, 0.2, 0.7, 0.9], [0.1, 0.4, 0.4, 0.9], [0.9, 0.8, 0.2, 0.1], [0.3, 0.3, 0.3, 0.3]]
)
def test_without_a_finite_slope_there_is_none(scores):
    truth = np.array([0.0, 0, 1, 1])
    assert np.isnan(recalibration_slope(truth, np.array(scores), ONCE)[0])
    assert np.isfinite(recalibration_intercept(truth, np.array(scores), ONCE)[0])
    assert "separate" in explain_value("calibration_slope", None)


def test_a_resample_of_one_class_has_neither_and_does_not_disturb_the_others():
    truth, scores = np.array([0.0, 0, 1, 1]), np.array([0.2, 0.6, 0.4, 0.9])
    weights = np.array([[1.0, 1, 1, 1], [2, 2, 0, 0], [0, 0, 3, 1], [1, 1, 1, 1]])
    # The classes overlap by the second sample of one and the third of the other: both must be drawn.
    apart = np.array([[1.0, 0, 1, 1], [2, 0, 1, 1], [1, 1, 0, 2]])
    assert np.isnan(recalibration_slope(truth, scores, apart)).all()
    for recalibrate in (recalibration_slope, recalibration_intercept):
        found = recalibrate(truth, scores, weights)
        assert np.isnan(found[[1, 2]]).all()
        assert found[0] == pytest.approx(found[3])
        assert np.isfinite(found[0])
