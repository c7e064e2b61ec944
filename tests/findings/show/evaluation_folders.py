"""Small evaluation folders made in code, as `evaluate` writes them: one maker for each kind of target."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
)

ENVIRONMENT = {
    "neurocontrast": "0.1.0",
    "git": {"commit": "0" * 40, "modified": False},
    "python": "3.11.9",
    "packages": {"torch": "2.13.0", "numpy": "2.3.1", "scikit-learn": "1.9.0"},
    "platform": "Linux-6.1-x86_64",
    "n_cpus": 2,
    "command": ["neurocontrast", "evaluate", "/home/someone/private/emb.parquet", "--target", "diagnosis"],
    "created": "2026-11-21T12:00:00+00:00",
}
RUN = {
    "format": 1,
    "neurocontrast": "0.1.0",
    "encoder": {"name": "densenet121", "final_norm": True, "projection": [512, 128]},
    "n_features": 1024,
    "weights": {"file": "encoder.safetensors", "sha256": "ab" * 32},
    "epochs": 8,
    "n_training_scans": 270,
    "objective": {"loss": "yaware"},
    "preprocessing": {
        "transform_version": 1,
        "spacing_mm": 4.0,
        "shape": [46, 55, 46],
        "normalise": "zscore",
        "orientation": "RAS",
    },
    "batchnorm": {"statistics": "cumulative average over un-augmented training scans", "n_scans": 270},
}
OBJECTIVE = {
    "loss": "yaware",
    "title": "y-Aware InfoNCE",
    "citation": "Dufumier B, Gori P, Victor J, et al. Contrastive learning with proxy meta-data. MICCAI 2021.",
    "temperature": 0.1,
    "kernel": [
        {"column": "age", "missing": "error", "type": "gaussian", "sigma": 5.0},
        {"column": "sex", "missing": "error", "type": "categorical"},
    ],
}
WARNINGS = [
    {"code": "single_class_site", "message": "Site 'site-02' has only 'control' (9 scans)."},
    {"code": "few_patients", "message": "Site 'site-03' has 3 scans of 'patient'; fewer than 5."},
    {"code": "site_confounded", "message": "Site and diagnosis go together: Cramér's V = 0.41."},
]


def make_cohort(n: int, sites: Sequence[str], *, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    weights = np.linspace(2.0, 0.5, len(sites))
    return pd.DataFrame(
        {
            "participant_id": [f"sub-{index:04d}" for index in range(n)],
            "subject_id": [f"sub-{index:04d}" for index in range(n)],
            "session": "",
            "site": random.choice(np.array(sites, dtype=object), n, p=weights / weights.sum()),
            "age": random.uniform(18, 80, n).round(1),
            "sex": random.choice(["F", "M"], n),
        }
    )


def make_binary(
    folder: Path,
    *,
    n: int = 120,
    sites: Sequence[str] = ("site-01", "site-02", "site-03", "site-04"),
    classes: Sequence[str] = ("control", "patient"),
    n_folds: int = 5,
    n_repeats: int = 1,
    strength: float = 1.2,
    n_boot: int = 10,
    **changes: object,
) -> Path:
    """Write an evaluation of a binary target; `changes` replace keys of evaluation.json."""
    table = make_cohort(n, sites)
    random = np.random.default_rng(1)
    truth = random.integers(0, 2, n)
    if len(sites) > 1:
        truth[(table["site"] == sites[1]).to_numpy()] = 0
    logit = strength * (truth - 0.5) + random.normal(0, 1, n)
    table["y_true"] = np.array(classes, dtype=object)[truth]
    baseline = 0.3 * (truth - 0.5) + random.normal(0, 1, n)
    tables = []
    for repeat in range(n_repeats):
        noise = random.normal(0, 0.15, n)
        part = table.assign(repeat=repeat, fold=random.permutation(n) % n_folds)
        part["y_score"] = 1 / (1 + np.exp(-(logit + noise)))
        part["baseline_score"] = 1 / (1 + np.exp(-(baseline + noise)))
        tables.append(part)
    predictions = pd.concat(tables, ignore_index=True)
    positive = classes[1]
    measures = {
        "auc": lambda y, s: roc_auc_score(y, s),
        "balanced_accuracy": lambda y, s: balanced_accuracy_score(y, s >= 0.5),
        "average_precision": lambda y, s: average_precision_score(y, s),
    }
    coded = predictions.assign(y=(predictions["y_true"] == positive).astype(int))
    counts = pd.crosstab(table["site"], table["y_true"])
    cohort = counts.assign(total=counts.sum(axis=1)).reset_index()
    return _write(
        folder,
        coded,
        measures,
        cohort,
        {"kind": "binary", "target": "diagnosis", "classes": list(classes), "positive": positive, "n_folds": n_folds,
         "n_repeats": n_repeats, **changes},
        n_boot=n_boot,
    )  # fmt: skip


def make_multiclass(folder: Path, *, n: int = 150, **changes: object) -> Path:
    """Write an evaluation of a target with four classes."""
    classes = ["control", "bipolar", "schizophrenia", "depression"]
    table = make_cohort(n, ["north", "south", "east"])
    random = np.random.default_rng(2)
    truth = random.integers(0, len(classes), n)
    scores = random.normal(0, 1, (n, len(classes)))
    scores[np.arange(n), truth] += 1.3
    scores = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    table["y_true"] = np.array(classes, dtype=object)[truth]
    table = table.assign(repeat=0, fold=random.permutation(n) % 5, baseline_score=np.nan)
    for index, name in enumerate(classes):
        table[f"score_{name}"] = scores[:, index]
    table["y_score"] = scores.argmax(axis=1)
    coded = table.assign(y=truth)
    measures = {"balanced_accuracy": balanced_accuracy_score}
    counts = pd.crosstab(table["site"], table["y_true"])[classes]
    cohort = counts.assign(total=counts.sum(axis=1)).reset_index()
    summary = {"kind": "multiclass", "target": "diagnosis", "classes": classes, "positive": None, "baseline": {},
               "baseline_covariates": [], "increment": {}, "warnings": [], **changes}  # fmt: skip
    return _write(folder, coded, measures, cohort, summary)


def make_continuous(folder: Path, *, n: int = 150, sites: Sequence[str] = ("a", "b", "c"), **changes: object) -> Path:
    """Write an evaluation of age."""
    table = make_cohort(n, sites)
    random = np.random.default_rng(3)
    table["y_true"] = table["age"]
    table["y_score"] = 48 + 0.8 * (table["age"] - 48) + random.normal(0, 6, n)
    table["baseline_score"] = 48 + random.normal(0, 2, n)
    table = table.assign(repeat=0, fold=random.permutation(n) % 5, y=table["age"])
    measures = {"mae": mean_absolute_error, "r2": r2_score}
    cohort = table.groupby("site")["y"].agg(n="size", mean="mean", sd="std", min="min", max="max").reset_index()
    summary = {"kind": "continuous", "target": "age", "classes": [], "positive": None,
               "baseline_covariates": ["sex", "site"], "warnings": [], **changes}  # fmt: skip
    return _write(folder, table, measures, cohort, summary)


def _write(
    folder: Path, coded: pd.DataFrame, measures: dict, cohort: pd.DataFrame, summary: dict, *, n_boot: int = 10
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    first = coded[coded["repeat"] == 0].reset_index(drop=True)
    has_baseline = first["baseline_score"].notna().all()
    metrics = {name: _summarise(coded, "y_score", measure, n_boot) for name, measure in measures.items()}
    baseline = {
        name: _summarise(coded, "baseline_score", measure, n_boot) for name, measure in measures.items() if has_baseline
    }
    increment = {
        name: {
            "difference": metrics[name]["pooled"] - baseline[name]["pooled"],
            "interval": _bootstrap(first, _difference(measure), n_boot),
        }
        for name, measure in measures.items()
        if has_baseline
    }
    content = {
        "format": 1, "splits": "stratified", "n_folds": 5, "n_repeats": 1, "seed": 0,
        "n": {"scans": len(first), "subjects": first["subject_id"].nunique(), "sites": first["site"].nunique(),
              "features": 1024, "excluded": {"target missing": 4}},
        "metrics": metrics, "baseline": baseline, "baseline_covariates": ["age", "sex", "site"],
        "increment": increment, "warnings": WARNINGS,
        "bootstrap": {"n": 2000, "unit": "subject", "level": 0.95}, "simulated": True,
        "simulation": {"patients": 0.5, "focal_atrophy": 0.3, "seed": 0}, "run": RUN, "objective": OBJECTIVE,
        "environment": ENVIRONMENT, "embeddings": {"file": "embeddings.parquet", "digest": "cd" * 16},
        "allow_overlap": False, "n_overlap": 0, **summary,
    }  # fmt: skip
    (folder / "evaluation.json").write_text(json.dumps(content, indent=2))
    (folder / "config.yaml").write_text(
        "seed: 0\nevaluation:\n  target: diagnosis\n  embeddings: /home/someone/emb.parquet\n"
    )
    for name, table in (
        ("predictions", coded.drop(columns="y")),
        ("folds", _folds(coded, measures, has_baseline)),
        ("sites", _sites(first, measures, has_baseline, n_boot)),
        ("cohort", cohort),
        ("map", _map(first)),
        ("training", _training()),
    ):
        table.to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    return folder


def _value(rows: pd.DataFrame, column: str, measure: object) -> float:
    if rows["y"].nunique() < 2:
        return float("nan")
    return float(measure(rows["y"], rows[column]))  # type: ignore[operator]


def _summarise(coded: pd.DataFrame, column: str, measure: object, n_boot: int) -> dict:
    by_fold = [_value(rows, column, measure) for _, rows in coded.groupby(["repeat", "fold"])]
    first = coded[coded["repeat"] == 0].reset_index(drop=True)
    return {
        "mean": float(np.nanmean(by_fold)),
        "sd": float(np.nanstd(by_fold, ddof=1)),
        "pooled": _value(first, column, measure),
        "interval": _bootstrap(first, lambda rows: _value(rows, column, measure), n_boot),
        "n_folds_defined": int(np.isfinite(by_fold).sum()),
    }


def _difference(measure: object) -> object:
    return lambda rows: _value(rows, "y_score", measure) - _value(rows, "baseline_score", measure)


def _bootstrap(rows: pd.DataFrame, value: object, n_boot: int) -> list[float] | None:
    random = np.random.default_rng(4)
    draws = [value(rows.iloc[random.integers(0, len(rows), len(rows))]) for _ in range(n_boot)]  # type: ignore[operator]
    draws = [draw for draw in draws if np.isfinite(draw)]
    return [float(end) for end in np.quantile(draws, [0.025, 0.975])] if len(draws) > n_boot / 2 else None


def _folds(coded: pd.DataFrame, measures: dict, has_baseline: bool) -> pd.DataFrame:
    rows = []
    for (repeat, fold), part in coded.groupby(["repeat", "fold"]):
        row = {"repeat": repeat, "fold": fold, "n_train": (coded["repeat"] == repeat).sum() - len(part)}
        row |= {"n_test": len(part), "n_positive_test": int((part["y"] == 1).sum())}
        row |= {name: _value(part, "y_score", measure) for name, measure in measures.items()}
        if has_baseline:
            row |= {f"baseline_{name}": _value(part, "baseline_score", measure) for name, measure in measures.items()}
        rows.append(row | {"C": 0.01, "held_out_site": ""})
    return pd.DataFrame(rows)


def _sites(first: pd.DataFrame, measures: dict, has_baseline: bool, n_boot: int) -> pd.DataFrame:
    rows = []
    for site, part in first.groupby("site"):
        row: dict = {"site": site, "n": len(part)}
        if first["y"].nunique() <= 5:
            row |= {f"n_{name}": int((part["y_true"] == name).sum()) for name in sorted(first["y_true"].unique())}
        defined = part["y"].nunique() > 1 and len(part) > 2
        for name, measure in measures.items():
            interval = _bootstrap(part, lambda r, m=measure: _value(r, "y_score", m), n_boot) if defined else None
            row[name] = _value(part, "y_score", measure) if defined else np.nan
            row[f"{name}_low"], row[f"{name}_high"] = interval or (np.nan, np.nan)
            row[f"baseline_{name}"] = _value(part, "baseline_score", measure) if defined and has_baseline else np.nan
        rows.append(row | {"note": "" if defined else "only one class at this site"})
    return pd.DataFrame(rows)


def _map(first: pd.DataFrame) -> pd.DataFrame:
    random = np.random.default_rng(5)
    n = len(first)
    shift = first["site"].astype("category").cat.codes.to_numpy()
    columns = ["participant_id", "session", "site", "age", "sex"]
    return first[columns].assign(
        target=first["y_true"],
        pc1=first["age"] / 10 + random.normal(0, 1.5, n),
        pc2=shift + random.normal(0, 1, n),
    )


def _training() -> pd.DataFrame:
    epoch = np.arange(1, 9)  # columns as the trainer logs them
    decay = np.exp(-epoch / 3)
    return pd.DataFrame(
        {"epoch": epoch, "learning_rate": 1e-4, "train_loss": 2 + 2 * decay, "train_term_alignment": 1 + decay,
         "train_term_uniformity": 1 + decay, "gradient_norm": 1.0, "val_loss": 2.2 + 1.9 * decay,
         "val_alignment": 1.1 + decay, "val_uniformity": -2 - decay, "val_effective_rank": 9 - decay,
         "probe_age_r2": [np.nan, 0.1] * 4, "seconds": 3.0, "volumes_per_second": 90.0}
    )  # fmt: skip
