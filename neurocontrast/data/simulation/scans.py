"""A simulated cohort on disk: brains as scanners see them, the table, and the record of what was planted."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import ndimage, special
from scipy.spatial.transform import Rotation

from neurocontrast.data.simulation.anatomy import FLUID, GREY, ORIGIN_MM, Anatomy, load_anatomy
from neurocontrast.data.simulation.population import (
    SEX_SCALE,
    Person,
    Scanner,
    SimulationSettings,
    draw_person,
    draw_scanner,
    draw_sites,
)
from neurocontrast.files import write_json, write_table
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment
from neurocontrast.seeds import derive_generator
from neurocontrast.transforms.limits import FWHM_PER_SIGMA

__all__ = ["describe_simulation", "render_scan", "write_cohort"]

Array = NDArray[np.float32]

_LARGEST_STORED = 32_000.0
_BORDER, _MENINGES = 0.12, 0.35
"""Intensities over white matter's: of the brain's border, and of what a loose skull-stripping leaves."""

# Fitted to real brains: benchmarks/simulation.py.
_ROTATION_DEG, _SHIFT_MM = 0.3, 0.3  # left by an affine registration
_STIFF_RIM = 0.6  # of the deformation, less at the brain's rim, which the affine fits
_DEFORMATION_MM = 2.2  # standard deviation of the smooth displacements of a person, along each axis
_SEX_MM = 0.18  # how far men are displaced along a pattern, and women the other way (standard deviation over the brain)
_CORTEX_LOSS = 2.0  # between 20 and 80 years: shift of where fluid begins, in standard deviations of the folding
_VENTRICLES_MM, _VENTRICLES_SD_MM = 4.0, 1.3
_CONTRAST_LOSS = 0.15  # of white over grey matter, between 20 and 80 years


def render_scan(settings: SimulationSettings, person: Person, scanner: Scanner | None = None) -> NDArray[np.int16]:
    """Return the skull-stripped T1-weighted volume of a person, in MNI space, RAS.

    The scanner is that of the person's site, unless another one is given.
    """
    anatomy = load_anatomy(settings.spacing_mm)
    scanner = draw_scanner(settings, person.site) if scanner is None else scanner
    brain = _warp(anatomy, *_individual(settings, person, anatomy, scanner))
    return _acquire(brain, scanner, anatomy, derive_generator("simulated-scan", settings.seed, person.index))


def _ageing(person: Person) -> tuple[float, float, float]:
    """Return what age has done to the cortex, the ventricles and the contrast, from 0 at 20 years to about 1 at 80.

    The cortex thins fast in youth and slower later; ventricles hardly grow before 40 and fast after 60, in men earlier.
    """
    years = (person.age + person.brain_age_gap - 20.0) / 60.0
    late = max(years, 0.0)
    cortex = (1.0 - np.exp(-1.2 * years)) / (1.0 - np.exp(-1.2))
    earlier = (0.4 if person.sex == "M" else -0.4) * late * max(1.0 - late, 0.0)
    ventricles = 0.15 * years + 0.85 * late**2 + earlier
    return float(cortex), float(ventricles), float(years)


def _individual(
    settings: SimulationSettings, person: Person, anatomy: Anatomy, scanner: Scanner
) -> tuple[Array, Array]:
    """Return the person's image in template space and the positions to sample it at."""
    generator = derive_generator("simulated-anatomy", settings.seed, person.index)
    angles, shift = np.deg2rad(_ROTATION_DEG) * generator.standard_normal(3), _SHIFT_MM * generator.standard_normal(3)
    displacement = anatomy.smooth.draw(generator, 3).reshape(3, -1)[:, anatomy.brain]
    folding = anatomy.individual * _sulci(anatomy.folding.draw(generator).ravel()[anatomy.brain])

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
    grey, fluid = grey - taken, fluid + taken
    contrast = _CONTRAST_LOSS * (years - 0.3) - scanner.white_shift
    signal = (1.0 - np.float32(contrast * (1.0 - GREY))) * white + np.float32(GREY) * grey + np.float32(FLUID) * fluid
    image = anatomy.image + anatomy.head * signal

    growth = _VENTRICLES_MM * (ventricles - 0.25) + _VENTRICLES_SD_MM * person.ventricle_gap
    inverse = (Rotation.from_euler("xyz", angles).as_matrix() * np.exp(-person.log_size)).astype(np.float32)
    positions = inverse @ anatomy.positions + shift.astype(np.float32)[:, None]
    # Of one pattern for all: on which side of it a person lies is their sex.
    pattern = anatomy.smooth.draw(derive_generator("simulated-sex"), 3).reshape(3, -1)[:, anatomy.brain]
    displacement *= np.float32(_DEFORMATION_MM)
    displacement += np.float32(_SEX_MM if person.sex == "M" else -_SEX_MM) * pattern
    positions += (1.0 - np.float32(_STIFF_RIM) * anatomy.outer) * displacement
    positions += np.float32(growth) * anatomy.towards_ventricles
    return image, positions


def _sulci(field: Array) -> Array:
    """Return a standard normal field that is high where another one crosses 0: sheets, as sulci are."""
    return -special.ndtri(np.clip(2.0 * special.ndtr(np.abs(field)) - 1.0, 1e-6, 1.0 - 1e-6)).astype(np.float32)


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
    """Return the image after skull-stripping, with fluid as the scanner shows it, and the voxels that are kept."""
    mask = brain > _BORDER
    darkness = np.clip(1.0 - brain / np.float32(GREY), 0.0, 1.0) * mask
    brain = np.maximum(brain + np.float32(scanner.fluid) * darkness, np.float32(0.5 * _BORDER) * mask)
    if scanner.stripping_mm == 0.0:
        return brain, mask.ravel()[anatomy.brain]
    # Half a voxel: distances run between centres, and the border between two of them.
    away = ndimage.distance_transform_edt(~mask) - ndimage.distance_transform_edt(mask)
    away_mm = anatomy.spacing_mm * (away - 0.5 * np.sign(away))
    cut_mm = scanner.stripping_mm * (1.0 + 0.3 * anatomy.smooth.draw(generator)[0].ravel()[anatomy.brain])
    added = ~mask & (away_mm < np.abs(scanner.stripping_mm) * 2.0)
    brain = np.where(added, np.float32(_MENINGES + scanner.fluid), brain).astype(np.float32)
    return brain, away_mm.ravel()[anatomy.brain] < cut_mm


def _acquire(brain: Array, scanner: Scanner, anatomy: Anatomy, generator: np.random.Generator) -> NDArray[np.int16]:
    """Apply contrast, blur, bias field and Rician noise inside the brain, and store as a scanner would."""
    brain, kept = _strip(brain, scanner, anatomy, generator)
    inside = np.flatnonzero(kept)
    signal = np.maximum(brain, 0.0) ** np.float32(scanner.gamma)
    upwards_mm = np.hypot(scanner.blur_mm, scanner.slice_mm / FWHM_PER_SIGMA)
    blur = np.array([scanner.blur_mm, scanner.blur_mm, upwards_mm]) / anatomy.spacing_mm
    signal = ndimage.gaussian_filter(signal, blur, truncate=3.0)
    seen = signal.ravel()[anatomy.brain[inside]]
    bias = np.asarray(scanner.bias)
    # How the head lies in the coil is a person's own.
    own = scanner.own_bias * generator.standard_normal(bias.size) / bias.size**0.5
    seen = seen * np.exp((bias + own).astype(np.float32) @ anatomy.bias_terms[:, inside])
    noise = np.float32(scanner.noise) * generator.standard_normal((2, seen.size), dtype=np.float32)
    seen = np.hypot(seen + noise[0], noise[1])
    stored = np.zeros(brain.size, dtype=np.int16)
    stored[anatomy.brain[inside]] = np.clip(np.rint(scanner.gain * seen), 1.0, _LARGEST_STORED)
    return stored.reshape(brain.shape)


def write_cohort(
    settings: SimulationSettings, folder: Path, *, n_workers: int = 1, progress: Progress = SILENT
) -> pd.DataFrame:
    """Write images, ``participants.tsv`` and ``simulation.json`` into `folder`.

    The files are the same for any `n_workers`.
    """
    from joblib import Parallel, delayed  # here, for a quicker start of other commands

    people = [draw_person(settings, index) for index in range(settings.n_subjects)]
    (folder / "images").mkdir(parents=True, exist_ok=True)
    work = (delayed(_write_person)(settings, person, folder) for person in people)
    with progress.task("simulating", len(people), "subjects") as task:
        for _ in Parallel(n_jobs=n_workers, return_as="generator", batch_size=8)(work):
            task.advance()
    names = [site.name for site in draw_sites(settings)]
    table = pd.DataFrame([_row(person, names[person.site]) for person in people])
    write_table(folder / "participants.tsv", table)
    write_json(folder / "simulation.json", describe_simulation(settings))
    return table


def describe_simulation(settings: SimulationSettings) -> dict[str, Any]:
    """Return the settings and what was planted, JSON-ready."""
    return {
        "format": 1,
        "simulated": True,
        "statement": "Simulated from the MNI152 templates: no real person was scanned, nothing clinical follows.",
        "settings": settings.model_dump(mode="json"),
        "planted": {
            "people": "own folding and shape",
            "age": "cortex lost, slower with age; ventricles grow, faster with age and earlier in men; contrast lost",
            "sex": f"men's brains are {np.expm1(SEX_SCALE):.1%} longer on average",
            "patients, focal": f"medial temporal grey lost (strength {settings.focal_atrophy:g}), more in the old",
            "patients, ageing-like": f"brains look {settings.patient_ageing_years:g} years older on average",
            "sites": "contrast, fluid, bias field, noise, blur, slices and skull-stripping of each scanner (strength "
            f"{settings.site_effects:g}); diagnosis confounded with site (strength {settings.confounding:g})",
        },
        "sites": [
            {"name": site.name, "share": round(site.share, 4), "patients": round(site.patients, 4)}
            for site in draw_sites(settings)
        ],
        "environment": describe_environment(),
    }


def _row(person: Person, site: str) -> dict[str, str]:
    return {
        "participant_id": person.participant_id,
        "subject_id": person.participant_id,
        "path": f"images/{person.participant_id}_T1w.nii.gz",
        "age": f"{person.age:.2f}",
        "sex": person.sex,
        "site": site,
        "diagnosis": person.diagnosis,
        "simulated": "yes",
    }


def _write_person(settings: SimulationSettings, person: Person, folder: Path) -> None:
    affine = load_anatomy(settings.spacing_mm).affine
    image = nib.Nifti1Image(render_scan(settings, person), affine)
    image.header["descrip"] = b"neurocontrast simulated"
    image.header.set_xyzt_units("mm")
    image.set_sform(affine, code="mni")
    image.set_qform(affine, code="mni")
    # Level 1 and no time stamp: quick, and the same person is the same bytes.
    content = gzip.compress(image.to_bytes(), compresslevel=1, mtime=0)
    (folder / "images" / f"{person.participant_id}_T1w.nii.gz").write_bytes(content)
