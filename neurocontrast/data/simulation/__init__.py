"""Simulate a multi-site cohort of brain scans from the MNI152 templates, with planted effects."""

import gzip
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd

from neurocontrast.data.simulation.anatomy import load_anatomy
from neurocontrast.data.simulation.brains import render_scan
from neurocontrast.data.simulation.people import (
    SEX_SCALE,
    Person,
    Scanner,
    SimulationSettings,
    draw_person,
    draw_scanner,
    draw_sites,
)
from neurocontrast.documents.environment import Environment
from neurocontrast.documents.simulation import SimulatedSite, SimulationRecord
from neurocontrast.files import write_json, write_table
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment

__all__ = [
    "Person",
    "Scanner",
    "SimulationSettings",
    "describe_simulation",
    "draw_person",
    "draw_scanner",
    "render_scan",
    "write_cohort",
]


def write_cohort(
    settings: SimulationSettings, folder: Path, *, n_workers: int = 1, progress: Progress = SILENT
) -> pd.DataFrame:
    """Write a simulated cohort to `folder`: images, ``participants.tsv``, ``simulation.json``.

    Return the table of people. The files are the same for any `n_workers`.
    """
    from joblib import Parallel, delayed  # not at the top: other commands start sooner

    people = [draw_person(settings, index) for index in range(settings.n_subjects)]
    (folder / "images").mkdir(parents=True, exist_ok=True)
    work = (delayed(_write_person)(settings, person, folder) for person in people)
    with progress.task("simulating", len(people), "subjects") as task:
        for _ in Parallel(n_jobs=n_workers, return_as="generator", batch_size=8)(work):
            task.advance()
    names = [site.name for site in draw_sites(settings)]
    ids = [person.participant_id for person in people]
    table = pd.DataFrame(
        {
            "participant_id": ids,
            "subject_id": ids,
            "path": [f"images/{name}_T1w.nii.gz" for name in ids],
            "age": [f"{person.age:.2f}" for person in people],
            "sex": [person.sex for person in people],
            "site": [names[person.site] for person in people],
            "diagnosis": [person.diagnosis for person in people],
            "simulated": "yes",
        }
    )
    write_table(folder / "participants.tsv", table)
    write_json(folder / "simulation.json", describe_simulation(settings).content())
    return table


def describe_simulation(settings: SimulationSettings) -> SimulationRecord:
    """Return the record of a simulation: settings, sites, and effects that were planted."""
    planted = {
        "people": "own folding and shape",
        "age": (
            "cortex lost, slower with age; ventricles grow, faster with age and earlier in men; "
            "contrast lost"
        ),
        "sex": f"men's brains are {np.expm1(SEX_SCALE):.1%} longer on average",
        "patients, focal": (
            f"medial temporal grey lost (strength {settings.focal_atrophy:g}), more in the old"
        ),
        "patients, ageing-like": (
            f"brains look {settings.patient_ageing_years:g} years older on average"
        ),
        "sites": (
            "contrast, fluid, bias field, noise, blur, slices and skull-stripping of each scanner "
            f"(strength {settings.site_effects:g}); diagnosis confounded with site (strength "
            f"{settings.confounding:g})"
        ),
    }
    sites = []
    for site in draw_sites(settings):
        share = round(site.share, 4)
        patients = round(site.patients, 4)
        sites.append(SimulatedSite(name=site.name, share=share, patients=patients))
    return SimulationRecord(
        format=1,
        simulated=True,
        statement=(
            "Simulated from the MNI152 templates: no real person was scanned, nothing clinical "
            "follows."
        ),
        settings=settings.model_dump(mode="json"),
        planted=planted,
        sites=sites,
        environment=Environment.model_validate(describe_environment()),
    )


def _write_person(settings: SimulationSettings, person: Person, folder: Path) -> None:
    """Write a person's simulated scan to ``images`` in `folder`, as a compressed NIfTI file."""
    affine = load_anatomy(settings.spacing_mm).affine
    image = nib.Nifti1Image(render_scan(settings, person), affine)
    image.header["descrip"] = b"neurocontrast simulated"
    image.header.set_xyzt_units("mm")
    image.set_sform(affine, code="mni")
    image.set_qform(affine, code="mni")
    # Level 1 and no time stamp: quick, and the same person is the same bytes.
    content = gzip.compress(image.to_bytes(), compresslevel=1, mtime=0)
    (folder / "images" / f"{person.participant_id}_T1w.nii.gz").write_bytes(content)
