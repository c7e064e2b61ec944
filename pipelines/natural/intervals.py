"""Means over seeds with intervals of Student's t, and how they are written."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from pipelines.natural.experiment import Measure

__all__ = ["DASH", "bootstrap_mean", "format_estimate", "mean_interval"]

DASH = "–"


def mean_interval(values: npt.ArrayLike, *, level: float = 0.95) -> tuple[float, float, float]:
    """Return the mean of the finite values, and its interval of Student's t (NaN with fewer than two values).

    Examples
    --------
    >>> mean, low, high = mean_interval([0.8, 0.9, 1.0])
    >>> round(mean, 2), round(low, 2), round(high, 2)
    (0.9, 0.65, 1.15)
    """
    known = pd.Series(np.asarray(values, dtype=float)).replace([np.inf, -np.inf], np.nan).dropna()
    half = float(stats.t.ppf((1 + level) / 2, len(known) - 1) * known.sem())
    mean = float(known.mean())
    return mean, mean - half, mean + half


def bootstrap_mean(
    values: npt.ArrayLike, *, n: int = 1000, seed: int = 0
) -> tuple[float, float, float]:
    """Return the mean of values, and the 2.5th and 97.5th percentile of its means over `n` draws with replacement.

    Examples
    --------
    >>> [round(each, 2) for each in bootstrap_mean([0.0, 1.0] * 50)]
    [0.5, 0.4, 0.6]
    """
    known = np.asarray(values, dtype=float)
    if np.isnan(known).any():
        return np.nan, np.nan, np.nan
    drawn = stats.bootstrap(
        (known,), np.mean, n_resamples=n, batch=100, method="percentile", rng=seed
    )
    return float(known.mean()), *map(float, drawn.confidence_interval)


def format_estimate(
    mean: float, low: float, high: float, measure: Measure, *, signed: bool = False
) -> str:
    """Return ``"61.2 [59.8, 62.6]"``; a dash without a mean, no brackets without an interval."""
    if pd.isna(mean):
        return DASH
    sign = "+" if signed else ""
    texts = [f"{measure.scale * value:{sign}z.{measure.digits}f}" for value in (mean, low, high)]
    text = texts[0] if pd.isna(low) else f"{texts[0]} [{texts[1]}, {texts[2]}]"
    return text.replace("-", "−")
