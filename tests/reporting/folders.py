"""Small evaluations for tests of the report: what `evaluate` writes of invented features, and copies of it changed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pandas as pd

from neurocontrast.commands.evaluate import evaluate
from neurocontrast.documents.embeddings import write_embeddings

FAST = {"n_bootstraps": 10, "C": (0.01,), "alpha": (10.0,), "n_folds": 3, "n_inner_folds": 2}
BARE = {"confounds": False, "new_site": False, "outlyingness": False}
SITES = ("site-01", "site-02", "site-03", "site-04")
EPOCHS = [
    {
        "epoch": epoch,
        "train_loss": 5 - epoch,
        "val_loss": 5.2 - epoch,
        "val_effective_rank": 4 + epoch,
    }
    for epoch in (1.0, 2.0, 3.0)
]
INFO = {
    "run": {
        "neurocontrast": "0.1.0", "encoder": {"name": "densenet121"}, "epochs": 8, "n_training_scans": 270,
        "weights": {"file": "encoder.safetensors", "sha256": "ab" * 32}, "preprocessing": {"spacing_mm": 4.0},
    },
    "objective": {
        "loss": "yaware", "title": "y-Aware InfoNCE", "citation": "Dufumier B. Proxy meta-data. MICCAI 2021.",
        "temperature": 0.1, "kernel": [{"column": "age", "type": "gaussian", "sigma": 5.0}],
    },
    "pretraining_subjects": [], "simulated": True, "training_metrics": EPOCHS,
}  # fmt: skip
IMAGES = {
    "run": {"encoder": {"name": "resnet18"}, "epochs": 100, "preprocessing": {"kind": "images", "shape": [3, 8, 8]}},
    "objective": {"loss": "supcon", "label": "label", "temperature": 0.1},
    "pretraining_subjects": [], "training_metrics": EPOCHS,
}  # fmt: skip
CLASSES = ("airplane", "bird", "cat", "deer", "dog", "frog", "ship")


def rewrite(folder: Path, **keys: object) -> Path:
    """Replace keys of evaluation.json."""
    path = folder / "evaluation.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))
    return folder


def edit(folder: Path, name: str, change: Callable[[pd.DataFrame], Any]) -> Path:
    """Change a table of text in place, or write the one that `change` returns."""
    table = pd.read_csv(folder / f"{name}.tsv", sep="\t", dtype=str, keep_default_na=False).astype(
        object
    )
    found = change(table)
    (table if found is None else found).to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    return folder


def evaluate_scans(
    folder, make_cohort, target="diagnosis", *, n=120, sites=SITES, full=False, **options
) -> Path:
    """Evaluate scans, those of the second site of one class; if `full`, with everything that `evaluate` can add."""
    classes = options.pop("classes", ("control", "patient"))
    cohort = make_cohort(n + 60, n_features=8, n_sites=len(sites), classes=classes, diagnosis=0.4)
    table = cohort.table
    table["site"] = table["site"].map({f"site-{place}": name for place, name in enumerate(sites)})
    table.loc[table["site"] == sites[1], "diagnosis"] = classes[0]
    table["path"] = "/data/people/" + table["path"]
    for name, rows in (("emb", slice(n)), ("other", slice(n, None))):
        chosen = table[rows].assign(site="elsewhere") if name == "other" else table[rows]
        write_embeddings(
            folder.with_name(f"{name}.parquet"),
            chosen,
            cohort.features[rows].astype(np.float32),
            INFO,
        )
    more = {"test": str(folder.with_name("other.parquet")), "train_sizes": (20, 40), "n_draws": 1}
    evaluate(
        folder.with_name("emb.parquet"),
        out=folder,
        target=target,
        **FAST,
        **(more if full else BARE) | options,
    )
    return _add_explanation(folder) if full else folder


def evaluate_images(
    folder: Path, *, n: int = 140, classes=CLASSES, target: str = "label", **options
) -> Path:
    """Evaluate `n` test images, with 200 for training and 60 for validation."""
    random = np.random.default_rng(0)
    parts = {"train": 200, "validation": 60, "test": n}
    codes = np.arange(sum(parts.values())) % len(classes)
    names = [f"image-{row:05d}" for row in range(len(codes))]
    table = pd.DataFrame({"participant_id": names, "label": np.array(classes, dtype=object)[codes]})
    table["path"] = [f"images.npy#{row}" for row in range(len(codes))]
    table["split"] = np.repeat([*parts], [*parts.values()])
    features = np.eye(len(classes))[codes] + random.normal(0, 0.6, (len(codes), len(classes)))
    table["wings"] = features[:, 0] + random.normal(size=len(codes))
    write_embeddings(folder.with_name("emb.parquet"), table, features.astype(np.float32), IMAGES)
    evaluate(
        folder.with_name("emb.parquet"),
        out=folder,
        target=target,
        split_column="split",
        **FAST | options,
    )
    (folder / "images.npy").touch()
    (folder / "images.json").write_text('{"dataset": "cifar10"}')
    return folder


def _add_explanation(folder: Path) -> Path:
    """Write a map of occlusions with two peaks."""
    (folder / "explanation").mkdir()
    affine = np.diag([4.0, 4.0, 4.0, 1.0])
    affine[:3, 3] = (-90.0, -126.0, -72.0)
    places = np.stack(np.meshgrid(*map(np.arange, (46, 55, 46)), indexing="ij"), axis=-1)
    volume = sum(
        size
        * np.exp(-((nibabel.affines.apply_affine(affine, places) - centre) ** 2).sum(axis=-1) / 200)
        for size, centre in ((0.01, (26, -20, -16)), (-0.006, (0, 50, 10)))
    )
    nibabel.save(
        nibabel.Nifti1Image(volume.astype(np.float32), affine),
        folder / "explanation" / "saliency.nii.gz",
    )
    content = {
        "format": 1, "method": "occlusion", "n_subjects": 40, "target": "diagnosis", "positive": "patient",
        "spacing_mm": 4.0, "shape": [46, 55, 46], "patch_mm": 16, "map": "saliency.nii.gz",
        "template": "MNI152NLin2009aSym", "simulated": True,
        "top_regions": [{"x": 26, "y": -20, "z": -16, "value": 0.0098}, {"x": 0, "y": 50, "z": 10, "value": -0.006}],
    }  # fmt: skip
    (folder / "explanation" / "explain.json").write_text(json.dumps(content))
    return folder
