"""Simulated brains: MNI152 maps on a grid, differences between people, and acquisition."""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, special
from scipy.spatial.transform import Rotation

from neurocontrast.data.simulation.people import Person, Scanner, SimulationSettings, draw_scanner
from neurocontrast.seeds import derive_generator
from neurocontrast.transforms.preprocessing import (
    FWHM_PER_SIGMA,
    MNI_EXTENT_MM,
    MNI_ORIGIN_MM,
    mni_grid,
)

GREY = 0.651 / 0.864
"""Intensity of the template's grey matter relative to white matter."""
FLUID = 0.298 / 0.864
"""Intensity of the template's fluid relative to white matter."""

_MEDIAL_TEMPORAL = ((26.0, -16.0, -18.0), (-26.0, -16.0, -18.0))
"""Centres of the patients' focal region in MNI space, in mm."""
_WIDTH_MM = 11.0
"""Standard deviation of the patients' focal region."""
_MISALIGNED_MM = 3.5
"""Standard deviation of a fold's position between people who are aligned by an affine."""
_SULCI_APART_MM = 12.0
"""Distance between neighbouring sulci."""
_FOLD_BANDWIDTH = 0.3
"""Standard deviation of the logarithm of the folding's wavelength."""
_FOLD_CONTROL_MM = 6.0
"""Distance between control points of the folding."""
_SMOOTH_CONTROL_MM = 12.0
"""Distance between control points of smooth displacements."""

_LARGEST_STORED = 32_000.0
_BORDER = 0.12
"""Intensity of the brain's border relative to white matter."""
_MENINGES = 0.35
"""Intensity, relative to white matter, of tissue that a loose skull-stripping leaves."""

# Fitted to real brains: benchmarks/simulation.py.
_ROTATION_DEG = 0.3
_SHIFT_MM = 0.3
"""Standard deviations of rotation and shift that an affine registration leaves."""
_STIFF_RIM = 0.6
"""Share of the deformation that is missing at the brain's rim, which the affine fits."""
_DEFORMATION_MM = 2.2
"""Standard deviation of a person's smooth displacements, along each axis."""
_SEX_MM = 0.18
"""Displacement of men along a pattern, and of women against the pattern (standard deviation)."""
_CORTEX_LOSS = 2.0
"""Shift of the border of fluid from 20 to 80 years, in standard deviations of the folding."""
_VENTRICLES_MM = 4.0
"""Displacement at the ventricles' border from 20 to 80 years."""
_VENTRICLES_SD_MM = 1.3
"""Standard deviation of the displacement at the ventricles' border between people of one age."""
_CONTRAST_LOSS = 0.15
"""Share of the contrast of white over grey matter that is lost from 20 to 80 years."""

Array = NDArray[np.float32]


@dataclass(frozen=True)
class RandomField:
    """Gaussian random fields of unit variance, drawn at control points for any voxel size."""

    splines: tuple[Array, ...]
    """Cubic B-spline bases (n_voxels, n_controls) along the axes."""
    gain: Array | None = None
    """Factor of each frequency of the control points' noise; white noise where None."""

    def draw(self, generator: np.random.Generator, n_fields: int = 1) -> Array:
        """Draw fields of shape (n_fields, nx, ny, nz)."""
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
    """Templates and maps of effects on one grid, mostly as flat arrays over `brain`."""

    spacing_mm: float
    shape: tuple[int, ...]
    affine: NDArray[np.float64]
    brain: NDArray[np.int64]
    """Flat indices (n,) of the voxels where a brain of any size may be."""
    positions: Array
    """Positions of the voxels in mm, of shape (3, n)."""
    image: Array
    """T1-weighted template minus the mean signal of its tissues, white matter near 1."""
    head: Array
    """Fraction of each voxel inside the template's brain."""
    fluid_above: Array
    """Folding above which a voxel is fluid, in standard deviations."""
    white_below: Array
    """Folding below which a voxel is white matter, in standard deviations."""
    individual: Array
    """Correlation of a voxel's tissue with a person's folding; the rest is the same in all people."""
    outer: Array
    """Nearness of folds: about 1 in the cortex, and 0 deep in the brain."""
    medial_temporal: Array
    """Weight of the patients' focal loss."""
    towards_ventricles: Array
    """Unit displacement towards the ventricles, of shape (3, n), fading with distance."""
    folding: RandomField
    """Field whose zero surfaces are sulci."""
    smooth: RandomField
    """Field of smooth displacements."""
    bias_terms: Array
    """Smooth terms of bias fields (n_terms, n), each of unit variance over the brain."""


@functools.lru_cache(maxsize=2)
def load_anatomy(spacing_mm: float) -> Anatomy:
    """Return the templates on the grid of `spacing_mm`, from the files that nilearn ships."""
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
    """Return the weight of the patients' focal region at each position, at most 1."""
    weights = []
    for centre in _MEDIAL_TEMPORAL:
        squared = ((positions - np.asarray(centre)[:, None]) ** 2).sum(axis=0)
        weights.append(np.exp(-0.5 * squared / _WIDTH_MM**2))
    return np.minimum(sum(weights), 1.0)


def _bias_terms(positions: Array, inside: NDArray[np.bool_]) -> Array:
    """Return polynomials (n_terms, n) of the positions, of mean 0 and unit variance `inside`."""
    x, y, z = positions / 80.0
    terms = np.stack([x, y, z, x * y, x * z, y * z, x * x, y * y, z * z])
    terms -= terms[:, inside].mean(axis=1, keepdims=True)
    return np.asarray(terms / terms[:, inside].std(axis=1, keepdims=True))


def _fine_maps() -> dict[str, Array]:
    """Return the maps at 1 mm over the field of view, and the field that points to the ventricles.

    In the cortex the shares of tissues are of people who are aligned by an affine alone.
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
    """Return the lateral ventricles: the two bodies of fluid about (±14, -15, 14) mm."""
    bodies, _ = ndimage.label(fluid > 0.6)
    ventricles = np.zeros(fluid.shape, dtype=bool)
    for side in (-14.0, 14.0):
        centre = np.subtract((side, -15.0, 14.0), MNI_ORIGIN_MM).round().astype(int)
        around = bodies[tuple(slice(c - 8, c + 9) for c in centre)]
        numbers = np.bincount(around[around > 0])
        ventricles |= bodies == numbers.argmax()
    return ventricles


def _folding(axes: list[NDArray[np.float64]]) -> RandomField:
    """Return the field whose zero surfaces are sulci: noise of about twice their wavelength."""
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
    """Return cubic B-spline bases (n_voxels, n_controls) along the axes, for white noise."""
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
    """Return a map smoothed by a Gaussian of `sigma` voxels, with the same grid."""
    return _filter(fine, [np.arange(n, dtype=np.float64) for n in fine.shape], sigma)


def _filter(fine: Array, points: list[NDArray[np.float64]], sigma: float) -> Array:
    """Return Gaussian averages of a map about each point of a grid: one matrix product an axis."""
    for axis, centres in enumerate(points):
        distance = centres[:, None] - np.arange(fine.shape[axis])
        weights = np.exp(-0.5 * (distance / sigma) ** 2)
        weights = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
        fine = np.moveaxis(np.tensordot(weights, fine, axes=(1, axis)), 0, axis)
    return np.ascontiguousarray(fine)


def render_scan(
    settings: SimulationSettings, person: Person, scanner: Scanner | None = None
) -> NDArray[np.int16]:
    """Return the skull-stripped T1-weighted volume (D, H, W) of a person, in MNI space, RAS.

    The scanner is the one of the person's site unless `scanner` is another one.
    """
    anatomy = load_anatomy(settings.spacing_mm)
    if scanner is None:
        scanner = draw_scanner(settings, person.site)
    image, positions = _individual(settings, person, anatomy, scanner)
    volume = np.zeros(anatomy.shape, dtype=np.float32)
    brain = np.zeros(anatomy.shape, dtype=np.float32)
    volume.ravel()[anatomy.brain] = image
    from_origin = positions - np.asarray(MNI_ORIGIN_MM, dtype=np.float32)[:, None]
    voxels = from_origin / np.float32(anatomy.spacing_mm)
    brain.ravel()[anatomy.brain] = ndimage.map_coordinates(
        volume, voxels, order=1, output=np.float32
    )
    generator = derive_generator("simulated-scan", settings.seed, person.index)
    return _acquire(brain, scanner, anatomy, generator)


def _ageing(person: Person) -> tuple[float, float, float]:
    """Return the effects of age on cortex, ventricles and contrast, 0 at 20 years, about 1 at 80.

    The cortex thins fast in youth and slower later; ventricles hardly grow before 40 and fast after
    60, in men earlier.
    """
    years = (person.age + person.brain_age_gap - 20.0) / 60.0
    late = max(years, 0.0)
    cortex = (1.0 - np.exp(-1.2 * years)) / (1.0 - np.exp(-1.2))
    sign = -0.4
    if person.sex == "M":
        sign = 0.4
    earlier = sign * late * max(1.0 - late, 0.0)
    ventricles = 0.15 * years + 0.85 * late**2 + earlier
    return float(cortex), float(ventricles), float(years)


def _individual(
    settings: SimulationSettings, person: Person, anatomy: Anatomy, scanner: Scanner
) -> tuple[Array, Array]:
    """Return a person's image in template space, and the positions (3, n) to sample."""
    generator = derive_generator("simulated-anatomy", settings.seed, person.index)
    angles = np.deg2rad(_ROTATION_DEG) * generator.standard_normal(3)
    shift = _SHIFT_MM * generator.standard_normal(3)
    displacement = anatomy.smooth.draw(generator, 3).reshape(3, -1)[:, anatomy.brain]
    crossing = special.ndtr(np.abs(anatomy.folding.draw(generator).ravel()[anatomy.brain]))
    # A standard normal field that is high where another one crosses 0: sheets, as sulci are.
    sulci = -special.ndtri(np.clip(2.0 * crossing - 1.0, 1e-6, 1.0 - 1e-6)).astype(np.float32)
    folding = anatomy.individual * sulci

    cortex, ventricles, years = _ageing(person)
    # A loss opens folds where this person's are, and what is fluid already cannot be lost again.
    in_front = 1.0 + np.float32(0.4) * np.tanh(anatomy.positions[1] / np.float32(40.0))
    loss = np.float32(_CORTEX_LOSS * (cortex - 0.5)) * anatomy.outer * in_front
    soft = np.sqrt(1.0 - anatomy.individual**2)
    fluid = special.ndtr((folding + loss - anatomy.fluid_above) / soft)
    white = special.ndtr((anatomy.white_below - folding - np.float32(0.3) * loss) / soft)
    grey = np.maximum(1.0 - fluid - white, 0.0)
    # Of one severity, the disease takes more in the old, and it cannot take more than there is.
    focal = person.focal_loss * (0.6 + 0.8 * np.clip(years, 0.0, 1.0))
    taken = grey * -np.expm1(np.float32(-focal) * anatomy.medial_temporal)
    grey = grey - taken
    fluid = fluid + taken
    contrast = _CONTRAST_LOSS * (years - 0.3) - scanner.white_shift
    signal = (
        (1.0 - np.float32(contrast * (1.0 - GREY))) * white
        + np.float32(GREY) * grey
        + np.float32(FLUID) * fluid
    )
    image = anatomy.image + anatomy.head * signal

    growth = _VENTRICLES_MM * (ventricles - 0.25) + _VENTRICLES_SD_MM * person.ventricle_gap
    rotation = Rotation.from_euler("xyz", angles).as_matrix()
    inverse = (rotation * np.exp(-person.log_size)).astype(np.float32)
    positions = inverse @ anatomy.positions + shift.astype(np.float32)[:, None]
    # Men are displaced along one pattern, which is the same for all, and women against the pattern.
    fields = anatomy.smooth.draw(derive_generator("simulated-sex"), 3)
    pattern = fields.reshape(3, -1)[:, anatomy.brain]
    along_pattern_mm = -_SEX_MM
    if person.sex == "M":
        along_pattern_mm = _SEX_MM
    displacement *= np.float32(_DEFORMATION_MM)
    displacement += np.float32(along_pattern_mm) * pattern
    positions += (1.0 - np.float32(_STIFF_RIM) * anatomy.outer) * displacement
    positions += np.float32(growth) * anatomy.towards_ventricles
    return image, positions


def _strip(
    brain: Array, scanner: Scanner, anatomy: Anatomy, generator: np.random.Generator
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the image after skull-stripping, and a mask of the kept voxels of `anatomy.brain`."""
    mask = brain > _BORDER
    darkness = np.clip(1.0 - brain / np.float32(GREY), 0.0, 1.0) * mask
    with_fluid = brain + np.float32(scanner.fluid) * darkness
    brain = np.maximum(with_fluid, np.float32(0.5 * _BORDER) * mask)
    if scanner.stripping_mm == 0.0:
        return brain, mask.ravel()[anatomy.brain]
    # Half a voxel: distances run between centres, and the border between two of them.
    away = ndimage.distance_transform_edt(~mask) - ndimage.distance_transform_edt(mask)
    away_mm = anatomy.spacing_mm * (away - 0.5 * np.sign(away))
    unevenness = anatomy.smooth.draw(generator)[0].ravel()[anatomy.brain]
    cut_mm = scanner.stripping_mm * (1.0 + 0.3 * unevenness)
    added = ~mask & (away_mm < np.abs(scanner.stripping_mm) * 2.0)
    brain = np.where(added, np.float32(_MENINGES + scanner.fluid), brain).astype(np.float32)
    return brain, away_mm.ravel()[anatomy.brain] < cut_mm


def _acquire(
    brain: Array, scanner: Scanner, anatomy: Anatomy, generator: np.random.Generator
) -> NDArray[np.int16]:
    """Apply contrast, blur, bias field and Rician noise inside the brain; store whole numbers."""
    brain, kept = _strip(brain, scanner, anatomy, generator)
    inside = np.flatnonzero(kept)
    signal = np.maximum(brain, 0.0) ** np.float32(scanner.gamma)
    upwards_mm = np.hypot(scanner.blur_mm, scanner.slice_mm / FWHM_PER_SIGMA)
    blur = np.array([scanner.blur_mm, scanner.blur_mm, upwards_mm]) / anatomy.spacing_mm
    signal = ndimage.gaussian_filter(signal, blur, truncate=3.0)
    seen = signal.ravel()[anatomy.brain[inside]]
    bias = np.asarray(scanner.bias)
    # The position of the head in the coil differs between people.
    of_person = scanner.own_bias * generator.standard_normal(bias.size) / bias.size**0.5
    seen = seen * np.exp((bias + of_person).astype(np.float32) @ anatomy.bias_terms[:, inside])
    noise = np.float32(scanner.noise) * generator.standard_normal((2, seen.size), dtype=np.float32)
    seen = np.hypot(seen + noise[0], noise[1])
    stored = np.zeros(brain.size, dtype=np.int16)
    stored[anatomy.brain[inside]] = np.clip(np.rint(scanner.gain * seen), 1.0, _LARGEST_STORED)
    return stored.reshape(brain.shape)
