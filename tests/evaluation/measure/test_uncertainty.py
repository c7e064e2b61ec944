import numpy as np
import pytest
from scipy.stats import bootstrap, norm
from sklearn.metrics import roc_auc_score

from neurocontrast.evaluation.measure.uncertainty import (
    Resamples,
    Resampling,
    bootstrap_metrics,
    leave_out,
    pooled_metrics,
    resample_counts,
)
from neurocontrast.evaluation.plan.units import choose_units
from neurocontrast.evaluation.rows import NO_SITE
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError
from tests.evaluation.quick import binary, continuous, names, out_of_fold


def test_a_subject_is_drawn_with_all_of_its_scans():
    subjects = np.array(["a", "b", "a", "c"], dtype=object)
    (weights,) = resample_counts(subjects, n_bootstraps=50, seed=0)
    np.testing.assert_array_equal(weights[:, 0], weights[:, 2])
    np.testing.assert_array_equal(weights[:, [0, 1, 3]].sum(axis=1), 3)


def test_pooled_is_the_mean_of_the_repeats():
    twice = out_of_fold(np.array([[0.1, 0.2, 0.8, 0.9], [0.9, 0.2, 0.8, 0.1]]))
    assert pooled_metrics(binary([0, 0, 1, 1]), twice)["auc"][0] == pytest.approx((1.0 + 0.25) / 2)


def test_an_interval_is_withheld_where_resamples_are_undefined():
    def interval(drawn, value=1.0, level=0.95):
        return Resamples(value, np.array([]), np.array(drawn)).interval(level=level)

    assert interval([1.0] * 90 + [np.nan] * 10) is None
    assert interval([np.nan] * 5) is None
    assert interval([1.0] * 100, value=np.nan) is None
    assert interval([1.0] * 100) is None  # no resample says how far off it may be
    assert interval([*np.arange(101.0), np.nan], value=50.0, level=0.9) == pytest.approx((5, 95))


@pytest.mark.parametrize("skewed", [False, True])
def test_the_interval_is_scipys(skewed):
    """SciPy's `bootstrap` computes BCa intervals on its own; the jackknife is the same, the resamples are others."""
    generator = np.random.default_rng(0)
    truth = generator.normal(50, 10, 60)
    error = generator.lognormal(0, 1.2, 60) if skewed else generator.normal(0, 5, 60)
    models = {"m": out_of_fold(truth + error)}
    resampling = Resampling(names(60), 20_000, seed=0)
    found = bootstrap_metrics(continuous(truth), models, resampling, names=["mae"])["m"]["mae"]
    given = bootstrap((np.abs(error),), np.mean, n_resamples=20_000, method="BCa", random_state=1)
    ends = found.interval(level=0.95)
    expected = given.confidence_interval
    width = expected.high - expected.low
    assert ends == pytest.approx((expected.low, expected.high), abs=0.03 * width)
    plain = np.quantile(found.drawn, [0.025, 0.975])
    assert (
        abs(plain[1] - ends[1]) > 0.05 * width
    ) == skewed  # where it differs from percentiles, it does so rightly


def test_units_are_left_out_one_by_one_or_in_groups():
    subjects = np.array(["a", "b", "a", "c"], dtype=object)
    (weights,) = leave_out(subjects)
    np.testing.assert_array_equal(weights, [[0, 1, 0, 1], [1, 0, 1, 1], [1, 1, 1, 0]])
    many = np.concatenate(list(leave_out(names(900))))
    assert many.shape == (200, 900)
    np.testing.assert_array_equal((many == 0).sum(axis=0), 1)
    assert set((many == 0).sum(axis=1)) == {4, 5}


def test_a_difference_is_paired():
    generator = np.random.default_rng(0)
    codes = np.arange(80) % 2
    better, worse = (codes + spread * generator.normal(size=80) for spread in (0.7, 1.5))
    models = {"better": out_of_fold(better), "worse": out_of_fold(worse)}
    drawn = bootstrap_metrics(
        binary(codes), models, Resampling(names(80), 500, seed=0), names=["auc"]
    )
    gain = drawn["better"]["auc"] - drawn["worse"]["auc"]
    assert gain.value == pytest.approx(roc_auc_score(codes, better) - roc_auc_score(codes, worse))
    np.testing.assert_allclose(
        gain.drawn, drawn["better"]["auc"].drawn - drawn["worse"]["auc"].drawn
    )
    low, high = gain.interval(level=0.95)
    assert low < gain.value < high


def test_plain_metrics_have_a_value_and_no_interval():
    target = Target("dx", "multiclass", np.arange(60) % 3, ("a", "b", "c"))
    models = {"a": out_of_fold(np.eye(3)[np.roll(target.values, 7)][None])}
    resampling = Resampling(np.arange(60), 50, seed=0)
    metrics = ["accuracy", "balanced_accuracy"]
    drawn = bootstrap_metrics(target, models, resampling, names=metrics, plain=("accuracy",))["a"]
    both = bootstrap_metrics(target, models, resampling, names=metrics)["a"]
    assert drawn["accuracy"].value == both["accuracy"].value
    assert drawn["accuracy"].interval(level=0.95) is None
    np.testing.assert_array_equal(drawn["balanced_accuracy"].drawn, both["balanced_accuracy"].drawn)


def test_a_figure_has_its_value_one_for_each_unit_left_out_and_the_resamples_asked_for():
    generator = np.random.default_rng(0)
    codes = np.arange(60) % 2
    scores = generator.random(60)
    advanced = []
    target = binary(codes)
    model = out_of_fold(scores)
    units = np.arange(60) // 2
    drawn = bootstrap_metrics(
        target, {"m": model}, Resampling(units, 40, seed=1), advance=advanced.append
    )["m"]["auc"]
    assert drawn.value == pytest.approx(roc_auc_score(codes, scores))
    assert (drawn.left_out.shape, drawn.drawn.shape) == ((30,), (40,))
    without = roc_auc_score(codes[units != 3], scores[units != 3])
    assert drawn.left_out[3] == pytest.approx(without)
    assert sum(advanced) == 1 + 30 + 40
    (weights,) = resample_counts(units, n_bootstraps=40, seed=1)
    assert drawn.drawn[7] == pytest.approx(roc_auc_score(codes, scores, sample_weight=weights[7]))
    alone = bootstrap_metrics(target, {"m": model}, Resampling(units, 0, seed=1))["m"]["auc"]
    assert (alone.value, len(alone.left_out), len(alone.drawn)) == (drawn.value, 0, 0)
    assert drawn.figure(level=0.95).value == drawn.value
    figure = alone.figure(level=0.95)
    assert figure.model_dump(exclude_unset=True) == {
        "value": drawn.value,
        "low": None,
        "high": None,
    }
    assert figure.interval is None


def test_the_acceleration_is_the_skewness_of_what_each_unit_brings():
    """Efron (1987): Σ d³ / (6 (Σ d²)^1.5), d = mean − value without the unit."""
    left_out = np.array([1.0, 2.0, 2.5, 7.0, np.nan])
    moves = 3.125 - left_out[:4]
    expected = (moves**3).sum() / (6 * (moves**2).sum() ** 1.5)
    assert Resamples(3.0, left_out, np.arange(5.0))._acceleration() == pytest.approx(expected)
    assert Resamples(3.0, np.full(4, 2.0), np.arange(5.0))._acceleration() == 0
    assert Resamples(3.0, np.array([np.nan]), np.arange(5.0))._acceleration() == 0


def test_the_interval_is_corrected_for_bias():
    """Efron 1987, without acceleration: quantiles at Φ(2 z₀ + z)."""
    draws = np.random.default_rng(3).normal(0.3, 1, 3001)
    low, high = Resamples(0.0, np.linspace(-0.1, 0.1, 50), draws).interval(level=0.9)
    bias = norm.ppf((draws < 0).mean())
    assert bias < -0.2
    assert (low, high) == pytest.approx(
        np.quantile(draws, norm.cdf(2 * bias + norm.ppf([0.05, 0.95])))
    )


def test_sites_that_share_a_subject_are_drawn_together():
    sites = ["a", "a", "b", "b", "c", "d", "e", "f"]
    subjects = np.array(["1", "2", "2", "3", "4", "5", "6", "7"], dtype=object)
    units = choose_units("site", np.array(sites, dtype=object), subjects, target="diagnosis")
    assert units.n == 5
    assert len(set(units.labels[:4])) == 1
    assert len(set(units.labels)) == 5


def units_of(n_sites, unit="auto", *, target="age", missing=False):
    sites = [f"s{number % n_sites}" for number in range(2 * n_sites)]
    sites[0] = NO_SITE if missing else sites[0]
    return choose_units(unit, np.array(sites, dtype=object), names(len(sites)), target=target)


def test_sites_are_resampled_where_there_are_twenty_that_may_be():
    assert (units_of(20).name, units_of(20).n) == ("site", 20)
    assert (units_of(19).name, units_of(19).n) == ("subject", 38)
    assert units_of(20, target="site").name == units_of(20, missing=True).name == "subject"
    assert units_of(20, "subject").name == "subject"


def test_sites_that_cannot_be_resampled_are_refused():
    with pytest.raises(ConfigError, match="sites cannot be resampled to predict the site"):
        units_of(20, "site", target="site")
    with pytest.raises(ConfigError, match="1 of 40 scans have no site"):
        units_of(20, "site", missing=True)
    with pytest.raises(ConfigError, match="needs at least 5 sites that share no subject, found 4"):
        units_of(4, "site")


def test_few_sites_are_resampled_with_a_notice():
    (notice,) = units_of(5, "site").notices
    assert notice.code == "few_sites_resampled"
    assert "Intervals resample 5 sites" in notice.message
    assert len(units_of(19, "site").notices) == 1
    assert units_of(20, "site").notices == ()
