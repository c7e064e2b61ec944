"""Means over seeds with Student's t, and differences paired by seed."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from neurocontrast.evaluation.seeds import mean_interval, summarise_seeds


def _values(rows):
    return pd.DataFrame(rows, columns=["variant", "layer", "measure", "seed", "value"])


def test_the_interval_is_that_of_the_t_test():
    values = [0.61, 0.58, 0.66, 0.6]
    test = stats.ttest_1samp(values, 0.0).confidence_interval(0.9)
    assert mean_interval(values, level=0.9) == pytest.approx((np.mean(values), test.low, test.high))


@pytest.mark.parametrize(("values", "mean"), [([0.5], 0.5), ([0.5, np.nan], 0.5), ([], np.nan)])
def test_one_seed_has_no_interval(values, mean):
    found = mean_interval(values)
    assert found[0] == pytest.approx(mean, nan_ok=True)
    assert np.isnan(found[1:]).all()


def test_differences_are_paired_by_seed_whatever_their_order():
    base, gain = {0: 0.5, 1: 0.7, 2: 0.6}, {0: 0.01, 1: 0.02, 2: 0.03}
    rows = [("a", "encoder", "accuracy", seed, base[seed]) for seed in (2, 0, 1)]
    rows += [("b", "encoder", "accuracy", seed, base[seed] + gain[seed]) for seed in (0, 1, 2)]
    summary = summarise_seeds(_values(rows), reference="a").set_index("variant")
    paired = stats.ttest_rel([0.51, 0.72, 0.63], [0.5, 0.7, 0.6]).confidence_interval(0.95)
    assert summary.loc["b", "difference"] == pytest.approx(0.02)
    assert summary.loc["b", ["difference_low", "difference_high"]].tolist() == pytest.approx([paired.low, paired.high])
    assert summary.loc["b", "n_above"] == 3
    assert summary.loc["b", "low"] < summary.loc["a", "mean"], "unpaired, the gain would not be seen"
    assert summary.loc["a", "difference":].isna().all()


def test_layers_and_measures_are_kept_apart_and_missing_seeds_leave_pairs_out():
    rows = [
        ("a", layer, "accuracy", seed, value) for layer, value in (("encoder", 0.5), ("head", 0.3)) for seed in (0, 1)
    ]
    rows += [("b", "head", "accuracy", 0, 0.4), ("b", "head", "accuracy", 1, np.nan), ("b", "head", "loss", 0, 9.0)]
    summary = summarise_seeds(_values(rows), reference="a")
    row = summary[(summary["variant"] == "b") & (summary["measure"] == "accuracy")].iloc[0]
    assert (row["n_seeds"], row["n_pairs"], row["difference"]) == (1, 1, pytest.approx(0.1))
    assert np.isnan(row["difference_low"])
    assert summary[summary["measure"] == "loss"]["n_pairs"].tolist() == [0]
