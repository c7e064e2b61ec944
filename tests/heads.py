"""Whole heads for tests: a skull and a scalp around a brain, turned, and a BIDS tree of them at two sites."""

import json
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
from scipy.ndimage import affine_transform, distance_transform_edt, gaussian_filter

SPACING_MM = 2.5


def head_of(brain: nib.Nifti1Image, seed: int) -> nib.Nifti1Image:
    """Return a head around a stripped brain, turned by up to 15 degrees and shifted by up to 15 mm, with noise."""
    generator = np.random.default_rng(seed)
    image = nib.as_closest_canonical(brain)
    voxels = np.pad(image.get_fdata(dtype=np.float32), 16)
    spacing = float(image.header.get_zooms()[0])
    away = distance_transform_edt(voxels == 0) * spacing
    white = np.quantile(voxels[voxels > 0], 0.9)
    shells = [
        (2, 0.25),
        (7, 0.08),
        (9, 0.5),
        (15, 0.95),
    ]  # fluid, skull, marrow, scalp: up to so many mm, so bright
    head = voxels.copy()
    for (low, _), (high, brightness) in zip([(0, 0), *shells], shells, strict=False):
        head[(away > low) & (away <= high)] = brightness * white
    turn = np.radians(generator.uniform(-15, 15))
    shift = generator.uniform(-15, 15, 3) / spacing
    matrix = np.array(
        [[1, 0, 0], [0, np.cos(turn), -np.sin(turn)], [0, np.sin(turn), np.cos(turn)]]
    )
    step = matrix * SPACING_MM / spacing
    shape = np.floor(np.array(head.shape) * spacing / SPACING_MM).astype(int)
    offset = (np.array(head.shape) - 1) / 2 - step @ ((shape - 1) / 2) + shift
    turned = affine_transform(
        gaussian_filter(head, 0.5), step, offset, output_shape=tuple(shape), order=1
    )
    noisy = np.abs(turned + generator.normal(0, 0.02 * white, turned.shape)) + 1
    affine = np.diag([SPACING_MM] * 3 + [1.0])
    affine[:3, 3] = -SPACING_MM * (shape - 1) / 2
    return nib.Nifti1Image(noisy.astype(np.int16), affine)


def write_bids(root: Path, brains: Path, *, n_volunteers: int, n_study: int) -> None:
    """Write a BIDS tree of heads around brains of `brains`: volunteers and a study of two diagnoses, at two sites."""
    people = pd.read_csv(brains / "participants.tsv", sep="\t", dtype=str)
    people = people[people["age"].notna() & people["site"].isin(["london", "novosibirsk"])]
    n = n_volunteers + n_study
    chosen = pd.concat(each.head(n // 2) for _, each in people.groupby("site")).sort_values(
        "subject_id", kind="stable"
    )
    rows = []
    for number, person in enumerate(chosen.to_dict("records")):
        label = f"{number + 1:02d}"
        folder = root / f"sub-{label}" / "anat"
        folder.mkdir(parents=True)
        head = head_of(nib.load(brains / person["path"]), seed=number)
        nib.save(head, folder / f"sub-{label}_T1w.nii.gz")
        scanner = {
            "Manufacturer": "Philips",
            "ManufacturersModelName": person["scanner"],
            "MagneticFieldStrength": 3,
        }
        (folder / f"sub-{label}_T1w.json").write_text(json.dumps(scanner))
        of_site = sum(row["site"] == person["site"] for row in rows)
        cohort = "volunteers" if of_site < n_volunteers // 2 else "study"
        # Diagnoses are dealt, since all scans of one of the sites are of healthy people.
        of_study = sum(row["cohort"] == "study" for row in rows)
        diagnosis = "patient" if cohort == "study" and of_study % 2 else "control"
        rows.append({"participant_id": f"sub-{label}", "age": person["age"], "sex": person["sex"]})
        rows[-1] |= {"site": person["site"], "cohort": cohort, "diagnosis": diagnosis}
    pd.DataFrame(rows).to_csv(root / "participants.tsv", sep="\t", index=False)
    (root / "dataset_description.json").write_text(
        '{"Name": "Heads for tests", "BIDSVersion": "1.10.0"}'
    )
