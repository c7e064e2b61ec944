"""Where the voxels of a preprocessed scan are in the space of its header."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neurocontrast.files import files_of
from neurocontrast.transforms.images import centred, spacing_of
from neurocontrast.transforms.loading import read_scan_header
from neurocontrast.transforms.preprocessing import SAME_SPACING, Preprocessing

__all__ = ["Grid", "grid_affine", "is_same_spacing", "preprocessed_grid"]


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
