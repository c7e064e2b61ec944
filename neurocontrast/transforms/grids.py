"""Resample scans to another voxel size and shape about their centre, and check fields of view."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import nibabel as nib
import numpy as np
import numpy.typing as npt
import scipy.sparse
from monai.config import KeysCollection
from monai.transforms import ResizeWithPadOrCrop

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.files import files_of
from neurocontrast.transforms.images import (
    EachImage,
    affine_of,
    centred,
    corner_median,
    image_like,
    name_of,
    spacing_of,
    times,
    voxels_of,
)
from neurocontrast.transforms.loading import read_scan_header
from neurocontrast.transforms.preprocessing import SAME_SPACING, SPACING_LIMITS_MM

if TYPE_CHECKING:
    from neurocontrast.transforms.preprocessing import Preprocessing

_FOREGROUND_LOST_MAX = {"brain": 0.10, "head": 0.20}
"""Largest share of the foreground voxels that cropping may remove, for a brain and for a head."""
_EXTENT_FILLED_MIN = 0.5
"""Smallest share of the new grid's length that a scan must cover along each axis."""
_WAYS = "RLAPSI"
Volume = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Grid:
    """Voxel grid in RAS order: affine, voxel size, and whether coordinates are in MNI152 space."""

    affine: npt.NDArray[np.float64]
    spacing_mm: tuple[float, float, float]
    is_mni: bool


def preprocessed_grid(
    scan: str | os.PathLike[str] | Sequence[str], preprocessing: Preprocessing
) -> Grid:
    """Return the voxel grid of `scan` after preprocessing, computed from the scan's header.

    Of several channels, the first one's header is read. A ``.npy`` array has no header, so the
    array's centre becomes the origin.
    """
    header = read_scan_header(files_of(scan)[0])
    stored_mm = header.spacing_mm or (preprocessing.spacing_mm or 1.0,) * 3
    source = header.affine
    if source is None:
        source = centred(header.shape, stored_mm)
    spacing = stored_mm
    if preprocessing.spacing_mm is not None:
        spacing = (preprocessing.spacing_mm,) * 3
    affine = grid_affine(source, header.shape, preprocessing.shape, spacing)
    return Grid(affine, spacing_of(affine), header.is_mni)


def grid_affine(
    affine: npt.NDArray[np.float64],
    source: Sequence[int],
    shape: Sequence[int],
    spacing_mm: Sequence[float],
) -> npt.NDArray[np.float64]:
    """Return the affine of a new grid with the centre and axes of a grid of shape `source`.

    If voxel sizes are equal, the new grid is made of whole voxels of the source grid.

    Parameters
    ----------
    affine : array (4, 4)
        Affine of the source.
    source, shape : sequence of 3 int
        Voxels of the source, and of the new grid.
    spacing_mm : sequence of 3 float
        Voxel sizes of the new grid.
    """
    source_mm = spacing_of(affine)
    # In voxels of the source: the first voxel of the new grid, and the step to the next voxel.
    steps = []
    first = []
    is_same = is_same_spacing(source_mm, spacing_mm)
    for n, m, new, old in zip(source, shape, spacing_mm, source_mm, strict=True):
        if not is_same:
            step = new / old
            start = (n - 1) / 2 - step * (m - 1) / 2
        elif n > m:
            step = 1.0
            start = float(n // 2 - m // 2)
        else:
            step = 1.0
            start = float(-((m - n) // 2))
        steps.append(step)
        first.append(start)
    to_source = np.diag([*steps, 1.0])
    to_source[:3, 3] = first
    return affine @ to_source


def is_same_spacing(spacing_mm: Sequence[float], second_mm: Sequence[float]) -> bool:
    """Tell whether two lists of voxel sizes are equal along each axis, within `SAME_SPACING`."""
    return bool(np.allclose(spacing_mm, second_mm, rtol=SAME_SPACING, atol=0))


class CheckFieldOfViewd(EachImage):
    """Refuse a scan whose field of view differs too much from the grid of preprocessed scans.

    A DataError names an image that would fill less than half of the grid along an axis. The same
    holds if cropping would remove more than 10 % of the voxels above the mean of a brain, or 20 %
    of the voxels above the mean of a head, whose neck may be cropped. An image of which more than
    half of the voxels are 0 counts as a skull-stripped brain, any other image as a head.

    Parameters
    ----------
    keys, allow_missing_keys : see `monai.transforms.MapTransform`
        Items that are images (C, D, H, W).
    shape : sequence of 3 int
        Voxels of the grid along the axes to the right, to the front and upwards.
    spacing_mm : float or None
        Voxel size of the grid; None for the image's voxel size.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import CheckFieldOfViewd
    >>> image = torch.rand(1, 20, 24, 16)
    >>> same = CheckFieldOfViewd("image", shape=(20, 24, 16))({"image": image})["image"] is image
    """

    def __init__(
        self,
        keys: KeysCollection,
        *,
        shape: Sequence[int],
        spacing_mm: float | None = None,
        allow_missing_keys: bool = False,
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        self.shape = tuple(shape)
        self.spacing_mm = spacing_mm

    def made_of(self, image: Any) -> Any:
        """Return `image` unchanged if its field of view fits the grid; raise a DataError if not."""
        affine = affine_of(image)
        # Box and axes are compared along the axes of the patient.
        axes = np.argsort(nib.io_orientation(affine)[:, 0])
        stored_mm = np.array(spacing_of(affine))[axes]
        box_mm = np.array(self.shape) * stored_mm
        if self.spacing_mm is not None:
            box_mm = np.array(self.shape) * self.spacing_mm
        for channel in voxels_of(image):
            self._check_channel(channel.transpose(axes), stored_mm, box_mm, name_of(image))
        return image

    def _check_channel(
        self,
        voxels: npt.NDArray[Any],
        own_mm: npt.NDArray[Any],
        box_mm: npt.NDArray[Any],
        name: str,
    ) -> None:
        """Raise a DataError if a channel would fill too little of the grid, or be cropped too much.

        `own_mm` are voxel sizes of the scan `name`, and `box_mm` the lengths of the new grid's
        axes.
        """
        extent = np.array(voxels.shape) * own_mm
        extents = (
            f"{name}: the scan covers {times(extent.round())} mm and the box of "
            f"{times(self.shape)} voxels {times(box_mm.round())} mm; "
        )
        advice = "Change data.shape or data.spacing_mm, or leave the scan out."
        if (extent < _EXTENT_FILLED_MIN * box_mm).any():
            raise DataError(
                f"{extents}along an axis less than {_EXTENT_FILLED_MIN:.0%} of the box would be "
                f"filled. {advice}"
            )
        if (extent <= box_mm).all():
            return
        inside = []
        for n, size, box in zip(voxels.shape, own_mm, box_mm, strict=True):
            kept = np.flatnonzero(np.abs(np.arange(n) - (n - 1) / 2) * size <= box / 2)
            inside.append(slice(kept[0], kept[-1] + 1))
        foreground = voxels > voxels.mean(dtype=np.float64)
        if not foreground.any():  # nothing varies
            return
        lost = 1 - np.count_nonzero(foreground[tuple(inside)]) / np.count_nonzero(foreground)
        kind = "head"
        if np.count_nonzero(voxels) < 0.5 * voxels.size:
            kind = "brain"
        if lost > _FOREGROUND_LOST_MAX[kind]:
            raise DataError(
                f"{extents}{lost:.0%} of the voxels above its mean would be cropped away, at most "
                f"{_FOREGROUND_LOST_MAX[kind]:.0%} of a {kind} may. {advice}"
            )


def resample(
    voxels: Volume,
    spacing_mm: Sequence[float],
    shape: Sequence[int],
    target_spacing_mm: Sequence[float],
    *,
    background: float = 0.0,
) -> Volume:
    """Interpolate a volume linearly to a grid with the same centre and directions.

    If the new grid is coarser, each new voxel averages over its width. The grids have the same
    axes, so that the interpolation is one sparse matrix for each axis.

    Parameters
    ----------
    voxels : array (D, H, W)
        Volume, float32.
    spacing_mm, target_spacing_mm : sequence of 3 float
        Voxel sizes of the volume, and of the new grid.
    shape : sequence of 3 int
        Voxels of the new grid.
    background : float
        Value outside the volume's field of view.
    """
    weights = []
    lengths = zip(voxels.shape, shape, strict=True)
    sizes = zip(spacing_mm, target_spacing_mm, strict=True)
    for (n, n_target), (size, target) in zip(lengths, sizes, strict=True):
        weights.append(_axis_weights(n, n_target, ratio=target / size))
    for of_axis in reversed(weights):  # the last axis is the slowest in a file
        along = np.ascontiguousarray(np.moveaxis(voxels, -1, 0))
        voxels = (of_axis @ along.reshape(len(along), -1)).reshape(-1, *along.shape[1:])
    for axis, of_axis in enumerate(weights):
        voxels[(slice(None),) * axis + (np.diff(of_axis.indptr) == 0,)] = background
    return np.ascontiguousarray(voxels)


def _axis_weights(n: int, n_target: int, *, ratio: float) -> Any:
    """Return the sparse matrix (n_target, n) that interpolates n voxels of an axis to n_target.

    `ratio` is the new voxel size as a multiple of the old. Rows of new voxels out of view are 0.
    """
    centre = (np.arange(n_target) - (n_target - 1) / 2) * ratio + (n - 1) / 2
    # A voxel averages over its width: over 1 in the scan, and over `ratio` in the target. A window
    # of this width adds the missing variance, and nothing on a finer grid.
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
    return scipy.sparse.csr_array(
        (values, (rows, taps[rows, of_tap].astype(int))), shape=(n_target, n)
    )


def _integral_of_hat(upper: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the integral of the linear interpolation kernel max(0, 1 - |u|) from -1 to `upper`."""
    inside = np.clip(upper, -1, 1)
    return 0.5 + inside - np.sign(inside) * inside**2 / 2


class ResampleByAread(EachImage):
    """Resample images to another voxel size and shape around the centre of each image.

    Interpolation is linear; if the new grid is coarser, each new voxel averages over its width, so
    that no voxel of the scan is skipped. An image that has the voxel size already is cropped or
    padded by whole voxels, as by `monai.transforms.ResizeWithPadOrCropd`. On a finer grid the
    result equals `monai.transforms.Spacing`.

    Parameters
    ----------
    keys, allow_missing_keys : see `monai.transforms.MapTransform`
        Keys of images (C, D, H, W); an image without affine has voxels of 1 mm.
    spacing_mm : float or None
        Voxel size of the new grid, the same along each axis; None keeps each image's own.
    shape : sequence of 3 int or None
        Voxels of the new grid along each axis; None covers the image's field of view.
    axcodes : str or None
        Directions of the axes, for instance "RAS": axes are exchanged and flipped, never rotated.
        None keeps their order.
    background : float or "corners"
        Value outside the image's field of view; "corners" is the median of the image's eight
        corner voxels.

    Notes
    -----
    MONAI's `Spacingd` skips voxels on a coarser grid, and `ResizeWithPadOrCropd` pads all images by
    one number.

    Examples
    --------
    >>> import torch
    >>> from monai.data import MetaTensor
    >>> from neurocontrast.transforms import ResampleByAread
    >>> affine = torch.diag(torch.tensor([2.0, 2.0, 2.0, 1.0]))
    >>> image = MetaTensor(torch.rand(1, 20, 24, 16), affine=affine)
    >>> resample = ResampleByAread("image", spacing_mm=4.0, shape=(10, 12, 10))
    >>> resampled = resample({"image": image})["image"]
    >>> resampled.shape, resampled.pixdim.tolist()
    (torch.Size([1, 10, 12, 10]), [4.0, 4.0, 4.0])
    """

    def __init__(
        self,
        keys: KeysCollection,
        *,
        spacing_mm: float | None = None,
        shape: Sequence[int] | None = None,
        axcodes: str | None = None,
        background: float | str = 0.0,
        allow_missing_keys: bool = False,
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        low, high = SPACING_LIMITS_MM
        if spacing_mm is not None and not low <= spacing_mm <= high:
            raise ConfigError(
                f"ResampleByAread: spacing_mm must be between {low:g} and {high:g}, got "
                f"{spacing_mm!r}."
            )
        if shape is not None and (len(shape) != 3 or any(n != int(n) or n < 1 for n in shape)):
            raise ConfigError(
                f"ResampleByAread: shape must be three whole numbers from 1 on, got {shape!r}."
            )
        if axcodes is not None and not _names_axes(axcodes):
            rule = "axcodes must name three axes by R or L, A or P, and S or I, as 'RAS' does"
            raise ConfigError(f"ResampleByAread: {rule}; got {axcodes!r}.")
        if isinstance(background, str) and background != "corners":
            raise ConfigError(
                f"ResampleByAread: background must be a number or 'corners', got '{background}'."
            )
        self.background = background
        self.spacing_mm = spacing_mm
        self.shape: tuple[int, int, int] | None = None
        if shape is not None:
            self.shape = (int(shape[0]), int(shape[1]), int(shape[2]))
        self.axcodes = axcodes
        if axcodes is not None:
            self.axcodes = axcodes.upper()

    def made_of(self, image: Any) -> Any:
        """Return `image` resampled to the transform's voxel size, shape and directions of axes."""
        voxels = voxels_of(image)
        affine = affine_of(image)
        channels = list(np.asarray(voxels, dtype=np.float32))
        if self.axcodes is not None:
            wanted = nib.orientations.axcodes2ornt(self.axcodes)
            turn = nib.orientations.ornt_transform(nib.io_orientation(affine), wanted)
            affine = affine @ nib.orientations.inv_ornt_aff(turn, voxels.shape[1:])
            channels = [nib.orientations.apply_orientation(channel, turn) for channel in channels]
        stored_mm = spacing_of(affine)
        source = channels[0].shape
        spacing = stored_mm
        if self.spacing_mm is not None:
            spacing = (self.spacing_mm,) * 3
        shape: Sequence[int] = self.shape or _covering_shape(source, stored_mm, spacing)
        resampled = []
        for channel in channels:
            around = self._background_of(channel)
            if is_same_spacing(stored_mm, spacing):
                to_box = ResizeWithPadOrCrop(shape, mode="constant", value=around)
                resampled.append(to_box(channel[np.newaxis]).numpy()[0])
            else:
                resampled.append(resample(channel, stored_mm, shape, spacing, background=around))
        new_affine = grid_affine(affine, source, shape, spacing)
        return image_like(image, np.ascontiguousarray(np.stack(resampled)), new_affine)

    def _background_of(self, channel: Volume) -> float:
        """Return the value for new voxels that lie outside the field of view of `channel`."""
        if self.background == "corners":
            return corner_median(channel)
        return float(self.background)


def _names_axes(axcodes: str) -> bool:
    """Tell whether `axcodes`, such as RAS, has three letters for the three anatomical axes."""
    axes = sorted(_WAYS.find(way) // 2 for way in axcodes.upper())
    return axes == [0, 1, 2]


def _covering_shape(
    source: Sequence[int], source_mm: Sequence[float], spacing_mm: Sequence[float]
) -> tuple[int, ...]:
    """Return the shape of a grid of voxel size `spacing_mm` that covers a scan's field of view.

    The scan has the shape `source` and the voxel size `source_mm`.
    """
    shape = []
    for n, old, new in zip(source, source_mm, spacing_mm, strict=True):
        shape.append(max(1, round(n * old / new)))
    return tuple(shape)
