"""The MNI152 maps at the wanted spacing, where effects act on them, and the random fields that make people differ."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, special

__all__ = ["FIELD_OF_VIEW_MM", "FLUID", "GREY", "ORIGIN_MM", "Anatomy", "RandomField", "load_anatomy"]

ORIGIN_MM = (-90.0, -126.0, -72.0)
FIELD_OF_VIEW_MM = (180.0, 216.0, 180.0)
GREY, FLUID = 0.651 / 0.864, 0.298 / 0.864
"""Intensities of the template's tissues over that of its white matter."""

_MEDIAL_TEMPORAL, _WIDTH_MM = ((26.0, -16.0, -18.0), (-26.0, -16.0, -18.0)), 11.0
_MISALIGNED_MM = 3.5  # standard deviation of where one person's fold lies in another's affine space
_SULCI_APART_MM, _FOLD_BANDWIDTH = 12.0, 0.3
_FOLD_CONTROL_MM, _SMOOTH_CONTROL_MM = 6.0, 12.0

Array = NDArray[np.float32]


@dataclass(frozen=True)
class RandomField:
    """Gaussian random fields of unit variance, drawn at control points that are the same for any spacing."""

    splines: tuple[Array, ...]
    """Cubic B-spline bases (n_voxels, n_controls) along the axes."""
    gain: Array | None = None
    """Factor of each frequency of the control points' noise; white noise where None."""

    def draw(self, generator: np.random.Generator, n_fields: int = 1) -> Array:
        """Return fields (n_fields, nx, ny, nz)."""
        shape = tuple(basis.shape[1] for basis in self.splines)
        noise = generator.standard_normal((n_fields, *shape), dtype=np.float32)
        if self.gain is not None:
            spectrum = np.fft.rfftn(noise, axes=(1, 2, 3)) * self.gain
            noise = np.fft.irfftn(spectrum, shape, axes=(1, 2, 3)).astype(np.float32)
        basis_x, basis_y, basis_z = self.splines
        fields = basis_y @ (noise @ basis_z.T)
        fields = basis_x @ fields.reshape(n_fields, basis_x.shape[1], -1)
        return fields.reshape(n_fields, len(basis_x), len(basis_y), len(basis_z))


@dataclass(frozen=True)
class Anatomy:
    """Templates and effect maps on one grid; arrays over `brain` are flat, in its order."""

    spacing_mm: float
    shape: tuple[int, ...]
    affine: NDArray[np.float64]
    brain: NDArray[np.int64]
    """Flat indices of the voxels where a brain of any size may be."""
    positions: Array
    """In mm (3, n)."""
    image: Array
    """T1-weighted template less its tissues' mean signal, white matter near 1."""
    head: Array
    """Fraction of a voxel inside of the template's brain."""
    fluid_above: Array
    """A voxel is fluid where its folding is higher, in standard deviations."""
    white_below: Array
    """A voxel is white matter where its folding is lower."""
    individual: Array
    """Correlation of a voxel's tissue with the field of folding; the rest is the same in everybody."""
    outer: Array
    """Near 1 where folds are, and 0 deep in the brain."""
    medial_temporal: Array
    """Weight of the patients' focal part."""
    towards_ventricles: Array
    """Unit displacement (3, n), fading with distance."""
    folding: RandomField
    smooth: RandomField
    bias_terms: Array
    """Smooth terms of bias fields (n_terms, n), each of unit variance over the brain."""


@functools.lru_cache(maxsize=2)
def load_anatomy(spacing_mm: float) -> Anatomy:
    """Return the templates on the grid of `spacing_mm` (no network: nilearn ships them)."""
    shape = tuple(1 + int(np.floor(side / spacing_mm + 1e-6)) for side in FIELD_OF_VIEW_MM)
    affine = np.diag([spacing_mm] * 3 + [1.0])
    affine[:3, 3] = ORIGIN_MM
    sigma = _voxel_sigma(spacing_mm)
    points = [spacing_mm * np.arange(n, dtype=np.float64) for n in shape]
    maps = {name: _filter(fine_map, points, sigma) for name, fine_map in _fine_maps().items()}
    brain = np.flatnonzero(ndimage.binary_dilation(maps["head"] > 0.05, iterations=max(1, round(10.0 / spacing_mm))))
    axes = [origin + along for origin, along in zip(ORIGIN_MM, points, strict=True)]
    positions = np.stack([grid.ravel()[brain] for grid in np.meshgrid(*axes, indexing="ij")]).astype(np.float32)
    flat = {name: values.ravel()[brain] for name, values in maps.items()}
    squared = [((positions - np.asarray(centre)[:, None]) ** 2).sum(axis=0) for centre in _MEDIAL_TEMPORAL]
    region = np.minimum(sum(np.exp(-0.5 * distance / _WIDTH_MM**2) for distance in squared), 1.0)
    # Sulci that are closer than a voxel is wide are seen by their mean alone.
    seen = math.exp(-0.5 * (2.0 * math.pi * math.hypot(sigma, 0.5) / _SULCI_APART_MM) ** 2)
    white, fluid = np.clip(flat["white"], 1e-3, 0.999), np.clip(flat["fluid"], 1e-3, 0.999)
    return Anatomy(
        spacing_mm=spacing_mm,
        shape=shape,
        affine=affine,
        brain=brain,
        positions=positions,
        image=flat["image"] - flat["head"] * (white + FLUID * fluid + GREY * (1.0 - white - fluid)),
        head=flat["head"],
        fluid_above=special.ndtri(1.0 - fluid).astype(np.float32),
        white_below=special.ndtri(white).astype(np.float32),
        individual=(seen * flat["cortex"]).astype(np.float32),
        outer=flat["cortex"],
        medial_temporal=region.astype(np.float32),
        towards_ventricles=np.stack([flat[f"towards {axis}"] for axis in range(3)]),
        folding=_folding(axes),
        smooth=RandomField(_splines(axes, _SMOOTH_CONTROL_MM)),
        bias_terms=_bias_terms(positions, flat["head"]),
    )


def _fine_maps() -> dict[str, Array]:
    """Return the maps at 1 mm over the field of view, and the field that points to the ventricles.

    In the cortex the shares of tissues are those of people who are aligned by an affine alone.
    """
    from nilearn import datasets

    loaders = {
        "image": datasets.load_mni152_template,
        "grey": datasets.load_mni152_gm_template,
        "white": datasets.load_mni152_wm_template,
    }
    maps: dict[str, Array] = {}
    for name, loader in loaders.items():
        template = loader(resolution=1)
        start = np.rint(np.linalg.solve(template.affine, [*ORIGIN_MM, 1.0])[:3]).astype(int)
        window = tuple(slice(i, i + int(side) + 1) for i, side in zip(start, FIELD_OF_VIEW_MM, strict=True))
        maps[name] = np.ascontiguousarray(np.asarray(template.dataobj, dtype=np.float32)[window])
    head = (maps["image"] > 0.05).astype(np.float32)
    fluid = np.clip(1.0 - maps.pop("grey") - maps["white"], 0.0, 1.0) * head
    near_ventricles = _smooth(_ventricles(fluid).astype(np.float32), 7.0)
    # Folds are where the brain's border, or fluid that is no ventricle's, is near.
    outside = 1.0 - head * (1.0 - fluid * (near_ventricles < 0.05))
    maps["cortex"] = np.clip(2.5 * _smooth(outside, 3.0), 0.0, 1.0) * head
    inside = _smooth(head, _MISALIGNED_MM) + 1e-6
    for name, share in (("white", maps["white"]), ("fluid", fluid), ("image", maps["image"] / 0.864)):
        aligned = _smooth(share * head, _MISALIGNED_MM) / inside
        maps[name] = (share + maps["cortex"] * (aligned - share)) * head
    slope = np.stack([np.gradient(near_ventricles, axis=axis) for axis in range(3)])
    steepness = np.sqrt((slope**2).sum(axis=0))
    reach = np.clip(near_ventricles / 0.25, 0.0, 1.0)
    towards = (slope / (steepness + 0.02 * steepness.max()) * reach).astype(np.float32)
    return maps | {"head": head} | {f"towards {axis}": field for axis, field in enumerate(towards)}


def _ventricles(fluid: Array) -> NDArray[np.bool_]:
    """Return the lateral ventricles: the two bodies of fluid about (±14, -15, 14) mm."""
    bodies, _ = ndimage.label(fluid > 0.6)
    found = np.zeros(fluid.shape, dtype=bool)
    for side in (-14.0, 14.0):
        centre = np.subtract((side, -15.0, 14.0), ORIGIN_MM).round().astype(int)
        around = bodies[tuple(slice(c - 8, c + 9) for c in centre)]
        numbers = np.bincount(around[around > 0])
        found |= bodies == numbers.argmax()
    return found


def _folding(axes: list[NDArray[np.float64]]) -> RandomField:
    """Return the field whose zero surfaces are sulci: noise of a band of wavelengths about twice their distance."""
    splines = _splines(axes, _FOLD_CONTROL_MM)
    shape = tuple(basis.shape[1] for basis in splines)
    turns = [np.fft.fftfreq(n, _FOLD_CONTROL_MM) for n in shape[:2]] + [np.fft.rfftfreq(shape[2], _FOLD_CONTROL_MM)]
    frequency = np.sqrt(sum(turn**2 for turn in np.meshgrid(*turns, indexing="ij")))
    relative = np.log(np.maximum(frequency, 1e-6) * 2.0 * _SULCI_APART_MM)
    gain = np.exp(-0.5 * (relative / _FOLD_BANDWIDTH) ** 2)
    spline = np.sinc(frequency * _FOLD_CONTROL_MM) ** 4  # the basis has unit variance for white noise alone
    gain *= math.sqrt(np.mean(spline**2) / np.mean((gain * spline) ** 2))
    return RandomField(splines, gain.astype(np.float32))


def _splines(axes: list[NDArray[np.float64]], control_mm: float) -> tuple[Array, ...]:
    return tuple(_spline_basis(axis, along_mm, control_mm) for axis, along_mm in enumerate(axes))


def _spline_basis(axis: int, axis_mm: NDArray[np.float64], control_mm: float) -> Array:
    controls = ORIGIN_MM[axis] + np.arange(-control_mm, FIELD_OF_VIEW_MM[axis] + 2 * control_mm, control_mm)
    distance = np.abs(axis_mm[:, None] - controls) / control_mm
    inner = 2.0 / 3.0 - distance**2 + distance**3 / 2.0
    outer = np.clip(2.0 - distance, 0.0, None) ** 3 / 6.0
    basis = np.where(distance < 1.0, inner, outer)
    return (basis / np.sqrt((basis**2).sum(axis=1).mean())).astype(np.float32)


def _bias_terms(positions: Array, head: Array) -> Array:
    x, y, z = positions / 80.0
    terms = np.stack([x, y, z, x * y, x * z, y * z, x * x, y * y, z * z])
    inside = head > 0.5
    terms -= terms[:, inside].mean(axis=1, keepdims=True)
    return (terms / terms[:, inside].std(axis=1, keepdims=True)).astype(np.float32)


def _voxel_sigma(spacing_mm: float) -> float:
    """Return σ of a Gaussian about as wide as a voxel, against aliasing."""
    return float(np.sqrt(0.42**2 * (spacing_mm**2 - 1.0) + 0.25**2))


def _smooth(fine: Array, sigma: float) -> Array:
    return _filter(fine, [np.arange(n, dtype=np.float64) for n in fine.shape], sigma)


def _filter(fine: Array, points: list[NDArray[np.float64]], sigma: float) -> Array:
    """Return Gaussian averages of a map about each point of a grid: one matrix product an axis."""
    for axis, at in enumerate(points):
        weights = np.exp(-0.5 * ((at[:, None] - np.arange(fine.shape[axis])) / sigma) ** 2)
        weights = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
        fine = np.moveaxis(np.tensordot(weights, fine, axes=(1, axis)), 0, axis)
    return np.ascontiguousarray(fine)
