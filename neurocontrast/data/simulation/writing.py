"""A simulated cohort on disk: images, the table, and the record of what was planted."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from neurocontrast.data.simulation.anatomy import load_anatomy
from neurocontrast.data.simulation.population import Person, draw_person, draw_sites
from neurocontrast.data.simulation.rendering import render_scan
from neurocontrast.data.simulation.simulation_settings import SimulationSettings
from neurocontrast.files import write_json, write_table
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment

__all__ = ["describe_simulation", "write_cohort"]

_COLUMNS: dict[str, dict[str, Any]] = {
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
    people = [draw_person(settings, index) for index in range(settings.n_subjects)]
    (folder / "images").mkdir(parents=True, exist_ok=True)
    with progress.task("simulating", len(people), "subjects") as task:
        for _ in _write_all(settings, people, folder, n_workers):
            task.advance()
    table = pd.DataFrame([row for person in people for row in _rows(settings, person)])
    write_table(folder / "participants.tsv", table)
    write_json(folder / "participants.json", {name: _COLUMNS[name] for name in table.columns})
    write_json(folder / "simulation.json", describe_simulation(settings))
    return table


def describe_simulation(settings: SimulationSettings) -> dict[str, Any]:
    """Return everything that was chosen and planted, JSON-ready."""
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
    region = settings.focal_region.replace("_", " ")
    return {
        "age": f"between 20 and 80 years ventricles' walls move up to {settings.ventricle_growth_mm:g} mm, up to "
        f"{settings.age_atrophy:.0%} of outer grey matter and {settings.age_contrast_loss:.0%} of contrast are lost",
        "sex": f"men's brains are {np.expm1(settings.sex_scale):.1%} longer on average",
        "patients, focal": f"{settings.focal_atrophy:.0%} of {region} grey matter lost on average, whatever the age",
        "patients, ageing-like": f"brains look {settings.patient_ageing_years:g} years older on average",
        "sites": "contrast, bias field, noise and blur of each scanner"
        + _input_differences(settings)
        + (f"; diagnosis confounded with site (strength {settings.confounding:g})" if settings.confounding else ""),
    }


def _input_differences(settings: SimulationSettings) -> str:
    planted = {
        "brightness of fluid": settings.site_fluid,
        "skull-stripping": settings.site_stripping_mm,
        "slice thickness": settings.site_slice_mm,
    }
    return "".join(f", {name}" for name, strength in planted.items() if strength)


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


def _write_all(settings: SimulationSettings, people: list[Person], folder: Path, n_workers: int) -> Iterator[None]:
    if n_workers == 1:
        for person in people:
            _write_person(settings, person, folder)
            yield
        return
    from joblib import Parallel, delayed

    work = (delayed(_write_person)(settings, person, folder) for person in people)
    yield from Parallel(n_jobs=n_workers, return_as="generator", batch_size=8)(work)


def _write_person(settings: SimulationSettings, person: Person, folder: Path) -> None:
    affine = load_anatomy(settings.spacing_mm).affine
    for session in range(len(person.ages)):
        volume = render_scan(settings, person, session=session)
        content = _nifti_bytes(volume, affine)
        (folder / "images" / _file_name(settings, person, session)).write_bytes(content)


def _nifti_bytes(volume: NDArray[np.int16], affine: NDArray[np.float64]) -> bytes:
    image = nib.Nifti1Image(volume, affine)
    image.header["descrip"] = b"neurocontrast simulated"
    image.header.set_xyzt_units("mm")
    image.set_sform(affine, code="mni")
    image.set_qform(affine, code="mni")
    # Level 1 and no time stamp: quick, and the same person is the same bytes.
    return gzip.compress(image.to_bytes(), compresslevel=1, mtime=0)
