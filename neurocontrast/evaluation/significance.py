"""Tests of two models: on one held-out set (DeLong, McNemar), and over folds (Nadeau and Bengio)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats
from scipy.special import expit, logit

from neurocontrast.evaluation.metrics import finite_or_none
from neurocontrast.evaluation.rows import Floats


@dataclass(frozen=True)
class Difference:
    """A difference with its standard error, statistic and two-sided p-value: NaN where it has no spread."""

    difference: float
    standard_error: float
    statistic: float
    p_value: float


def delong_test(truth: npt.ArrayLike, scores_a: npt.ArrayLike, scores_b: npt.ArrayLike) -> Difference:
    """Test whether two models have the same AUC on one held-out set (DeLong et al., 1988).

    For a test set that no model was fitted on, one scan a subject; for folds, use `corrected_resampled_t`.

    Examples
    --------
    >>> result = delong_test([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], [0.2, 0.1, 0.3, 0.9])
    >>> round(result.difference, 2)
    -0.25
    """
    areas, covariance = _delong(truth, np.stack([np.asarray(scores_a, float), np.asarray(scores_b, float)]))
    variance = float(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    error = float(np.sqrt(max(variance, 0.0)))
    return _difference(float(areas[0] - areas[1]), error, least=1e-12, distribution=stats.norm())


def delong_interval(
    truth: npt.ArrayLike, scores: npt.ArrayLike, *, level: float = 0.95
) -> tuple[float, tuple[float, float]]:
    """Return the AUC on one held-out set and its interval on the logit scale; 0 and 1 are their own interval."""
    areas, covariance = _delong(truth, np.asarray(scores, float)[None])
    area, error = float(areas[0]), float(np.sqrt(covariance[0, 0]))
    if not 0 < area < 1:
        return area, (area, area)
    reach = stats.norm.ppf((1 + level) / 2) * error / (area * (1 - area))
    return area, (float(expit(logit(area) - reach)), float(expit(logit(area) + reach)))


def mcnemar_test(hits_a: npt.ArrayLike, hits_b: npt.ArrayLike) -> float:
    """Return the p-value of two models being right about the same share of one test set (McNemar, 1947; exact).

    It is about these two fitted models, not about others that another seed would have trained.

    Examples
    --------
    >>> a, b = [True] * 8 + [False] * 4, [False] * 7 + [True] * 2 + [False] * 3
    >>> round(mcnemar_test(a, b), 3)
    0.07
    """
    a, b = np.asarray(hits_a, dtype=bool), np.asarray(hits_b, dtype=bool)
    only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
    return float(stats.binomtest(only_a, only_a + only_b, 0.5).pvalue) if only_a + only_b else 1.0


def corrected_resampled_t(differences: npt.ArrayLike, *, n_train: float, n_test: float) -> Difference:
    """Test whether two models differ over (repeated) cross-validation (Nadeau and Bengio, 2003).

    Training folds overlap, so the variance is enlarged by the size of test folds relative to training folds.

    Examples
    --------
    >>> round(corrected_resampled_t([0.02, 0.05, 0.01, 0.04, 0.03], n_train=80, n_test=20).p_value, 3)
    0.047
    """
    values = np.asarray(differences, dtype=float)
    n = len(values)
    if n < 2:
        raise ValueError(f"differences: two folds or more are needed, got {n}")
    mean = float(values.mean())
    error = float(np.sqrt((1 / n + n_test / n_train) * values.var(ddof=1)))
    return _difference(mean, error, least=1e-12 * abs(mean), distribution=stats.t(n - 1))


def fold_p_value(differences: pd.Series, folds: pd.DataFrame) -> float | None:
    """Return the p-value of differences over folds; None of fewer than two, and where sites are held out: no draws."""
    known = differences.astype(float).dropna()
    if len(known) < 2 or folds["held_out_site"].notna().any():
        return None
    sizes = folds.loc[known.index]
    test = corrected_resampled_t(known, n_train=sizes["n_train"].mean(), n_test=sizes["n_test"].mean())
    return finite_or_none(test.p_value)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted for how many there are (Holm, 1979); None stays None."""
    known = sorted((value, place) for place, value in enumerate(p_values) if value is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (value, place) in enumerate(known):
        highest = max(highest, min(1.0, value * (len(known) - rank)))
        adjusted[place] = highest
    return adjusted


def _difference(difference: float, error: float, *, least: float, distribution: stats.rv_frozen) -> Difference:
    if error > least:
        statistic = difference / error
        return Difference(difference, error, statistic, float(2 * distribution.sf(abs(statistic))))
    if difference == 0:
        return Difference(difference, 0.0, 0.0, 1.0)
    return Difference(difference, 0.0, float("nan"), float("nan"))


def _delong(truth: npt.ArrayLike, scores: Floats) -> tuple[Floats, Floats]:
    """Return AUCs (k,) and their covariance (k, k), by midranks (Sun and Xu, 2014)."""
    labels = np.asarray(truth).astype(bool)
    n_positive, n_negative = int(labels.sum()), int((~labels).sum())
    if min(n_positive, n_negative) < 2:
        raise ValueError(f"truth: two scans of each class are needed, got {n_positive} positive, {n_negative} others")
    ranks = stats.rankdata(scores, axis=1)
    above = (ranks[:, labels] - stats.rankdata(scores[:, labels], axis=1)) / n_negative
    below = 1 - (ranks[:, ~labels] - stats.rankdata(scores[:, ~labels], axis=1)) / n_positive
    covariance = np.atleast_2d(np.cov(above)) / n_positive + np.atleast_2d(np.cov(below)) / n_negative
    return above.mean(axis=1), covariance
