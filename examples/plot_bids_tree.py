"""
Your BIDS tree
==============

From a folder as BIDS wants it to a table that every command takes: `index` finds the scans and joins what the tables
say of people and sessions, `check` reads every image and lists all problems at once.
"""

# %%
# A BIDS tree
# -----------
#
# Made here of eight brains of the sample cohort. Ages are in ``participants.tsv``; one is missing, as happens.
import shutil
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import nibabel
import pandas as pd

import neurocontrast
from neurocontrast.data import read_cohort
from neurocontrast.datasets import load_sample

tree = Path(tempfile.mkdtemp(prefix="neurocontrast-example-")) / "bids"
people = load_sample().table.groupby("site").head(3).reset_index(drop=True)
for number, path in enumerate(people["path"], start=1):
    scan = tree / f"sub-{number:02d}" / "anat" / f"sub-{number:02d}_T1w.nii.gz"
    scan.parent.mkdir(parents=True)
    shutil.copy(path, scan)
table = pd.DataFrame(
    {"participant_id": [f"sub-{number:02d}" for number in range(1, len(people) + 1)]}
)
table[["age", "sex", "site"]] = people[["age", "sex", "site"]]
table.loc[4, "age"] = None
table.to_csv(tree / "participants.tsv", sep="\t", index=False, na_rep="n/a")
(tree / "dataset_description.json").write_text('{"Name": "example", "BIDSVersion": "1.9.0"}')
print(*sorted(path.relative_to(tree) for path in tree.rglob("*.nii.gz"))[:3], "...", sep="\n")

# %%
# One table
# ---------
#
# On the command line: ``neurocontrast index BIDS --out study/participants.tsv``. In Python:
study = neurocontrast.index(tree, tree.parent / "participants.tsv").path
cohort = read_cohort(study)
print(cohort.table[["participant_id", "age", "sex", "site"]])

# %%
# Is it fit to use?
# -----------------
#
# ``neurocontrast check study/participants.tsv`` reads every image. What it says of this tree:
print(neurocontrast.check(study).to_text())

# %%
# A look at the scans
# -------------------
figure, axes = plt.subplots(1, len(cohort), figsize=(11, 1.9), layout="constrained")
for axis, (_, row) in zip(axes, cohort.table.iterrows(), strict=True):
    volume = nibabel.load(row["path"]).get_fdata()
    axis.imshow(volume[:, :, volume.shape[2] // 2].T, cmap="gray", origin="lower")
    axis.set(title=f"{row['site']}\n{row['sex']}, {row['age']:.0f}", xticks=[], yticks=[])
plt.show()
