"""Small inputs of the commands, and what their tests read from a run."""

import csv
import json
import os
import shutil
import signal
from pathlib import Path
from typing import NamedTuple

import nibabel as nib
import numpy as np
import pandas as pd

from neurocontrast.embedding import write_embeddings
from neurocontrast.progress import SILENT
from neurocontrast.provenance import subject_digest

TIMING = ("seconds", "samples_per_second")
FASTEST = {
    "n_bootstraps": 0,
    "confounds": False,
    "new_site": False,
    "outlyingness": False,
    "n_folds": 2,
    "n_inner_folds": 2,
    "C": (1e-2, 1.0),
    "alpha": (1.0, 100.0),
}
"""Settings of an evaluation that measures nothing but its metrics."""
SAMPLE = Path(__file__).resolve().parents[2] / "sample" / "measures"
PEOPLE = str(SAMPLE / "participants.tsv")
LEFT, RIGHT, VOLUMES = sorted(map(str, SAMPLE.glob("data-*.tsv")))
TABLES = [LEFT, VOLUMES]
"""Thickness of one hemisphere, and volumes: less to read than the sample's three tables."""
MEASURES = {"data": {"measures": TABLES}}
KERNEL_OF_AGE = [{"type": "gaussian", "column": "age", "sigma": 5.0, "missing": "marginal"}]
OF_MEASURES = {
    "data": {"participants": PEOPLE, "measures": TABLES},
    "augment": {"noise": {"sd": 0.25}},
    "training": {"epochs": 2, "batch_size": 64},
    "objective": {"loss": "conditional", "temperature": 1.0, "kernel": KERNEL_OF_AGE},
}
"""A run on regional measures of the sample."""
INFO = {
    "pretraining_subjects": [subject_digest("somebody")],
    "run": {"weights": {"sha256": "a" * 64}},
}


class Evaluated(NamedTuple):
    """A run, an embeddings table that it made, and an evaluation of that."""

    run: Path
    table: Path
    evaluation: Path


def embedded_people(
    path,
    *,
    n=60,
    first=0,
    n_features=12,
    strength=1.5,
    classes=("control", "patient"),
    change=None,
    **info,
):
    """Write embeddings of made people, whose first features tell the class; `change` is called with their table."""
    generator = np.random.default_rng(first)
    codes = generator.integers(len(classes), size=n)
    names = [f"sub-{first + row:03d}" for row in range(n)]
    table = pd.DataFrame({"participant_id": names, "subject_id": names, "session": "1"})
    table["path"] = [f"{name}.nii.gz" for name in names]
    table["age"] = generator.uniform(20, 80, n)
    table["sex"] = generator.choice(["F", "M"], n)
    table["site"] = generator.choice(["london", "ucla"], n)
    table["diagnosis"] = np.array(classes)[codes]
    features = (
        generator.normal(size=(n, n_features)) + strength * np.eye(len(classes), n_features)[codes]
    )
    table = table if change is None else change(table)
    write_embeddings(path, table, features[table.index].astype(np.float32), INFO | info)
    return path


def weights(run):
    return (run / "encoder.safetensors").read_bytes()


def metrics(run):
    with open(run / "metrics.csv", newline="") as stream:
        return [{k: v for k, v in row.items() if k not in TIMING} for row in csv.DictReader(stream)]


class Listening(type(SILENT)):
    """Keeps what is said, and of that what is a warning."""

    def __init__(self):
        self.said = []
        self.warned = []

    def message(self, text):
        self.said.append(text)

    def warning(self, text):
        self.said.append(text)
        self.warned.append(text)


class Interrupting(Listening):
    """Sends this process a signal once a line begins as given."""

    def __init__(self, line, sent=signal.SIGTERM):
        super().__init__()
        self.line = line
        self.sent = sent

    def message(self, text):
        super().message(text)
        if text.startswith(self.line):
            self.line = "never again"
            os.kill(os.getpid(), self.sent)


def people_of(participants):
    """Return a table of scans as `pretrain` and others take it in memory, with the whole path of each."""
    table = pd.read_csv(participants, sep="\t")
    return table.assign(path=[str(participants.parent / path) for path in table["path"]])


def read_json(path):
    return json.loads(path.read_text())


def changed_run(run, folder, **sections):
    """Copy a run, and change what its `encoder.json` says: keys of a section by a dictionary, or the whole of it."""
    copy = shutil.copytree(run, folder)
    contract = read_json(copy / "encoder.json")
    for name, value in sections.items():
        contract[name] = contract[name] | value if isinstance(value, dict) else value
    (copy / "encoder.json").write_text(json.dumps(contract))
    return copy


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
