"""One probe a block of joined features, whose predictions are averaged; and principal components inside the probe."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import VotingClassifier, VotingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from neurocontrast.evaluation import EvaluationSettings, load_probe, plan_study, run_study, save_probe
from neurocontrast.evaluation.models import cross_validate, split_seed
from neurocontrast.evaluation.splits.inner import inner_folds
from neurocontrast.evaluation.stored_probe import fit_on_all
from neurocontrast.exceptions import ConfigError

QUICK = {"n_bootstraps": 0, "confounds": False, "new_site": False, "outlyingness": False}
SIZES = {"net": 14, "linear": 6}
PENALTIES = {"C": (0.05,), "alpha": (30.0,)}


def planned(make_cohort, target="diagnosis", *, blocks="averaged", sizes=SIZES, estimator=None, **settings):
    classes = ("control", "patient", "sibling") if target == "three" else ("control", "patient")
    cohort = make_cohort(120, n_features=20, classes=classes)
    info = {"run": {"blocks": {name: {"n_features": n} for name, n in sizes.items()}}, "pretraining_subjects": []}
    chosen = EvaluationSettings(
        target="diagnosis" if target == "three" else target, blocks=blocks, **QUICK | PENALTIES | settings
    )
    return plan_study(cohort.table, cohort.features, settings=chosen, info=info, estimator=estimator)


def out_of_fold(study):
    return cross_validate(study.models[0], study.target, study.splits, subjects=study.subjects, settings=study.settings)


def voting(target: str):
    """Return scikit-learn's own ensemble of one pipeline a block."""
    model = Ridge(30.0) if target == "age" else LogisticRegression(C=0.05, tol=1e-8, max_iter=1000)
    parts = [
        (str(place), make_pipeline(ColumnTransformer([("scaler", StandardScaler(), columns)]), model))
        for place, columns in enumerate((slice(0, 14), slice(14, 20)))
    ]
    return VotingRegressor(parts) if target == "age" else VotingClassifier(parts, voting="soft")


def scores_of(model, features: np.ndarray, target: str) -> np.ndarray:
    found = model.predict(features) if target == "age" else model.predict_proba(features)
    return found[:, 1] if target == "diagnosis" else found


@pytest.mark.parametrize("target", ["diagnosis", "age", "three"])
def test_predictions_are_those_of_scikit_learns_voting(make_cohort, tmp_path, target):
    study = planned(make_cohort, target)
    scores = out_of_fold(study).scores[0]
    for split in study.splits:
        model = voting(target).fit(study.features[split.train], study.target.values[split.train])
        expected = scores_of(model, study.features[split.test], target)
        np.testing.assert_allclose(scores[split.test], expected, atol=1e-5)
    save_probe(tmp_path, fit_on_all(study, encoder=None)[1])
    whole = voting(target).fit(study.features, study.target.values)
    stored = load_probe(tmp_path)
    np.testing.assert_allclose(stored.predict(study.features), scores_of(whole, study.features, target), atol=1e-5)


@pytest.mark.parametrize("target", ["diagnosis", "age", "three"])
def test_machines_are_stored_as_they_were_fitted(make_cohort, tmp_path, target):
    study = planned(make_cohort, target, probe="svm")
    predicted, stored = fit_on_all(study, encoder=None)
    save_probe(tmp_path, stored)
    np.testing.assert_allclose(load_probe(tmp_path).predict(study.features), predicted.scores, atol=1e-6)


def test_each_block_chooses_its_own_strength(make_cohort):
    study = planned(make_cohort, "age", alpha=(1.0, 1e4))
    study.features[:, 14:] = np.random.default_rng(0).normal(size=(120, 6))  # noise, which wants the stronger penalty
    assert out_of_fold(study).strengths.count(pytest.approx(100.0)) >= 3  # the geometric mean of 1 and 10,000


def test_the_record_says_that_probes_are_averaged(make_cohort):
    found = run_study(planned(make_cohort, n_permutations=2)).evaluation
    assert found.permutation.observed["auc"] == pytest.approx(found.metrics["auc"].pooled)
    assert "VotingClassifier" in found.probe.estimator
    assert found.probe.blocks == "averaged"


def test_permuted_labels_are_fitted_block_by_block_too(make_cohort):
    sizes = {"n_permutations": 20, "n_folds": 3}
    joined, averaged = (run_study(planned(make_cohort, "age", blocks=how, **sizes)) for how in ("joined", "averaged"))
    assert averaged.evaluation.permutation.p_values["mae"] == pytest.approx(1 / 21)
    assert joined.evaluation.permutation.observed["mae"] != averaged.evaluation.permutation.observed["mae"]


def test_an_estimator_of_ones_own_is_fitted_to_each_block(make_cohort):
    own = make_pipeline(StandardScaler(), LogisticRegression(C=0.05, tol=1e-8, max_iter=1000))
    ours, built_in = planned(make_cohort, estimator=own), planned(make_cohort)
    np.testing.assert_allclose(out_of_fold(ours).scores, out_of_fold(built_in).scores, atol=1e-5)
    with pytest.raises(ConfigError, match=r"blocks: .averaged. takes the mean of probabilities.*LinearSVC"):
        planned(make_cohort, estimator=LinearSVC())


def test_features_of_one_encoder_are_not_averaged(make_cohort):
    with pytest.raises(ConfigError, match=r"blocks: 'averaged' fits .* these are of one"):
        planned(make_cohort, sizes={})


@pytest.mark.parametrize("target", ["diagnosis", "age"])
def test_components_and_penalty_are_those_of_scikit_learns_search(make_cohort, tmp_path, target):
    grids = {"n_components": (2, 5, 12), "C": (0.01, 0.1, 1.0), "alpha": (1.0, 10.0, 100.0)}
    study = planned(make_cohort, target, blocks="joined", sizes={}, **grids)
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
        run_study(
            planned(make_cohort, "age", blocks="joined", sizes={}, covariates=("sex", "site"), n_components=number)
        )
        for number in ((3,), ())
    )
    assert reduced.tables["folds"]["n_components"].tolist() == [3] * 5
    assert reduced.evaluation.probe.n_components == 3
    assert "PCA()" in reduced.evaluation.probe.estimator
    assert reduced.evaluation.baseline == whole.evaluation.baseline
    assert "n_components" not in whole.tables["folds"]


def test_more_components_than_there_are_change_nothing(make_cohort):
    scores = [
        out_of_fold(planned(make_cohort, "age", blocks="joined", sizes={}, n_components=number)).scores
        for number in ((500,), ())
    ]
    np.testing.assert_allclose(*scores, atol=1e-8)
