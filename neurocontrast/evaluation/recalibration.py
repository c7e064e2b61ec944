"""Slope and intercept of probabilities: logistic recalibration (Cox, 1958), for many resamples at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

__all__ = ["recalibration_intercept", "recalibration_slope"]

Floats = npt.NDArray[np.float64]

PROBABILITY_FLOOR = 1e-9
"""Probabilities are kept this far from 0 and 1, so that their logits are finite."""
MAX_STEPS = 100
TOLERANCE = 1e-9
_CHUNK_VALUES = 60_000
"""Resamples × scans at a time: what stays in the processor's cache."""


def recalibration_slope(truth: Floats, scores: Floats, weights: Floats) -> Floats:
    """Return the slope b of logit P(positive) = a + b · logit(score), fitted by maximum likelihood.

    1 is right; below 1, probabilities are too extreme; above, too timid. NaN where no finite slope exists: one class,
    scores that do not vary, or scores that separate the classes. `truth` (n,) is 1 for positive scans, `scores` (n,)
    their probabilities, and `weights` (n resamples, n) how often each scan counts.
    """
    logits = _logits(scores)
    scale = logits.std()
    if len(logits) < 2 or scale == 0 or np.ptp(logits) == 0:
        return np.full(len(weights), np.nan)
    x = (logits - logits.mean()) / scale
    basis = np.stack([np.ones_like(x), x], axis=1)
    return _fit(truth, basis, np.zeros_like(x), weights, _overlaps(truth, x, weights))[:, 1] / scale


def recalibration_intercept(truth: Floats, scores: Floats, weights: Floats) -> Floats:
    """Return the intercept a of logit P(positive) = a + logit(score): calibration in the large.

    0 is right; below 0, probabilities are too high on the whole; above, too low. The slope is held
    at 1, so the value does not depend on it (Van Calster et al., 2019). NaN where there is one class.
    """
    positive, total = weights @ truth, weights.sum(axis=1)
    return _fit(truth, np.ones((len(truth), 1)), _logits(scores), weights, (positive > 0) & (positive < total))[:, 0]


def _fit(truth: Floats, basis: Floats, offset: Floats, weights: Floats, fits: npt.NDArray[np.bool_]) -> Floats:
    """Return coefficients (n resamples, k) of logistic regressions on a basis (n, k); NaN where they do not settle."""
    found, rows = np.full((len(weights), basis.shape[1]), np.nan), np.flatnonzero(fits)
    size = max(1, _CHUNK_VALUES // max(len(truth), 1))
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        found[part] = _newton(truth, basis, offset, weights[part])
    return found


def _newton(truth: Floats, basis: Floats, offset: Floats, weights: Floats) -> Floats:
    k = basis.shape[1]
    products = (basis[:, :, None] * basis[:, None]).reshape(len(basis), -1)
    wanted = weights @ (basis * truth[:, None])
    found, left = np.zeros((len(weights), k)), np.arange(len(weights))
    previous, limits = np.zeros((len(weights), k)), np.full(len(weights), 4.0)
    for _ in range(MAX_STEPS):
        likely = expit(found[left] @ basis.T + offset)
        expected = weights[left] * likely
        hessian = ((expected * (1 - likely)) @ products).reshape(-1, k, k) + np.finfo(float).tiny * np.eye(k)
        steps = np.linalg.solve(hessian, (wanted[left] - expected @ basis)[..., None])[..., 0]
        # Far from the optimum a full step can overshoot without end: one that turns back is at most half the last.
        turned = (steps * previous[left]).sum(axis=1) < 0
        limits[left] = np.where(turned, np.abs(previous[left]).max(axis=1) / 2, limits[left])
        sizes = np.abs(steps).max(axis=1)
        steps *= np.minimum(1.0, limits[left] / np.maximum(sizes, 1e-300))[:, None]
        found[left] += steps
        previous[left] = steps
        left = left[sizes > TOLERANCE]
        if not len(left):
            return found
    found[left] = np.nan
    return found


def _overlaps(truth: Floats, x: Floats, weights: Floats) -> npt.NDArray[np.bool_]:
    """Return where both classes are drawn and neither lies wholly above or at the other: a slope exists."""
    drawn, low, high = weights > 0, [], []
    for members in (truth == 1, truth == 0):
        low.append(np.where(drawn[:, members], x[members], np.inf).min(axis=1, initial=np.inf))
        high.append(np.where(drawn[:, members], x[members], -np.inf).max(axis=1, initial=-np.inf))
    both = np.isfinite(low[0]) & np.isfinite(low[1])
    return both & (high[1] > low[0]) & (high[0] > low[1])


def _logits(scores: Floats) -> Floats:
    return logit(np.clip(scores, PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR))
