"""From a scan to the array that a network sees."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from neurocontrast.data.resampling import SAME_SPACING, crop_or_pad, resample
from neurocontrast.data.scans import N_VOXELS_MIN, SPACING_LIMITS_MM, Scan, in_memory_order, read_scan
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

_Length = Annotated[int, Field(ge=N_VOXELS_MIN, le=1024)]

_N_TOGETHER = 2**15
"""Voxels that stay in a core's cache while they are squared and added."""

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
    if scan.spacing_mm is None or np.allclose(scan.spacing_mm, spacing, rtol=SAME_SPACING, atol=0):
        boxed = crop_or_pad(scan.voxels, preprocessing.shape, background)
    else:
        boxed = resample(scan.voxels, scan.spacing_mm, preprocessing.shape, spacing, background=float(background))
    normalised = _normalise(boxed, preprocessing.normalise)
    if normalised is None:
        raise DataError(f"{name}: nothing varies in the {_times(preprocessing.shape)} box around the scan's centre.")
    return normalised[np.newaxis]


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
    stored, axes, _ = in_memory_order(scan.voxels)
    inside = []
    for axis in axes:
        away = np.abs(np.arange(scan.voxels.shape[axis]) - (scan.voxels.shape[axis] - 1) / 2) * source_spacing[axis]
        kept = np.flatnonzero(away <= box[axis] / 2)
        inside.append(slice(kept[0], kept[-1] + 1))
    foreground = stored > _mean(stored)
    lost = 1 - np.count_nonzero(foreground[tuple(inside)]) / np.count_nonzero(foreground)
    if lost <= min(FOREGROUND_LOST_MAX.values()):
        return
    kind = "brain" if np.count_nonzero(stored) < 0.5 * stored.size else "head"
    if lost > FOREGROUND_LOST_MAX[kind]:
        raise DataError(
            f"{name}: {what}; {lost:.0%} of the voxels above its mean would be cropped away, at most "
            f"{FOREGROUND_LOST_MAX[kind]:.0%} of a {kind} may. "
            "Change data.shape or data.spacing_mm, or leave the scan out."
        )


def _normalise(voxels: npt.NDArray[np.float32], how: str) -> npt.NDArray[np.float32] | None:
    """Normalise in place; None where nothing varies."""
    chosen = voxels != 0 if how == "zscore-brain" else None
    values = voxels if chosen is None else voxels[chosen]
    if values.size == 0 or values.min() == values.max():
        return None
    if how == "none":
        return voxels
    mean = _mean(values)
    values = np.subtract(values, np.float32(mean), out=values)
    deviation = np.sqrt(_mean_square(values))
    if deviation == 0:
        return None
    values /= np.float32(deviation)
    if chosen is not None:
        voxels[chosen] = values
    return voxels


def _mean(values: npt.NDArray[np.float32]) -> float:
    # NumPy adds float32 pairwise, in about seven digits, at several times the speed of float64.
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(np.ascontiguousarray(values).reshape(-1).mean())
    return mean if np.isfinite(mean) else float(values.mean(dtype=np.float64))


def _mean_square(centred: npt.NDArray[np.float32]) -> float:
    flat = centred.reshape(-1)
    parts = (flat[start : start + _N_TOGETHER] for start in range(0, flat.size, _N_TOGETHER))
    with np.errstate(over="ignore", under="ignore"):
        total = sum(float(np.square(part).sum()) for part in parts)
    if not np.isfinite(total) or total < np.finfo(np.float32).tiny:  # squares that float32 does not hold
        total = float(np.square(flat, dtype=np.float64).sum())
    return total / flat.size


def _times(lengths: Any) -> str:
    return " × ".join(f"{length:g}" for length in lengths)
