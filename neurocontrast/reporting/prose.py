"""Verdicts such as "better" from differences and intervals, and the sentences that say them."""

from collections.abc import Sequence
from typing import Literal

import pandas as pd

from neurocontrast.reporting.wording import DASH, interval_text, number_text

Verdict = Literal["worse", "unknown", "open", "better"]
"""Verdict on a model against a second one, by the interval of their difference.

``open`` if the interval holds zero, ``unknown`` without interval.
"""
OfGuess = Literal["better", "worse", "no better", "not shown"]
"""Verdict on a model against a constant guess.

``not shown`` if the value is better and the interval of the difference holds zero.
"""
OfChance = Literal["above", "below", "open"]
"""Verdict on a metric against chance: ``open`` if the interval holds the level of chance."""
Interval = Sequence[float] | None

SIGNIFICANT = 0.05
"""Significance level: a test with a smaller p-value shows a difference."""
NOTABLE_OUTSIDE = 0.3
"""Share of a map's values outside the brain from which the report warns."""


def judge_difference(interval: Interval, *, higher_is_better: bool) -> Verdict:
    """Return a word for whether the first of two models is better by the interval of a difference.

    `interval` is of a metric: the first model's value minus the second's. ``better`` if the whole
    interval is above zero, ``worse`` if it is below zero; the other way round where not
    `higher_is_better`, as for an error. ``open`` if zero is within; ``unknown`` without interval.
    """
    if not interval:
        return "unknown"
    low, high = interval
    if low <= 0 <= high:
        return "open"
    is_better = (low > 0) == higher_is_better
    if is_better:
        return "better"
    return "worse"


def say_increment(verdict: Verdict, covariates: str, *, same_estimator: bool) -> str:
    """Return a text on whether an embedding of scans predicts better than covariates alone.

    `verdict` is the judgement of the embedding's metric minus the metric of the model of
    covariates, which `covariates` names. If these two models have different estimators, the text
    warns of this, too.
    """
    if verdict == "unknown":
        return (
            "No interval of the difference was computed, so whether the scan adds to "
            f"{covariates} stays open."
        )
    texts = {
        "better": f"The scan holds information beyond {covariates}: the interval of the "
        "difference excludes zero.",
        "worse": f"The scan does worse than {covariates} alone: the interval of the difference "
        "lies below zero.",
        "open": f"Whether the scan adds anything to {covariates} is not settled by these data: "
        "the difference may well be zero.",
    }
    sentence = texts[verdict]
    if not same_estimator:
        sentence += (
            " The covariates do not have the embedding's estimator, which does not fit them: the "
            "difference is of two estimators as well."
        )
    return sentence


def judge_guess(
    gain: float | None, low: float | None, high: float | None, *, higher_is_better: bool
) -> OfGuess | None:
    """Return a word for how a model compares with a constant guess in a metric.

    `gain` is the model's value minus the guess's, with an interval from `low` to `high`. A gain is
    in the model's favour if it is positive, or negative where not `higher_is_better`, as for an
    error. If the interval excludes zero, the word is ``better`` or ``worse``. If the interval is
    missing or holds zero, it is ``not shown`` for a gain in the model's favour, and ``no better``
    for any other. None if `gain` is None.
    """
    if gain is None:
        return None
    sign = 1 if higher_is_better else -1
    if low is not None and high is not None and low * high > 0:
        if sign * low > 0:
            return "better"
        return "worse"
    if sign * gain > 0:
        return "not shown"
    return "no better"


def say_guess(verdict: OfGuess | None, guess: float | None) -> str:
    """Return words that compare the embedding's metric at unseen sites with a constant guess.

    The words continue a sentence on the metric, such as "; that is better than the constant guess
    (7.20)". `verdict` is the result of `judge_guess`, and `guess` the constant guess's metric.
    """
    if verdict is None:
        return "; a constant guess was not compared"
    constant = f"the constant guess ({number_text(guess, digits=2)})"
    texts = {
        "better": f"; that is better than {constant}",
        "worse": f"; that is worse than {constant}, which never looks at a scan",
        "no better": f"; that is no better than {constant}",
        "not shown": f"; that this is better than {constant} is not shown by these data",
    }
    return texts[verdict]


def judge_chance(value: float, low: float | None, high: float | None, *, chance: float) -> OfChance:
    """Return ``above`` or ``below`` if a metric's interval excludes chance, or else ``open``.

    `chance` is the value of the metric that guessing reaches. The word is ``open``, too, without an
    interval; `value`, the metric itself, decides between ``above`` and ``below``.
    """
    has_interval = interval_text((low, high)) != DASH
    if low is None or high is None or not has_interval or low <= chance <= high:
        return "open"
    if value > chance:
        return "above"
    return "below"


def say_chance(verdict: OfChance, chance: float) -> str:
    """Return a sentence on whether a metric at unseen sites is above chance.

    `verdict` is the result of `judge_chance`, and `chance` the value of the metric that guessing
    reaches.
    """
    level = number_text(chance, digits=2)
    if verdict == "open":
        return f"That it is better than chance ({level}) there is not shown by these data."
    return f"That is {verdict} chance ({level})."


def is_open_ratio(low: float | None, high: float | None) -> bool:
    """Tell whether the interval of a ratio holds 1, so that the data do not prove any change.

    The interval is from `low` to `high`; False without an interval.
    """
    has_interval = interval_text((low, high)) != DASH
    return low is not None and high is not None and has_interval and low <= 1 <= high


def say_difference(row: "pd.Series[float]", *, higher_is_better: bool, test: str) -> str:
    """Return words on the difference of a compared model from the reference model.

    The model is called better or worse if the interval excludes zero; if the p-value of the test
    named `test` is not significant, the words add that only the interval says so. `row` has
    ``difference``, ``low``, ``high`` and ``p_adjusted``, NaN where absent.
    """
    if row["difference"] and pd.isna(row["low"]):
        return "differs by an amount that has no interval"
    if not (row["low"] > 0 or row["high"] < 0):
        return "cannot be told apart from it by these data"
    direction = "worse"
    if (row["difference"] > 0) == higher_is_better:
        direction = "better"
    if row["p_adjusted"] >= SIGNIFICANT:
        return f"looks {direction}, but only the interval says so, not {test}"
    return f"is {direction}"


def say_outside_brain(share: float) -> str:
    """Return a text on how much of a brain map lies outside the brain; a large share is warned of.

    `share`, from 0 to 1, is of the sum of the map's absolute values.
    """
    sentence = f"{share:.0%} of the map, by absolute value, lies outside the brain of the template."
    if share < NOTABLE_OUTSIDE:
        return sentence
    return (
        f"{sentence} A model that looks there may use the skull, the edge of the image or how it "
        "was registered; or the map is noise, as it is where the model predicts nothing."
    )
