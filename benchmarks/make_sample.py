"""Make the sample cohort of this repository: real brains with tissue maps at 4 mm, from a folder that `prepare` wrote.

    neurocontrast prepare ../shared/data/brains/participants.tsv --out PREPARED --spacing-mm 2
    python -m benchmarks.make_sample --prepared PREPARED --out sample

Writes `participants.tsv`, `images/` and `files.tsv`; the same folder gives the same bytes. Who is
taken: people of known age and sex without a remark on quality, in each site and diagnosis as many
as N_PEOPLE says, by systematic sampling: ordered by sex and age, every k-th from a random start. Of
the first site, every third of those taken, in that order, is `test`, the others are `train`; all
other sites are `test`.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd

from neurocontrast.files import atomic_folder, digest_of_file, write_table
from neurocontrast.transforms import brain_transforms

N_PEOPLE = {
    ("london", "control"): 70,
    ("novosibirsk", "control"): 21,
    ("novosibirsk", "depression"): 30,
    ("ucla", "control"): 10,
}
SEED = 0
N_STEPS = 64
"""Intensities from 0 to an image's maximum: finer steps are noise, which would be half of the files."""
GRID = {"spacing_mm": 4.0, "shape": (48, 56, 48)}
IMAGES = {"path": "T1w", "gm": "gm", "wm": "wm", "csf": "csf"}
COLUMNS = (
    "participant_id",
    "subject_id",
    "age",
    "sex",
    "site",
    "scanner",
    "diagnosis",
    "split",
    "source",
    "licence",
)
ATTRIBUTION = {
    "IXI-HH": "IXI dataset, Hammersmith Hospital, brain-development.org",
    "ds002748": "Bezmaternykh et al. 2021, OpenNeuro, doi:10.18112/openneuro.ds002748.v1.0.5",
    "ds000011": "Foerde, Knowlton & Poldrack 2006, OpenfMRI, accession number ds000011",
}


def choose(people: pd.DataFrame) -> pd.DataFrame:
    """Return the people of the sample, in the order of their identifiers, with a column `split`."""
    known = people[people["age"].notna() & people["sex"].notna() & people["qc"].isna()]
    generator, chosen = np.random.default_rng(SEED), []
    for place, (group, n) in enumerate(N_PEOPLE.items()):
        there = known[(known["site"] == group[0]) & (known["diagnosis"] == group[1])]
        if len(there) < n:
            raise SystemExit(f"{' '.join(group)}: {n} people are wanted, {len(there)} are there.")
        ordered = there.sort_values(["sex", "age", "participant_id"])
        taken = ordered.iloc[((np.arange(n) + generator.random()) * len(ordered) / n).astype(int)]
        tested = np.arange(n) % 3 == 1 if place == 0 else np.full(n, True)
        chosen.append(taken.assign(split=np.where(tested, "test", "train")))
    return pd.concat(chosen).sort_values("participant_id").reset_index(drop=True)


def write_image(path: Path, voxels: np.ndarray, affine: np.ndarray) -> None:
    """Write a volume as uint8 with a scale, a header of its own, and nothing that tells when it was made."""
    slope = float(voxels.max()) / N_STEPS
    image = nib.Nifti1Image(np.round(np.clip(voxels, 0, None) / slope).astype(np.uint8), affine)
    image.header.set_slope_inter(slope, 0)
    image.header.set_xyzt_units("mm")
    image.set_sform(affine, code=4)
    image.set_qform(affine, code=4)
    path.write_bytes(gzip.compress(image.to_bytes(), compresslevel=9, mtime=0))


def main() -> None:
    """Write the sample into the folder, beside what it holds of text."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prepared", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("sample"))
    options = parser.parse_args()
    table = choose(pd.read_csv(options.prepared / "participants.tsv", sep="\t"))
    to_grid = brain_transforms(**GRID, normalise="none", n_channels=len(IMAGES))
    files = [("participants.tsv", "all of them", "CC BY-SA 3.0", "; ".join(ATTRIBUTION.values()))]
    with atomic_folder(options.out / "images") as folder:
        for person in table.to_dict("records"):
            scan = to_grid(
                {"image": tuple(str(options.prepared / person[column]) for column in IMAGES)}
            )["image"]
            for suffix, voxels in zip(IMAGES.values(), scan.numpy(), strict=True):
                name = f"{person['participant_id']}_{suffix}.nii.gz"
                write_image(folder / name, voxels, scan.affine.numpy())
                files.append(
                    (
                        f"images/{name}",
                        person["source"],
                        person["licence"],
                        ATTRIBUTION[person["source"]],
                    )
                )
    for column, suffix in IMAGES.items():
        table[column] = [f"images/{name}_{suffix}.nii.gz" for name in table["participant_id"]]
    write_table(options.out / "participants.tsv", table[[*COLUMNS, *IMAGES]])
    listed = pd.DataFrame(files, columns=["file", "source", "licence", "attribution"])
    listed.insert(1, "sha256", [digest_of_file(options.out / file) for file in listed["file"]])
    write_table(options.out / "files.tsv", listed)
    print(
        table.groupby(["site", "diagnosis", "split", "sex"])["age"].describe()[
            ["count", "min", "50%", "max"]
        ]
    )
    print(
        f"{sum((options.out / file).stat().st_size for file in listed['file']) / 1e6:.2f} MB in {len(listed)} files"
    )


if __name__ == "__main__":
    main()
