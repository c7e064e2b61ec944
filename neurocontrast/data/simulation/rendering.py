"""A person's brain, as a scanner sees it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from neurocontrast.data.simulation.anatomy import ORIGIN_MM, Anatomy, load_anatomy
from neurocontrast.data.simulation.population import Person, Scanner, draw_scanner
from neurocontrast.data.simulation.simulation_settings import SimulationSettings
from neurocontrast.seeds import derive_generator

__all__ = ["render_scan"]

Array = NDArray[np.float32]

_LARGEST_STORED = 32_000.0
_BORDER = 0.12
"""Below this fraction of white matter's intensity a voxel counts as outside the brain."""

_GREY, _MENINGES = 0.651 / 0.864, 0.35
"""Intensities of grey matter, and of what a loose skull-stripping leaves around the brain, over white matter's."""

_FWHM = float(np.sqrt(8.0 * np.log(2.0)))
"""Width at half the height of a Gaussian, in standard deviations."""


def render_scan(settings: SimulationSettings, person: Person, *, session: int = 0) -> NDArray[np.int16]:
    """Return the skull-stripped T1-weighted volume of one session, in MNI space, RAS.

    The anatomy comes from the person, noise and the scan's own bias field from the
    person and the session, contrast, blur and the rest from the site's scanner.
    """
    anatomy = load_anatomy(settings.spacing_mm)
    scanner = draw_scanner(settings, person.site)
    brain = _warp(anatomy, *_individual(settings, person, person.ages[session], anatomy, scanner))
    generator = derive_generator("simulated-scan", settings.seed, person.index, session)
    return _acquire(brain, scanner, anatomy, generator)


def _individual(
    settings: SimulationSettings, person: Person, age: float, anatomy: Anatomy, scanner: Scanner
) -> tuple[Array, Array]:
    """Return the person's image in template space and the positions to sample it at."""
    generator = derive_generator("simulated-anatomy", settings.seed, person.index)
    angles, shift = np.deg2rad(1.5) * generator.standard_normal(3), generator.standard_normal(3)
    *displacement, tissue = _smooth_fields(anatomy, generator)

    ageing = (age + person.brain_age_gap - 20.0) / 60.0
    growth = settings.ventricle_growth_mm * (np.sign(ageing) * abs(ageing) ** 1.5 - 0.25 + 0.22 * person.ventricle_gap)
    loss = settings.age_atrophy * (ageing - 0.3)
    contrast = settings.age_contrast_loss * (ageing - 0.3) - scanner.white_shift
    effects = anatomy.effects
    image = anatomy.image + np.float32(loss) * effects["atrophy"] + np.float32(contrast) * effects["contrast"]
    image += np.float32(settings.tissue_variability) * tissue * effects["tissue"]
    if person.focal_loss > 0.0:
        image += np.float32(person.focal_loss) * effects[settings.focal_region]

    inverse = (_rotation(angles) * np.exp(-person.log_size)).astype(np.float32)
    positions = inverse @ anatomy.positions + shift.astype(np.float32)[:, None]
    positions += np.float32(settings.deformation_mm) * np.stack(displacement)
    positions += np.float32(growth) * anatomy.towards_ventricles
    return image, positions


def _smooth_fields(anatomy: Anatomy, generator: np.random.Generator) -> Array:
    """Return four random fields of unit variance over the brain's voxels; three displace, one varies tissue."""
    basis_x, basis_y, basis_z = anatomy.splines
    controls = (4, basis_x.shape[1], basis_y.shape[1], basis_z.shape[1])
    fields = generator.standard_normal(controls, dtype=np.float32) @ basis_z.T
    fields = basis_y @ fields
    fields = basis_x @ fields.reshape(4, basis_x.shape[1], -1)
    return fields.reshape(4, -1)[:, anatomy.brain]


def _rotation(angles: NDArray[np.float64]) -> NDArray[np.float64]:
    (cx, cy, cz), (sx, sy, sz) = np.cos(angles), np.sin(angles)
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return about_z @ about_y @ about_x


def _warp(anatomy: Anatomy, image: Array, positions: Array) -> Array:
    volume = np.zeros(anatomy.shape, dtype=np.float32)
    volume.ravel()[anatomy.brain] = image
    voxels = (positions - np.asarray(ORIGIN_MM, dtype=np.float32)[:, None]) / np.float32(anatomy.spacing_mm)
    warped = np.zeros(anatomy.shape, dtype=np.float32)
    warped.ravel()[anatomy.brain] = ndimage.map_coordinates(volume, voxels, order=1, output=np.float32)
    return warped


def _strip(
    brain: Array, scanner: Scanner, anatomy: Anatomy, generator: np.random.Generator
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the image as the site's skull-stripping leaves it, fluid as its scanner shows it, and what is kept."""
    mask = brain > _BORDER
    if scanner.fluid != 0.0:
        darkness = np.clip(1.0 - brain / np.float32(_GREY), 0.0, 1.0) * mask
        brain = np.maximum(brain + np.float32(scanner.fluid) * darkness, np.float32(0.5 * _BORDER) * mask)
    if scanner.stripping_mm == 0.0:
        return brain, mask.ravel()[anatomy.brain]
    # Half a voxel: distances run between centres, and the border between two of them.
    away = ndimage.distance_transform_edt(~mask) - ndimage.distance_transform_edt(mask)
    away_mm = anatomy.spacing_mm * (away - 0.5 * np.sign(away))
    cut_mm = scanner.stripping_mm * (1.0 + 0.3 * _smooth_fields(anatomy, generator)[0])
    added = ~mask & (away_mm < np.abs(scanner.stripping_mm) * 2.0)
    brain = np.where(added, np.float32(_MENINGES + scanner.fluid), brain).astype(np.float32)
    return brain, away_mm.ravel()[anatomy.brain] < cut_mm


def _acquire(brain: Array, scanner: Scanner, anatomy: Anatomy, generator: np.random.Generator) -> NDArray[np.int16]:
    """Apply contrast, blur, bias field and Rician noise inside the brain, and store as a scanner would."""
    brain, kept = _strip(brain, scanner, anatomy, generator)
    inside = np.flatnonzero(kept)
    signal = np.maximum(brain, 0.0) ** np.float32(scanner.gamma)
    if scanner.slice_mm > 0.0:
        signal = ndimage.gaussian_filter1d(signal, scanner.slice_mm / _FWHM / anatomy.spacing_mm, axis=2)
    if scanner.blur_mm > 0.0:
        signal = ndimage.gaussian_filter(signal, scanner.blur_mm / anatomy.spacing_mm, truncate=3.0)
    seen = signal.ravel()[anatomy.brain[inside]]
    # A person's own coil loading changes a third of the site's bias field.
    own = np.linalg.norm(scanner.bias) / 3.0 * generator.standard_normal(scanner.bias.size) / scanner.bias.size**0.5
    seen = seen * np.exp((scanner.bias + own).astype(np.float32) @ anatomy.bias_terms[:, inside])
    noise = np.float32(scanner.noise) * generator.standard_normal((2, seen.size), dtype=np.float32)
    seen = np.hypot(seen + noise[0], noise[1])
    stored = np.zeros(brain.size, dtype=np.int16)
    stored[anatomy.brain[inside]] = np.clip(np.rint(scanner.gain * seen), 1.0, _LARGEST_STORED)
    return stored.reshape(brain.shape)
