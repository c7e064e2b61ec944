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
from neurocontrast.evaluation.permutation import permutation_test
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.significance import corrected_resampled_t, delong_interval, delong_test
from neurocontrast.evaluation.splits import stratified
from neurocontrast.evaluation.target import Target

# DeLong, DeLong and Clarke-Pearson (1988): patients with ovarian cancer; albumin, total protein, K-G score, and
# whether surgery did not help. As printed with the results below in the SAS/STAT User's Guide, PROC LOGISTIC,
# "Comparing Receiver Operating Characteristic Curves".
OVARIAN_CANCER = """
3.0 5.8 10 0  3.2 6.3  5 1  3.9 6.8  3 1  2.8 4.8  6 0  3.2 5.8  3 1  0.9 4.0  5 0  2.5 5.7  8 0  1.6 5.6  5 1
3.8 5.7  5 1  3.7 6.7  6 1  3.2 5.4  4 1  3.8 6.6  6 1  4.1 6.6  5 1  3.6 5.7  5 1  4.3 7.0  4 1  3.6 6.7  4 0
2.3 4.4  6 1  4.2 7.6  4 0  4.0 6.6  6 0  3.5 5.8  6 1  3.8 6.8  7 1  3.0 4.7  8 0  4.5 7.4  5 1  3.7 7.4  5 1
3.1 6.6  6 1  4.1 8.2  6 1  4.3 7.0  5 1  4.3 6.5  4 1  3.2 5.1  5 1  2.6 4.7  6 1  3.3 6.8  6 0  1.7 4.0  7 0
3.7 6.1  5 1  3.3 6.3  7 1  4.2 7.7  6 1  3.5 6.2  5 1  2.9 5.7  9 0  2.1 4.8  7 1  2.8 6.2  8 0  4.0 7.0  7 1
3.3 5.7  6 1  3.7 6.9  5 1  3.6 6.6  5 1
"""


@pytest.fixture(scope="module")
def ovarian_cancer():
    albumin, protein, score, truth = np.array(OVARIAN_CANCER.split(), dtype=float).reshape(-1, 4).T
    return truth, {"albumin": albumin, "protein": protein, "K-G": 10 - score}


@pytest.mark.parametrize(("name", "area", "error"), [("albumin", 0.7366, 0.0927), ("protein", 0.6478, 0.1000)])
def test_delong_finds_the_areas_and_errors_of_the_papers_data(ovarian_cancer, name, area, error):
    truth, tests = ovarian_cancer
    found, (low, high) = delong_interval(truth, tests[name], level=0.95)
    assert found == pytest.approx(area, abs=5e-5)
    # The interval is symmetric on the logit scale: its width there is 2 · 1.96 standard errors.
    width = np.log(high / (1 - high)) - np.log(low / (1 - low))
    assert width * found * (1 - found) / (2 * 1.959964) == pytest.approx(error, abs=5e-5)


@pytest.mark.parametrize(
    ("name", "difference", "error", "chi_square", "p_value"),
    [("albumin", 0.0108, 0.0953, 0.0127, 0.9102), ("protein", -0.0780, 0.1046, 0.5554, 0.4561)],
)
def test_delong_compares_the_papers_data_as_published(ovarian_cancer, name, difference, error, chi_square, p_value):
    truth, tests = ovarian_cancer
    result = delong_test(truth, tests[name], tests["K-G"])
    assert result.difference == pytest.approx(difference, abs=5e-5)
    assert result.standard_error == pytest.approx(error, abs=5e-5)
    assert result.statistic**2 == pytest.approx(chi_square, abs=5e-5)
    assert result.p_value == pytest.approx(p_value, abs=5e-5)


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
