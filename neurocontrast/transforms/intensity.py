"""Intensities made comparable by what is found inside the brain."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_N_TOGETHER = 2**15
"""Voxels that stay in a core's cache while they are squared and added."""

Values = npt.NDArray[np.float32]


def zscore(values: Values) -> Values | None:
    """Return values with mean 0 and deviation 1; None where nothing varies.

    Intensities whose sums or squares float32 does not hold are normalised all the same.
    """
    if values.size == 0 or values.min() == values.max():
        return None
    centred = values - np.float32(mean_of(values))
    deviation = np.sqrt(_mean_square(centred))
    if deviation == 0:
        return None
    centred /= np.float32(deviation)
    return centred


def scale_by_percentiles(values: Values, percentiles: tuple[float, float]) -> Values | None:
    """Map the lower percentile to 0 and the upper one to 1, and clip beyond; None where they are the same."""
    low, high = np.percentile(values, percentiles)
    if not high > low:
        return None
    scaled = (values - np.float32(low)) * np.float32(1 / (high - low))
    return np.clip(scaled, 0, 1, out=scaled)


def mean_of(values: npt.NDArray[np.float32]) -> float:
    """Return a mean that float32 cannot overflow."""
    # NumPy adds float32 pairwise, in about seven digits, at several times the speed of float64.
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(np.ascontiguousarray(values).reshape(-1).mean())
    return mean if np.isfinite(mean) else float(values.mean(dtype=np.float64))


def _mean_square(centred: Values) -> float:
    flat = centred.reshape(-1)
    parts = (flat[start : start + _N_TOGETHER] for start in range(0, flat.size, _N_TOGETHER))
    with np.errstate(over="ignore", under="ignore"):
        total = sum(float(np.square(part).sum()) for part in parts)
    if not np.isfinite(total) or total < np.finfo(np.float32).tiny:  # squares that float32 does not hold
        total = float(np.square(flat, dtype=np.float64).sum())
    return total / flat.size
