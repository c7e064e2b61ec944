"""Tests of differences and of chance: against SciPy, scikit-learn, and labels that are permuted."""

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    PredefinedSplit,
    RepeatedStratifiedKFold,
    cross_val_score,
    permutation_test_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from neurocontrast.evaluation import EvaluationSettings
from neurocontrast.evaluation.fit.out_of_fold import OutOfFold, cross_validate
from neurocontrast.evaluation.measure import significance
from neurocontrast.evaluation.measure.significance import (
    corrected_resampled_t,
    holm,
    mcnemar_test,
    permutation_test,
    permuted_labels,
)
from neurocontrast.evaluation.measure.uncertainty import pooled_metrics
from neurocontrast.evaluation.plan.models import ProbeModel
from neurocontrast.evaluation.probes.designs import FeatureDesign
from neurocontrast.evaluation.probes.fitting import FitContext
from neurocontrast.evaluation.splits import stratified
from tests.evaluation.quick import binary, content, continuous, names, target_by, warnings


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
    rbf, linear = (
        cross_val_score(SVC(kernel=name), x, y, cv=folds, scoring="roc_auc")
        for name in ("rbf", "linear")
    )
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


# --- permuted labels
# -------------------------------------------------------------------------------------------------
FAST = {"C": (1e-2, 1.0), "n_folds": 3, "n_inner_folds": 2}


def p_values(cohort, **options):
    return content(cohort, **FAST | options)["permutation"]["p_values"]


def test_labels_move_within_site_and_with_their_subject():
    generator = np.random.default_rng(0)
    subjects = np.array([f"s{row % 30}" for row in range(60)], dtype=object)
    sites = [f"site-{int(name[1:]) % 3}" for name in subjects]
    values = generator.normal(size=60)
    permuted = permuted_labels(continuous(values), sites, subjects, n_permutations=1, seed=0)[:, 0]
    for site in set(sites):
        rows = np.array(sites) == site
        assert sorted(permuted[rows]) == sorted(values[rows])
    assert not np.array_equal(permuted, values)
    pairs = {(values[row], values[row + 30]) for row in range(30)}
    assert {(permuted[row], permuted[row + 30]) for row in range(30)} == pairs


def test_a_signal_is_better_than_every_permutation(make_cohort):
    found = p_values(make_cohort(60, n_features=6), n_permutations=19)
    assert found["auc"] == pytest.approx(1 / 20)
    assert found["brier"] == pytest.approx(1 / 20)


def test_having_recognised_the_site_is_not_enough(make_cohort):
    cohort = make_cohort(90, n_features=6, diagnosis=0.0, site=3.0)
    patients = (cohort.table["site"] == "site-0") ^ (np.random.default_rng(0).random(90) < 0.1)
    cohort.table["diagnosis"] = np.where(patients, "patient", "control")
    assert p_values(cohort, n_permutations=19)["auc"] > 0.05


@pytest.mark.parametrize(
    "options", [{"splits": "leave-site-out"}, {"target": "age"}, {"target": "site"}]
)
def test_every_kind_of_evaluation_can_be_permuted(make_cohort, options):
    found = p_values(make_cohort(60, n_features=6, site=1.0), n_permutations=3, **options)
    known = [value for value in found.values() if value is not None]
    assert len(known) > 1
    assert all(0.25 <= value <= 1 for value in known)


def arrays(kind: str, n: int = 120, n_sites: int = 2, seed: int = 0):
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(n, 8))
    signal = 0.15 * features[:, 0] + generator.normal(size=n)
    sites = [f"site-{row % n_sites}" for row in range(n)]
    return (
        features,
        target_by(kind, signal),
        sites,
        np.array([f"s{row}" for row in range(n)], dtype=object),
    )


def run(features, target, sites, subjects, *, n_repeats=1, redeal=False, **options):
    settings = EvaluationSettings(
        **{"n_folds": 3, "n_inner_folds": 3, "C": (1e-3, 1e-1, 10.0), **options}
    )

    def deal(labels, seed):
        return stratified(labels, sites, subjects, n_folds=3, n_repeats=n_repeats, seed=seed)

    splits = deal(target, 0)
    model = ProbeModel("embedding", FeatureDesign(features))
    context = FitContext(subjects, settings, settings.seed, np.array(sites, dtype=object))
    predictions = cross_validate(model, target, splits, context)
    dealer = deal if redeal else None
    tested = permutation_test(model, target, splits, predictions, context, redeal=dealer)
    return tested, predictions


@pytest.mark.parametrize("redeal", [True, False])
def test_labels_stay_in_their_site_and_given_folds_in_theirs(monkeypatch, redeal):
    features, target, sites, subjects = arrays("binary", n_sites=3)
    seen = []
    original = significance.pooled_metrics
    monkeypatch.setattr(
        significance,
        "pooled_metrics",
        lambda labels, *rest, **more: seen.append(labels) or original(labels, *rest, **more),
    )
    found, predicted = run(features, target, sites, subjects, n_permutations=5, redeal=redeal)
    assert found.within_fold is not redeal
    assert found.share_moved > 0.4
    assert len(seen) == 6  # those that are true, and those of five permutations
    places = (
        sites
        if redeal
        else [f"{site}/{fold}" for site, fold in zip(sites, predicted.folds[0], strict=True)]
    )
    for permuted in seen[1:]:
        assert not np.array_equal(permuted.values, target.values)
        for place in set(places):
            rows = np.array(places) == place
            assert permuted.values[rows].sum() == target.values[rows].sum()


def test_errors_of_numbers_are_better_where_they_are_lower():
    features, target, sites, subjects = arrays("continuous")
    features[:, 0] = target.values + np.random.default_rng(1).normal(size=len(features))
    found, _ = run(features, target, sites, subjects, n_permutations=9, alpha=(1.0,))
    assert found.p_values["mae"] == found.p_values["r2"] == 0.1


def test_the_first_repeat_is_compared():
    found, model = run(*arrays("binary"), n_repeats=3, n_permutations=3)
    target = arrays("binary")[1]
    once = OutOfFold(model.scores[:1], model.decisions[:1], model.folds[:1])
    assert found.observed["auc"] == pooled_metrics(target, once)["auc"][0]
    assert "calibration_slope" not in found.p_values


def test_labels_that_cannot_move_are_warned_about(make_cohort):
    """Every subject is the only one of its site: whatever the labels say, the site could have said it."""
    cohort = make_cohort(40, n_features=4)
    cohort.table["site"] = [f"site-{row}" for row in range(40)]
    found = content(cohort, **FAST, n_permutations=9)
    assert found["permutation"]["p_values"]["auc"] == 1.0
    message = warnings(found)["permutation_moves_few"]
    assert "within site:" in message  # folds are dealt anew
    assert "fold" not in message


@pytest.mark.slow
def test_it_agrees_with_scikit_learns():
    """One site, one C, folds of ten and ten: then the AUC within folds is the mean over folds that they compare."""
    generator = np.random.default_rng(4)
    codes = np.arange(60) % 2
    features = generator.normal(size=(60, 5))
    features[:, 0] += 0.6 * codes
    options = {"n_permutations": 199, "C": (0.1,), "n_inner_folds": 2}
    ours, predicted = run(features, binary(codes), ["a"] * 60, names(60), **options)
    folds = predicted.folds[0]  # labels are exchanged within them
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    cv = list(PredefinedSplit(folds).split())
    observed, _, theirs = permutation_test_score(
        model,
        features,
        codes,
        groups=folds,
        cv=cv,
        scoring="roc_auc",
        random_state=0,
        n_permutations=199,
    )
    assert ours.within_fold
    assert ours.observed["auc_within_fold"] == pytest.approx(observed)
    assert 0.005 < theirs < 0.3  # neither side is at an end, where agreement would be cheap
    error = np.sqrt(theirs * (1 - theirs) * 2 / 199)
    assert ours.p_values["auc_within_fold"] == pytest.approx(theirs, abs=3 * error)


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing():
    cohort = arrays("binary", n=150)
    (alone, model), (shared, same) = (
        run(*cohort, n_repeats=3, n_permutations=150, n_jobs=jobs) for jobs in (1, 2)
    )
    assert alone == shared
    np.testing.assert_array_equal(model.scores, same.scores)
    assert [fit.strength for fit in model.fits] == [fit.strength for fit in same.fits]
