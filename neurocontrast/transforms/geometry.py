"""Read a scan's geometry (shape, voxel size, orientation) from the header, with warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import nibabel as nib
import numpy as np
import numpy.typing as npt
from nibabel.affines import voxel_sizes

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.headers import Disagreement, compare_affines, tilt_of
from neurocontrast.transforms.images import times
from neurocontrast.transforms.preprocessing import N_VOXELS_MIN, SPACING_LIMITS_MM

_TILT_WARNED_DEGREES = 20.0
_MNI = 4


@dataclass(frozen=True, eq=False)
class ScanHeader:
    """Geometry of a scan from its header, axes in RAS order; a ``.npy`` array has only a shape."""

    shape: tuple[int, ...]
    affine: npt.NDArray[np.float64] | None = None
    spacing_mm: tuple[float, float, float] | None = None
    is_mni: bool = False
    warnings: tuple[str, ...] = ()
    disagreement: str = ""
    """Message if sform and qform differ by more than a voxel, 2 % or a degree, which `neurocontrast
    check` reports as a problem; also one of `warnings`. Empty if they agree."""
    is_guessed: bool = False
    """Whether the header has no orientation, so that left and right may be exchanged."""

    @property
    def other_warnings(self) -> tuple[str, ...]:
        """Warnings about the scan's header, except the `disagreement` of sform and qform."""
        return tuple(warning for warning in self.warnings if warning != self.disagreement)


def geometry_of(name: str, header: Any) -> ScanHeader:
    """Return a scan's geometry in RAS order, from `header`; a DataError refuses impossible values.

    `name` is the scan's file name for messages.
    """
    check_kind(name, header.get_data_dtype())
    shape = check_shape(name, header.get_data_shape())
    affine = header.get_best_affine()
    sizes = voxel_sizes(affine)
    low, high = SPACING_LIMITS_MM
    if not np.isfinite(affine).all() or not ((sizes >= low) & (sizes <= high)).all():
        raise DataError(
            f"{name}: the voxel size is {times(sizes)} mm; it must be between {low:g} and {high:g} "
            "mm along each axis. Is the header damaged?"
        )
    orientation = nib.io_orientation(affine)
    if np.isnan(orientation).any():
        raise DataError(
            f"{name}: the affine does not tell the directions of the axes; is the header damaged?"
        )
    first, second, third = np.argsort(orientation[:, 0])
    disagreement = compare_affines(header, shape)
    return ScanHeader(
        shape=(shape[first], shape[second], shape[third]),
        affine=affine @ nib.orientations.inv_ornt_aff(orientation, shape),
        spacing_mm=(float(sizes[first]), float(sizes[second]), float(sizes[third])),
        is_mni=(int(header["sform_code"]) or int(header["qform_code"])) == _MNI,
        warnings=_doubts(header, affine / [*sizes, 1], disagreement),
        disagreement=disagreement.problem,
        is_guessed=_has_no_orientation(header),
    )


def _has_no_orientation(header: Any) -> bool:
    """Tell whether the codes of sform and qform in `header` are both 0, so neither is valid."""
    return int(header["sform_code"]) == 0 and int(header["qform_code"]) == 0


def _doubts(
    header: Any, directions: npt.NDArray[Any], disagreement: Disagreement
) -> tuple[str, ...]:
    """Return warnings about a scan's orientation, as sentences for the user.

    The columns of `directions` are the image axes in the scanner's axes. Doubtful are a missing
    orientation, differing sform and qform (`disagreement`), and image axes that are tilted against
    the scanner's.
    """
    warnings = []
    if _has_no_orientation(header):
        warnings.append(
            "the header has no orientation (sform and qform codes are 0); left and right are a "
            "guess"
        )
    if disagreement.differences:
        warnings.append(str(disagreement))
    tilt = tilt_of(directions[:3, :3])
    if tilt > _TILT_WARNED_DEGREES:
        warnings.append(f"its axes are tilted by {tilt:.0f} degrees; they are not rotated")
    return tuple(warnings)


def check_kind(name: str, dtype: Any) -> None:
    """Raise a DataError for scan `name` if `dtype` of its voxels is not of real numbers.

    RGB and complex values are examples.
    """
    if np.dtype(dtype).kind not in "buif":
        raise DataError(
            f"{name}: its voxels are of type {dtype}; a scan has one real number a voxel."
        )


def check_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a volume without axes of length 1 before or behind three axes.

    Such axes are removed at the end of the shape, then at the beginning, until three axes remain. A
    DataError, which names scan `name`, refuses a shape unless three axes remain, each of at least
    `N_VOXELS_MIN` voxels.
    """
    lengths = list(shape)
    while len(lengths) > 3 and lengths[-1] == 1:
        lengths.pop()
    while len(lengths) > 3 and lengths[0] == 1:
        lengths.pop(0)
    axes = " × ".join(map(str, shape)) or "no axes"
    if len(lengths) > 3 and 0 not in lengths:
        raise DataError(f"{name}: the image is {len(lengths)}D ({axes}); give one 3D volume.")
    if len(lengths) < 3 or min(lengths) < N_VOXELS_MIN:
        raise DataError(
            f"{name}: the image is {axes}; a volume has three axes of at least {N_VOXELS_MIN} "
            "voxels."
        )
    return tuple(lengths)
