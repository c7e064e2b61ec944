"""The MNI152 maps at the wanted spacing, and where effects act on them."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

__all__ = ["FIELD_OF_VIEW_MM", "ORIGIN_MM", "Anatomy", "load_anatomy"]

ORIGIN_MM = (-90.0, -126.0, -72.0)
FIELD_OF_VIEW_MM = (180.0, 216.0, 180.0)

_CONTROL_SPACING_MM = 24.0
_MEDIAL_TEMPORAL, _WIDTH_MM = ((26.0, -16.0, -18.0), (-26.0, -16.0, -18.0)), 11.0

Array = NDArray[np.float32]


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
    """T1-weighted template, white matter near 1."""
    effects: dict[str, Array]
    """What one unit of an effect adds to the image."""
    towards_ventricles: Array
    """Unit displacement (3, n), fading with distance."""
    splines: tuple[Array, ...]
    """Cubic B-spline bases (n_voxels, n_controls) along the axes: coefficients to a field of unit variance."""
    bias_terms: Array
    """Smooth terms of bias fields (n_terms, n), each of unit variance over the brain."""


@functools.lru_cache(maxsize=2)
def load_anatomy(spacing_mm: float) -> Anatomy:
    """Return the templates on the grid of `spacing_mm` (no network: nilearn ships them)."""
    shape = tuple(1 + int(np.floor(side / spacing_mm + 1e-6)) for side in FIELD_OF_VIEW_MM)
    affine = np.diag([spacing_mm] * 3 + [1.0])
    affine[:3, 3] = ORIGIN_MM
    fine = _fine_maps()
    maps = {name: _sample(fine_map, spacing_mm, shape) for name, fine_map in fine.items() if name != "towards"}
    towards = np.stack([_sample(axis, spacing_mm, shape) for axis in fine["towards"]])
    near = ndimage.binary_dilation(maps["image"] > 0.05, iterations=max(1, round(10.0 / spacing_mm)))
    brain = np.flatnonzero(near)
    axes = [origin + spacing_mm * np.arange(n, dtype=np.float64) for origin, n in zip(ORIGIN_MM, shape, strict=True)]
    positions = np.stack([grid.ravel()[brain] for grid in np.meshgrid(*axes, indexing="ij")]).astype(np.float32)
    flat = {name: values.ravel()[brain] for name, values in maps.items()}
    return Anatomy(
        spacing_mm=spacing_mm,
        shape=shape,
        affine=affine,
        brain=brain,
        positions=positions,
        image=flat["image"],
        effects=_effects(flat, positions),
        towards_ventricles=towards.reshape(3, -1)[:, brain],
        splines=tuple(map(_spline_basis, axes)),
        bias_terms=_bias_terms(positions, flat["image"]),
    )


def _fine_maps() -> dict[str, Array]:
    """Return the maps at 1 mm over the field of view, plus the field that points to the ventricles."""
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
    fluid = np.clip(1.0 - maps["grey"] - maps["white"], 0.0, 1.0) * (maps["image"] > 0.05)
    # Sulci are where grey matter has fluid, or the brain's border, near by.
    outside = np.where(maps["image"] > 0.05, fluid, 1.0)
    maps["outer"] = np.clip(2.5 * _smooth(outside, 3.0), 0.0, 1.0)
    near_ventricles = _smooth(_ventricles(fluid).astype(np.float32), 7.0)
    slope = np.stack([np.gradient(near_ventricles, axis=axis) for axis in range(3)])
    steepness = np.sqrt((slope**2).sum(axis=0))
    reach = np.clip(near_ventricles / 0.25, 0.0, 1.0)
    maps["towards"] = (slope / (steepness + 0.02 * steepness.max()) * reach).astype(np.float32)
    maps["image"] /= 0.864  # mean of its white matter
    return maps


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


def _effects(maps: dict[str, Array], positions: Array) -> dict[str, Array]:
    grey_to_fluid = np.float32(-(0.651 - 0.298) / 0.864)
    grey_to_white = np.float32((0.864 - 0.651) / 0.864)
    frontal = 1.0 + 0.4 * np.tanh(positions[1] / 40.0)
    effects = {
        "atrophy": maps["grey"] * maps["outer"] * frontal * grey_to_fluid,
        "contrast": -maps["white"] * grey_to_white,
        "tissue": maps["grey"] * grey_to_fluid,
    }
    squared = [((positions - np.asarray(centre)[:, None]) ** 2).sum(axis=0) for centre in _MEDIAL_TEMPORAL]
    region = sum(np.exp(-0.5 * distance / _WIDTH_MM**2) for distance in squared)
    effects["medial_temporal"] = maps["grey"] * np.minimum(region, 1.0) * grey_to_fluid
    return {name: effect.astype(np.float32) for name, effect in effects.items()}


def _spline_basis(axis_mm: NDArray[np.float64]) -> Array:
    start, stop = axis_mm[0] - _CONTROL_SPACING_MM, axis_mm[0] + FIELD_OF_VIEW_MM[1] + 2 * _CONTROL_SPACING_MM
    stop = min(stop, axis_mm[-1] + 2 * _CONTROL_SPACING_MM)
    controls = np.arange(start, stop, _CONTROL_SPACING_MM)
    distance = np.abs(axis_mm[:, None] - controls) / _CONTROL_SPACING_MM
    inner = 2.0 / 3.0 - distance**2 + distance**3 / 2.0
    outer = np.clip(2.0 - distance, 0.0, None) ** 3 / 6.0
    basis = np.where(distance < 1.0, inner, outer)
    return (basis / np.sqrt((basis**2).sum(axis=1).mean())).astype(np.float32)


def _bias_terms(positions: Array, image: Array) -> Array:
    x, y, z = positions / 80.0
    terms = np.stack([x, y, z, x * y, x * z, y * z, x * x, y * y, z * z])
    inside = image > 0.3
    terms -= terms[:, inside].mean(axis=1, keepdims=True)
    return (terms / terms[:, inside].std(axis=1, keepdims=True)).astype(np.float32)


def _sample(fine: Array, spacing_mm: float, shape: tuple[int, ...]) -> Array:
    """Sample a 1 mm map on the grid, under a Gaussian about as wide as a voxel, against aliasing."""
    sigma = float(np.sqrt(0.42**2 * (spacing_mm**2 - 1.0) + 0.25**2))
    return _filter(fine, [spacing_mm * np.arange(n, dtype=np.float64) for n in shape], sigma)


def _smooth(fine: Array, sigma: float) -> Array:
    return _filter(fine, [np.arange(n, dtype=np.float64) for n in fine.shape], sigma)


def _filter(fine: Array, points: list[NDArray[np.float64]], sigma: float) -> Array:
    """Return Gaussian averages of a map about each point of a grid: one matrix product an axis."""
    for axis, at in enumerate(points):
        weights = np.exp(-0.5 * ((at[:, None] - np.arange(fine.shape[axis])) / sigma) ** 2)
        weights = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
        fine = np.moveaxis(np.tensordot(weights, fine, axes=(1, axis)), 0, axis)
    return np.ascontiguousarray(fine)
