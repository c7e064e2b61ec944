"""Are probabilities right? Logistic recalibration (Cox, 1958), for many resamples at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import expit

__all__ = ["recalibration_intercept", "recalibration_slope"]

Floats = npt.NDArray[np.float64]

PROBABILITY_FLOOR = 1e-9
"""Probabilities are kept this far from 0 and 1, so that their logits are finite."""
MAX_STEPS = 30
TOLERANCE = 1e-9
_CHUNK_VALUES = 60_000
"""Resamples × scans at a time: what stays in the processor's cache."""


def recalibration_slope(truth: Floats, scores: Floats, weights: Floats) -> Floats:
    """Return the slope b of logit P(positive) = a + b · logit(score), fitted by maximum likelihood.

    1 is right; below 1, probabilities are too extreme; above, too timid.
    """
    logits = _logits(scores)
    if len(logits) < 2 or np.ptp(logits) == 0:
        return np.full(len(weights), np.nan)
    scale = logits.std()
    x = (logits - logits.mean()) / scale
    slopes, start, once = np.full(len(weights), np.nan), np.zeros(2), np.ones((1, len(x)))
    if len(weights) > 1 and _overlaps(truth, x, once)[0]:  # resamples lie near the whole
        start = np.nan_to_num(_newton(truth, x, once, start)[0])
    for part in _parts(np.flatnonzero(_overlaps(truth, x, weights)), len(x)):
        slopes[part] = _newton(truth, x, weights[part], start)[:, 1] / scale
    return slopes


def recalibration_intercept(truth: Floats, scores: Floats, weights: Floats) -> Floats:
    """Return the intercept a of logit P(positive) = a + logit(score): calibration in the large.

    0 is right; below 0, probabilities are too high on the whole; above, too low. The slope is held
    at 1, so the value does not depend on it (Van Calster et al., 2019). NaN where there is one class.
    """
    logits = _logits(scores)
    positive, total = weights @ truth, weights.sum(axis=1)
    found = np.full(len(weights), np.nan)
    for part in _parts(np.flatnonzero((positive > 0) & (positive < total)), len(logits)):
        found[part] = _shift(logits, weights[part], positive[part])
    return found


def _newton(truth: Floats, x: Floats, weights: Floats, start: Floats) -> Floats:
    """Return (n resamples, 2) intercepts and slopes; NaN where steps do not settle."""
    basis = np.stack([np.ones_like(x), x, x * x], axis=1)
    wanted = weights @ (basis[:, :2] * truth[:, None])
    found = np.tile(start, (len(weights), 1))
    open_, previous = np.arange(len(weights)), np.full(len(weights), np.inf)
    for _ in range(MAX_STEPS):
        counted = weights[open_]
        likely = expit(found[open_, :1] + found[open_, 1:] * x)
        expected = counted * likely
        gradient = wanted[open_] - expected @ basis[:, :2]
        h = (expected * (1 - likely)) @ basis
        determinant = h[:, 0] * h[:, 2] - h[:, 1] ** 2
        steps = np.stack(
            [h[:, 2] * gradient[:, 0] - h[:, 1] * gradient[:, 1], h[:, 0] * gradient[:, 1] - h[:, 1] * gradient[:, 0]],
            axis=1,
        )
        steps /= np.maximum(determinant, np.finfo(float).tiny)[:, None]
        sizes = np.abs(steps).max(axis=1)
        # Far from the optimum a full step can overshoot without end; a step no larger than the last cannot.
        steps *= np.minimum(1.0, np.minimum(previous[open_], 4.0) / np.maximum(sizes, 1e-300))[:, None]
        found[open_] += steps
        previous[open_] = sizes
        open_ = open_[sizes > TOLERANCE]
        if not len(open_):
            return found
    found[open_] = np.nan
    return found


def _shift(logits: Floats, weights: Floats, positive: Floats) -> Floats:
    """Return the shift under which the expected number of positives is the observed one."""
    # The expected number rises with the shift, so bisection brackets what Newton's method then finishes.
    low, high = np.full(len(weights), -1.0), np.full(len(weights), 1.0)
    for _ in range(MAX_STEPS):
        below = (weights * expit(high[:, None] + logits)).sum(axis=1) < positive
        above = (weights * expit(low[:, None] + logits)).sum(axis=1) > positive
        if not (below.any() or above.any()):
            break
        high, low = np.where(below, 2 * high, high), np.where(above, 2 * low, low)
    shift = np.clip(np.zeros(len(weights)), low, high)
    for _ in range(4 * MAX_STEPS):
        likely = expit(shift[:, None] + logits)
        expected = weights * likely
        gap = positive - expected.sum(axis=1)
        low, high = np.where(gap > 0, shift, low), np.where(gap < 0, shift, high)
        step = gap / np.maximum((expected * (1 - likely)).sum(axis=1), np.finfo(float).tiny)
        moved = shift + step
        moved = np.where((moved > low) & (moved < high), moved, (low + high) / 2)
        if np.abs(moved - shift).max() <= TOLERANCE:
            return moved
        shift = moved
    return shift


def _overlaps(truth: Floats, x: Floats, weights: Floats) -> npt.NDArray[np.bool_]:
    """Return where both classes are drawn and neither lies wholly above or at the other: a slope exists."""
    positive, negative = truth == 1, truth == 0
    drawn = weights > 0
    both = drawn[:, positive].any(axis=1) & drawn[:, negative].any(axis=1)
    low, high = [], []
    for members in (positive, negative):
        low.append(np.where(drawn[:, members], x[members], np.inf).min(axis=1, initial=np.inf))
        high.append(np.where(drawn[:, members], x[members], -np.inf).max(axis=1, initial=-np.inf))
    return both & (high[1] > low[0]) & (high[0] > low[1])


def _logits(scores: Floats) -> Floats:
    kept = np.clip(scores, PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
    return np.log(kept) - np.log1p(-kept)


def _parts(rows: npt.NDArray[np.intp], n: int) -> list[npt.NDArray[np.intp]]:
    size = max(1, _CHUNK_VALUES // max(n, 1))
    return [rows[start : start + size] for start in range(0, len(rows), size)]
