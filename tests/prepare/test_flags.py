"""Scans beyond an absolute bound, or far from the others of their site, are flagged with measure, value and bound."""

import numpy as np
import pandas as pd
import pytest

from neurocontrast.prepare.flags import N_SITE, RULES, bounds_of, flag_scans


@pytest.fixture
def table():
    generator = np.random.default_rng(0)
    n = 40
    return pd.DataFrame({
        "subject_id": range(n),
        "site": ["a"] * 20 + ["b"] * 20,
        "correlation": 0.7 + generator.normal(0, 0.01, n) + np.repeat([0, 0.1], 20),
        "brain_ml": 1900 + generator.normal(0, 20, n),
        "cjv": 0.5 + generator.normal(0, 0.01, n),
        "flip_gain": -0.2,
        "shift_mm": 1 + generator.normal(0, 0.1, n),
    })  # fmt: skip


def test_nothing_is_flagged_where_nothing_is_odd(table):
    flags, worst = flag_scans(table)
    assert not any(flags)
    assert worst.max() < 1


def test_a_flag_names_measure_value_and_bound(table):
    table.loc[3, "flip_gain"] = 0.1
    table.loc[25, "correlation"] = 0.70  # usual at site a, odd at site b
    table.loc[30, ["cjv", "brain_ml"]] = (0.2, 1500.0)  # a low CJV is no fault
    flags, worst = flag_scans(table)
    assert {row: [flag.measure for flag in each] for row, each in enumerate(flags) if each} == {
        3: ["flip_gain"],
        25: ["correlation"],
        30: ["brain_ml"],
    }
    assert flags[3][0].text == "gain by a flip 0.1 is above 0 (for every scan)"
    low = bounds_of("correlation", table["correlation"][20:].to_numpy())[0]
    assert flags[25][0].text.startswith(
        f"correlation with the template 0.7 is below {low.value:.4g} (median 0.7"
    )
    assert set(worst.nlargest(3).index) == {3, 25, 30}


def test_small_sites_and_constant_measures_have_absolute_bounds_alone():
    few = np.r_[np.full(N_SITE - 2, 0.7), 0.45]
    for values in (few, np.r_[np.full(30, 0.7), 0.45]):
        low, high = bounds_of("correlation", values)
        assert (low.value, low.reason, high.value) == (
            RULES["correlation"].low,
            "for every scan",
            np.inf,
        )


def test_bounds_follow_the_median_absolute_deviation():
    values = np.arange(0.7, 0.805, 0.01)
    low = bounds_of("correlation", values, 4)[0]
    assert low.value == pytest.approx(np.median(values) - 4 * 1.4826 * 0.03)
    assert bounds_of("correlation", np.r_[values, np.nan], 4)[0] == low


def test_a_measure_that_is_absent_is_not_flagged(table):
    table.loc[:10, "cjv"] = np.nan
    table["iqr"] = np.nan
    table.loc[0, "iqr"] = 4.5
    flags, _ = flag_scans(table)
    assert [[flag.measure for flag in each] for each in flags[:2]] == [["iqr"], []]


def test_a_person_of_many_scans_is_one_of_a_site():
    values = np.r_[np.linspace(0.69, 0.71, 5), np.full(20, 0.45)]
    nine = [*range(5), *[5, 6, 7, 8] * 5]
    low, _ = bounds_of("correlation", values, people=nine)
    assert low.reason == "for every scan"
    generator = np.random.default_rng(0)
    own = generator.normal(0.7, 0.02, 12)
    people = np.r_[np.arange(12), np.zeros(30, dtype=int)]
    visits = np.r_[own, own[0] + generator.normal(0, 1e-4, 30)]
    once = bounds_of("correlation", np.r_[np.median(visits[people == 0]), own[1:]])[0]
    assert bounds_of("correlation", visits, people=people)[0] == once
    assert "of 12 people" in once.reason
    table = pd.DataFrame({"subject_id": people, "site": "a", "correlation": visits})
    assert not any(flag_scans(table)[0])
