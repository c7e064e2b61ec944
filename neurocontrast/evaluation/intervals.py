"""Bootstrap intervals that allow for bias and skewness: BCa (Efron, 1987)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

__all__ = ["Resamples"]

Floats = npt.NDArray[np.float64]

MAX_UNDEFINED_SHARE = 0.05
"""An interval is withheld where more resamples than this leave the metric undefined."""


@dataclass(frozen=True, eq=False)
class Resamples:
    """A figure of all units, without some of them, and of every resample.

    Two figures of the same resamples can be put together by `combine`: the result
    has a paired interval.

    Attributes
    ----------
    value : float
        Of all units.
    left_out : array
        Without each unit, or without each of many groups of units (the jackknife).
    drawn : array (n resamples,)
        Of each resample.
    """

    value: float
    left_out: Floats
    drawn: Floats

    def combine(self, other: Resamples, function: Callable[[Floats, Floats], Floats]) -> Resamples:
        """Return a function of this figure and another one of the same resamples."""
        value = float(function(np.array(self.value), np.array(other.value)))
        return Resamples(value, function(self.left_out, other.left_out), function(self.drawn, other.drawn))

    def __sub__(self, other: Resamples) -> Resamples:
        """Return the difference of two figures."""
        return self.combine(other, np.subtract)

    def interval(self, *, level: float) -> tuple[float, float] | None:
        """Return the bias-corrected and accelerated interval.

        It takes quantiles of the resamples, as a percentile interval does, but moves them by how far the
        resamples lie to one side of the value, and by how the figure's spread changes with its
        value (from the jackknife). Undefined resamples are left out; None where they are more than
        5 %, or where the value is not defined. None, too, where all resamples are equal: an AUC of 1 among
        ten people is 1 in every resample of them, and that does not make it certain.

        Examples
        --------
        >>> draws = np.random.default_rng(0).normal(size=2000)
        >>> low, high = Resamples(0.0, np.linspace(-0.1, 0.1, 50), draws).interval(level=0.95)
        >>> round(low, 1), round(high, 1)
        (-1.9, 2.0)
        """
        defined = self.drawn[np.isfinite(self.drawn)]
        enough = len(defined) >= max(1.0, (1 - MAX_UNDEFINED_SHARE) * len(self.drawn))
        # A resample equal to the value lies half below it; rounding must not decide.
        slack = 1e-12 * max(1.0, abs(self.value))
        if not enough or not np.isfinite(self.value) or np.ptp(defined) <= slack:
            return None
        below = (defined < self.value - slack).sum() + 0.5 * (np.abs(defined - self.value) <= slack).sum()
        bias = norm.ppf(np.clip(below / len(defined), 1 / (len(defined) + 1), len(defined) / (len(defined) + 1)))
        shifted = bias + norm.ppf([(1 - level) / 2, (1 + level) / 2])
        stretch = 1 - self._acceleration() * shifted
        places = np.where(stretch > 0, norm.cdf(bias + shifted / np.where(stretch > 0, stretch, 1.0)), shifted > 0)
        low, high = np.quantile(defined, places)
        return float(low), float(high)

    def figure(self, *, level: float) -> dict[str, float | None]:
        """Return ``value``, ``low`` and ``high``; None where they are not defined, or there are no resamples."""
        known = float(self.value) if np.isfinite(self.value) else None
        low, high = (None if known is None else self.interval(level=level)) or (None, None)
        return {"value": known, "low": low, "high": high}

    def _acceleration(self) -> float:
        known = self.left_out[np.isfinite(self.left_out)]
        if not len(known):
            return 0.0
        influence = known.mean() - known
        squares = float((influence**2).sum())
        return float((influence**3).sum()) / (6 * squares**1.5) if squares > 1e-24 * max(1.0, self.value**2) else 0.0
