"""Principal components of the features, whose number is chosen with the penalty."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation import EvaluationSettings, load_probe, plan_study, run_study, save_probe
from neurocontrast.evaluation.models import cross_validate, split_seed
from neurocontrast.evaluation.splits.inner import inner_folds
from neurocontrast.evaluation.stored_probe import fit_on_all
from tests.evaluation.quick import QUICK

FAST = {**QUICK, "C": (0.05,), "alpha": (30.0,)}


def planned(make_cohort, target="diagnosis", **settings):
    cohort = make_cohort(120, n_features=20)
    chosen = EvaluationSettings(target=target, **FAST | settings)
    return plan_study(cohort.table, cohort.features, settings=chosen, info={"pretraining_subjects": []})


def out_of_fold(study):
    return cross_validate(study.models[0], study.target, study.splits, subjects=study.subjects, settings=study.settings)


def scores_of(model, features: np.ndarray, target: str) -> np.ndarray:
    return model.predict(features) if target == "age" else model.predict_proba(features)[:, 1]


@pytest.mark.parametrize("target", ["diagnosis", "age"])
def test_components_and_penalty_are_those_of_scikit_learns_search(make_cohort, tmp_path, target):
    grids = {"n_components": (2, 5, 12), "C": (0.01, 0.1, 1.0), "alpha": (1.0, 10.0, 100.0)}
    study = planned(make_cohort, target, **grids)
    found = out_of_fold(study)
    for place, split in enumerate(study.splits):
        pairs = inner_folds(study.target, split.train, study.subjects, n_folds=5, seed=split_seed(0, split))
        where = np.argsort(split.train)
        cv = [tuple(where[np.searchsorted(split.train, rows, sorter=where)] for rows in pair) for pair in pairs]
        model = Ridge() if target == "age" else LogisticRegression(tol=1e-8, max_iter=1000)
        name = type(model).__name__.lower()
        strength = {f"{name}__alpha": grids["alpha"][::-1]} if target == "age" else {f"{name}__C": grids["C"]}
        pipeline = make_pipeline(StandardScaler(), PCA(svd_solver="full"), model)
        scoring = "neg_mean_squared_error" if target == "age" else "neg_log_loss"
        search = GridSearchCV(pipeline, {"pca__n_components": [2, 5, 12], **strength}, cv=cv, scoring=scoring)
        search.fit(study.features[split.train], study.target.values[split.train])
        assert found.n_components[place] == search.best_params_["pca__n_components"]
        np.testing.assert_allclose(
            found.scores[0, split.test], scores_of(search, study.features[split.test], target), atol=1e-5
        )
    predicted, stored = fit_on_all(study, encoder=None)
    save_probe(tmp_path, stored)
    np.testing.assert_allclose(load_probe(tmp_path).predict(study.features), predicted.scores, atol=1e-6)


def test_the_number_of_components_is_on_record_and_the_baseline_keeps_its_columns(make_cohort):
    reduced, whole = (
        run_study(planned(make_cohort, "age", covariates=("sex", "site"), n_components=number)) for number in ((3,), ())
    )
    assert reduced.tables["folds"]["n_components"].tolist() == [3] * 5
    assert reduced.evaluation.probe.n_components == 3
    assert "PCA()" in reduced.evaluation.probe.estimator
    assert reduced.evaluation.baseline == whole.evaluation.baseline
    assert "n_components" not in whole.tables["folds"]


def test_more_components_than_there_are_change_nothing(make_cohort):
    scores = [out_of_fold(planned(make_cohort, "age", n_components=number)).scores for number in ((500,), ())]
    np.testing.assert_allclose(*scores, atol=1e-8)
