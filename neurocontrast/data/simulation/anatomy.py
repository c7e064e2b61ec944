"""Anatomy of simulated brains: MNI152 maps on a grid, and random fields of folding and shape."""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, special

from neurocontrast.transforms.preprocessing import MNI_EXTENT_MM, MNI_ORIGIN_MM, mni_grid

GREY = 0.651 / 0.864
"""Signal of grey matter in the template, relative to white matter."""
FLUID = 0.298 / 0.864
"""Signal of cerebrospinal fluid in the template, relative to white matter."""
_MEDIAL_TEMPORAL = ((26.0, -16.0, -18.0), (-26.0, -16.0, -18.0))
"""Right and left centre of the region in which patients lose grey matter, in mm in MNI space."""
_WIDTH_MM = 11.0
"""Standard deviation in mm of the Gaussian weights of the region of patients' atrophy."""
_MISALIGNED_MM = 3.5
"""Standard deviation in mm, among people, of a fold's position after affine registration."""
_SULCI_APART_MM = 12.0
"""Distance between neighbouring sulci, in mm."""
_FOLD_BANDWIDTH = 0.3
"""Standard deviation of the logarithm of the folding field's wavelength."""
_FOLD_CONTROL_MM = 6.0
"""Distance between control points of the folding field, in mm."""
_SMOOTH_CONTROL_MM = 12.0
"""Distance between control points of smooth displacements, in mm."""
Array = NDArray[np.float32]


@dataclass(frozen=True)
class RandomField:
    """Gaussian random fields of unit variance, drawn at control points for any voxel size.

    `Anatomy` has one field for folding, and one for smooth displacements.
    """

    splines: tuple[Array, ...]
    """Cubic B-spline bases along the three axes, each of shape (n_voxels, n_controls)."""
    gain: Array | None = None
    """Factor that multiplies the noise at control points, by frequency; None for white noise."""

    def draw(self, generator: np.random.Generator, n_fields: int = 1) -> Array:
        """Draw `n_fields` fields on the voxel grid, an array (n_fields, nx, ny, nz)."""
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
    """Templates, and maps of the effects of age and disease, on a voxel grid for simulated brains.

    Made by `load_anatomy`. Unless a shape is stated, a map is a flat array with a value for each
    voxel of `brain`.
    """

    spacing_mm: float
    shape: tuple[int, ...]
    affine: NDArray[np.float64]
    brain: NDArray[np.int64]
    """Flat indices (n,) of the voxels in which a brain of any size may be."""
    positions: Array
    """Positions of the voxels of `brain` in mm in MNI space, of shape (3, n)."""
    image: Array
    """T1-weighted template minus the mean signal of its tissues, relative to the signal of
    white matter.
    """
    head: Array
    """Fraction of each voxel that is inside the template's brain."""
    fluid_above: Array
    """Value of the folding field above which a voxel is fluid, in standard deviations."""
    white_below: Array
    """Value of the folding field below which a voxel is white matter, in standard deviations."""
    individual: Array
    """Correlation of each voxel's tissue with a person's folding field."""
    outer: Array
    """Nearness of folds: about 1 in the cortex, and 0 deep in the brain."""
    medial_temporal: Array
    """Weight of patients' grey-matter loss at each voxel, 0 to 1."""
    towards_ventricles: Array
    """Displacement of unit length towards the ventricles (3, n), which fades with distance."""
    folding: RandomField
    """Random field whose zero surfaces are sulci."""
    smooth: RandomField
    """Random field of smooth displacements."""
    bias_terms: Array
    """Smooth terms of bias fields (n_terms, n), each of unit variance over the brain."""


@functools.lru_cache(maxsize=2)
def load_anatomy(spacing_mm: float) -> Anatomy:
    """Return an `Anatomy`: templates and maps of simulated effects on a grid of `spacing_mm`.

    The maps are made from nilearn's files of the MNI152 template.
    """
    affine, shape = mni_grid(spacing_mm)
    # About as wide as a voxel, against aliasing.
    sigma = math.sqrt(0.42**2 * (spacing_mm**2 - 1.0) + 0.25**2)
    points = [spacing_mm * np.arange(n, dtype=np.float64) for n in shape]
    maps = {name: _filter(fine_map, points, sigma) for name, fine_map in _fine_maps().items()}
    n_voxels_around = max(1, round(10.0 / spacing_mm))
    brain = np.flatnonzero(ndimage.binary_dilation(maps["head"] > 0.05, iterations=n_voxels_around))
    axes = [origin + along for origin, along in zip(MNI_ORIGIN_MM, points, strict=True)]
    grids = np.meshgrid(*axes, indexing="ij")
    positions = np.stack([grid.ravel()[brain] for grid in grids]).astype(np.float32)
    flat = {name: values.ravel()[brain] for name, values in maps.items()}
    inside = flat["head"] > 0.5
    # Sulci that are closer than a voxel is wide are seen by their mean alone.
    seen = math.exp(-0.5 * (2.0 * math.pi * math.hypot(sigma, 0.5) / _SULCI_APART_MM) ** 2)
    white = np.clip(flat["white"], 1e-3, 0.999)
    fluid = np.clip(flat["fluid"], 1e-3, 0.999)
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
        medial_temporal=_medial_temporal(positions).astype(np.float32),
        towards_ventricles=np.stack([flat[f"towards {axis}"] for axis in range(3)]),
        folding=_folding(axes),
        smooth=RandomField(_splines(axes, _SMOOTH_CONTROL_MM)),
        bias_terms=_bias_terms(positions, inside).astype(np.float32),
    )


def _medial_temporal(positions: Array) -> NDArray[np.float64]:
    """Return the weight of simulated patients' grey-matter loss at each position, (n,), 0 to 1.

    `positions` (3, n) are in mm in MNI space. The weight is 1 at the centres of the right and left
    medial temporal region, and fades with distance as a Gaussian.
    """
    weights = []
    for centre in _MEDIAL_TEMPORAL:
        squared = ((positions - np.asarray(centre)[:, None]) ** 2).sum(axis=0)
        weights.append(np.exp(-0.5 * squared / _WIDTH_MM**2))
    return np.minimum(sum(weights), 1.0)


def _bias_terms(positions: Array, inside: NDArray[np.bool_]) -> Array:
    """Return smooth terms of bias fields (n_terms, n): polynomials of voxel `positions` (3, n).

    Each term has mean 0 and unit variance over the voxels of the mask `inside`.
    """
    x, y, z = positions / 80.0
    terms = np.stack([x, y, z, x * y, x * z, y * z, x * x, y * y, z * z])
    terms -= terms[:, inside].mean(axis=1, keepdims=True)
    return np.asarray(terms / terms[:, inside].std(axis=1, keepdims=True))


def _fine_maps() -> dict[str, Array]:
    """Return name → map of the MNI152 template in 1 mm voxels, such as "white" or "cortex".

    "image" is the template's intensity relative to white matter, "white" and "fluid" are shares of
    tissue, "cortex" is about 1 near folds and 0 deep in the brain, and "head" is 1 inside the
    template's brain. "towards 0", "towards 1" and "towards 2" are the three components of a vector
    in each voxel, which points to the ventricles and fades with distance.

    In the cortex, tissues are blurred as in an average of people who are aligned by an affine
    alone.
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
        start = np.rint(np.linalg.solve(template.affine, [*MNI_ORIGIN_MM, 1.0])[:3]).astype(int)
        window = tuple(
            slice(i, i + int(side) + 1) for i, side in zip(start, MNI_EXTENT_MM, strict=True)
        )
        maps[name] = np.ascontiguousarray(np.asarray(template.dataobj, dtype=np.float32)[window])
    head = (maps["image"] > 0.05).astype(np.float32)
    fluid = np.clip(1.0 - maps.pop("grey") - maps["white"], 0.0, 1.0) * head
    near_ventricles = _smooth(_ventricles(fluid).astype(np.float32), 7.0)
    # Folds are near the brain's border, and near fluid outside the ventricles.
    outside = 1.0 - head * (1.0 - fluid * (near_ventricles < 0.05))
    maps["cortex"] = np.clip(2.5 * _smooth(outside, 3.0), 0.0, 1.0) * head
    inside = _smooth(head, _MISALIGNED_MM) + 1e-6
    shares = {"white": maps["white"], "fluid": fluid, "image": maps["image"] / 0.864}
    for name, share in shares.items():
        aligned = _smooth(share * head, _MISALIGNED_MM) / inside
        maps[name] = (share + maps["cortex"] * (aligned - share)) * head
    slope = np.stack([np.gradient(near_ventricles, axis=axis) for axis in range(3)])
    steepness = np.sqrt((slope**2).sum(axis=0))
    reach = np.clip(near_ventricles / 0.25, 0.0, 1.0)
    towards = (slope / (steepness + 0.02 * steepness.max()) * reach).astype(np.float32)
    maps["head"] = head
    for axis, field in enumerate(towards):
        maps[f"towards {axis}"] = field
    return maps


def _ventricles(fluid: Array) -> NDArray[np.bool_]:
    """Return a mask of the lateral ventricles in `fluid`, the 1 mm map of the share of fluid.

    The ventricles are the connected bodies of fluid at about (±14, -15, 14) mm.
    """
    bodies, _ = ndimage.label(fluid > 0.6)
    ventricles = np.zeros(fluid.shape, dtype=bool)
    for side in (-14.0, 14.0):
        centre = np.subtract((side, -15.0, 14.0), MNI_ORIGIN_MM).round().astype(int)
        around = bodies[tuple(slice(c - 8, c + 9) for c in centre)]
        numbers = np.bincount(around[around > 0])
        ventricles |= bodies == numbers.argmax()
    return ventricles


def _folding(axes: list[NDArray[np.float64]]) -> RandomField:
    """Return the random field whose zero surfaces are sulci: noise around one wavelength.

    `axes` has the positions of voxels along each axis, in mm in MNI space.
    """
    splines = _splines(axes, _FOLD_CONTROL_MM)
    shape = tuple(basis.shape[1] for basis in splines)
    turns = [
        np.fft.fftfreq(shape[0], _FOLD_CONTROL_MM),
        np.fft.fftfreq(shape[1], _FOLD_CONTROL_MM),
        np.fft.rfftfreq(shape[2], _FOLD_CONTROL_MM),
    ]
    frequency = np.sqrt(sum(turn**2 for turn in np.meshgrid(*turns, indexing="ij")))
    relative = np.log(np.maximum(frequency, 1e-6) * 2.0 * _SULCI_APART_MM)
    gain = np.exp(-0.5 * (relative / _FOLD_BANDWIDTH) ** 2)
    # Only for white noise does the basis have unit variance.
    spline = np.sinc(frequency * _FOLD_CONTROL_MM) ** 4
    gain *= math.sqrt(np.mean(spline**2) / np.mean((gain * spline) ** 2))
    return RandomField(splines, gain.astype(np.float32))


def _splines(axes: list[NDArray[np.float64]], control_mm: float) -> tuple[Array, ...]:
    """Return cubic B-spline bases (n_voxels, n_controls) of three axes for a `RandomField`.

    `axes` has the positions of voxels along each axis, in mm, and `control_mm` is the distance
    between control points. Bases are scaled so that white noise at the control points gives fields
    of unit variance.
    """
    bases = []
    for origin, side, along_mm in zip(MNI_ORIGIN_MM, MNI_EXTENT_MM, axes, strict=True):
        controls = origin + np.arange(-control_mm, side + 2 * control_mm, control_mm)
        distance = np.abs(along_mm[:, None] - controls) / control_mm
        inner = 2.0 / 3.0 - distance**2 + distance**3 / 2.0
        outer = np.clip(2.0 - distance, 0.0, None) ** 3 / 6.0
        basis = np.where(distance < 1.0, inner, outer)
        bases.append((basis / np.sqrt((basis**2).sum(axis=1).mean())).astype(np.float32))
    return tuple(bases)


def _smooth(fine: Array, sigma: float) -> Array:
    """Return the map `fine` smoothed by a Gaussian of standard deviation `sigma` in voxels."""
    return _filter(fine, [np.arange(n, dtype=np.float64) for n in fine.shape], sigma)


def _filter(fine: Array, points: list[NDArray[np.float64]], sigma: float) -> Array:
    """Return the Gaussian average of the map `fine` around each point of a grid, axis by axis.

    `points` has the grid's coordinates along each axis, and `sigma` is the standard deviation, both
    in voxels of the map.
    """
    for axis, centres in enumerate(points):
        distance = centres[:, None] - np.arange(fine.shape[axis])
        weights = np.exp(-0.5 * (distance / sigma) ** 2)
        weights = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
        fine = np.moveaxis(np.tensordot(weights, fine, axes=(1, axis)), 0, axis)
    return np.ascontiguousarray(fine)
