"""A simulated cohort on disk: brains as scanners see them, the table, and the record of what was planted."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial.transform import Rotation

from neurocontrast.data.simulation.anatomy import ORIGIN_MM, Anatomy, load_anatomy
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
_DEFORMATION_MM = 1.0  # standard deviation of the smooth displacements of a person, along each axis
_BORDER, _GREY, _MENINGES = 0.12, 0.651 / 0.864, 0.35
"""Intensities over white matter's: of the brain's border, grey matter, and what a loose skull-stripping leaves."""


def render_scan(settings: SimulationSettings, person: Person, *, session: int = 0) -> NDArray[np.int16]:
    """Return the skull-stripped T1-weighted volume of one session, in MNI space, RAS."""
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
        image += np.float32(person.focal_loss) * effects["medial_temporal"]

    inverse = (Rotation.from_euler("xyz", angles).as_matrix() * np.exp(-person.log_size)).astype(np.float32)
    positions = inverse @ anatomy.positions + shift.astype(np.float32)[:, None]
    positions += np.float32(_DEFORMATION_MM) * np.stack(displacement)
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
        signal = ndimage.gaussian_filter1d(signal, scanner.slice_mm / FWHM_PER_SIGMA / anatomy.spacing_mm, axis=2)
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


_COLUMNS = {
    "participant_id": {"Description": "Simulated person; the number after 'sim' is the cohort's seed"},
    "session": {"Description": "Number of the scan of this person"},
    "subject_id": {"Description": "The person behind the scans; equal to participant_id"},
    "path": {"Description": "T1-weighted volume, relative to this folder"},
    "age": {"Description": "Age at the scan", "Units": "years"},
    "sex": {"Description": "Sex", "Levels": {"F": "female", "M": "male"}},
    "site": {"Description": "Simulated site, one scanner each"},
    "diagnosis": {"Description": "Simulated diagnosis", "Levels": {"control": "healthy", "patient": "effects planted"}},
    "simulated": {"Description": "No real person was scanned", "Levels": {"yes": "simulated data"}},
}


def write_cohort(
    settings: SimulationSettings, folder: Path, *, n_workers: int = 1, progress: Progress = SILENT
) -> pd.DataFrame:
    """Write images, ``participants.tsv``, ``participants.json`` and ``simulation.json`` into `folder`.

    The files are the same for any `n_workers`.
    """
    from joblib import Parallel, delayed  # here, for a quicker start of other commands

    people = [draw_person(settings, index) for index in range(settings.n_subjects)]
    (folder / "images").mkdir(parents=True, exist_ok=True)
    work = (delayed(_write_person)(settings, person, folder) for person in people)
    with progress.task("simulating", len(people), "subjects") as task:
        for _ in Parallel(n_jobs=n_workers, return_as="generator", batch_size=8)(work):
            task.advance()
    table = pd.DataFrame([row for person in people for row in _rows(settings, person)])
    write_table(folder / "participants.tsv", table)
    write_json(folder / "participants.json", {name: _COLUMNS[name] for name in table.columns})
    write_json(folder / "simulation.json", describe_simulation(settings))
    return table


def describe_simulation(settings: SimulationSettings) -> dict[str, Any]:
    """Return the settings and what was planted, JSON-ready."""
    return {
        "format": 1,
        "simulated": True,
        "statement": "Simulated from the MNI152 templates: no real person was scanned, nothing clinical follows.",
        "settings": settings.model_dump(mode="json"),
        "planted": _planted(settings),
        "sites": [
            {"name": site.name, "share": round(site.share, 4), "patients": round(site.patients, 4)}
            for site in draw_sites(settings)
        ],
        "environment": describe_environment(),
    }


def _planted(settings: SimulationSettings) -> dict[str, str]:
    differences = {
        "brightness of fluid": settings.site_fluid,
        "skull-stripping": settings.site_stripping_mm,
        "slice thickness": settings.site_slice_mm,
    }
    return {
        "age": f"between 20 and 80 years ventricles' walls move up to {settings.ventricle_growth_mm:g} mm, up to "
        f"{settings.age_atrophy:.0%} of outer grey matter and {settings.age_contrast_loss:.0%} of contrast are lost",
        "sex": f"men's brains are {np.expm1(SEX_SCALE):.1%} longer on average",
        "patients, focal": f"{settings.focal_atrophy:.0%} of medial temporal grey matter lost on average, at any age",
        "patients, ageing-like": f"brains look {settings.patient_ageing_years:g} years older on average",
        "sites": "contrast, bias field, noise and blur of each scanner"
        + "".join(f", {name}" for name, strength in differences.items() if strength)
        + (f"; diagnosis confounded with site (strength {settings.confounding:g})" if settings.confounding else ""),
    }


def _rows(settings: SimulationSettings, person: Person) -> Iterator[dict[str, Any]]:
    for session, age in enumerate(person.ages):
        row: dict[str, Any] = {"participant_id": person.participant_id}
        if settings.repeat_fraction > 0.0:
            row["session"] = str(session + 1)
        yield row | {
            "subject_id": person.participant_id,
            "path": f"images/{_file_name(settings, person, session)}",
            "age": f"{age:.2f}",
            "sex": person.sex,
            "site": draw_sites(settings)[person.site].name,
            "diagnosis": person.diagnosis,
            "simulated": "yes",
        }


def _file_name(settings: SimulationSettings, person: Person, session: int) -> str:
    part = f"_ses-{session + 1}" if settings.repeat_fraction > 0.0 else ""
    return f"{person.participant_id}{part}_T1w.nii.gz"


def _write_person(settings: SimulationSettings, person: Person, folder: Path) -> None:
    affine = load_anatomy(settings.spacing_mm).affine
    for session in range(len(person.ages)):
        volume = render_scan(settings, person, session=session)
        image = nib.Nifti1Image(volume, affine)
        image.header["descrip"] = b"neurocontrast simulated"
        image.header.set_xyzt_units("mm")
        image.set_sform(affine, code="mni")
        image.set_qform(affine, code="mni")
        # Level 1 and no time stamp: quick, and the same person is the same bytes.
        content = gzip.compress(image.to_bytes(), compresslevel=1, mtime=0)
        (folder / "images" / _file_name(settings, person, session)).write_bytes(content)
