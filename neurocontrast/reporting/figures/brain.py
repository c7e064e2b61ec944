"""Where in the brain: the map of `neurocontrast explain` on the MNI152 template."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import nibabel
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from neurocontrast.reporting.folder import Explanation
from neurocontrast.reporting.style import Picture, styled

__all__ = ["draw_brain", "read_map", "share_outside"]

_WIDE = 10.4


def read_map(explanation: Explanation) -> nibabel.Nifti1Image:
    """Return the map, three-dimensional and finite.

    Raises
    ------
    ValueError, OSError, nibabel.filebasedimages.ImageFileError
        If it cannot be shown.
    """
    image = nibabel.funcs.squeeze_image(nibabel.load(explanation.map_path))
    if len(image.shape) != 3:
        raise ValueError(f"{len(image.shape)} dimensions")
    data = np.nan_to_num(np.asanyarray(image.dataobj, dtype=np.float32), posinf=0.0, neginf=0.0)
    if not np.any(data):
        raise ValueError("the map is zero everywhere")
    return nibabel.Nifti1Image(data, image.affine)


@styled
def draw_brain(explanation: Explanation, image: nibabel.Nifti1Image) -> list[Picture]:
    """Draw the map as three crossing slices at its peak, and as a row of axial slices."""
    # Imported here: it takes seconds, and only a report with a map needs it.
    from nilearn import datasets, plotting

    data = np.asarray(image.dataobj)
    sizes = np.abs(data)
    # A few extreme voxels must not make all others pale.
    limit = max(float(np.percentile(sizes[sizes > 0], 99.9)), 0.5 * float(sizes.max()))
    peak = _peak(explanation, image)
    numbers = {"ortho": peak, "z": [float(z) for z in np.linspace(-44, 60, 7).round()]}
    template = datasets.load_mni152_template(resolution=2)
    pictures = []
    for mode, height, about in (
        ("ortho", 3.6, f"sagittal, coronal and axial slices through x = {peak[0]:.0f}, y = {peak[1]:.0f}, "
                       f"z = {peak[2]:.0f} mm"),
        ("z", 2.3, "axial slices from bottom to top"),
    ):  # fmt: skip
        figure = Figure(figsize=(_WIDE, height))
        FigureCanvasAgg(figure)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shown = plotting.plot_stat_map(
                image, bg_img=template, figure=figure, display_mode=mode, cut_coords=numbers[mode], cmap="PuOr_r",
                vmin=-limit, vmax=limit, threshold=None, transparency=_transparency(image, limit),
                colorbar=True, draw_cross=mode == "ortho", black_bg=False, annotate=True,
            )  # fmt: skip
            _outline(shown.add_contours, image, limit)
        pictures.append(
            Picture(
                f"brain_{'peak' if mode == 'ortho' else 'slices'}",
                figure,
                alt=f"The map on the MNI152 template, {about}. {_regions(explanation)}",
                caption=_caption(explanation, about),
            )
        )
    return pictures


def share_outside(image: nibabel.Nifti1Image) -> float:
    """Return the share of the map's absolute values that lies outside the brain of the template.

    It tells how much the model looks where there is no brain: at the skull, the edge of the image, or noise.
    """
    from nilearn import datasets
    from nilearn import image as images

    mask = datasets.load_mni152_brain_mask(resolution=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inside = images.resample_to_img(mask, image, interpolation="nearest", force_resample=True, copy_header=True)
    sizes = np.abs(np.asarray(image.dataobj, dtype=float))
    return float(1.0 - sizes[np.asarray(inside.dataobj) > 0].sum() / sizes.sum())


def _transparency(image: nibabel.Nifti1Image, limit: float) -> nibabel.Nifti1Image:
    """Let small values fade into the template instead of vanishing at a threshold."""
    share = np.clip(np.abs(np.asarray(image.dataobj)) / (0.5 * limit), 0.0, 1.0)
    return nibabel.Nifti1Image(share.astype(np.float32), image.affine)


def _outline(add_contours: Callable[..., Any], image: nibabel.Nifti1Image, limit: float) -> None:
    """Outline half the largest values: solid where they speak for, dashed where against, to be told without colour."""
    data = np.asarray(image.dataobj)
    for sign, line in ((1.0, "solid"), (-1.0, "dashed")):
        if (sign * data > limit / 2).any():
            signed = nibabel.Nifti1Image((sign * data).astype(np.float32), image.affine)
            add_contours(signed, levels=[limit / 2], colors="k", linewidths=0.9, linestyles=line)


def _peak(explanation: Explanation, image: nibabel.Nifti1Image) -> tuple[float, float, float]:
    regions = explanation.about.get("top_regions") or []
    first = regions[0] if isinstance(regions, list) and regions and isinstance(regions[0], dict) else {}
    if all(isinstance(first.get(axis), int | float) for axis in "xyz"):
        return float(first["x"]), float(first["y"]), float(first["z"])
    place = np.unravel_index(int(np.abs(np.asarray(image.dataobj)).argmax()), image.shape)
    x, y, z = nibabel.affines.apply_affine(image.affine, place)
    return float(x), float(y), float(z)


def _regions(explanation: Explanation) -> str:
    regions = [each for each in explanation.about.get("top_regions") or [] if isinstance(each, dict)]
    shown = [
        f"({region.get('x')}, {region.get('y')}, {region.get('z')}): {region['value']:.3g}"
        for region in regions[:5]
        if isinstance(region.get("value"), int | float)
    ]
    return f"Largest values at MNI coordinates in mm {'; '.join(shown)}." if shown else ""


def _caption(explanation: Explanation, about: str) -> str:
    positive = explanation.about.get("positive")
    towards = f"“{positive}”" if positive else "a higher predicted value"
    if str(explanation.about.get("quantity") or "").startswith("share"):
        return (
            f"{about[:1].upper()}{about[1:]}. Orange (solid outline at half the maximum): scans with a higher score "
            f"towards {towards} owe it to what is there, by this share of the difference; purple (dashed outline): "
            "what is there works against it. L and R are the person's left and right."
        )
    return (
        f"{about[:1].upper()}{about[1:]}. Orange (solid outline at half the maximum): what is there speaks for "
        f"{towards}; purple (dashed outline): against it. L and R are the person's left and right."
    )
