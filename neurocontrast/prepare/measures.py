"""Measures of one scan in MNI space: how like the template it is, where it lies, and how good the image is."""

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
"""Where everything is measured but the entropy focus criterion."""
STEP = 2
"""Correlations are those of every second voxel, 4 mm apart, after a mean over 6 mm."""
REACH = 6
"""Steps of 4 mm that the best place is looked for in, to each side."""
SLICES_MM = (-4.0, -18.0, 8.0)
"""Where the sagittal, the coronal and the axial slice are shown."""
FAINT = 0.02
"""Voxels fainter than this share of the brightest ones are not brain: splines leave ripples around a brain."""
FLIPS = {"front-back": (1,), "up-down": (2,), "front-back and up-down": (1, 2)}
"""Flips that the template reveals; it is symmetric, so that left and right cannot be told apart."""
LEAST_ASYMMETRY = 0.1
"""Where the median correlation of asymmetries is lower, a negative correlation of a scan says nothing."""
_N_BINS = 256
_FFT_SHAPE = (64, 72, 64)


@dataclass(frozen=True, eq=False)
class Measured:
    """Measures of one scan."""

    measures: dict[str, Any]
    """Numbers by the name of their measure, and ``flip``: how a flipped brain fits better than the brain as it is."""
    vector: npt.NDArray[np.float16]
    """Intensities (n_voxels,) in the template's brain at 4 mm, mean 0 and length 1: what scans are compared by."""
    thumbnail: bytes
    """A JPEG file: sagittal, coronal and axial slice side by side."""


@dataclass(frozen=True, eq=False)
class _Template:
    brain: Mask
    coarse: Mask
    pattern: Floats  # intensities in the coarse brain: mean 0, length 1
    spectra: tuple[Any, Any]  # of the pattern, and of the coarse brain


def measure_scan(
    path: str, mask_path: str = "", grey_path: str = "", white_path: str = ""
) -> Measured:
    """Measure one skull-stripped scan that lies in MNI space; a ``.npy`` array is taken to span the box of MNI152.

    Without a mask, voxels that are clearly brighter than the corners of the image are the brain;
    without maps of grey and white matter, three classes of intensity are taken for the tissues.
    """
    template = _template()
    brain, inside, focus = _brain_of(path, mask_path)
    coarse = _coarse(brain)
    vector = _unit(coarse[template.coarse])
    fit, moved_mm = place_by_template(coarse)
    flipped = {name: place_by_template(np.flip(coarse, axes))[0] for name, axes in FLIPS.items()}
    best = max(flipped, key=flipped.__getitem__)
    overlap = 2 * (inside & template.brain).sum() / max(1, inside.sum() + template.brain.sum())
    measures: dict[str, Any] = {
        "correlation": float(vector @ template.pattern[template.coarse]),
        "dice": float(overlap),
        "brain_ml": float(inside.sum() * 8 / 1000),
        "shift_mm": float(np.linalg.norm(moved_mm)),
        **{f"shift_{axis}_mm": float(mm) for axis, mm in zip("xyz", moved_mm, strict=True)},
        "flip_gain": flipped[best] - fit,
        "flip": best if flipped[best] > fit else "",
        "cjv": _joint_variation(brain, inside, grey_path, white_path),
        "efc": focus,
    }
    rounded = {
        name: value if isinstance(value, str) else round(value, 4)
        for name, value in measures.items()
    }
    return Measured(rounded, vector.astype(np.float16), _thumbnail(brain))


def compare_with_others(
    vectors: npt.NDArray[Any], people: npt.NDArray[Any] | None = None
) -> tuple[Doubles, Doubles]:
    """Correlate each scan, and its asymmetry, with the mean of the scans of other people.

    An asymmetry is the left half minus the mirrored right half. That of a scan whose left and right
    are swapped has the opposite sign, so its correlation with that of the others is below 0. Where
    the scans share too little asymmetry for that, correlations are NaN: images without one, or half
    of them swapped. The vectors (n, n_voxels) are those of `Measured`, of the scans of one site;
    `people` has the person of each, by default as many people.
    """
    owners = np.arange(len(vectors))
    if people is not None:
        owners = np.unique(people, return_inverse=True)[1]
    coarse = _template().coarse
    places = np.full(coarse.shape, -1)
    places[coarse] = np.arange(coarse.sum())
    mirrored = places[::-1][coarse]
    left = mirrored > np.arange(len(mirrored))
    whole = np.asarray(vectors, dtype=np.float32)
    asymmetries = (whole - whole[:, mirrored])[:, left]
    alike = _with_mean_of_others(asymmetries, owners)
    if pd.Series(alike).groupby(owners).median().median() < LEAST_ASYMMETRY:
        alike = np.full(len(whole), np.nan)
    return _with_mean_of_others(whole, owners), alike


def place_by_template(coarse: Floats) -> tuple[float, Doubles]:
    """Return the best correlation with the template over shifts of up to 24 mm, and by how many mm a brain lies off.

    The correlation is that inside the template's mask, for all shifts at once by the fast Fourier
    transform.
    """
    template = _template()
    n = int(template.coarse.sum())
    pattern, mask = template.spectra
    spectrum = fft.rfftn(coarse, _FFT_SHAPE)
    squares = fft.rfftn(coarse * coarse, _FFT_SHAPE)
    product, total, energy = (
        np.roll(fft.irfftn(each, _FFT_SHAPE), (REACH,) * 3, (0, 1, 2))[
            (slice(0, 2 * REACH + 1),) * 3
        ]
        for each in (spectrum * pattern, spectrum * mask, squares * mask)
    )
    correlations = product / np.sqrt(np.maximum(energy - total**2 / n, 1e-6 * energy.max() + 1e-12))
    peak = np.unravel_index(int(correlations.argmax()), correlations.shape)
    steps = [
        _between(np.moveaxis(correlations, axis, 0)[(slice(None), *np.delete(peak, axis))])
        for axis in range(3)
    ]
    return float(correlations[peak]), 4.0 * (np.array(steps) - REACH)


def template_strip() -> Mask:
    """Return the template's brain on the three slices that `Measured.thumbnail` shows."""
    return _strip(_template().brain)


def _between(line: Doubles) -> float:
    """Return where a line has its maximum, between its points by a parabola."""
    top = int(line.argmax())
    if top in (0, len(line) - 1):
        return float(top)
    low, middle, high = line[top - 1 : top + 2]
    return top + 0.5 * float((low - high) / (low - 2 * middle + high))


@cache
def _template() -> _Template:
    from nilearn.datasets import load_mni152_brain_mask, load_mni152_template

    image = load_mni152_template(resolution=2)
    mask = load_mni152_brain_mask(resolution=2)
    brain = _on_grid((mask.get_fdata() > 0).astype(np.float32), mask.affine) > 0.5
    voxels = np.where(brain, _on_grid(image.get_fdata(dtype=np.float32), image.affine), 0)
    coarse = _coarse(brain.astype(np.float32)) > 0.5
    pattern = np.zeros(coarse.shape, dtype=np.float32)
    pattern[coarse] = _unit(_coarse(voxels)[coarse])
    spectra = tuple(
        np.conj(fft.rfftn(each, _FFT_SHAPE)) for each in (pattern, coarse.astype(np.float32))
    )
    return _Template(brain, coarse, pattern, (spectra[0], spectra[1]))


def _on_grid(voxels: Floats, affine: Doubles) -> Floats:
    """Resample an image linearly to `GRID`."""
    matrix = np.linalg.inv(affine) @ GRID
    resampled: Floats = affine_transform(
        voxels, matrix[:3, :3], matrix[:3, 3], SHAPE, np.float32, order=1
    )
    return resampled


def _brain_of(path: str, mask_path: str) -> tuple[Floats, Mask, float]:
    """Return a brain on the grid with 0 outside, its mask, and the entropy focus criterion of the image."""
    voxels, affine = _read(path)
    corners = voxels[np.ix_(*((0, -1),) * 3)]
    voxels = np.maximum(voxels - np.median(corners), 0)
    if mask_path:
        mask, given = _read(mask_path)
        inside = _on_grid((mask > 0).astype(np.float32), given) > 0.5
    else:
        faint = FAINT * np.quantile(voxels, 0.999)
        inside = _on_grid((voxels > faint).astype(np.float32), affine) > 0.5
    return (
        np.where(inside, _on_grid(voxels, affine), 0).astype(np.float32),
        inside,
        _entropy_focus(voxels),
    )


def _read(path: str) -> tuple[Floats, Doubles]:
    """Return voxels and affine of an image; an array, in RAS order, spans the box of MNI152."""
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
    smooth: Floats = uniform_filter(voxels, 3)[::STEP, ::STEP, ::STEP]
    return np.ascontiguousarray(smooth)


def _unit(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    centred = values - values.mean(axis=-1, keepdims=True)
    return centred / np.maximum(np.linalg.norm(centred, axis=-1, keepdims=True), 1e-12)


def _with_mean_of_others(values: Floats, owners: npt.NDArray[np.intp]) -> Doubles:
    """Return the correlation of each row (n, n_values) with the mean of other owners' rows.

    Rows have length 1, and an owner's rows are averaged before.
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
    """Return the entropy focus criterion (Atkinson et al. 1997), normalised as in MRIQC: lower is better."""
    shares = voxels.astype(np.float64).ravel()
    shares /= np.sqrt(shares @ shares)
    root = np.sqrt(shares.size)
    return float(shares @ np.log(shares + 1e-16) / (root * np.log(1 / root)))


def _joint_variation(brain: Floats, inside: Mask, grey_path: str, white_path: str) -> float:
    """Return the coefficient of joint variation (Ganzetti et al. 2016) of MRIQC: lower is better.

    It is the sum of the tissues' median absolute deviations over the difference of their medians.
    """
    if grey_path and white_path:
        maps = [_on_grid(*_read(path)) for path in (grey_path, white_path)]
        grey, white = (brain[inside & (each > 0.5)] for each in maps)
    else:  # three classes of intensity: one-dimensional k-means on the histogram
        from sklearn.cluster import KMeans

        values = brain[inside]
        if not values.size:
            return float("nan")
        counts, edges = np.histogram(values, _N_BINS)
        start = np.quantile(values, (0.1, 0.45, 0.85))[:, None]
        classes = KMeans(3, init=start, n_init=1).fit(
            ((edges[:-1] + edges[1:]) / 2)[:, None], sample_weight=counts
        )
        dark, middle, bright = sorted(classes.cluster_centers_.ravel())
        low = float(dark + middle) / 2
        high = float(middle + bright) / 2
        grey = values[(values > low) & (values <= high)]
        white = values[values > high]
    if not (grey.size and white.size):
        return float("nan")
    centres = [float(np.median(each)) for each in (grey, white)]
    spreads = [
        1.4826 * float(np.median(np.abs(each - c)))
        for each, c in zip((grey, white), centres, strict=True)
    ]
    return sum(spreads) / abs(centres[1] - centres[0]) if centres[0] != centres[1] else float("nan")


def _strip(volume: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the three slices side by side as one picture: top is up (or front), left is the person's left."""
    i, j, k = np.round((np.array(SLICES_MM) - GRID[:3, 3]) / 2).astype(int)
    slices = [np.flip(each.T, 0) for each in (volume[i], volume[:, j], volume[:, :, k])]
    height = max(map(len, slices))
    return np.concatenate(
        [np.pad(each, ((height - len(each), 0), (0, 0))) for each in slices], axis=1
    )


def _thumbnail(brain: Floats) -> bytes:
    found = brain[brain > 0]
    scale = 235 / max(float(np.quantile(found, 0.99)), 1e-12) if found.size else 1.0
    buffer = io.BytesIO()
    strip = np.clip(_strip(brain) * scale, 0, 255).astype(np.uint8)
    Image.fromarray(strip).save(buffer, format="JPEG", quality=80)
    return buffer.getvalue()
