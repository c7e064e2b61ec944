"""From a scan to the array that a network sees."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse
from pydantic import Field, ValidationError

from neurocontrast.data.scans import N_VOXELS_MIN, SPACING_LIMITS_MM, Scan, read_scan
from neurocontrast.exceptions import DataError
from neurocontrast.files import digest_of
from neurocontrast.settings import Settings

__all__ = [
    "EXTENT_FILLED_MIN",
    "FOREGROUND_LOST_MAX",
    "TRANSFORM_VERSION",
    "Normalise",
    "Preprocessing",
    "Shape",
    "SpacingMm",
    "load_volume",
    "preprocess",
]

TRANSFORM_VERSION = 1
"""Raised whenever the same settings would give other voxels: old caches and encoders then do not match."""

FOREGROUND_LOST_MAX = {"brain": 0.10, "head": 0.20}
"""A scan is refused when cropping takes away more than this part of its voxels above its mean.

More than half of the voxels of a skull-stripped brain are 0; any other scan counts as a head,
which may lose its neck.
"""

EXTENT_FILLED_MIN = 0.5
"""A scan is refused when it covers less than this part of the box along an axis: the rest would be padding."""

_SAME_SPACING = 1e-3
_Length = Annotated[int, Field(ge=N_VOXELS_MIN, le=1024)]

SpacingMm = Annotated[float, Field(ge=SPACING_LIMITS_MM[0], le=SPACING_LIMITS_MM[1])]
Shape = tuple[_Length, _Length, _Length]
Normalise = Literal["zscore", "zscore-brain", "none"]


class Preprocessing(Settings):
    """What is done to every scan; an encoder keeps it and asks for the same later.

    The order is: axes to RAS, resample, crop or pad around the centre, normalise.

    Parameters
    ----------
    spacing_mm : float or None
        Voxel size to resample to, the same along each axis; None keeps each scan's own.
    shape : tuple of int
        Voxels to the right, to the front and upwards; what lies outside is cropped, what is missing padded.
    normalise : {"zscore", "zscore-brain", "none"}
        Mean 0 and deviation 1 over the whole box; over its non-zero voxels alone, zeros staying 0
        (for skull-stripped scans); or intensities as they are.
    orientation : {"RAS"}
        Axes go to the right, to the front, upwards.
    """

    spacing_mm: SpacingMm | None = 1.5
    shape: Shape = (121, 145, 121)
    normalise: Normalise = "zscore"
    orientation: Literal["RAS"] = "RAS"

    def contract(self) -> dict[str, Any]:
        """Return what an encoder's JSON holds: the settings and the version of the transform."""
        return {"transform_version": TRANSFORM_VERSION, **self.model_dump(mode="json")}

    @classmethod
    def from_contract(cls, contract: Mapping[str, Any]) -> Preprocessing:
        """Return the settings of a contract.

        Raises
        ------
        DataError
            For a transform version that this installation does not have, or settings it does not know.
        """
        version = contract.get("transform_version")
        if version != TRANSFORM_VERSION:
            raise DataError(
                f"preprocessing contract: transform_version is {version!r} and this neurocontrast has "
                f"{TRANSFORM_VERSION}; install the version the encoder was trained with."
            )
        try:
            return cls.model_validate({key: value for key, value in contract.items() if key != "transform_version"})
        except ValidationError as error:
            found = "; ".join(
                f"{'.'.join(map(str, each['loc']))}: {each['msg']}, found {each['input']!r}" for each in error.errors()
            )
            raise DataError(f"preprocessing contract: {found}") from error

    def digest(self) -> str:
        """Return a digest of the contract."""
        return digest_of("preprocessing", *(f"{key}={value}" for key, value in sorted(self.contract().items())))


def load_volume(path: str | os.PathLike[str], preprocessing: Preprocessing) -> npt.NDArray[np.float32]:
    """Read a scan and preprocess it.

    Returns
    -------
    ndarray
        float32, ``(1, *preprocessing.shape)``, axes to the right, to the front, upwards.

    Raises
    ------
    DataError
        Naming the file, where it cannot be read or does not fit.
    """
    return preprocess(read_scan(path), preprocessing, name=os.fspath(path))


def preprocess(scan: Scan, preprocessing: Preprocessing, *, name: str = "scan") -> npt.NDArray[np.float32]:
    """Resample, crop or pad, and normalise a scan, as `load_volume` does."""
    spacing = _target_spacing(scan, preprocessing)
    _check_fit(scan, preprocessing.shape, spacing, name)
    # The corners are background in any usual scan, and padding continues it.
    corners = scan.voxels[tuple(slice(None, None, n - 1) for n in scan.voxels.shape)]
    background = np.float32(0 if preprocessing.normalise == "zscore-brain" else np.median(corners))
    if scan.spacing_mm is None or np.allclose(scan.spacing_mm, spacing, rtol=_SAME_SPACING, atol=0):
        boxed = crop_or_pad(scan.voxels, preprocessing.shape, background)
    else:
        boxed = resample(scan.voxels - background, scan.spacing_mm, preprocessing.shape, spacing)
        boxed += background
    normalised = _normalise(boxed, preprocessing.normalise)
    if normalised is None:
        raise DataError(f"{name}: nothing varies in the {_times(preprocessing.shape)} box around the scan's centre.")
    return normalised[np.newaxis]


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
) -> npt.NDArray[np.float32]:
    """Interpolate linearly onto a grid with the same centre and directions; 0 outside the field of view.

    Where the target is coarser each of its voxels averages over its own width, so that every
    voxel of the scan counts and noise is averaged instead of sampled.

    Notes
    -----
    The grids share their axes, so the interpolation is one sparse matrix for each axis: several
    times faster than sampling every point in three dimensions, and equal to it.
    """
    first, second, third = (
        _axis_weights(n, n_target, ratio=target / source, dtype=voxels.dtype)
        for n, n_target, source, target in zip(voxels.shape, shape, spacing_mm, target_spacing_mm, strict=True)
    )
    if voxels.flags.f_contiguous and not voxels.flags.c_contiguous:
        return np.ascontiguousarray(_interpolate(voxels.T, (third, second, first)).T)
    return _interpolate(np.ascontiguousarray(voxels), (first, second, third))


def _interpolate(voxels: npt.NDArray[np.float32], weights: tuple[Any, Any, Any]) -> npt.NDArray[np.float32]:
    first, second, third = weights
    slabs = (first @ voxels.reshape(voxels.shape[0], -1)).reshape(-1, *voxels.shape[1:])
    target = np.empty((first.shape[0], second.shape[0], third.shape[0]), dtype=np.float32)
    for position, slab in enumerate(slabs):
        target[position] = (third @ (second @ slab).T).T
    return target


def _axis_weights(n: int, n_target: int, *, ratio: float, dtype: Any) -> Any:
    """Return the sparse (n_target, n) matrix of one axis; a row is 0 where the target is out of view."""
    centre = (np.arange(n_target) - (n_target - 1) / 2) * ratio + (n - 1) / 2
    # A voxel averages over its width. The scan's own did so over 1, the target's over `ratio`;
    # a window of this width adds what is lacking, in variance, and nothing on a finer grid.
    window = np.sqrt(max(ratio**2 - 1, 0.0))
    support = 1 + window / 2
    taps = np.floor(centre - support)[:, None] + np.arange(1, 2 * int(np.ceil(support)) + 1)
    away = taps - centre[:, None]
    if window < _SAME_SPACING:
        weights = np.clip(1 - np.abs(away), 0, None)
    else:
        weights = _integral_of_hat(away + window / 2) - _integral_of_hat(away - window / 2)
    weights[(taps < 0) | (taps > n - 1)] = 0
    weights[(centre < -0.5) | (centre > n - 0.5)] = 0
    total = weights.sum(axis=1, keepdims=True)
    weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    rows, of_tap = np.nonzero(weights)
    values = weights[rows, of_tap].astype(dtype)
    return scipy.sparse.csr_array((values, (rows, taps[rows, of_tap].astype(int))), shape=(n_target, n))


def _integral_of_hat(upper: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Integrate max(0, 1 - |u|), the kernel of linear interpolation, up to `upper`."""
    inside = np.clip(upper, -1, 1)
    return 0.5 + inside - np.sign(inside) * inside**2 / 2


def _target_spacing(scan: Scan, preprocessing: Preprocessing) -> tuple[float, float, float]:
    if preprocessing.spacing_mm is not None:
        return (preprocessing.spacing_mm,) * 3
    return scan.spacing_mm or (1.0, 1.0, 1.0)


def _check_fit(scan: Scan, shape: tuple[int, ...], spacing_mm: tuple[float, ...], name: str) -> None:
    """Refuse a scan whose field of view differs too much from the box it is to fill."""
    source_spacing = scan.spacing_mm or spacing_mm
    extent = np.array(scan.voxels.shape) * source_spacing
    box = np.array(shape) * spacing_mm
    what = f"the scan covers {_times(extent.round())} mm and the box of {_times(shape)} voxels {_times(box.round())} mm"
    if (extent < EXTENT_FILLED_MIN * box).any():
        raise DataError(
            f"{name}: {what}; along an axis less than {EXTENT_FILLED_MIN:.0%} of the box would be filled. "
            "Change data.shape or data.spacing_mm, or leave the scan out."
        )
    if (extent <= box).all():
        return
    foreground = scan.voxels > scan.voxels.mean(dtype=np.float64)
    inside = []
    for n, step, length in zip(foreground.shape, source_spacing, box, strict=True):
        kept = np.flatnonzero(np.abs(np.arange(n) - (n - 1) / 2) * step <= length / 2)
        inside.append(slice(kept[0], kept[-1] + 1))
    lost = 1 - np.count_nonzero(foreground[tuple(inside)]) / np.count_nonzero(foreground)
    kind = "brain" if np.count_nonzero(scan.voxels) < 0.5 * scan.voxels.size else "head"
    if lost > FOREGROUND_LOST_MAX[kind]:
        raise DataError(
            f"{name}: {what}; {lost:.0%} of the voxels above its mean would be cropped away, at most "
            f"{FOREGROUND_LOST_MAX[kind]:.0%} of a {kind} may. "
            "Change data.shape or data.spacing_mm, or leave the scan out."
        )


def _normalise(voxels: npt.NDArray[np.float32], how: str) -> npt.NDArray[np.float32] | None:
    """Normalise in place; None where nothing varies."""
    chosen = voxels != 0 if how == "zscore-brain" else np.ones((1,) * voxels.ndim, dtype=bool)
    values = voxels[chosen] if how == "zscore-brain" else voxels
    if values.size == 0 or (deviation := float(values.std(dtype=np.float64))) == 0:
        return None
    if how == "none":
        return voxels
    mean = float(values.mean(dtype=np.float64))
    np.subtract(voxels, np.float32(mean), out=voxels, where=chosen)
    np.divide(voxels, np.float32(deviation), out=voxels, where=chosen)
    return voxels


def _times(lengths: Any) -> str:
    return " × ".join(f"{length:g}" for length in lengths)
