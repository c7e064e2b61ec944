"""Mid-slices of a few scans, as they lie on disk."""

from __future__ import annotations

import warnings
from pathlib import Path

import nibabel
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from neurocontrast.reporting.style import WIDTH, Picture, styled

__all__ = ["draw_scan"]


@styled
def draw_scan(path: Path, *, name: str, label: str) -> Picture:
    """Draw the three middle slices of a scan.

    Raises
    ------
    OSError, ValueError, nibabel.filebasedimages.ImageFileError
        If the file is absent or cannot be shown.
    """
    image = _load(path)
    data = np.asanyarray(image.dataobj, dtype=np.float32)
    centre = nibabel.affines.apply_affine(image.affine, (np.array(image.shape) - 1) / 2)
    figure = Figure(figsize=(WIDTH, 1.95))
    FigureCanvasAgg(figure)
    low, high = _window(data)
    # Imported here: it takes seconds, and only a report with scans at hand needs it.
    from nilearn import plotting

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plotting.plot_anat(
            image, figure=figure, cut_coords=tuple(float(value) for value in centre), display_mode="ortho",
            draw_cross=False, black_bg=True, vmin=low, vmax=high, colorbar=False,
        )  # fmt: skip
    shape = " × ".join(str(size) for size in image.shape)
    zooms = ", ".join(f"{zoom:.3g}" for zoom in image.header.get_zooms()[:3])
    return Picture(
        name,
        figure,
        alt=f"Sagittal, coronal and axial middle slices of {label}.",
        caption=f"{label}. {shape} voxels of {zooms} mm.",
    )


def _load(path: Path) -> nibabel.Nifti1Image:
    """Return a three-dimensional image whose axes run right, anterior, superior."""
    if path.suffix == ".npy":
        volume = np.squeeze(np.load(path, mmap_mode="r", allow_pickle=False))
        if volume.ndim != 3:
            raise ValueError(f"{volume.ndim} dimensions")
        return nibabel.Nifti1Image(np.asarray(volume, dtype=np.float32), np.eye(4))
    image = nibabel.funcs.squeeze_image(nibabel.load(path))
    if len(image.shape) != 3:
        raise ValueError(f"{len(image.shape)} dimensions")
    return nibabel.as_closest_canonical(image)


def _window(data: np.ndarray) -> tuple[float, float]:
    finite = data[np.isfinite(data)]
    if finite.size == 0 or finite.min() == finite.max():
        raise ValueError("no contrast")
    low, high = float(finite.min()), float(np.percentile(finite, 99.7))
    return (low, high) if high > low else (low, float(finite.max()))
