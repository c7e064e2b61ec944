"""What the tests of `pretrain` read from a run, and maps for it to read."""

import csv
import os
import signal

import nibabel as nib
import numpy as np
import pandas as pd

from neurocontrast.progress import SILENT

TIMING = ("seconds", "samples_per_second")


def weights(run):
    return (run / "encoder.safetensors").read_bytes()


def metrics(run):
    with open(run / "metrics.csv", newline="") as stream:
        return [{k: v for k, v in row.items() if k not in TIMING} for row in csv.DictReader(stream)]


class Listening(type(SILENT)):
    def __init__(self):
        self.said = []

    def message(self, text):
        self.said.append(text)

    def warning(self, text):
        self.said.append(text)


class Interrupting(Listening):
    """Sends this process a signal once a line begins as given."""

    def __init__(self, line):
        super().__init__()
        self.line = line

    def message(self, text):
        super().message(text)
        if text.startswith(self.line):
            self.line = "never again"
            os.kill(os.getpid(), signal.SIGTERM)


def with_maps(participants):
    """Write maps of dark and of bright voxels beside each scan, and return a table with them as gm and wm."""
    table = pd.read_csv(participants, sep="\t", dtype=str, keep_default_na=False)
    maps = {"gm": [], "wm": []}
    for name, path in zip(table["participant_id"], table["path"], strict=True):
        image = nib.load(participants.parent / path)
        voxels = image.get_fdata()
        middle = np.median(voxels[voxels > 0])
        for tissue, inside in (("gm", (voxels > 0) & (voxels <= middle)), ("wm", voxels > middle)):
            of_tissue = nib.Nifti1Image(inside * voxels.astype(np.float32), image.affine)
            nib.save(of_tissue, participants.parent / f"{name}_{tissue}.nii.gz")
            maps[tissue].append(f"{name}_{tissue}.nii.gz")
    table.assign(**maps).to_csv(participants.parent / "maps.tsv", sep="\t", index=False)
    return participants.parent / "maps.tsv"
