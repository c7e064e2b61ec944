"""Render simulated scans: MNI152 maps on a grid, differences between people, and acquisition."""

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, special
from scipy.spatial.transform import Rotation

from neurocontrast.data.simulation.anatomy import FLUID, GREY, Anatomy, Array, load_anatomy
from neurocontrast.data.simulation.people import Person, Scanner, SimulationSettings, draw_scanner
from neurocontrast.seeds import derive_generator
from neurocontrast.transforms.preprocessing import (
    FWHM_PER_SIGMA,
    MNI_ORIGIN_MM,
)

_LARGEST_STORED = 32_000.0
_BORDER = 0.12
"""Signal at the brain's border, relative to white matter."""
_MENINGES = 0.35
"""Signal of tissue that a loose skull-stripping leaves, relative to white matter."""

# Fitted to real brains: benchmarks/simulation.py.
_ROTATION_DEG = 0.3
_SHIFT_MM = 0.3
"""Standard deviation of the shift in mm that affine registration leaves, along each axis."""
_STIFF_RIM = 0.6
"""Share of the deformation that is missing at the brain's rim, as affine registration fits the
rim.
"""
_DEFORMATION_MM = 2.2
"""Standard deviation of a person's smooth displacements in mm, along each axis."""
_SEX_MM = 0.18
"""Standard deviation in mm of the sexes' displacement: along a pattern in men, against in women."""
_CORTEX_LOSS = 2.0
"""Shift of the fluid's border from 20 to 80 years, in standard deviations of the folding field."""
_VENTRICLES_MM = 4.0
"""Displacement at the ventricles' border from 20 to 80 years, in mm."""
_VENTRICLES_SD_MM = 1.3
"""Standard deviation in mm, among people of the same age, of the displacement at the ventricles'
border.
"""
_CONTRAST_LOSS = 0.15
"""Share of the contrast of white over grey matter that is lost from 20 to 80 years."""


def render_scan(
    settings: SimulationSettings, person: Person, scanner: Scanner | None = None
) -> NDArray[np.int16]:
    """Render the skull-stripped T1-weighted volume (D, H, W) of a simulated person, in MNI space.

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
    """Return effects of a person's age on cortex, ventricles and contrast: 0 at 20 years, 1 at 80.

    The age is the apparent age of the person's brain. The cortex thins fast in youth and slower
    later; ventricles hardly grow before 40 and fast after 60, in men earlier.
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
    """Return a person's tissue signal, and the deformation that gives the brain its size and shape.

    The signal is on the template's voxels. The deformation is the position (3, n) in the signal,
    in mm, from which each voxel of the scan takes its value.
    """
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
    displacement *= np.float32(_DEFORMATION_MM)
    displacement += _displacement_of_sex(person, anatomy)
    positions += (1.0 - np.float32(_STIFF_RIM) * anatomy.outer) * displacement
    positions += np.float32(growth) * anatomy.towards_ventricles
    return image, positions


def _displacement_of_sex(person: Person, anatomy: Anatomy) -> Array:
    """Return the displacement (3, n) in mm of the brain's voxels by the sex of a person.

    Men are displaced along a smooth random pattern, and women against the same pattern.
    """
    fields = anatomy.smooth.draw(derive_generator("simulated-sex"), 3)
    pattern = fields.reshape(3, -1)[:, anatomy.brain]
    along_pattern_mm = -_SEX_MM
    if person.sex == "M":
        along_pattern_mm = _SEX_MM
    return np.asarray(np.float32(along_pattern_mm) * pattern)


def _strip(
    brain: Array, scanner: Scanner, anatomy: Anatomy, generator: np.random.Generator
) -> tuple[Array, NDArray[np.bool_]]:
    """Imitate skull-stripping of `brain`: return the image, and a mask (n,) of kept voxels.

    The mask is over the voxels of `anatomy.brain`. Signals are relative to white matter; `scanner`
    has the signal added to fluid, and the distance of the cut from the brain's border.
    """
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
    """Return the volume that a scanner stores of `brain`, as whole numbers; 0 outside the brain.

    Skull-stripping, contrast, blur, bias field and Rician noise are imitated. `brain` is the signal
    of tissue relative to white matter.
    """
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
