"""Measure a scan in MNI space: likeness to the template, position, and image quality."""

import io
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from PIL import Image
from scipy import fft
from scipy.ndimage import affine_transform, uniform_filter

from neurocontrast.transforms.loading import read_scan
from neurocontrast.transforms.preprocessing import mni_grid

Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

GRID, SHAPE = mni_grid(2.0)
"""Affine and shape of the 2 mm grid for all measures but the entropy focus criterion."""
STEP = 2
"""Step in 2 mm voxels from the grid `GRID` to the 4 mm grid on which scans are correlated."""
REACH = 6
"""Number of steps of 4 mm, to each side, within which the best position is searched."""
SLICES_MM = (-4.0, -18.0, 8.0)
"""Positions in mm of the sagittal, coronal and axial slice in the thumbnail."""
FAINT = 0.02
"""Share of the brightest intensity up to which voxels count as ripples of interpolation, not
brain.
"""
FLIPS = {"front-back": (1,), "up-down": (2,), "front-back and up-down": (1, 2)}
"""Name of a flip → axes. The template is symmetric, so that left and right cannot be told apart."""
LEAST_ASYMMETRY = 0.1
"""Median correlation of asymmetries below which left and right cannot be compared among scans."""
_N_BINS = 256
_FFT_SHAPE = (64, 72, 64)


@dataclass(frozen=True, eq=False)
class Measured:
    """Measures of image quality of one scan, intensities to compare scans, and a thumbnail."""

    measures: dict[str, Any]
    """Name of a measure → value, and ``flip``: the name of a flip that fits better, or ""."""
    vector: npt.NDArray[np.float16]
    """Intensities (n_voxels,) in the template's brain at 4 mm, of mean 0 and length 1, to
    compare scans.
    """
    thumbnail: bytes
    """JPEG file of a sagittal, a coronal and an axial slice side by side."""


@dataclass(frozen=True, eq=False)
class _Template:
    """MNI152 template to measure scans with: brain masks, and intensities with Fourier spectra.

    `brain` is the mask of the template's brain on the 2 mm grid, and `coarse` on the 4 mm grid.
    """

    brain: Mask
    coarse: Mask
    pattern: Floats
    """Intensities of the template in the 4 mm brain mask, of mean 0 and length 1."""
    spectra: tuple[Any, Any]
    """Fourier spectra of the intensities and of the brain mask at 4 mm."""


def measure_scan(
    path: str, mask_path: str = "", grey_path: str = "", white_path: str = ""
) -> Measured:
    """Measure image quality and position of one skull-stripped scan in MNI space, as `Measured`.

    The arguments are files: the scan, its brain mask, and its maps of grey and of white matter; a
    missing mask or map is "". A ``.npy`` array is taken to span the box of MNI152. Without a mask,
    voxels that are clearly brighter than the corners of the image are the brain. Without maps of
    grey and white matter, the brain's intensities are divided into three classes, of which the
    brightest counts as white matter and the middle one as grey matter.
    """
    template = _template()
    brain, inside, focus = _brain_of(path, mask_path)
    coarse = _coarse(brain)
    vector = _unit(coarse[template.coarse])
    fit, moved_mm = place_by_template(coarse)
    flipped = {name: place_by_template(np.flip(coarse, axes))[0] for name, axes in FLIPS.items()}
    best = max(flipped, key=flipped.__getitem__)
    flip = ""
    if flipped[best] > fit:
        flip = best
    overlap = 2 * (inside & template.brain).sum() / max(1, inside.sum() + template.brain.sum())
    measures = {
        "correlation": float(vector @ template.pattern[template.coarse]),
        "dice": float(overlap),
        "brain_ml": float(inside.sum() * 8 / 1000),
        "shift_mm": float(np.linalg.norm(moved_mm)),
        "shift_x_mm": float(moved_mm[0]),
        "shift_y_mm": float(moved_mm[1]),
        "shift_z_mm": float(moved_mm[2]),
        "flip_gain": flipped[best] - fit,
        "cjv": _joint_variation(brain, inside, grey_path, white_path),
        "efc": focus,
    }
    rounded: dict[str, Any] = {}
    for name, value in measures.items():
        rounded[name] = round(value, 4)
        if name == "flip_gain":
            rounded["flip"] = flip
    return Measured(rounded, vector.astype(np.float16), _thumbnail(brain))


def compare_with_others(
    vectors: npt.NDArray[Any], people: npt.NDArray[Any] | None = None
) -> tuple[Doubles, Doubles]:
    """Correlate each scan, and its left-right asymmetry, with the mean of other people's scans.

    Returned are two arrays (n,), the correlations of the scans and of the asymmetries. An asymmetry
    is the left half minus the mirrored right half. In a scan whose left and right are swapped it
    has the opposite sign, and a negative correlation. If the scans share too little asymmetry,
    because images have none or half of the images are swapped, correlations of asymmetries are NaN.

    Parameters
    ----------
    vectors : array (n, n_voxels)
        Vectors of `Measured`, of the scans of one site.
    people : array (n,), optional
        Person of each scan; by default each scan is of another person.
    """
    owners = np.arange(len(vectors))
    if people is not None:
        owners = np.unique(people, return_inverse=True)[1]
    coarse = _template().coarse
    positions = np.full(coarse.shape, -1)
    positions[coarse] = np.arange(coarse.sum())
    mirrored = positions[::-1][coarse]
    left = mirrored > np.arange(len(mirrored))
    whole = np.asarray(vectors, dtype=np.float32)
    asymmetries = (whole - whole[:, mirrored])[:, left]
    alike = _with_mean_of_others(asymmetries, owners)
    if pd.Series(alike).groupby(owners).median().median() < LEAST_ASYMMETRY:
        alike = np.full(len(whole), np.nan)
    return _with_mean_of_others(whole, owners), alike


def place_by_template(coarse: Floats) -> tuple[float, Doubles]:
    """Find the shift, up to 24 mm, at which a scan fits the template best.

    `coarse` is the scan on the 4 mm grid. Returned are the correlation at the shift, and the shift
    along each axis in mm. Voxels inside the template's mask are correlated, for all shifts at once
    by the fast Fourier transform.
    """
    template = _template()
    n = int(template.coarse.sum())
    pattern, mask = template.spectra
    spectrum = fft.rfftn(coarse, _FFT_SHAPE)
    squares = fft.rfftn(coarse * coarse, _FFT_SHAPE)
    product = _over_shifts(spectrum * pattern)
    total = _over_shifts(spectrum * mask)
    energy = _over_shifts(squares * mask)
    correlations = product / np.sqrt(np.maximum(energy - total**2 / n, 1e-6 * energy.max() + 1e-12))
    peak = np.unravel_index(int(correlations.argmax()), correlations.shape)
    steps = []
    for axis in range(3):
        across = np.delete(peak, axis)
        steps.append(_between(np.moveaxis(correlations, axis, 0)[(slice(None), *across)]))
    return float(correlations[peak]), 4.0 * (np.array(steps) - REACH)


def _over_shifts(spectrum: npt.NDArray[Any]) -> Doubles:
    """Return the sums of products of two images at all shifts up to `REACH` steps, to each side.

    `spectrum` is the product of the images' Fourier spectra. The result has one axis for each axis
    of space, and one value for each shift.
    """
    rolled = np.roll(fft.irfftn(spectrum, _FFT_SHAPE), (REACH,) * 3, (0, 1, 2))
    return np.asarray(rolled[(slice(0, 2 * REACH + 1),) * 3])


def template_strip() -> Mask:
    """Return the template's brain mask (2-D) on three slices side by side, as in a thumbnail."""
    return _strip(_template().brain)


def _between(line: Doubles) -> float:
    """Return the position of the largest of the values `line`, between points by a parabola.

    The position is counted in points from 0.
    """
    top = int(line.argmax())
    if top in (0, len(line) - 1):
        return float(top)
    low, middle, high = line[top - 1 : top + 2]
    return top + 0.5 * float((low - high) / (low - 2 * middle + high))


@cache
def _template() -> _Template:
    """Return nilearn's MNI152 template as a `_Template`, made once for all scans.

    The template's brain mask is resampled to grids of 2 mm and 4 mm, and the intensities to 4 mm.
    Fourier spectra of mask and intensities at 4 mm serve to find a scan's position.
    """
    from nilearn.datasets import load_mni152_brain_mask, load_mni152_template

    image = load_mni152_template(resolution=2)
    mask = load_mni152_brain_mask(resolution=2)
    brain = _on_grid((mask.get_fdata() > 0).astype(np.float32), mask.affine) > 0.5
    voxels = np.where(brain, _on_grid(image.get_fdata(dtype=np.float32), image.affine), 0)
    coarse = _coarse(brain.astype(np.float32)) > 0.5
    pattern = np.zeros(coarse.shape, dtype=np.float32)
    pattern[coarse] = _unit(_coarse(voxels)[coarse])
    of_pattern = np.conj(fft.rfftn(pattern, _FFT_SHAPE))
    of_brain = np.conj(fft.rfftn(coarse.astype(np.float32), _FFT_SHAPE))
    return _Template(brain, coarse, pattern, (of_pattern, of_brain))


def _on_grid(voxels: Floats, affine: Doubles) -> Floats:
    """Resample an image, placed by its `affine` in MNI space, linearly to the 2 mm grid `GRID`."""
    matrix = np.linalg.inv(affine) @ GRID
    resampled: Floats = affine_transform(
        voxels, matrix[:3, :3], matrix[:3, 3], SHAPE, np.float32, order=1
    )
    return resampled


def _brain_of(path: str, mask_path: str) -> tuple[Floats, Mask, float]:
    """Read a brain; return the brain, 0 outside a mask, the mask, and the entropy focus criterion.

    Brain and mask are on the 2 mm grid `GRID`; the criterion is of the image in the file `path`.
    Without a `mask_path`, voxels clearly brighter than the corners of the image are the brain.
    """
    voxels, affine = _read(path)
    corners = voxels[np.ix_(*((0, -1),) * 3)]
    voxels = np.maximum(voxels - np.median(corners), 0)
    if mask_path:
        mask, mask_affine = _read(mask_path)
        inside = _on_grid((mask > 0).astype(np.float32), mask_affine) > 0.5
    else:
        faint = FAINT * np.quantile(voxels, 0.999)
        inside = _on_grid((voxels > faint).astype(np.float32), affine) > 0.5
    brain = np.where(inside, _on_grid(voxels, affine), 0).astype(np.float32)
    return brain, inside, _entropy_focus(voxels)


def _read(path: str) -> tuple[Floats, Doubles]:
    """Read voxels and affine of an image file; a ``.npy`` array spans the box of MNI152."""
    scan = read_scan(path)
    voxels = np.ascontiguousarray(scan.voxels)
    if scan.affine is not None:
        return voxels, scan.affine
    spacing = round(182 / voxels.shape[0], 1)
    affine = np.diag([spacing, spacing, spacing, 1.0])
    affine[:3, 3] = (
        GRID[:3, 3] + 90 - spacing * (np.array(voxels.shape) - 1) / 2 + np.array([0.0, 18.0, 0.0])
    )
    return voxels, affine


def _coarse(voxels: Floats) -> Floats:
    """Return an image of the 2 mm grid on the 4 mm grid, as means over 6 mm."""
    smooth: Floats = uniform_filter(voxels, 3)[::STEP, ::STEP, ::STEP]
    return np.ascontiguousarray(smooth)


def _unit(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return `values`, shifted to mean 0 and divided to length 1, along the last axis."""
    centred = values - values.mean(axis=-1, keepdims=True)
    return centred / np.maximum(np.linalg.norm(centred, axis=-1, keepdims=True), 1e-12)


def _with_mean_of_others(values: Floats, owners: npt.NDArray[np.intp]) -> Doubles:
    """Correlate each row of `values` (n, n_values) with the mean over other people; return (n,).

    `owners` is the person of each row. Rows are scaled to mean 0 and length 1, and averaged for
    each person; the mean is over the averages of all people but the row's own.
    """
    unit = _unit(values)
    sums = np.zeros((int(owners.max()) + 1, unit.shape[1]))
    np.add.at(sums, owners, unit)
    means = sums / np.bincount(owners)[:, None]
    total = means.sum(axis=0)
    correlations = np.zeros(len(unit))
    for row, owner in enumerate(owners):
        others = total - means[owner]
        correlations[row] = unit[row] @ others / np.sqrt(max(others @ others, 1e-12))
    return correlations


def _entropy_focus(voxels: Floats) -> float:
    """Return an image's entropy focus criterion (Atkinson et al. 1997), as in MRIQC.

    Lower is better.
    """
    shares = voxels.astype(np.float64).ravel()
    shares /= np.sqrt(shares @ shares)
    root = np.sqrt(shares.size)
    return float(shares @ np.log(shares + 1e-16) / (root * np.log(1 / root)))


def _joint_variation(brain: Floats, inside: Mask, grey_path: str, white_path: str) -> float:
    """Return the coefficient of joint variation (Ganzetti et al. 2016), as in MRIQC.

    Lower is better. The coefficient is the sum of the tissues' median absolute deviations over the
    difference of the tissues' medians; NaN without both tissues.
    """
    if grey_path and white_path:
        grey = brain[inside & (_on_grid(*_read(grey_path)) > 0.5)]
        white = brain[inside & (_on_grid(*_read(white_path)) > 0.5)]
    else:
        grey, white = _classes_of(brain[inside])
    if not (grey.size and white.size):
        return float("nan")
    grey_centre = float(np.median(grey))
    white_centre = float(np.median(white))
    if grey_centre == white_centre:
        return float("nan")
    grey_spread = 1.4826 * float(np.median(np.abs(grey - grey_centre)))
    white_spread = 1.4826 * float(np.median(np.abs(white - white_centre)))
    return (grey_spread + white_spread) / abs(white_centre - grey_centre)


def _classes_of(values: Floats) -> tuple[Floats, Floats]:
    """Return two arrays: a brain's intensities that are grey matter, and that are white matter.

    `values` are the intensities of all voxels of the brain. K-means finds three classes, of which
    the darkest, fluid, is left out.
    """
    from sklearn.cluster import KMeans

    if not values.size:
        return values, values
    counts, edges = np.histogram(values, _N_BINS)
    start = np.quantile(values, (0.1, 0.45, 0.85))[:, None]
    centres = ((edges[:-1] + edges[1:]) / 2)[:, None]
    classes = KMeans(3, init=start, n_init=1).fit(centres, sample_weight=counts)
    dark, middle, bright = sorted(classes.cluster_centers_.ravel())
    low = float(dark + middle) / 2
    high = float(middle + bright) / 2
    return values[(values > low) & (values <= high)], values[values > high]


def _strip(volume: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Join three slices of a volume side by side: top is up or front, left is the person's left."""
    i, j, k = np.round((np.array(SLICES_MM) - GRID[:3, 3]) / 2).astype(int)
    slices = [np.flip(plane.T, 0) for plane in (volume[i], volume[:, j], volume[:, :, k])]
    height = max(map(len, slices))
    padded = [np.pad(plane, ((height - len(plane), 0), (0, 0))) for plane in slices]
    return np.concatenate(padded, axis=1)


def _thumbnail(brain: Floats) -> bytes:
    """Return the bytes of a JPEG file with a sagittal, a coronal and an axial slice side by side.

    `brain` is the image of a brain on the 2 mm grid `GRID`.
    """
    inside = brain[brain > 0]
    scale = 1.0
    if inside.size:
        scale = 235 / max(float(np.quantile(inside, 0.99)), 1e-12)
    buffer = io.BytesIO()
    strip = np.clip(_strip(brain) * scale, 0, 255).astype(np.uint8)
    Image.fromarray(strip).save(buffer, format="JPEG", quality=80)
    return buffer.getvalue()
