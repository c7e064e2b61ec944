"""Where the voxels of a preprocessed scan are in the space of its header."""

from __future__ import annotations

import os
from dataclasses import dataclass

import nibabel as nib
import numpy as np
import numpy.typing as npt

from neurocontrast.data.resampling import SAME_SPACING
from neurocontrast.data.scans import ScanHeader, read_scan_header
from neurocontrast.data.volumes import Preprocessing
from neurocontrast.exceptions import DataError

__all__ = ["Grid", "preprocessed_grid"]

_MNI = 4
"""NIfTI's code of a header's affine for the space of MNI152."""


@dataclass(frozen=True, eq=False)
class Grid:
    """A grid of voxels in millimetres.

    Parameters
    ----------
    affine : ndarray (4, 4)
        From voxel indices to millimetres; axes go to the right, to the front, upwards.
    spacing_mm : tuple of float
        Along each axis.
    is_mni : bool
        Whether the header says that these are millimetres of MNI152.
    """

    affine: npt.NDArray[np.float64]
    spacing_mm: tuple[float, float, float]
    is_mni: bool


def preprocessed_grid(path: str | os.PathLike[str], preprocessing: Preprocessing) -> Grid:
    """Return the grid that `load_volume` puts a scan on; only the header is read.

    A ``.npy`` array has no header: its centre is taken for the origin.

    Raises
    ------
    DataError
        Where the header cannot be used.
    """
    name = os.fspath(path)
    header = read_scan_header(name)
    own = header.spacing_mm or (preprocessing.spacing_mm or 1.0,) * 3
    source, is_mni = _affine_of(name, header) if header.spacing_mm else (_centred(header.shape, own), False)
    spacing = own if preprocessing.spacing_mm is None else (preprocessing.spacing_mm,) * 3
    # In voxels of the scan: the first voxel of the new grid, and the step from one to the next.
    if header.spacing_mm is None or np.allclose(own, spacing, rtol=SAME_SPACING, atol=0):
        first: list[float] = [
            n // 2 - m // 2 if n > m else -((m - n) // 2)
            for n, m in zip(header.shape, preprocessing.shape, strict=True)
        ]
        steps = [1.0, 1.0, 1.0]
        spacing = own
    else:
        steps = [new / old for new, old in zip(spacing, own, strict=True)]
        first = [
            (n - 1) / 2 - step * (m - 1) / 2
            for n, m, step in zip(header.shape, preprocessing.shape, steps, strict=True)
        ]
    placed = np.diag([*steps, 1.0])
    placed[:3, 3] = first
    return Grid(source @ placed, (float(spacing[0]), float(spacing[1]), float(spacing[2])), is_mni)


def _centred(shape: tuple[int, ...], spacing_mm: tuple[float, ...]) -> npt.NDArray[np.float64]:
    affine = np.diag([*spacing_mm, 1.0])
    affine[:3, 3] = [-(n - 1) / 2 * step for n, step in zip(shape, spacing_mm, strict=True)]
    return affine


def _affine_of(name: str, header: ScanHeader) -> tuple[npt.NDArray[np.float64], bool]:
    """Return the affine of a scan whose axes were brought to RAS as `read_scan` does, and whether it is of MNI152."""
    try:
        image = nib.load(name)
    except (OSError, nib.filebasedimages.ImageFileError) as error:
        raise DataError(f"{name}: its header cannot be read ({error}).") from error
    affine = image.affine
    orientation = nib.io_orientation(affine)
    as_stored = [header.shape[int(axis)] for axis in orientation[:, 0]]
    turned = affine @ nib.orientations.inv_ornt_aff(orientation, as_stored)
    code = int(image.header["sform_code"]) or int(image.header["qform_code"])
    return turned, code == _MNI
