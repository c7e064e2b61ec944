"""Where the voxels of a preprocessed scan are in the space of its header, and whether the scan fills them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import nibabel as nib
import numpy as np
import numpy.typing as npt
from monai.config import KeysCollection

from neurocontrast.exceptions import DataError
from neurocontrast.files import files_of
from neurocontrast.transforms.images import EachImage, affine_of, centred, name_of, spacing_of, times, voxels_of
from neurocontrast.transforms.limits import SAME_SPACING
from neurocontrast.transforms.loading import read_scan_header

if TYPE_CHECKING:
    from neurocontrast.transforms.preprocessing import Preprocessing

_FOREGROUND_LOST_MAX = {"brain": 0.10, "head": 0.20}
_EXTENT_FILLED_MIN = 0.5


@dataclass(frozen=True, eq=False)
class Grid:
    """A grid of voxels in millimetres, of MNI152 where `is_mni`; axes go to the right, to the front, upwards."""

    affine: npt.NDArray[np.float64]
    spacing_mm: tuple[float, float, float]
    is_mni: bool


def preprocessed_grid(scan: str | os.PathLike[str] | Sequence[str], preprocessing: Preprocessing) -> Grid:
    """Return the grid that `Preprocessing.compose` puts a scan on; only the header of the first channel is read.

    A ``.npy`` array has no header: its centre is taken for the origin.
    """
    header = read_scan_header(files_of(scan)[0])
    own = header.spacing_mm or (preprocessing.spacing_mm or 1.0,) * 3
    source = centred(header.shape, own) if header.affine is None else header.affine
    spacing = own if preprocessing.spacing_mm is None else (preprocessing.spacing_mm,) * 3
    affine = grid_affine(source, header.shape, preprocessing.shape, spacing)
    return Grid(affine, spacing_of(affine), header.is_mni)


def grid_affine(
    affine: npt.NDArray[np.float64], source: Sequence[int], shape: Sequence[int], spacing_mm: Sequence[float]
) -> npt.NDArray[np.float64]:
    """Return the affine of a grid of a shape and spacing, with the centre and axes of another of shape `source`.

    Where the voxel sizes are the same, the new grid is made of whole voxels of the other.
    """
    own = spacing_of(affine)
    # In voxels of the other grid: the first voxel of the new one, and the step from one to the next.
    if is_same_spacing(own, spacing_mm):
        steps = [1.0, 1.0, 1.0]
        first = [float(n // 2 - m // 2 if n > m else -((m - n) // 2)) for n, m in zip(source, shape, strict=True)]
    else:
        steps = [new / old for new, old in zip(spacing_mm, own, strict=True)]
        first = [(n - 1) / 2 - step * (m - 1) / 2 for n, m, step in zip(source, shape, steps, strict=True)]
    placed = np.diag([*steps, 1.0])
    placed[:3, 3] = first
    return affine @ placed


def is_same_spacing(spacing_mm: Sequence[float], other_mm: Sequence[float]) -> bool:
    """Tell whether voxel sizes differ by less than `SAME_SPACING` along each axis."""
    return bool(np.allclose(spacing_mm, other_mm, rtol=SAME_SPACING, atol=0))


class CheckFieldOfViewd(EachImage):
    """Refuse an image whose field of view differs too much from the box it is to fill.

    A DataError names an image of which less than half of the box would be filled along an axis, or of which cropping
    would take away more than 10 % of the voxels above the mean of a brain, or 20 % of those of a head, which may lose
    its neck. More than half of the voxels of a skull-stripped brain are 0; any other image counts as a head.

    Parameters
    ----------
    keys, allow_missing_keys : see `monai.transforms.MapTransform`
        Items that are images (C, D, H, W).
    shape : sequence of 3 int
        Voxels of the box along the axes to the right, to the front and upwards.
    spacing_mm : float or None
        Voxel size of the box; None for the image's own.

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
        """Return the image as it is."""
        affine = affine_of(image)
        # Box and axes are compared along the axes of the patient.
        axes = np.argsort(nib.io_orientation(affine)[:, 0])
        own = np.array(spacing_of(affine))[axes]
        box = np.array(self.shape) * (own if self.spacing_mm is None else self.spacing_mm)
        for channel in voxels_of(image):
            self._check_channel(channel.transpose(axes), own, box, name_of(image))
        return image

    def _check_channel(
        self, voxels: npt.NDArray[Any], own_mm: npt.NDArray[Any], box_mm: npt.NDArray[Any], name: str
    ) -> None:
        extent = np.array(voxels.shape) * own_mm
        what = (
            f"{name}: the scan covers {times(extent.round())} mm and the box of {times(self.shape)} voxels "
            f"{times(box_mm.round())} mm; "
        )
        advice = "Change data.shape or data.spacing_mm, or leave the scan out."
        if (extent < _EXTENT_FILLED_MIN * box_mm).any():
            raise DataError(
                f"{what}along an axis less than {_EXTENT_FILLED_MIN:.0%} of the box would be filled. {advice}"
            )
        if (extent <= box_mm).all():
            return
        inside = []
        for n, own, box in zip(voxels.shape, own_mm, box_mm, strict=True):
            kept = np.flatnonzero(np.abs(np.arange(n) - (n - 1) / 2) * own <= box / 2)
            inside.append(slice(kept[0], kept[-1] + 1))
        foreground = voxels > voxels.mean(dtype=np.float64)
        if not foreground.any():  # nothing varies
            return
        lost = 1 - np.count_nonzero(foreground[tuple(inside)]) / np.count_nonzero(foreground)
        kind = "brain" if np.count_nonzero(voxels) < 0.5 * voxels.size else "head"
        if lost > _FOREGROUND_LOST_MAX[kind]:
            raise DataError(
                f"{what}{lost:.0%} of the voxels above its mean would be cropped away, at most "
                f"{_FOREGROUND_LOST_MAX[kind]:.0%} of a {kind} may. {advice}"
            )
