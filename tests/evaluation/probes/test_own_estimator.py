"""Estimators of the user's own: imported only when asked for, checked, cloned for each fold, never pickled."""

import inspect
import sys
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFECV
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    RandomizedSearchCV,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils import all_estimators

from neurocontrast.evaluation import EvaluationSettings
from neurocontrast.evaluation.probes.estimators import _is_search, import_estimator
from neurocontrast.exceptions import ConfigError
from tests.evaluation.quick import evaluate, warnings


class Raises(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        raise ValueError("no such thing")

    def predict(self, X):
        return X

    predict_proba = predict


class SaysNothing(Raises):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), np.nan)


@pytest.mark.parametrize("target", ["diagnosis", "site"])
def test_any_pipeline_is_evaluated_and_says_what_it_is(make_cohort, target):
    cohort = make_cohort(90, n_features=8, diagnosis=1.5)
    found = evaluate(
        cohort,
        estimator=make_pipeline(StandardScaler(), PCA(4), LogisticRegression()),
        target=target,
    )
    written = found.evaluation.content()
    probe = written["probe"]
    assert probe["name"] == "StandardScaler + PCA + LogisticRegression"
    assert "PCA(n_components=4)" in probe["estimator"]
    assert probe["strength"] is None
    assert found.probe is None
    # PCA(4) cannot be fitted to age and sex: the baseline goes on with the default probe, and that
    # is said.
    assert written["estimators"]["baseline"]["name"] == "logistic"
    assert written["estimators"]["embedding"] == {
        key: probe[key] for key in ("name", "own", "estimator", "strength_name")
    }
    assert "baseline_default" in warnings(written)
    assert written["baseline"]["auc"]["pooled"] is not None
    assert "pickle" in probe["why_not_stored"]
    assert written["metrics"]["log_loss"]["pooled"] is not None


@pytest.mark.parametrize("target", ["diagnosis", "site"])
def test_decision_values_have_no_calibration_and_the_reason_is_given(make_cohort, target):
    cohort = make_cohort(90, n_features=8, diagnosis=1.5)
    found = evaluate(
        cohort, estimator=make_pipeline(StandardScaler(), LinearSVC()), target=target, new_site=True
    )
    metrics = found.evaluation.content()["metrics"]
    assert not {"brier", "log_loss", "calibration_slope"} & set(metrics)
    assert metrics["auc"]["pooled"] > (0.7 if target == "diagnosis" else 0)
    assert "calibration" not in found.tables
    assert "no_probabilities" in warnings(found)
    if target == "diagnosis":
        assert set(found.tables["predictions"]["y_pred"]) == {"control", "patient"}


class Remembers(GroupKFold):
    groups: ClassVar[list[object]] = []

    def split(self, X, y=None, groups=None):
        self.groups.extend(groups)
        return super().split(X, y, groups)


def test_a_search_of_ones_own_gets_the_subjects_as_groups(make_cohort):
    cohort = make_cohort(90, n_features=6, diagnosis=1.5)
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=Remembers(3))
    Remembers.groups.clear()
    evaluate(cohort, estimator=search)
    assert set(Remembers.groups) == set(cohort.table["participant_id"])
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=GroupKFold(3))
    assert evaluate(cohort, estimator=search).evaluation.metrics["auc"].pooled > 0.7


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV, HalvingGridSearchCV])
def test_searches_are_recognised_by_their_parameters(search):
    assert _is_search(search(LogisticRegression(), {"C": [1.0]}))


def test_no_other_estimator_of_scikit_learn_is_taken_for_a_search():
    is_search = {}
    for name, kind in all_estimators():
        parameters = inspect.signature(kind).parameters.values()
        if all(parameter.default is not parameter.empty for parameter in parameters):
            is_search[name] = _is_search(kind())
    assert len(is_search) > 150
    assert not any(is_search.values())
    assert not _is_search(RFECV(LogisticRegression()))


def test_chance_in_an_estimator_is_keyed_so_that_processes_do_not_matter(make_cohort):
    cohort = make_cohort(80, n_features=6, diagnosis=1.0)
    forest = RandomForestClassifier(5)
    results = [evaluate(cohort, estimator=forest, n_permutations=6, n_jobs=n) for n in (1, 2)]
    np.testing.assert_array_equal(*(found.tables["predictions"]["y_score"] for found in results))
    one, other = (found.evaluation.content()["permutation"]["p_values"] for found in results)
    assert one == other
    assert not hasattr(forest, "classes_")


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        (Ridge(), {}, "Ridge is a regressor, and 'diagnosis' has 2 classes"),
        (
            LogisticRegression(),
            {"target": "age"},
            "LogisticRegression is a classifier, and 'age' is continuous",
        ),
        (KMeans(), {}, "KMeans is a clusterer"),
        (PCA(), {}, "no predict"),
        (
            Raises(),
            {},
            r"Raises could not be fitted: ValueError: no such thing \(fold 0 of repeat 0\)",
        ),
        (SaysNothing(), {}, "SaysNothing predicts no finite number for"),
        (
            RidgeClassifier(),
            {"threshold": "prevalence"},
            "RidgeClassifier has decision values only",
        ),
        (LogisticRegression(), {"probe": "logistic"}, "'logistic' and an estimator are given"),
        (None, {"probe": "a.b:C"}, "'a.b:C' is an import path"),
    ],
)
def test_what_cannot_be_evaluated_is_named(make_cohort, estimator, options, message):
    with pytest.raises(ConfigError, match=message):
        evaluate(make_cohort(60, n_features=4), estimator=estimator, **options)


def test_an_import_path_names_a_class_an_instance_or_a_function(tmp_path, monkeypatch):
    (tmp_path / "my_probes.py").write_text(
        "from sklearn.linear_model import LogisticRegression\n"
        "ready = LogisticRegression(C=2)\ndef make():\n    return LogisticRegression(C=3)\nwrong = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert import_estimator("my_probes:ready").C == 2
    assert import_estimator("my_probes:make").C == 3
    assert import_estimator("sklearn.linear_model:LogisticRegression").C == 1
    for path, message in [
        ("my_probes:absent", "no attribute 'absent'"),
        ("no_such_module:x", "cannot be imported.*PYTHONPATH"),
        ("my_probes:wrong", "is a int, which has no fit and no predict"),
    ]:
        with pytest.raises(ConfigError, match=message):
            import_estimator(path)


def test_settings_take_names_and_import_paths_and_import_nothing(tmp_path, monkeypatch):
    (tmp_path / "hostile_probe.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert EvaluationSettings(probe="hostile_probe:x").probe == "hostile_probe:x"
    assert "hostile_probe" not in sys.modules
    with pytest.raises(ValueError, match="Did you mean 'logistic'"):
        EvaluationSettings(probe="logistc")
    with pytest.raises(ValueError, match=r"package\.module:Object"):
        EvaluationSettings(probe="os.system('x'):y")
