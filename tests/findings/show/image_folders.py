"""Small folders of evaluations of natural images, as `evaluate` writes them with a fixed split."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from neurocontrast.findings.comparison.show import Comparison

CLASSES = ("airplane", "bird", "cat", "deer", "dog", "frog", "ship")
RUN = {
    "format": 1,
    "encoder": {"name": "resnet18", "stem": "cifar", "projection": [2048, 128], "projection_norm": "layers"},
    "n_features": 512,
    "epochs": 100,
    "n_training_scans": 400,
    "preprocessing": {
        "kind": "images",
        "transform_version": 1,
        "shape": [3, 8, 8],
        "standardise": "channels",
        "mean": [0.5, 0.5, 0.5],
        "std": [0.2, 0.2, 0.2],
    },
}
WARNINGS = [
    {"code": "site_missing", "message": "No scan has a site."},
    {"code": "class_imbalance", "message": "Class 'cat' has 2% of the images."},
]


def make_images(folder: Path, *, n: int = 140, classes: Sequence[str] = CLASSES, store: bool = True, **changes) -> Path:
    """Write an evaluation of images; `changes` replace keys of evaluation.json, None takes one out."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    names = np.array(classes, dtype=object)
    truth = np.arange(n) % len(names)
    scores = random.normal(0, 1, (n, len(names)))
    scores[np.arange(n), truth] += 3.0
    scores = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    given = scores.argmax(axis=1)
    if store:
        _write_store(folder, n)
    predictions = pd.DataFrame(
        {
            "participant_id": [f"test-{index:05d}" for index in range(n)],
            "subject_id": [f"test-{index:05d}" for index in range(n)],
            "session": "",
            "site": "",
            "path": [f"images.npy#{index}" for index in range(n)],
            "repeat": 0,
            "fold": 0,
            "y_true": names[truth],
            "y_score": scores.max(axis=1),
            "y_pred": names[given],
            **{f"score_{name}": scores[:, index] for index, name in enumerate(names)},
        }
    )
    tables = {
        "predictions": predictions,
        "folds": pd.DataFrame([{"repeat": 0, "fold": 0, "n_train": 500, "n_test": n, "C": 0.01}]),
        "sites": pd.DataFrame(columns=["site", "n"]),
        "training": _training(),
        "map": predictions[["participant_id"]].assign(target=names[truth], pc1=scores[:, 0], pc2=scores[:, 1]),
    }
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    summary = _summary(names, n, accuracy=float((truth == given).mean())) | changes
    written = {key: value for key, value in summary.items() if value is not None or key not in changes}
    (folder / "evaluation.json").write_text(json.dumps(written))
    (folder / "config.yaml").write_text("evaluation:\n  target: label\n")
    return folder


def _write_store(folder: Path, n: int) -> None:
    images = np.zeros((n, 3, 8, 8), dtype=np.uint8)
    images[:] = (np.arange(n) % 256).reshape(-1, 1, 1, 1)
    images[:, 0, 0, :] = 255  # a red line at the top, so that axes and channels cannot be exchanged unseen
    np.save(folder / "images.npy", images)
    about = {"format": 1, "dataset": "cifar10", "settings": {"dataset": "cifar10", "seed": 0, "n_train": 400}}
    (folder / "images.json").write_text(json.dumps(about))


def _summary(names: np.ndarray, n: int, *, accuracy: float) -> dict:
    metrics = {
        "balanced_accuracy": _metric(accuracy),
        "auc": _metric(0.98),
        "accuracy": _metric(accuracy),
        **({"top5_accuracy": _metric(0.995)} if len(names) > 5 else {}),
    }
    return {
        "format": 1, "target": "label", "kind": "multiclass", "classes": list(names), "positive": None,
        "splits": "fixed", "n_folds": 1, "n_repeats": 1, "seed": 0, "metrics": metrics,
        "n": {"scans": n + 500, "subjects": n + 500, "sites": 0, "features": 512, "excluded": {}},
        "split": {"column": "split", "n": {"train": 400, "validation": 100, "test": n}, "chosen_on": "validation",
                  "refit_on": ["train", "validation"], "n_fitted": 500,
                  "n_pretrained": {"train": 400, "validation": 0, "test": 0}, "n_duplicates": {"test": 0}},
        "probe": {"name": "logistic", "strength_name": "C", "strength": 0.01},
        "baseline": {"accuracy": {"pooled": 1 / len(names), "interval": None}}, "baseline_covariates": [],
        "bootstrap": {"n": 2000, "method": "BCa", "unit": "subject", "level": 0.95},
        "warnings": WARNINGS, "run": RUN, "objective": {"loss": "supcon", "label": "label", "temperature": 0.1},
        "environment": {"neurocontrast": "0.1.0", "packages": {"torch": "2.13.0", "nilearn": "0.14"}},
        "embeddings": {"file": "emb.parquet", "digest": "cd" * 16}, "n_overlap": 0, "simulated": False,
    }  # fmt: skip


def _metric(value: float) -> dict:
    return {"mean": value, "sd": None, "pooled": value, "interval": [value - 0.02, value + 0.004], "n_folds_defined": 1}


def _training() -> pd.DataFrame:
    epoch = np.arange(1, 6)
    return pd.DataFrame({"epoch": epoch, "train_loss": 5.0 - epoch / 10, "samples_per_second": 400.0 + epoch,
                         "probe_label_balanced_accuracy": epoch / 10})  # fmt: skip


def make_comparison() -> Comparison:
    """Return a comparison of two models of images."""
    values = {"accuracy": (0.90, 0.93), "top5_accuracy": (0.99, 0.995), "auc": (0.95, 0.96)}
    models = [
        {"model": name, "metric": metric, "value": value, "low": value - 0.01, "high": value + 0.01}
        for metric, pair in values.items()
        for name, value in zip(("simclr", "supcon"), pair, strict=True)
    ]
    differences = []
    for (metric, (one, other)), p in zip(values.items(), (0.001, 0.2, None), strict=True):
        gain = other - one
        row = {"metric": metric, "model": "supcon", "reference": "simclr", "difference": gain, "low": gain - 0.01}
        row |= {"high": gain + 0.01, "n_folds": 1, "p_value": p, "p_adjusted": p, "test": "mcnemar" if p else None}
        differences.append(row)
    summary = {
        "format": 1, "target": "label", "kind": "multiclass", "classes": list(CLASSES), "splits": "fixed", "n_folds": 1,
        "n_repeats": 1, "reference": "simclr", "n_bootstraps": 100, "confidence_level": 0.95,
        "models": [{"name": name, "run": RUN, "warnings": []} for name in ("simclr", "supcon")], "environment": {},
    }  # fmt: skip
    tables = map(pd.DataFrame, (models, differences, {"model": [], "metric": []}, {"unseen": []}))
    return Comparison(summary, *tables)
