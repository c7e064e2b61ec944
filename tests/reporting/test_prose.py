"""Verdicts of a report follow from numbers alone."""

import numpy as np
import pandas as pd
import pytest

from neurocontrast.reporting.prose import (
    is_open_ratio,
    judge_chance,
    judge_difference,
    judge_guess,
    say_chance,
    say_difference,
    say_guess,
    say_increment,
    say_outside_brain,
)


@pytest.mark.parametrize(
    ("interval", "of_score", "of_error"),
    [
        ((0.1, 0.2), "better", "worse"),
        ((-0.2, -0.1), "worse", "better"),
        ((-0.1, 0.2), "open", "open"),
        ((0.0, 0.2), "open", "open"),
        (None, "unknown", "unknown"),
    ],
)
def test_an_interval_decides_and_of_errors_less_is_better(interval, of_score, of_error):
    assert judge_difference(interval, higher_is_better=True) == of_score
    assert judge_difference(interval, higher_is_better=False) == of_error


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        ("better", "holds information beyond age"),
        ("worse", "does worse than age alone"),
        ("open", "adds anything to age is not settled"),
        ("unknown", "stays open"),
    ],
)
def test_the_increment_is_said_with_a_warning_where_estimators_differ(verdict, says):
    assert says in say_increment(verdict, "age", same_estimator=True)
    other = say_increment(verdict, "age", same_estimator=False)
    assert ("difference is of two estimators" in other) == (verdict != "unknown")


@pytest.mark.parametrize(
    ("gain", "of_score", "of_error"),
    [
        ((0.1, 0.05, 0.2), "better", "worse"),
        ((-0.1, -0.2, -0.05), "worse", "better"),
        ((0.1, -0.05, 0.2), "not shown", "no better"),
        ((-0.1, -0.2, 0.05), "no better", "not shown"),
        ((0.1, None, None), "not shown", "no better"),
        ((0.0, None, None), "no better", "no better"),
        ((None, None, None), None, None),
    ],
)
def test_a_guess_is_beaten_beyond_the_interval_alone(gain, of_score, of_error):
    assert judge_guess(*gain, higher_is_better=True) == of_score
    assert judge_guess(*gain, higher_is_better=False) == of_error


def test_a_guess_is_named_with_its_value():
    assert say_guess("worse", 4.0).endswith(
        "the constant guess (4.00), which never looks at a scan"
    )
    assert say_guess(None, None) == "; a constant guess was not compared"


@pytest.mark.parametrize(
    ("value", "low", "high", "verdict"),
    [
        (0.7, 0.6, 0.8, "above"),
        (0.3, 0.2, 0.4, "below"),
        (0.55, 0.45, 0.6, "open"),
        (0.7, None, None, "open"),
        (0.7, 0.7, 0.7, "open"),
    ],
)
def test_chance_is_left_by_the_whole_interval(value, low, high, verdict):
    assert judge_chance(value, low, high, chance=0.5) == verdict
    assert (verdict in say_chance(verdict, 0.5)) == (verdict != "open")
    assert "(0.50)" in say_chance(verdict, 0.5)


def test_a_ratio_of_one_is_no_change():
    assert is_open_ratio(0.9, 1.2)
    assert not is_open_ratio(1.1, 1.4)
    assert not is_open_ratio(None, None)


@pytest.mark.parametrize(
    ("difference", "low", "high", "p_adjusted", "says"),
    [
        (0.1, 0.05, 0.2, 0.01, "is better"),
        (-0.1, -0.2, -0.05, 0.01, "is worse"),
        (0.1, 0.05, 0.2, np.nan, "is better"),
        (0.1, 0.05, 0.2, 0.2, "looks better, but only the interval says so, not the test"),
        (0.1, -0.05, 0.2, 0.01, "cannot be told apart from it by these data"),
        (0.1, np.nan, np.nan, np.nan, "differs by an amount that has no interval"),
        (0.0, np.nan, np.nan, np.nan, "cannot be told apart from it by these data"),
    ],
)
def test_models_differ_where_interval_and_test_agree(difference, low, high, p_adjusted, says):
    row = pd.Series({"difference": difference, "low": low, "high": high, "p_adjusted": p_adjusted})
    assert say_difference(row, higher_is_better=True, test="the test") == says
    mirrored = says.replace("better", "?").replace("worse", "better").replace("?", "worse")
    assert say_difference(row, higher_is_better=False, test="the test") == mirrored


def test_a_map_outside_the_brain_is_doubted():
    assert "noise" not in say_outside_brain(0.29)
    assert say_outside_brain(0.3).startswith("30% of the map")
    assert "noise" in say_outside_brain(0.3)
