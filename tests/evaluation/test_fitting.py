from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from neurocontrast.evaluation import EvaluationSettings, plan_study, run_study
from neurocontrast.evaluation.fitting import fit_probe
from neurocontrast.evaluation.probes import SmoothedNeighbours
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError
from tests.evaluation.quick import QUICK

FAST = {**QUICK, "C": (1e-4, 1e-2, 1.0), "n_inner_folds": 3}
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


@pytest.mark.parametrize("target", ["diagnosis", "age"])
def test_neighbours_find_a_planted_signal_and_have_a_baseline_of_their_kind(make_cohort, target):
    cohort = make_cohort(120, n_features=8, diagnosis=1.0, age=1.5)
    study = plan_study(
        cohort.table, cohort.features, settings=EvaluationSettings(target=target, probe="knn", k=(3, 10), **FAST)
    )
    result = run_study(study)
    metric, least = ("auc", 0.8) if target == "diagnosis" else ("r2", 0.4)
    assert result.evaluation.content()["metrics"][metric]["pooled"] > least
    assert result.evaluation.content()["increment"][metric]["difference"] > 0.2
    assert result.evaluation.content()["probe"]["name"] == "knn"
    assert set(result.tables["folds"]["k"]) <= {3, 10}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probe": "logistic", "target": "age"}, "'logistic' is not for a continuous target.*'knn', 'ridge'"),
        ({"probe": "ridge"}, "'ridge' is not for a categorical target.*'knn', 'logistic'"),
        ({"threshold": 0.3, "target": "age"}, "threshold: '0.3' is for two classes, and 'age' is continuous"),
        ({"threshold": 0.3, "target": "site"}, "'0.3' is for two classes, and 'site' is of 3 classes"),
    ],
)
def test_probes_and_thresholds_that_do_not_fit_the_target_are_refused(make_cohort, options, message):
    cohort = make_cohort(60)
    with pytest.raises(ConfigError, match=message):
        plan_study(cohort.table, cohort.features, settings=EvaluationSettings(**{**FAST, **options}))


@pytest.mark.parametrize("probe", ["logistic", "knn"])
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
