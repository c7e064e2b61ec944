from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from neurocontrast.evaluation import EvaluationSettings, plan_study, run_study
from neurocontrast.evaluation.fitting import fit_probe
from neurocontrast.evaluation.probes import SmoothedNeighbours
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError

FAST = {
    "n_bootstraps": 0,
    "confounds": False,
    "new_site": False,
    "outlyingness": False,
    "C": (1e-4, 1e-2, 1.0),
    "n_inner_folds": 3,
}
CLASSES = {"binary": ("control", "patient"), "multiclass": ("hc", "bd", "sz"), "continuous": ()}


def make(kind: str, *, n: int = 120, p: int = 15, signal: float = 1.0, seed: int = 0):
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(n, p)) * np.exp(generator.normal(size=p))
    hidden = signal * features[:, 0] / features[:, 0].std() + generator.normal(size=n)
    subjects = np.array([f"s{row // 2}" for row in range(n)], dtype=object)
    if kind == "continuous":
        return features, Target("age", "continuous", 50 + 10 * hidden), subjects
    classes = CLASSES[kind]
    codes = np.searchsorted(np.quantile(hidden, np.arange(1, len(classes)) / len(classes)), hidden)
    return features, Target("dx", kind, codes, classes, "patient" if kind == "binary" else None), subjects


def design_of(features):
    return lambda train, test: (features[train], features[test])


@pytest.mark.parametrize("kind", ["binary", "multiclass", "continuous"])
@pytest.mark.parametrize("k", [1, 7, 500])
def test_neighbours_are_those_of_scikit_learn(kind, k):
    features, target, subjects = make(kind)
    train, test = np.arange(90), np.arange(90, 120)
    settings = EvaluationSettings(probe="knn", **{**FAST, "k": (k,)})
    decided, model = fit_probe(
        design_of(features), target, train, test, subjects=subjects, settings=settings, seed=0, pairs=[]
    )
    found, k = decided.scores, min(k, 90)
    assert model.strength == k
    scaler = StandardScaler().fit(features[train])
    x_train, x_test = scaler.transform(features[train]), scaler.transform(features[test])
    plain = (KNeighborsRegressor if kind == "continuous" else KNeighborsClassifier)(k, weights="distance")
    plain.fit(x_train, target.values[train])
    if kind == "continuous":
        np.testing.assert_allclose(found, plain.predict(x_test), rtol=1e-9)
        return
    # One neighbour more that has the classes of the training rows keeps probabilities from 0 and 1.
    shares = np.bincount(target.values[train]) / 90
    expected = (k * plain.predict_proba(x_test) + shares) / (k + 1)
    np.testing.assert_allclose(found, expected[:, 1] if kind == "binary" else expected, atol=1e-9)


def test_neighbours_are_an_estimator_of_scikit_learn():
    assert len(check_estimator(SmoothedNeighbours(), on_skip=None)) > 30


def test_the_machine_is_the_plain_one_of_scikit_learn_in_its_order_of_scans():
    features, target, subjects = make("binary", p=40)
    train, test = np.arange(90), np.arange(90, 120)
    settings = EvaluationSettings(probe="svm", **{**FAST, "C": (1e-2,)})
    decided = fit_probe(design_of(features), target, train, test, subjects=subjects, settings=settings, seed=1)[0]
    scaler = StandardScaler().fit(features[train])
    plain = LinearSVC(C=1e-2, dual=False, tol=1e-8, max_iter=10_000)
    plain.fit(scaler.transform(features[train]), target.values[train])
    decisions = plain.decision_function(scaler.transform(features[test]))
    logits = np.log(decided.scores / (1 - decided.scores))
    slope, bias = np.polyfit(decisions, logits, 1)
    assert slope > 0
    np.testing.assert_allclose(logits, slope * decisions + bias, atol=1e-4)
    assert decided.n_not_converged == 0


def test_probabilities_of_the_machine_are_fitted_on_scans_it_has_not_seen():
    """With more features than scans, a machine separates its training scans: fitted on these, it would be certain."""
    features, target, subjects = make("binary", n=120, p=300, signal=0.0)
    settings = EvaluationSettings(probe="svm", **{**FAST, "C": (1.0,)})
    decided = fit_probe(
        design_of(features), target, np.arange(90), np.arange(90, 120), subjects=subjects, settings=settings, seed=0
    )[0]
    assert decided.scores.min() > 0.15
    assert decided.scores.max() < 0.85


def test_without_inner_folds_a_machine_still_has_probabilities():
    """One subject a class: nobody can be left out of the training rows."""
    generator = np.random.default_rng(0)
    target = Target("dx", "binary", np.repeat([0, 1], 4), CLASSES["binary"], "patient")
    features, subjects = generator.normal(size=(8, 5)), np.repeat(["a", "b"], 4).astype(object)
    settings = EvaluationSettings(probe="svm", threshold="prevalence", **FAST)
    rows = np.arange(8)
    decided = fit_probe(design_of(features), target, rows, rows, subjects=subjects, settings=settings, seed=0)[0]
    assert np.all((decided.scores > 0) & (decided.scores < 1))


def test_probabilities_of_a_machine_never_turn_its_order_round():
    """Half of a small balanced sample left out of pure noise: decision values of others point the wrong way."""
    for seed in range(5):
        features, target, subjects = make("binary", n=60, p=200, signal=0.0, seed=seed)
        settings = EvaluationSettings(probe="svm", **{**FAST, "C": (1.0,)})
        rows = np.arange(60)
        model = fit_probe(design_of(features), target, rows, rows, subjects=subjects, settings=settings, seed=0)[1]
        x = model.features(rows, rows).test
        order = np.argsort(model.estimator.decision_function(x))
        assert (np.diff(model.predict_proba(x)[order, 1]) >= 0).all()


@pytest.mark.parametrize("probe", ["svm", "knn"])
@pytest.mark.parametrize("target", ["diagnosis", "age"])
def test_other_probes_find_a_planted_signal_and_have_a_baseline_of_their_kind(make_cohort, probe, target):
    cohort = make_cohort(120, n_features=8, diagnosis=1.0, age=1.5)
    study = plan_study(
        cohort.table, cohort.features, settings=EvaluationSettings(target=target, probe=probe, k=(3, 10), **FAST)
    )
    result = run_study(study)
    metric, least = ("auc", 0.8) if target == "diagnosis" else ("r2", 0.4)
    assert result.evaluation.content()["metrics"][metric]["pooled"] > least
    assert result.evaluation.content()["increment"][metric]["difference"] > 0.2
    assert result.evaluation.content()["probe"]["name"] == probe
    column = {"svm": "C", "knn": "k"}[probe]
    assert set(result.tables["folds"][column]) <= set(study.settings.C if probe == "svm" else study.settings.k)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probe": "logistic", "target": "age"}, "'logistic' is not for a continuous target.*knn, ridge or svm"),
        ({"probe": "ridge"}, "'ridge' is not for a categorical target.*knn, logistic or svm"),
        ({"threshold": 0.3, "target": "age"}, "threshold: '0.3' is for two classes, and 'age' is continuous"),
        ({"threshold": 0.3, "target": "site"}, "'0.3' is for two classes, and 'site' is of 3 classes"),
    ],
)
def test_probes_and_thresholds_that_do_not_fit_the_target_are_refused(make_cohort, options, message):
    cohort = make_cohort(60)
    with pytest.raises(ConfigError, match=message):
        plan_study(cohort.table, cohort.features, settings=EvaluationSettings(**{**FAST, **options}))


@pytest.mark.parametrize("probe", ["logistic", "svm", "knn"])
@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_one_class_in_training_is_all_there_is_to_say(probe, kind):
    classes = ("a", "b") if kind == "binary" else ("a", "b", "c")
    target = Target("dx", kind, np.array([1, 1, 1, 0, 1]), classes)
    x = np.random.default_rng(0).normal(size=(5, 2))
    decided = fit_probe(
        lambda train, test: (x[train], x[test]), target, np.arange(3), np.arange(3, 5),
        subjects=np.arange(5).astype(str).astype(object), settings=EvaluationSettings(probe=probe), seed=0,
    )[0]  # fmt: skip
    assert decided.decisions.tolist() == [1, 1]
    assert decided.scores.tolist() == ([1.0, 1.0] if kind == "binary" else [[0.0, 1.0, 0.0]] * 2)
