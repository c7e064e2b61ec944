"""Onto another grid with the same centre and axes: by whole voxels, or by averaging over each new voxel's width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nibabel as nib
import numpy as np
import numpy.typing as npt
import scipy.sparse
from monai.config import KeysCollection
from monai.transforms import ResizeWithPadOrCrop

from neurocontrast.exceptions import ConfigError
from neurocontrast.transforms.grids import grid_affine, is_same_spacing
from neurocontrast.transforms.images import EachImage, affine_of, image_like, spacing_of, voxels_of
from neurocontrast.transforms.limits import SAME_SPACING, SPACING_LIMITS_MM

_WAYS = "RLAPSI"

Volume = npt.NDArray[np.float32]


def resample(
    voxels: Volume,
    spacing_mm: Sequence[float],
    shape: Sequence[int],
    target_spacing_mm: Sequence[float],
    *,
    background: float = 0.0,
) -> Volume:
    """Interpolate linearly onto a grid with the same centre and directions; `background` outside the field of view.

    Where the target is coarser each of its voxels averages over its own width. The grids share their axes, so the
    interpolation is one sparse matrix for each axis.
    """
    weights = [
        _axis_weights(n, n_target, ratio=target / own)
        for n, n_target, own, target in zip(voxels.shape, shape, spacing_mm, target_spacing_mm, strict=True)
    ]
    for of_axis in reversed(weights):  # the last axis is the slowest in a file
        along = np.ascontiguousarray(np.moveaxis(voxels, -1, 0))
        voxels = (of_axis @ along.reshape(len(along), -1)).reshape(-1, *along.shape[1:])
    for axis, of_axis in enumerate(weights):
        voxels[(slice(None),) * axis + (np.diff(of_axis.indptr) == 0,)] = background
    return np.ascontiguousarray(voxels)


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


class ResampleByAread(EachImage):
    """Bring images to a voxel size and a shape about their own centre.

    Interpolation is linear; where the new grid is coarser, each new voxel averages over its own width, so that no
    voxel of the scan is skipped. An image that has the voxel size already is cropped or padded by whole voxels, as by
    `monai.transforms.ResizeWithPadOrCropd`. On a finer grid the result is that of `monai.transforms.Spacing`.

    Parameters
    ----------
    keys, allow_missing_keys : see `monai.transforms.MapTransform`
        Items that are images (C, D, H, W); one without an affine has voxels of 1 mm.
    spacing_mm : float or None
        Voxel size of the new grid, the same along each axis; None keeps each image's own.
    shape : sequence of 3 int or None
        Voxels of the new grid along each axis; None covers the image's field of view.
    axcodes : str or None
        Where the axes go, for instance "RAS": they are exchanged and flipped, never rotated. None keeps their order.
    background : float or "corners"
        What lies outside the image's field of view; "corners" is the median of the image's eight corner voxels.

    Notes
    -----
    MONAI's `Spacingd` skips voxels on a coarser grid, and `ResizeWithPadOrCropd` pads all images by one number.

    Examples
    --------
    >>> import torch
    >>> from monai.data import MetaTensor
    >>> from neurocontrast.transforms import ResampleByAread
    >>> image = MetaTensor(torch.rand(1, 20, 24, 16), affine=torch.diag(torch.tensor([2.0, 2.0, 2.0, 1.0])))
    >>> made = ResampleByAread("image", spacing_mm=4.0, shape=(10, 12, 10))({"image": image})["image"]
    >>> made.shape, made.pixdim.tolist()
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
            raise ConfigError(f"ResampleByAread: spacing_mm must be between {low:g} and {high:g}, got {spacing_mm!r}.")
        if shape is not None and (len(shape) != 3 or any(n != int(n) or n < 1 for n in shape)):
            raise ConfigError(f"ResampleByAread: shape must be three whole numbers from 1 on, got {shape!r}.")
        if axcodes is not None and sorted(_WAYS.find(way) // 2 for way in axcodes.upper()) != [0, 1, 2]:
            rule = "axcodes must name three axes by R or L, A or P, and S or I, as 'RAS' does"
            raise ConfigError(f"ResampleByAread: {rule}; got {axcodes!r}.")
        if isinstance(background, str) and background != "corners":
            raise ConfigError(f"ResampleByAread: background must be a number or 'corners', got '{background}'.")
        self.background = background
        self.spacing_mm = spacing_mm
        self.shape = None if shape is None else (int(shape[0]), int(shape[1]), int(shape[2]))
        self.axcodes = None if axcodes is None else axcodes.upper()

    def made_of(self, image: Any) -> Any:
        """Return the image on the new grid."""
        voxels, affine = voxels_of(image), affine_of(image)
        channels = list(np.asarray(voxels, dtype=np.float32))
        if self.axcodes is not None:
            wanted = nib.orientations.axcodes2ornt(self.axcodes)
            turn = nib.orientations.ornt_transform(nib.io_orientation(affine), wanted)
            affine = affine @ nib.orientations.inv_ornt_aff(turn, voxels.shape[1:])
            channels = [nib.orientations.apply_orientation(channel, turn) for channel in channels]
        own, source = spacing_of(affine), channels[0].shape
        spacing = own if self.spacing_mm is None else (self.spacing_mm,) * 3
        shape = self.shape or tuple(
            max(1, round(n * old / new)) for n, old, new in zip(source, own, spacing, strict=True)
        )
        made = []
        for channel in channels:
            around = _corners(channel) if self.background == "corners" else np.float32(self.background)
            if is_same_spacing(own, spacing):
                boxed = ResizeWithPadOrCrop(shape, mode="constant", value=float(around))(channel[np.newaxis])
                made.append(boxed.numpy()[0])
            else:
                made.append(resample(channel, own, shape, spacing, background=float(around)))
        return image_like(image, np.stack(made), grid_affine(affine, source, shape, spacing))


def _corners(voxels: Volume) -> np.float32:
    return np.float32(np.median(voxels[tuple(slice(None, None, max(1, n - 1)) for n in voxels.shape)]))
