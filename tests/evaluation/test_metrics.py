import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import expit, logit
from sklearn import metrics as reference
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression

from neurocontrast.evaluation import metrics
from neurocontrast.evaluation.measure.tables import calibration_table
from neurocontrast.evaluation.metrics import (
    METRICS,
    compute_metrics,
    decide,
    explain_undefined,
    explain_value,
    recalibration_intercept,
    recalibration_slope,
    top_hits,
)
from neurocontrast.evaluation.target import Target
from tests.evaluation import quick

generator = np.random.default_rng(0)


@pytest.fixture(params=["smooth", "ties"])
def binary(request):
    truth = generator.integers(0, 2, 80)
    scores = np.clip(generator.normal(0.5 + 0.15 * truth, 0.2), 0.001, 0.999)
    return truth, np.round(scores, 1) if request.param == "ties" else scores


def counts(n: int, n_resamples: int = 4) -> np.ndarray:
    return generator.integers(0, 4, size=(n_resamples, n)).astype(float)


def test_binary_metrics_equal_scikit_learns(binary):
    truth, scores = binary
    scores = np.clip(scores, 1e-6, 1 - 1e-6)
    weights = counts(80)
    found = compute_metrics("binary", truth, scores, weights=weights)
    called = (scores >= 0.5).astype(int)
    for row, w in enumerate(weights):
        expected = {
            "auc": reference.roc_auc_score(truth, scores, sample_weight=w),
            "balanced_accuracy": reference.balanced_accuracy_score(truth, called, sample_weight=w),
            "average_precision": reference.average_precision_score(truth, scores, sample_weight=w),
            "sensitivity": reference.recall_score(truth, called, sample_weight=w),
            "specificity": reference.recall_score(truth, called, pos_label=0, sample_weight=w),
            "brier": reference.brier_score_loss(truth, scores, sample_weight=w),
            "log_loss": reference.log_loss(truth, scores, sample_weight=w),
        }
        for name, value in expected.items():
            assert found[name][row] == pytest.approx(value, abs=1e-12), name
    assert list(found) == list(METRICS["binary"])


def test_the_auc_within_folds_compares_no_scans_of_different_folds(binary):
    truth, scores = binary
    folds = np.arange(80) % 4
    shifted = scores + 10.0 * folds
    found = compute_metrics("binary", truth, shifted, folds=folds)["auc_within_fold"][0]
    right = pairs = 0.0
    for fold in range(4):
        positive, negative = (shifted[(folds == fold) & (truth == code)] for code in (1, 0))
        differences = positive[:, None] - negative[None]
        right += (differences > 0).sum() + 0.5 * (differences == 0).sum()
        pairs += differences.size
    assert found == pytest.approx(right / pairs)


def test_multiclass_metrics_equal_scikit_learns():
    truth = generator.integers(0, 3, 90)
    scores = generator.dirichlet([1, 1, 1], 90) + 0.5 * np.eye(3)[truth]
    scores /= scores.sum(axis=1, keepdims=True)
    weights = counts(90)
    found = compute_metrics("multiclass", truth, scores, weights=weights)
    one_hot = np.eye(3)[truth]
    for row, w in enumerate(weights):
        expected = {
            "balanced_accuracy": reference.balanced_accuracy_score(
                truth, scores.argmax(1), sample_weight=w
            ),
            "auc": np.mean(
                [
                    reference.roc_auc_score(one_hot[:, k], scores[:, k], sample_weight=w)
                    for k in range(3)
                ]
            ),
            "average_precision": reference.average_precision_score(
                one_hot, scores, average="macro", sample_weight=w
            ),
            "accuracy": reference.accuracy_score(truth, scores.argmax(1), sample_weight=w),
            "log_loss": reference.log_loss(truth, scores, sample_weight=w),
        }
        for name, value in expected.items():
            assert found[name][row] == pytest.approx(value, abs=1e-12), name


def test_continuous_metrics_equal_scikit_learns_and_scipys():
    truth = np.round(generator.normal(50, 10, 70))
    scores = truth + np.round(generator.normal(0, 5, 70))
    weights = counts(70)
    found = compute_metrics("continuous", truth, scores, weights=weights)
    for row, w in enumerate(weights):
        drawn = np.repeat(np.arange(70), w.astype(int))
        a = truth[drawn]
        b = scores[drawn]
        assert found["mae"][row] == pytest.approx(reference.mean_absolute_error(a, b))
        assert found["r2"][row] == pytest.approx(reference.r2_score(a, b))
        assert found["rmse"][row] == pytest.approx(reference.root_mean_squared_error(a, b))
        assert found["pearson"][row] == pytest.approx(stats.pearsonr(a, b).statistic)
        assert found["spearman"][row] == pytest.approx(stats.spearmanr(a, b).statistic)
        assert found["age_bias_slope"][row] == pytest.approx(stats.linregress(a, b - a).slope)


def test_a_single_class_leaves_undefined_what_needs_two():
    found = compute_metrics("binary", np.ones(5, dtype=int), np.linspace(0.1, 0.9, 5))
    undefined = {name for name, values in found.items() if np.isnan(values[0])}
    assert undefined == {
        *("auc", "balanced_accuracy", "average_precision", "specificity", "auc_within_fold"),
        *("calibration_slope", "calibration_intercept"),
    }
    assert found["sensitivity"][0] == pytest.approx(0.6)
    reason = explain_undefined("binary", np.ones(5, dtype=int), ("control", "patient"))
    assert reason is not None
    assert "single class (patient)" in reason


def test_constant_targets_and_predictions_leave_correlations_undefined():
    truth = np.full(6, 0.1)
    found = compute_metrics("continuous", truth, np.arange(6.0))
    assert all(np.isnan(found[name][0]) for name in ("r2", "pearson", "spearman"))
    assert "does not vary" in str(explain_undefined("continuous", truth, ()))
    assert np.isnan(compute_metrics("continuous", np.arange(6.0), truth)["pearson"][0])


@pytest.mark.parametrize("n_classes", [6, 10, 100])
def test_the_share_among_the_five_likeliest_is_scikit_learns(n_classes):
    generator = np.random.default_rng(n_classes)
    truth = generator.integers(n_classes, size=300)
    scores = generator.dirichlet(np.ones(n_classes), size=300)
    scores[np.arange(300), truth] += 0.1
    found = compute_metrics("multiclass", truth, scores, names=["accuracy", "top5_accuracy"])
    expected = reference.top_k_accuracy_score(truth, scores, k=5, labels=np.arange(n_classes))
    assert found["top5_accuracy"][0] == pytest.approx(expected)
    assert found["accuracy"][0] < found["top5_accuracy"][0]


def test_ties_at_the_fifth_place_share_it():
    scores = np.array(
        [[0.1] * 10, [0.3, 0.2, 0.1, 0.1] + [0.05] * 6, [0.3, 0.2, 0.1, 0.1] + [0.05] * 6]
    )
    assert top_hits(np.array([3, 9, 0]), scores).tolist() == pytest.approx([0.5, 1 / 6, 1.0])


def test_a_class_that_is_absent_is_left_out_of_the_mean_over_classes():
    truth = np.array([0, 0, 0, 1, 1, 1])
    scores = np.random.default_rng(0).dirichlet(np.ones(3), size=6)
    found = compute_metrics("multiclass", truth, scores)
    recalls = [(decide("multiclass", scores)[truth == code] == code).mean() for code in (0, 1)]
    assert found["balanced_accuracy"][0] == pytest.approx(np.mean(recalls))
    areas = [reference.roc_auc_score(truth == code, scores[:, code]) for code in (0, 1)]
    assert found["auc"][0] == pytest.approx(np.mean(areas))


def test_one_scan_has_an_error_and_no_correlation():
    assert "one scan" in str(explain_undefined("continuous", np.array([3.0]), ()))
    assert explain_undefined("continuous", np.array([3.0, 4.0]), ()) is None
    assert explain_undefined("binary", np.array([0, 1]), ("control", "patient")) is None
    assert "(no scan)" in str(
        explain_undefined("binary", np.array([], dtype=int), ("control", "patient"))
    )


def test_errors_are_better_where_they_are_lower():
    for table in metrics._TABLE.values():
        assert all(
            (metric.better < 0) == (metric.name in metrics.LOWER_IS_BETTER) for metric in table
        )
    assert {"brier", "log_loss", "mae", "rmse"} == metrics.LOWER_IS_BETTER
    assert {"age_bias_slope", "calibration_intercept", "calibration_slope"} == metrics.DESCRIPTIVE


# --- calibration slope and intercept
# ---------------------------------------------------------------------------------
ONCE = np.ones((1, 4))


@pytest.fixture(scope="module", params=["ample", "few", "tied"])
def drawn(request):
    generator = np.random.default_rng(3)
    n = 25 if request.param == "few" else 200
    truth = np.arange(n) % 2.0
    scores = expit(0.4 + 2.0 * generator.normal(size=n) + 0.8 * (truth - 0.5))
    scores = np.clip(np.round(scores, 1), 0.05, 0.95) if request.param == "tied" else scores
    return truth, scores, generator.multinomial(n, np.full(n, 1 / n), size=30).astype(float)


def test_the_slope_is_that_of_an_unpenalised_logistic_regression_on_the_logit(drawn):
    truth, scores, weights = drawn
    found = recalibration_slope(truth, scores, weights)
    for row, counts in enumerate(weights):
        model = LogisticRegression(C=np.inf, tol=1e-12, max_iter=5000)
        model.fit(logit(scores)[:, None], truth, sample_weight=counts)
        assert found[row] == pytest.approx(model.coef_[0, 0], rel=1e-4)


def test_the_intercept_makes_expected_and_observed_positives_equal(drawn):
    truth, scores, weights = drawn
    found = recalibration_intercept(truth, scores, weights)
    for row, counts in enumerate(weights):
        gap = lambda shift: counts @ (expit(shift + logit(scores)) - truth)  # noqa: B023, E731
        assert found[row] == pytest.approx(optimize.brentq(gap, -50, 50, xtol=1e-12), abs=1e-8)


def test_right_probabilities_have_slope_one_and_intercept_zero_and_wrong_ones_have_not():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=200_000)
    truth = (generator.random(len(logits)) < expit(logits)).astype(float)
    once = np.ones((1, len(logits)))
    assert recalibration_slope(truth, expit(logits), once)[0] == pytest.approx(1, abs=0.03)
    assert recalibration_intercept(truth, expit(logits), once)[0] == pytest.approx(0, abs=0.03)
    assert recalibration_slope(truth, expit(2 * logits), once)[0] == pytest.approx(0.5, abs=0.02)
    assert recalibration_intercept(truth, expit(logits + 0.7), once)[0] == pytest.approx(
        -0.7, abs=0.03
    )


@pytest.mark.parametrize(
    "scores",
    [[0.1, 0.2, 0.7, 0.9], [0.1, 0.4, 0.4, 0.9], [0.9, 0.8, 0.2, 0.1], [0.3, 0.3, 0.3, 0.3]],
)
def test_without_a_finite_slope_there_is_none(scores):
    truth = np.array([0.0, 0, 1, 1])
    assert np.isnan(recalibration_slope(truth, np.array(scores), ONCE)[0])
    assert np.isfinite(recalibration_intercept(truth, np.array(scores), ONCE)[0])
    assert "separate" in explain_value("calibration_slope", None)


def test_a_resample_of_one_class_has_neither_and_does_not_disturb_the_others():
    truth = np.array([0.0, 0, 1, 1])
    scores = np.array([0.2, 0.6, 0.4, 0.9])
    weights = np.array([[1.0, 1, 1, 1], [2, 2, 0, 0], [0, 0, 3, 1], [1, 1, 1, 1]])
    # The classes overlap by the second sample of one and the third of the other: both must be
    # drawn.
    apart = np.array([[1.0, 0, 1, 1], [2, 0, 1, 1], [1, 1, 0, 2]])
    assert np.isnan(recalibration_slope(truth, scores, apart)).all()
    for recalibrate in (recalibration_slope, recalibration_intercept):
        found = recalibrate(truth, scores, weights)
        assert np.isnan(found[[1, 2]]).all()
        assert found[0] == pytest.approx(found[3])
        assert np.isfinite(found[0])


def table_of(truth, scores):
    models = dict.fromkeys(("embedding", "baseline"), quick.out_of_fold(scores))
    return calibration_table(quick.binary(truth), models, quick.names(len(truth)), level=0.95)


@pytest.fixture(scope="module")
def cohort():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=400)
    return (generator.random(400) < expit(logits)).astype(np.int64), expit(logits)


def test_bins_are_those_of_scikit_learns_quantile_curve(cohort):
    truth, scores = cohort
    table = table_of(truth, scores)
    table = table[table["model"] == "embedding"]
    observed, predicted = calibration_curve(truth, scores, n_bins=10, strategy="quantile")
    np.testing.assert_allclose(table["n"], 40)
    np.testing.assert_allclose(table["mean_predicted"], predicted, atol=2e-2)
    np.testing.assert_allclose(table["observed"], observed, atol=0.06)
    assert (table["n"] * table["observed"]).sum() == pytest.approx(truth.sum())
    assert (
        (table["observed_low"] <= table["observed"]) & (table["observed"] <= table["observed_high"])
    ).all()


def test_equal_predictions_stay_together_and_few_scans_make_few_bins():
    truth = np.arange(100) % 2
    table = table_of(truth, np.full(100, 0.5))
    assert list(table["n"]) == [100, 100]
    few = table_of(truth[:30], np.linspace(0, 1, 30))
    assert list(few["n"]) == [15, 15, 15, 15]


def test_several_classes_are_each_set_against_the_rest():
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 3, 150)
    model = quick.out_of_fold(generator.dirichlet([1, 1, 1], 150)[None])
    target = Target("dx", "multiclass", truth, ("hc", "bd", "sz"))
    table = calibration_table(target, {"embedding": model}, quick.names(150), level=0.95)
    assert table.groupby("class")["n"].sum().to_dict() == {"hc": 150, "bd": 150, "sz": 150}
    observed = table["n"] * table["observed"]
    assert observed.groupby(table["class"]).sum()["sz"] == pytest.approx((truth == 2).sum())
