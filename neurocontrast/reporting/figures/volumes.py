"""Brains as slices: the map of ``neurocontrast explain``, and scans as they lie on disk."""

from __future__ import annotations

import warnings
from pathlib import Path

import nibabel
import numpy as np

from neurocontrast.reporting.folder import Explanation
from neurocontrast.reporting.style import WIDTH, Picture, blank_figure, styled

__all__ = ["draw_brain", "draw_scan", "read_map", "share_outside"]

# nilearn is imported inside functions: it takes seconds, and only a report with volumes needs it.


def read_map(explanation: Explanation) -> nibabel.Nifti1Image:
    """Return the map, three-dimensional and finite; ValueError, OSError or ImageFileError if it cannot be shown."""
    image = nibabel.funcs.squeeze_image(nibabel.load(explanation.map_path))
    if len(image.shape) != 3:
        raise ValueError(f"{len(image.shape)} dimensions")
    data = np.nan_to_num(np.asanyarray(image.dataobj, dtype=np.float32), posinf=0.0, neginf=0.0)
    if not np.any(data):
        raise ValueError("the map is zero everywhere")
    return nibabel.Nifti1Image(data, image.affine)


@styled
def draw_brain(explanation: Explanation, image: nibabel.Nifti1Image) -> list[Picture]:
    """Draw the map on the MNI152 template: three crossing slices at its peak, and a row of axial slices."""
    from nilearn import datasets, plotting

    data = image.get_fdata(dtype=np.float32)
    sizes = np.abs(data)
    # A few extreme voxels must not make all others pale; small values fade into the template.
    limit = max(float(np.percentile(sizes[sizes > 0], 99.9)), 0.5 * float(sizes.max()))
    fading = nibabel.Nifti1Image(np.clip(sizes / (0.5 * limit), 0.0, 1.0), image.affine)
    x, y, z = peak = _peak(explanation, image)
    crossing = f"Sagittal, coronal and axial slices through x = {x:.0f}, y = {y:.0f}, z = {z:.0f} mm"
    template = datasets.load_mni152_template(resolution=2)
    pictures = []
    for name, mode, cuts, height, about in (
        ("peak", "ortho", peak, 3.6, crossing),
        ("slices", "z", np.linspace(-44, 60, 7).round().tolist(), 2.3, "Axial slices from bottom to top"),
    ):  # fmt: skip
        figure = blank_figure(height=height, width=2 * WIDTH, layout="none")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shown = plotting.plot_stat_map(
                image, bg_img=template, figure=figure, display_mode=mode, cut_coords=cuts, cmap="PuOr_r", vmin=-limit,
                vmax=limit, threshold=None, transparency=fading, draw_cross=mode == "ortho", black_bg=False,
            )  # fmt: skip
            # Half the largest values: solid where they speak for, dashed where against, to be told without colour.
            for sign, line in ((1.0, "solid"), (-1.0, "dashed")):
                if (sign * data > limit / 2).any():
                    signed = nibabel.Nifti1Image(sign * data, image.affine)
                    shown.add_contours(signed, levels=[limit / 2], colors="k", linewidths=0.9, linestyles=line)
        alt = f"The map on the MNI152 template. {about}. {_list_regions(explanation)}"
        pictures.append(Picture(f"brain_{name}", figure, alt=alt, caption=f"{about}. {_about_colours(explanation)}"))
    return pictures


def share_outside(image: nibabel.Nifti1Image) -> float:
    """Return the share of the map's absolute values that lies outside the brain of the template."""
    from nilearn import datasets
    from nilearn import image as images

    mask = datasets.load_mni152_brain_mask(resolution=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inside = images.resample_to_img(mask, image, interpolation="nearest", force_resample=True, copy_header=True)
    sizes = np.abs(np.asarray(image.dataobj, dtype=float))
    return float(1.0 - sizes[np.asarray(inside.dataobj) > 0].sum() / sizes.sum())


def _regions(explanation: Explanation) -> list[dict]:
    regions = explanation.about.get("top_regions") or []
    return [
        each
        for each in regions
        if isinstance(each, dict) and all(isinstance(each.get(key), int | float) for key in "xyz")
    ]


def _peak(explanation: Explanation, image: nibabel.Nifti1Image) -> tuple[float, float, float]:
    for first in _regions(explanation)[:1]:
        return float(first["x"]), float(first["y"]), float(first["z"])
    place = np.unravel_index(int(np.abs(np.asarray(image.dataobj)).argmax()), image.shape)
    x, y, z = nibabel.affines.apply_affine(image.affine, place)
    return float(x), float(y), float(z)


def _list_regions(explanation: Explanation) -> str:
    shown = [
        f"({region['x']}, {region['y']}, {region['z']}): {region['value']:.3g}"
        for region in _regions(explanation)[:5]
        if isinstance(region.get("value"), int | float)
    ]
    return f"Largest values at MNI coordinates in mm {'; '.join(shown)}." if shown else ""


def _about_colours(explanation: Explanation) -> str:
    positive = explanation.about.get("positive")
    towards = f"“{positive}”" if positive else "a higher predicted value"
    speaks, against = f"what is there speaks for {towards}", "against it"
    if str(explanation.about.get("quantity") or "").startswith("share"):
        speaks = f"scans with a higher score towards {towards} owe it to what is there, by this share of the difference"
        against = "what is there works against it"
    return (
        f"Orange (solid outline at half the maximum): {speaks}; purple (dashed outline): {against}. L and R are the "
        "person's left and right."
    )


@styled
def draw_scan(path: Path, *, name: str, label: str) -> Picture:
    """Draw the three middle slices of a scan; OSError, ValueError or ImageFileError where it cannot be shown."""
    image = _load(path)
    data = np.asanyarray(image.dataobj, dtype=np.float32)
    finite = data[np.isfinite(data)]
    if finite.size == 0 or finite.min() == finite.max():
        raise ValueError("no contrast")
    low, high = float(finite.min()), float(np.percentile(finite, 99.7))
    centre = nibabel.affines.apply_affine(image.affine, (np.array(image.shape) - 1) / 2)
    figure = blank_figure(height=1.95, layout="none")
    from nilearn import plotting

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plotting.plot_anat(
            image, figure=figure, cut_coords=tuple(centre.tolist()), display_mode="ortho", draw_cross=False,
            black_bg=True, vmin=low, vmax=high if high > low else float(finite.max()), colorbar=False,
        )  # fmt: skip
    shape = " × ".join(str(size) for size in image.shape)
    zooms = ", ".join(f"{zoom:.3g}" for zoom in image.header.get_zooms()[:3])
    alt = f"Sagittal, coronal and axial middle slices of {label}."
    return Picture(name, figure, alt=alt, caption=f"{label}. {shape} voxels of {zooms} mm.")


def _load(path: Path) -> nibabel.Nifti1Image:
    """Return a three-dimensional image whose axes run right, anterior, superior."""
    if path.suffix == ".npy":
        volume = np.squeeze(np.load(path, mmap_mode="r", allow_pickle=False))
        image = nibabel.Nifti1Image(np.asarray(volume, dtype=np.float32), np.eye(4))
    else:
        image = nibabel.funcs.squeeze_image(nibabel.load(path))
    if len(image.shape) != 3:
        raise ValueError(f"{len(image.shape)} dimensions")
    return nibabel.as_closest_canonical(image)
