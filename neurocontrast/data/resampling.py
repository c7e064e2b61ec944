"""Onto another grid with the same centre and axes: by whole voxels, or by interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from neurocontrast.data.scans import in_memory_order

__all__ = ["SAME_SPACING", "crop_or_pad", "resample"]

SAME_SPACING = 1e-3
"""Spacings that differ by less than this part are the same."""

_N_SLICES = 8
"""Slices of the first axis that are interpolated together, so that they stay in a core's cache."""


def crop_or_pad(
    voxels: npt.NDArray[np.float32], shape: tuple[int, ...], background: np.float32
) -> npt.NDArray[np.float32]:
    """Return a copy of the given shape around the same centre; no voxel is interpolated."""
    boxed = np.full(shape, background, dtype=np.float32)
    source, target = [], []
    for n, n_target in zip(voxels.shape, shape, strict=True):
        n_kept = min(n, n_target)
        start = n // 2 - n_target // 2 if n > n_target else 0
        at = (n_target - n) // 2 if n < n_target else 0
        source.append(slice(start, start + n_kept))
        target.append(slice(at, at + n_kept))
    boxed[tuple(target)] = voxels[tuple(source)]
    return boxed


def resample(
    voxels: npt.NDArray[np.float32],
    spacing_mm: tuple[float, float, float],
    shape: tuple[int, int, int],
    target_spacing_mm: tuple[float, float, float],
    *,
    background: float = 0.0,
) -> npt.NDArray[np.float32]:
    """Interpolate linearly onto a grid with the same centre and directions; `background` outside the field of view.

    Where the target is coarser each of its voxels averages over its own width, so that every
    voxel of the scan counts and noise is averaged instead of sampled.

    Notes
    -----
    The grids share their axes, so the interpolation is one sparse matrix for each axis: several
    times faster than sampling every point in three dimensions, and equal to it. The axes are
    taken in the order they lie in memory, which for a file is the reverse of RAS or nearly.
    """
    stored, axes, flips = in_memory_order(voxels)
    weights = [
        _axis_weights(voxels.shape[axis], shape[axis], ratio=target_spacing_mm[axis] / spacing_mm[axis])
        for axis in axes
    ]
    target = _interpolate(np.ascontiguousarray(stored), weights)
    for axis, of_axis in enumerate(weights):
        target[(slice(None),) * axis + (np.diff(of_axis.indptr) == 0,)] = background
    return np.ascontiguousarray(target.transpose(np.argsort(axes))[flips])


def _interpolate(voxels: npt.NDArray[np.float32], weights: list[Any]) -> npt.NDArray[np.float32]:
    first, second, third = weights
    between = np.empty((first.shape[0], second.shape[0], voxels.shape[2]), dtype=np.float32)
    planes = voxels.reshape(len(voxels), -1)
    for start in range(0, len(between), _N_SLICES):
        slices = (first[start : start + _N_SLICES] @ planes).reshape(-1, *voxels.shape[1:])
        for position, plane in enumerate(slices, start=start):
            between[position] = second @ plane
    # A file's last axis in memory is RAS's first, so the result is written with the axes reversed.
    reverse = np.empty([matrix.shape[0] for matrix in (third, second, first)], dtype=np.float32)
    for position in range(second.shape[0]):
        reverse[:, position] = third @ np.ascontiguousarray(between[:, position].T)
    return reverse.T


def _axis_weights(n: int, n_target: int, *, ratio: float) -> Any:
    """Return the sparse (n_target, n) matrix of one axis; a row is empty where the target is out of view."""
    centre = (np.arange(n_target) - (n_target - 1) / 2) * ratio + (n - 1) / 2
    # A voxel averages over its width. The scan's own did so over 1, the target's over `ratio`;
    # a window of this width adds what is lacking, in variance, and nothing on a finer grid.
    window = np.sqrt(max(ratio**2 - 1, 0.0))
    support = 1 + window / 2
    taps = np.floor(centre - support)[:, None] + np.arange(1, 2 * int(np.ceil(support)) + 1)
    away = taps - centre[:, None]
    if window < SAME_SPACING:
        weights = np.clip(1 - np.abs(away), 0, None)
    else:
        weights = _integral_of_hat(away + window / 2) - _integral_of_hat(away - window / 2)
    weights[(taps < 0) | (taps > n - 1)] = 0
    weights[(centre < -0.5) | (centre > n - 0.5)] = 0
    total = weights.sum(axis=1, keepdims=True)
    weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    rows, of_tap = np.nonzero(weights)
    values = weights[rows, of_tap].astype(np.float32)
    return scipy.sparse.csr_array((values, (rows, taps[rows, of_tap].astype(int))), shape=(n_target, n))


def _integral_of_hat(upper: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Integrate max(0, 1 - |u|), the kernel of linear interpolation, up to `upper`."""
    inside = np.clip(upper, -1, 1)
    return 0.5 + inside - np.sign(inside) * inside**2 / 2
