"""Compare the sform and the qform of a NIfTI header, and describe differences in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import nibabel as nib
import numpy as np
import numpy.typing as npt
from nibabel.affines import apply_affine, voxel_sizes

from neurocontrast.transforms.images import corners_apart, times

Affine = npt.NDArray[np.float64]

_NAMED_SCALE = 0.001  # smallest relative difference of voxel sizes that is named
_GRAVE_SCALE = 0.02
_NAMED_DEGREES = 0.1  # a quaternion in single precision is exact to 0.04 degrees
_GRAVE_DEGREES = 1.0
_NAMED_VOXELS = 0.25
_GRAVE_VOXELS = 1.0


@dataclass(frozen=True)
class Disagreement:
    """Differences between the sform and the qform of a NIfTI header, described for messages.

    Parameters
    ----------
    differences : tuple of str
        Descriptions of differences in axes, voxel sizes, rotation, shear and shift; empty if both
        affines agree.
    is_grave : bool
        Whether the affines place any voxel more than a voxel apart, or voxel sizes differ by more
        than 2 %, or axes by more than a degree.
    """

    differences: tuple[str, ...] = ()
    is_grave: bool = False

    def __str__(self) -> str:
        return "; ".join((*self.differences, "the sform is used"))

    @property
    def problem(self) -> str:
        """Text of the differences between sform and qform if they are grave, or else ""."""
        if not self.is_grave:
            return ""
        return str(self)


@dataclass
class _Comparison:
    """Differences between a header's sform and qform while they are found one by one.

    A `Disagreement`, which describes them for messages, is made in the end. `differences` holds a
    text for each difference above a tolerance. `is_grave` becomes True when one is above a second,
    larger tolerance.
    """

    differences: list[str] = field(default_factory=list)
    is_grave: bool = False

    def add(self, text: str, size: float, *, named: float, grave: float) -> None:
        """Append `text` to `differences` if a difference of sform and qform is larger than `named`.

        `size` is how large the difference is, in the unit of `named` and `grave`, and `text`
        describes it. If it is larger than `grave`, `is_grave` becomes True.
        """
        if size > named:
            self.differences.append(text)
        if size > grave:
            self.is_grave = True


def compare_affines(header: Any, shape: Sequence[int]) -> Disagreement:
    """Compare the sform and the qform of a NIfTI header, and return their `Disagreement`.

    A `Disagreement` has a text for each difference. Nibabel reads the sform if its code is above 0,
    else the qform; there is no difference if one of the codes is 0.

    Parameters
    ----------
    header : nibabel.Nifti1Header
        Header of the scan.
    shape : sequence of int
        Voxels along the three axes.
    """
    if not (int(header["sform_code"]) > 0 and int(header["qform_code"]) > 0):
        return Disagreement()
    sform = header.get_sform()
    try:
        qform = header.get_qform()
    except ValueError as error:
        code = int(header["qform_code"])
        return Disagreement((f"the qform (code {code}) is no rotation ({error})",), is_grave=True)
    if not np.isfinite(qform).all() or not np.linalg.det(qform[:3, :3]):
        return Disagreement(("the qform has no finite voxel size",), is_grave=True)
    return _difference(sform, qform, shape)


def _difference(sform: Affine, qform: Affine, shape: Sequence[int]) -> Disagreement:
    """Return the `Disagreement` between the sform and the qform of an image of the given shape."""
    comparison = _Comparison()
    sizes_s = voxel_sizes(sform)
    sizes_q = voxel_sizes(qform)
    rotation_s = _rotation(sform[:3, :3] / sizes_s)
    rotation_q = _rotation(qform[:3, :3] / sizes_q)
    exchange = _exchange(rotation_q.T @ rotation_s)
    has_same_axes = bool((exchange == np.eye(3)).all())
    if not has_same_axes:
        axes_s = "".join(nib.aff2axcodes(sform))
        axes_q = "".join(nib.aff2axcodes(qform))
        comparison.add(f"sform says {axes_s} and qform {axes_q}", np.inf, named=0, grave=0)
    _compare_sizes(sizes_s, sizes_q, comparison)
    degrees = _angle(rotation_s @ exchange.T @ rotation_q.T)
    tilts = f"sform tilted by {tilt_of(rotation_s):.1f} and qform by {tilt_of(rotation_q):.1f}"
    comparison.add(
        f"the axes are {degrees:.1f} degrees apart ({tilts})",
        degrees,
        named=_NAMED_DEGREES,
        grave=_GRAVE_DEGREES,
    )
    shear = _shear(sform[:3, :3] / sizes_s)
    comparison.add(
        f"the sform is sheared by {shear:.1f} degrees, and a qform cannot be",
        shear,
        named=_NAMED_DEGREES,
        grave=_GRAVE_DEGREES,
    )
    named = _NAMED_VOXELS
    if not has_same_axes:
        named = _GRAVE_VOXELS
    _compare_places(sform, qform, shape, comparison, named=named)
    return Disagreement(tuple(comparison.differences), comparison.is_grave)


def _compare_sizes(
    sizes_s: npt.NDArray[np.float64], sizes_q: npt.NDArray[np.float64], comparison: _Comparison
) -> None:
    ratios = np.maximum(sizes_s / sizes_q, sizes_q / sizes_s)
    comparison.add(
        f"the sform's voxels are {times(sizes_s.round(4))} mm and the qform's "
        f"{times(sizes_q.round(4))} mm",
        float(ratios.max() - 1),
        named=_NAMED_SCALE,
        grave=_GRAVE_SCALE,
    )


def _compare_places(
    sform: Affine, qform: Affine, shape: Sequence[int], comparison: _Comparison, *, named: float
) -> None:
    """Record in `comparison` how far apart sform and qform place the image, if beyond `named`.

    `named` is the largest distance, in voxels, that is passed over. The distance is between the two
    places of the first voxel, or of the image's centre, whichever is smaller. If this distance, or
    the distance between the two places of any corner, is above one voxel, `is_grave` of the
    comparison becomes True, whatever `named` is.
    """
    voxel = float(voxel_sizes(sform).min())
    shifts = []
    for anchor, position in {
        "centre": (np.array(shape) - 1) / 2,
        "first voxel": np.zeros(3),
    }.items():
        at_s = apply_affine(sform, position)
        at_q = apply_affine(qform, position)
        places = f"the {anchor} at {_position(at_s)} mm and the qform at {_position(at_q)} mm"
        shifts.append((float(np.linalg.norm(at_s - at_q)), places))
    shift, places = min(shifts)
    comparison.add(
        f"the sform puts {places}, {shift:.1f} mm apart",
        shift / voxel,
        named=named,
        grave=_GRAVE_VOXELS,
    )
    farthest = corners_apart(shape, sform, qform)
    if farthest > _GRAVE_VOXELS * voxel:
        comparison.is_grave = True
        if not comparison.differences:
            comparison.differences.append(f"sform and qform put a corner {farthest:.1f} mm apart")


def _position(point: npt.NDArray[np.float64]) -> str:
    return "({:.1f}, {:.1f}, {:.1f})".format(*(point + 0.0))


def _rotation(directions: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the rotation or reflection nearest to axis `directions`, which may be sheared.

    The directions and the result are matrices (3, 3).
    """
    left, _, right = np.linalg.svd(directions)
    return np.asarray(left @ right)


def _exchange(relative: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the permutation and flips of axes nearest to `relative`, an orthogonal matrix.

    The result is a matrix (3, 3) of 0, 1 and -1.
    """
    affine = np.eye(4)
    affine[:3, :3] = relative
    exchange = np.zeros((3, 3))
    for axis, (target, direction) in enumerate(nib.io_orientation(affine)):
        exchange[int(target), axis] = direction
    return exchange


def _angle(rotation: npt.NDArray[np.float64]) -> float:
    """Return the angle in degrees by which a rotation matrix turns, accurate also near 0."""
    skew = rotation - rotation.T
    sine = float(np.linalg.norm([skew[2, 1], skew[0, 2], skew[1, 0]])) / 2
    cosine = (float(np.trace(rotation)) - 1) / 2
    return float(np.degrees(np.arctan2(sine, cosine)))


def tilt_of(directions: npt.NDArray[np.float64]) -> float:
    """Return the largest angle in degrees between an image axis and its nearest scanner axis.

    `directions` are the image axes, as columns of unit length (3, 3).
    """
    nearest = np.abs(directions).max(axis=0).min()
    return float(np.degrees(np.arccos(np.clip(nearest, 0, 1))))


def _shear(directions: npt.NDArray[np.float64]) -> float:
    """Return the largest deviation of two image axes from a right angle, in degrees.

    `directions` are the axes, as columns of unit length (3, 3).
    """
    cosines = directions.T @ directions - np.eye(3)
    return float(np.degrees(np.arcsin(np.clip(np.abs(cosines).max(), 0, 1))))
