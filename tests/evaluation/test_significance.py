import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import make_moons
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.svm import SVC

from neurocontrast.evaluation.significance import corrected_resampled_t, holm, mcnemar_test


def test_equal_models_do_not_differ():
    assert corrected_resampled_t(np.zeros(5), n_train=80, n_test=20) == 1.0


def test_the_correction_is_nadeau_and_bengios():
    generator = np.random.default_rng(0)
    differences = generator.normal(0.02, 0.05, 100)
    result = corrected_resampled_t(differences, n_train=90, n_test=10)
    t = differences.mean() / np.sqrt((1 / 100 + 10 / 90) * differences.var(ddof=1))
    assert result == pytest.approx(2 * (1 - stats.t.cdf(abs(t), 99)))
    plain = stats.ttest_1samp(differences, 0)
    assert result > plain.pvalue


def test_the_corrected_t_test_is_that_of_scikit_learns_documentation():
    """Their example "Statistical comparison of models using grid search": t = 0.750, one-sided p = 0.227."""
    x, y = make_moons(noise=0.352, random_state=1, n_samples=100)
    folds = RepeatedStratifiedKFold(n_splits=10, n_repeats=10, random_state=0)
    rbf, linear = (cross_val_score(SVC(kernel=name), x, y, cv=folds, scoring="roc_auc") for name in ("rbf", "linear"))
    result = corrected_resampled_t(rbf - linear, n_train=90, n_test=10)
    assert result / 2 == pytest.approx(0.227, abs=5e-4)


def test_holm_counts_the_comparisons():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([None, 0.02]) == [None, 0.02]


def test_too_little_data_is_refused():
    with pytest.raises(ValueError, match="two folds"):
        corrected_resampled_t([0.1], n_train=8, n_test=2)


def test_a_difference_without_spread_is_no_certainty():
    """Two folds with the same difference would have a p-value of 0."""
    assert np.isnan(corrected_resampled_t([0.1, 0.3 - 0.2], n_train=8, n_test=4))


def test_mcnemars_test_is_the_sign_test_of_what_one_model_alone_gets_right():
    a = np.repeat([True, True, False, False], [50, 15, 5, 30])
    b = np.repeat([True, False, True, False], [50, 15, 5, 30])
    found = mcnemar_test(a, b)
    assert found == pytest.approx(2 * stats.binom.sf(14, 20, 0.5))
    assert mcnemar_test(b, a) == found
    assert mcnemar_test(a, a) == 1.0
