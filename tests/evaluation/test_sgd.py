from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from neurocontrast.evaluation import EvaluationSettings
from neurocontrast.evaluation.fitting import fit_probe
from neurocontrast.evaluation.probes.sgd import MomentumSGDClassifier
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError


def problem(n_classes, n=300, p=5, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n, p))
    codes = (x @ generator.normal(size=(p, n_classes)) + generator.gumbel(size=(n, n_classes))).argmax(axis=1)
    return ((x - x.mean(axis=0)) / x.std(axis=0)).astype(np.float32), codes


def fitted(x, codes, *, rate, settings, seed):
    model = MomentumSGDClassifier(rate, **settings, random_state=seed).fit(x, codes)
    return model.coef_.T, model.intercept_


@parametrize_with_checks([MomentumSGDClassifier(epochs=20)])
def test_it_is_an_estimator_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_whole_batches_reach_the_optimum_of_logistic_regression(n_classes, nesterov):
    x, codes = problem(n_classes)
    decay = 0.003
    settings = {"epochs": 1500, "batch_size": 300, "weight_decay": decay, "nesterov": nesterov}
    model = MomentumSGDClassifier(0.3, **settings, random_state=0).fit(x, codes)
    best = LogisticRegression(C=1 / (decay * len(x)), tol=1e-10, max_iter=10000).fit(x, codes)
    np.testing.assert_allclose(model.predict_proba(x), best.predict_proba(x), atol=1e-4)
    np.testing.assert_allclose(model.coef_, best.coef_, atol=1e-3)


def test_small_batches_come_near_it_and_nearer_when_the_rate_is_low():
    x, codes = problem(3, n=1000)
    decay, distances = 0.003, []
    best = LogisticRegression(C=1 / (decay * len(x)), tol=1e-10, max_iter=10000).fit(x, codes).predict_proba(x)
    for rate in (1.0, 0.03):
        settings = {"epochs": 40, "batch_size": 50, "weight_decay": decay}
        found = MomentumSGDClassifier(rate, **settings, random_state=1).fit(x, codes).predict_proba(x)
        distances.append(np.abs(found - best).mean())
    assert distances[1] < 0.01
    assert distances[1] < distances[0]


def test_the_rate_falls_along_half_a_cosine():
    """One column, whole batches, no momentum: the steps can be followed by hand."""
    x, codes = np.array([[1.0], [-1.0]], dtype=np.float32), np.array([1, 0])
    settings = {"epochs": 4, "batch_size": 2, "momentum": 0.0}
    weight = 0.0
    for step in range(4):
        rate = 0.5 * (1 + np.cos(np.pi * step / 4)) / 2
        weight += rate / (1 + np.exp(weight))
    coefficients, intercept = fitted(x, codes, rate=0.5, settings=settings, seed=0)
    assert coefficients[0, 0] == pytest.approx(weight, rel=1e-5)
    assert intercept[0] == pytest.approx(0.0, abs=1e-6)


def test_momentum_and_weight_decay_enter_a_step_as_they_should():
    x, codes = np.array([[2.0], [-1.0]], dtype=np.float32), np.array([1, 0])
    settings = {"epochs": 3, "batch_size": 2, "momentum": 0.5, "weight_decay": 0.1}
    weight = bias = speed = bias_speed = 0.0
    for step in range(3):
        rate = 0.2 * (1 + np.cos(np.pi * step / 3)) / 2
        positive = 1 / (1 + np.exp(-(weight * x[:, 0] + bias)))
        residual = (positive - codes) / 2
        speed = 0.5 * speed + (residual * x[:, 0]).sum() + 0.1 * weight
        bias_speed = 0.5 * bias_speed + residual.sum()
        weight, bias = weight - rate * speed, bias - rate * bias_speed
    coefficients, intercept = fitted(x, codes, rate=0.2, settings=settings, seed=0)
    assert coefficients[0, 0] == pytest.approx(weight, rel=1e-5)
    assert intercept[0] == pytest.approx(bias, rel=1e-4)


def test_the_seed_decides_the_order_and_nothing_else_does():
    x, codes = problem(3)
    settings = {"epochs": 3, "batch_size": 20}
    runs = [fitted(x, codes, rate=0.1, settings=settings, seed=seed)[0] for seed in (0, 0, 1)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert np.abs(runs[0] - runs[2]).max() > 1e-4


def fit(rates, **options):
    x, codes = problem(3, n=200)
    target = Target("label", "multiclass", codes, ("a", "b", "c"))
    settings = EvaluationSettings(probe="sgd", sgd={"epochs": 30, "learning_rate": rates, **options})
    return fit_probe(
        lambda train, test: (x[train].astype(float), x[test].astype(float)),
        target,
        np.arange(150),
        np.arange(150, 200),
        subjects=np.arange(200).astype(str).astype(object),
        settings=settings,
        seed=0,
        validation=np.arange(100, 150),
    )[0]


def test_the_rate_is_chosen_on_validation():
    found = fit((1e-7, 0.03))
    assert found.strength == 0.03
    np.testing.assert_allclose(found.scores.sum(axis=1), 1, atol=1e-9)
    assert found.decisions.tolist() == found.scores.argmax(axis=1).tolist()


def test_a_rate_that_does_not_end_in_a_number_is_none():
    assert fit((0.03, 1e30), weight_decay=0.5).strength == 0.03
    with pytest.raises(ConfigError, match=r"sgd.learning_rate: the loss is no number .* Give lower rates"):
        fit((1e30, 1e32), weight_decay=0.5)
