"""Trees as other programs leave them, around real brains: names, formats, tables; and BIDS trees of empty images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import nibabel as nib
import numpy as np
import pandas as pd

TIV_ML = 1512.3


class Person(NamedTuple):
    """Somebody of the shared brains; the image is in RAS order."""

    label: str
    age: str
    sex: str
    image: nib.Nifti1Image


def people_of(brains: Path, n: int) -> list[Person]:
    """Return the first people with an age of a folder of brains."""
    rows = pd.read_csv(brains / "participants.tsv", sep="\t", dtype=str).dropna(subset=["age"]).head(n)
    return [
        Person(f"{number:012d}", row["age"], row["sex"], nib.as_closest_canonical(nib.load(brains / row["path"])))
        for number, row in enumerate(rows.to_dict("records"), start=1)
    ]


def _save(path: Path, image: nib.Nifti1Image, scale: float = 1.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    voxels = (image.get_fdata(dtype=np.float32) * scale).astype(np.float32)
    if path.suffix == ".npy":
        np.save(path, voxels[None, None])
    else:
        kind = nib.MGHImage if path.suffix == ".mgz" else nib.Nifti1Image
        nib.save(kind(voxels, image.affine), path)


def _participants(root: Path, people: list[Person], **columns: str) -> None:
    rows = [{"participant_id": f"sub-{each.label}", "age": each.age, "sex": each.sex, **columns} for each in people]
    pd.DataFrame(rows).to_csv(root / "participants.tsv", sep="\t", index=False)


def write_fmriprep(root: Path, people: list[Person]) -> None:
    """Write what fMRIPrep leaves of the anatomy: image, mask and tissue maps in one space, with the transforms."""
    for label, _, _, image in people:
        anat, stem = root / f"sub-{label}" / "anat", f"sub-{label}_space-MNI152NLin2009cAsym_res-2"
        _save(anat / f"{stem}_desc-preproc_T1w.nii.gz", image)
        mask = nib.Nifti1Image((image.get_fdata() > 0).astype(np.uint8), image.affine)
        _save(anat / f"{stem}_desc-brain_mask.nii.gz", mask)
        _save(anat / f"{stem}_dseg.nii.gz", mask)
        for name, share in (("GM", 0.5), ("WM", 0.3), ("CSF", 0.2)):
            _save(anat / f"{stem}_label-{name}_probseg.nii.gz", mask, share)
        (anat / f"sub-{label}_from-T1w_to-MNI152NLin2009cAsym_mode-image_xfm.h5").write_bytes(b"\x89HDF")
        (root / f"sub-{label}.html").write_text("<html></html>")
    _participants(root, people)


def write_cat12(root: Path, people: list[Person]) -> None:
    """Write what CAT12 leaves: maps and image in mri/, and a report."""
    for label, _, _, image in people:
        for prefix, share in (("mwp1", 0.004), ("mwp2", 0.003), ("wm", 1.0)):
            _save(root / "mri" / f"{prefix}sub-{label}_T1w.nii", image, share)
        report = root / "report" / f"cat_sub-{label}_T1w.xml"
        report.parent.mkdir(exist_ok=True)
        measures = f"<subjectmeasures><vol_TIV>{TIV_ML}</vol_TIV></subjectmeasures>"
        report.write_text(f"<S>{measures}<qualityratings><IQR>2.15</IQR></qualityratings></S>")
    _participants(root, people)


def write_freesurfer(root: Path, people: list[Person]) -> None:
    """Write a SUBJECTS_DIR: three images in mri/, the statistics, and fsaverage."""
    for label, _, _, image in [*people, people[0]._replace(label="fsaverage")]:
        subject = root / (label if label == "fsaverage" else f"sub-{label}")
        for name in ("T1", "norm", "brainmask"):
            _save(subject / "mri" / f"{name}.mgz", image)
        (subject / "stats").mkdir()
        name = "EstimatedTotalIntraCranialVol, eTIV, Estimated Total Intracranial Volume"
        (subject / "stats" / "aseg.stats").write_text(f"# Measure {name}, {TIV_ML * 1000:.6f}, mm^3\n")
    _participants(root, people)


def write_caps(root: Path, people: list[Person]) -> None:
    """Write what Clinica's t1-linear leaves: the cropped image and its transform."""
    for label, _, _, image in people:
        stem = f"sub-{label}_ses-M000_space-MNI152NLin2009cSym_desc-Crop_res-1x1x1"
        folder = root / "subjects" / f"sub-{label}" / "ses-M000" / "t1_linear"
        _save(folder / f"{stem}_T1w.nii.gz", image)
        (folder / f"sub-{label}_ses-M000_space-MNI152NLin2009cSym_res-1x1x1_affine.mat").write_bytes(b"MAT")
    _participants(root, people)


def write_openbhb(root: Path, people: list[Person]) -> None:
    """Write arrays of OpenBHB, with its table of participants (identifiers without sub-) and its table of quality."""
    for label, _, _, image in people:
        _save(root / "val" / f"sub-{label}_preproc-cat12vbm_desc-gm_T1w.npy", image, 0.004)
    rows = [(each.label, each.age, {"F": "female", "M": "male"}[each.sex], "7", "7.1") for each in people]
    table = pd.DataFrame(rows, columns=["participant_id", "age", "sex", "site", "siteXacq"])
    table.to_csv(root / "participants.tsv", sep="\t", index=False)
    table.assign(qc=1)[["participant_id", "qc"]].to_csv(root / "qc.tsv", sep="\t", index=False)


def write_brainprep(root: Path, people: list[Person]) -> None:
    """Write what brainprep's quasi-raw protocol leaves: the image of every step."""
    for label, _, _, image in people:
        for step in ("1bet", "4bfc", "6apply"):
            _save(root / f"sub-{label}" / "ses-1" / "anat" / f"sub-{label}_ses-1_desc-{step}_T1w.nii.gz", image)
    _participants(root, people)


def write_ixi(root: Path, people: list[Person]) -> None:
    """Write a folder of IXI, and its sheet as a table with codes in the column's name."""
    rows = []
    for number, (_, age, sex, image) in enumerate(people, start=1):
        _save(root / f"IXI{number:03d}-HH-{1200 + number}-T1.nii.gz", image)
        rows.append({"IXI_ID": number, "SEX_ID (1=m, 2=f)": {"M": 1, "F": 2}[sex], "AGE": age})
    pd.DataFrame(rows).to_csv(root / "IXI.csv", index=False)


WRITERS = {
    "fmriprep": write_fmriprep,
    "cat12": write_cat12,
    "freesurfer": write_freesurfer,
    "caps": write_caps,
    "openbhb": write_openbhb,
    "brainprep": write_brainprep,
    "ixi": write_ixi,
}


def write_empty_bids(root: Path, n_subjects: int, *, n_sessions: int = 0, n_runs: int = 0) -> list[str]:
    """Write a tree like those of bids-examples: every image has 0 bytes. Return the paths of the T1w images."""
    images = []
    for subject in (f"sub-{number:02d}" for number in range(1, n_subjects + 1)):
        for session in [f"ses-{number}" for number in range(1, n_sessions + 1)] or [""]:
            folder = root / subject / session
            stems = ["_".join(filter(None, (subject, session, run))) for run in _runs(n_runs)]
            others = [f"func/{stems[0]}_task-rest_bold", f"dwi/{stems[0]}_dwi", f"anat/{stems[0]}_T2w"]
            for name in [*others, *(f"anat/{stem}_T1w" for stem in stems)]:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / f"{name}.nii.gz").touch()
                (folder / f"{name}.json").write_text(json.dumps({"Manufacturer": "Siemens"}))
            images += [f"{(folder / 'anat').relative_to(root).as_posix()}/{stem}_T1w.nii.gz" for stem in stems]
    people = pd.DataFrame({"participant_id": [f"sub-{number:02d}" for number in range(1, n_subjects + 1)]})
    people.assign(age=30, sex="F").to_csv(root / "participants.tsv", sep="\t", index=False)
    return images


def _runs(n_runs: int) -> list[str]:
    return [f"run-{number:02d}" for number in range(1, n_runs + 1)] or [""]
