"""Statistics against numbers that others have published, and against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score, permutation_test_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from neurocontrast.evaluation.designs import FeatureDesign
from neurocontrast.evaluation.models import ProbeModel, cross_validate
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.significance import corrected_resampled_t, permutation_test
from neurocontrast.evaluation.splits import stratified
from neurocontrast.evaluation.target import Target


def test_the_corrected_t_test_is_that_of_scikit_learns_documentation():
    """Their example "Statistical comparison of models using grid search": t = 0.750, one-sided p = 0.227."""
    x, y = make_moons(noise=0.352, random_state=1, n_samples=100)
    folds = RepeatedStratifiedKFold(n_splits=10, n_repeats=10, random_state=0)
    rbf, linear = (cross_val_score(SVC(kernel=name), x, y, cv=folds, scoring="roc_auc") for name in ("rbf", "linear"))
    result = corrected_resampled_t(rbf - linear, n_train=90, n_test=10)
    assert result.statistic == pytest.approx(0.750, abs=5e-4)
    assert result.p_value / 2 == pytest.approx(0.227, abs=5e-4)


def weak_cohort():
    generator = np.random.default_rng(4)
    codes = np.arange(60) % 2
    features = generator.normal(size=(60, 5))
    features[:, 0] += 0.6 * codes
    subjects = np.arange(60).astype(str).astype(object)
    target = Target("dx", "binary", codes, ("control", "patient"), "patient")
    splits = stratified(target, ["a"] * 60, subjects, n_folds=3, n_repeats=1, seed=0)
    return features, target, subjects, splits


@pytest.mark.slow
def test_the_permutation_test_agrees_with_scikit_learns():
    """One site, one C, folds of ten and ten: then the AUC within folds is the mean over folds that they compare."""
    features, target, subjects, splits = weak_cohort()
    settings = EvaluationSettings(n_permutations=199, C=(0.1,), n_inner_folds=2)
    design = FeatureDesign(features)
    model = ProbeModel("embedding", design)
    predictions = cross_validate(model, target, splits, subjects=subjects, settings=settings)
    ours = permutation_test(model, target, splits, predictions, sites=["a"] * 60, subjects=subjects, settings=settings)
    folds = np.zeros(60, dtype=int)
    for split in splits:
        folds[split.test] = split.fold
    observed, _, theirs = permutation_test_score(
        make_pipeline(StandardScaler(), LogisticRegression(C=0.1)),
        features,
        target.values,
        groups=folds,  # labels are exchanged within groups
        cv=[(split.train, split.test) for split in splits],
        n_permutations=199,
        scoring="roc_auc",
        random_state=0,
    )
    assert ours.within_fold
    assert ours.observed["auc_within_fold"] == pytest.approx(observed)
    assert 0.005 < theirs < 0.3  # neither side is at an end, where agreement would be cheap
    error = np.sqrt(theirs * (1 - theirs) * 2 / 199)
    assert ours.p_values["auc_within_fold"] == pytest.approx(theirs, abs=3 * error)
