"""Intensities made comparable by what is found inside the brain."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.ndimage
import scipy.signal

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.brain import deep_part

_N_DEEP_MIN = 100
_OVER_MEDIAN_MIN = 1.03
"""White matter is brighter than the median of a T1w brain by at least this factor.

Real brains had 1.3 to 1.7, simulated ones of low contrast 1.1; where grey matter is brighter, as in T2w, it is 1.0.
"""
_NEGATIVE_MAX = 0.05
_N_BINS = 256
_N_BINS_BEYOND = 16
_SMOOTHER = 2.0
_PROMINENCE_MIN, _HEIGHT_MIN = 0.05, 0.2
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


def white_matter_scale(voxels: Values, inside: npt.NDArray[np.bool_], spacing_mm: Sequence[float], name: str) -> float:
    """Return the intensity of white matter in a T1w brain, or raise an error that says why there is none to find."""
    deep = voxels[deep_part(inside, spacing_mm)]
    peak = white_matter_peak(deep) if deep.size >= _N_DEEP_MIN else None
    brain = voxels[inside]
    middle, n_negative = float(np.median(brain)), np.count_nonzero(brain < 0)
    is_shifted = n_negative > _NEGATIVE_MAX * brain.size
    if peak is not None and peak > max(_OVER_MEDIAN_MIN * middle, 0) and not is_shifted:
        return peak
    if is_shifted:
        why = f"{n_negative / brain.size:.0%} of the brain is below 0, and a scale needs intensities that begin at 0"
    elif deep.size < _N_DEEP_MIN:
        why = f"{deep.size} voxels lie deep in the brain, and at least {_N_DEEP_MIN} are needed"
    elif peak is None:
        why = f"the histogram of the {deep.size} voxels deep in the brain has no peak"
    else:
        why = (
            f"the brightest peak deep in the brain, at {peak:g}, is not {_OVER_MEDIAN_MIN:g} times the brain's median "
            f"({middle:g}), as it is in a T1-weighted scan"
        )
    raise DataError(
        f"{name}: no peak of white matter to scale by: {why}. Is it a T1-weighted brain? Leave it out, or take another "
        "data.normalise: percentile or histogram."
    )


def scale_by_percentiles(values: Values, percentiles: tuple[float, float]) -> Values | None:
    """Map the lower percentile to 0 and the upper one to 1, and clip beyond; None where they are the same."""
    low, high = np.percentile(values, percentiles)
    if not high > low:
        return None
    scaled = (values - np.float32(low)) * np.float32(1 / (high - low))
    return np.clip(scaled, 0, 1, out=scaled)


def white_matter_peak(deep: npt.NDArray[np.floating]) -> float | None:
    """Return the brightest peak of the histogram of intensities deep in a T1w brain (`deep_part`); None without a peak.

    The histogram is a kernel density with a Gaussian of twice Silverman's width, as white-matter peaks are found by
    Reinhold et al. (2019) and Shinohara et al. (2014). Over the whole brain the peak of white matter is often a
    shoulder of that of grey matter; deep in the brain white matter dominates.
    """
    low, lower, upper, high = np.percentile(deep, [0.1, 25, 75, 99.9])
    if not upper > lower:
        return None
    width = _SMOOTHER * 0.9 * min(float(deep.std(dtype=np.float64)), (upper - lower) / 1.349) * deep.size**-0.2
    step = (high - low) / _N_BINS
    start = low - _N_BINS_BEYOND * step  # so that a peak at an end has two sides
    end = high + _N_BINS_BEYOND * step
    counts, _ = np.histogram(deep, _N_BINS + 2 * _N_BINS_BEYOND, (start, end))
    density = scipy.ndimage.gaussian_filter1d(counts.astype(float), width / step, mode="constant")
    top = density.max()
    peaks, _ = scipy.signal.find_peaks(density, prominence=_PROMINENCE_MIN * top, height=_HEIGHT_MIN * top)
    if not len(peaks):
        return None
    before, at, after = density[peaks[-1] - 1 : peaks[-1] + 2]
    curvature = before - 2 * at + after
    shift = 0.5 * (before - after) / curvature if curvature < 0 else 0.0  # the top of a parabola through three bins
    return float(start + (peaks[-1] + 0.5 + shift) * step)


def landmark_percentiles(percentiles: tuple[float, float]) -> list[float]:
    """Return the percentiles of a histogram's landmarks: the lower, each tenth, the upper."""
    return [percentiles[0], *(float(each) for each in range(10, 100, 10)), percentiles[1]]


def find_landmarks(values: Values, percentiles: tuple[float, float]) -> npt.NDArray[np.float64] | None:
    """Return the intensities at `landmark_percentiles`; None where the outer two are the same."""
    found = np.percentile(values, landmark_percentiles(percentiles)).astype(np.float64)
    return found if found[-1] > found[0] else None


def standard_landmarks(found: Sequence[npt.NDArray[np.float64]]) -> tuple[float, ...]:
    """Return the mean of the landmarks of many scans, each brought to 0 at the first and 1 at the last."""
    scaled = [(each - each[0]) / (each[-1] - each[0]) for each in found]
    # fsum is exact, so that the order of scans does not matter.
    return tuple(math.fsum(values) / len(scaled) for values in zip(*scaled, strict=True))


def map_landmarks(values: Values, found: npt.NDArray[np.float64], standard: Sequence[float]) -> Values:
    """Map a scan's landmarks to the standard ones, straight in between; what lies beyond the outer two takes theirs.

    Landmarks that coincide in a scan (many voxels of one intensity) go to the mean of theirs.
    """
    places, of_landmark = np.unique(found, return_inverse=True)
    targets = np.bincount(of_landmark, weights=standard) / np.bincount(of_landmark)
    return np.interp(values, places, targets).astype(np.float32)


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
