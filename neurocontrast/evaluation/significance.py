"""Tests of two models: on one held-out set (McNemar), and over folds (Nadeau and Bengio)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from neurocontrast.evaluation.metrics import finite_or_none


@dataclass(frozen=True)
class Difference:
    """A difference with its standard error, statistic and two-sided p-value: NaN where it has no spread."""

    difference: float
    standard_error: float
    statistic: float
    p_value: float


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
    if error > 1e-12 * abs(mean):
        return Difference(mean, error, mean / error, float(2 * stats.t.sf(abs(mean / error), n - 1)))
    statistic, p_value = (0.0, 1.0) if mean == 0 else (float("nan"), float("nan"))
    return Difference(mean, 0.0, statistic, p_value)


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
