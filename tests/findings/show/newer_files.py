"""The files of newer evaluations, put beside those of `evaluation_folders`: groups, calibration, confounds and more."""

from __future__ import annotations

import json
from pathlib import Path

import nibabel
import numpy as np
import pandas as pd

METRIC = {"binary": "auc", "multiclass": "balanced_accuracy", "continuous": "mae"}


def add_newer_files(folder: Path) -> Path:
    """Write every optional file of an evaluation into its folder."""
    summary = json.loads((folder / "evaluation.json").read_text())
    predictions = pd.read_csv(folder / "predictions.tsv", sep="\t")
    kind, metric = summary["kind"], METRIC[summary["kind"]]
    first = predictions[predictions["repeat"] == 0].reset_index(drop=True)
    n = len(first)
    tables = {
        "flow": pd.DataFrame(
            [
                ("read", n + 12, n + 10, ""),
                ("excluded", 8, 7, "image not readable"),
                ("excluded", 4, 3, f"{summary['target']} missing"),
                ("evaluated", n, n, ""),
            ],
            columns=["step", "n_scans", "n_subjects", "reason"],
        ),
        "groups": _groups(first, metric),
        "confounds": _confounds(summary),
        "learning_curve": pd.DataFrame({"n_train": [30, 60], "draw": 0, "repeat": 0, "fold": 0, metric: [0.6, 0.7]}),
        "external_predictions": first.drop(columns=["repeat", "fold"]).assign(site="elsewhere"),
        "external_sites": pd.DataFrame({"site": ["elsewhere"], "n": [n], metric: [0.7], f"{metric}_low": [0.6],
                                        f"{metric}_high": [0.8], f"baseline_{metric}": [0.55], "note": [""]}),
    }  # fmt: skip
    if kind != "continuous":
        tables["calibration"] = _calibration(summary)
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    (folder / "evaluation.json").write_text(json.dumps(summary | _keys(summary, metric, n), indent=2))
    _add_probe(folder)
    _add_explanation(folder, summary)
    return add_new_sites(folder)


def _keys(summary: dict, metric: str, n: int) -> dict:
    def points(start: float) -> list[dict]:
        return [{"n_train": size, "mean": start + 0.04 * step, "sd": 0.04, "n": 25} for step, size in
                enumerate((20, 40, 80, 160))]  # fmt: skip

    metrics = dict(summary["metrics"])
    if summary["kind"] == "binary":
        for name, value in (("calibration_slope", 0.8), ("calibration_intercept", -0.1)):
            metrics[name] = {"mean": value, "sd": 0.1, "pooled": value, "interval": [value - 0.2, value + 0.2],
                             "n_folds_defined": 5}  # fmt: skip
    return {
        "metrics": metrics,
        "probe": {"name": "ridge" if summary["kind"] == "continuous" else "logistic"},
        "threshold": {"rule": "prevalence", "values": [0.31, 0.35, 0.4, 0.33, 0.36]},
        "permutation": {"n": 999, "unit": "subject", "within_site": True, "p_values": {metric: 0.004}, "seconds": 3.0},
        "external": {
            "file": "other.parquet", "digest": "ef" * 16, "n": {"scans": n, "subjects": n, "sites": 1},
            "metrics": {metric: {"value": 0.7, "interval": [0.6, 0.8]}},
            "baseline": {metric: {"value": 0.55, "interval": [0.45, 0.65]}},
            "n_overlap": 0, "sites": ["elsewhere"],
        },
        "learning_curve": {"sizes": [20, 40, 80, 160], "n_draws": 5, "metrics": {metric: points(0.6)},
                           "baseline": {metric: points(0.5)}},
        "confounds": {"openbhb": {"score": 3.1, "age_mae": 5.2, "site_balanced_accuracy": 0.41}, "harmonise": "combat"},
    }  # fmt: skip


def _groups(first: pd.DataFrame, metric: str) -> pd.DataFrame:
    rows = []
    for column, names in (("sex", ("F", "M")), ("age_band", ("18–29", "30–44", "45–59", "60–74", "75+"))):
        for place, name in enumerate(names):
            value = 0.7 + 0.02 * place
            defined = name != "75+"
            rows.append(
                {"group_by": column, "group": name, "n": 20 + place if defined else 3,
                 **{f"n_{each}": 5 for each in sorted(first["y_true"].unique())[:2] if isinstance(each, str)},
                 metric: value if defined else None, f"{metric}_low": value - 0.1 if defined else None,
                 f"{metric}_high": value + 0.1 if defined else None, f"baseline_{metric}": 0.55 if defined else None,
                 "note": "" if defined else "fewer than 10 subjects (3): no interval"}
            )  # fmt: skip
    return pd.DataFrame(rows)


def _calibration(summary: dict) -> pd.DataFrame:
    classes = [None] if summary["kind"] == "binary" else summary["classes"]
    rows = []
    for name in classes:
        for model, shift in (("embedding", 0.03), ("baseline", -0.05)):
            for place, predicted in enumerate((0.1, 0.3, 0.5, 0.7, 0.9)):
                seen = predicted + shift
                row = {"model": model, "bin": place, "n": 20 + place, "mean_predicted": predicted, "observed": seen,
                       "observed_low": max(seen - 0.12, 0), "observed_high": min(seen + 0.12, 1)}  # fmt: skip
                rows.append(row if name is None else {**row, "class": name})
    return pd.DataFrame(rows)


def _confounds(summary: dict) -> pd.DataFrame:
    rows = []
    for within in ("all", *summary["classes"][:2]):
        rows += [
            {"column": "site", "within": within, "metric": "balanced_accuracy", "value": 0.45, "low": 0.38,
             "high": 0.52, "chance": 0.25, "n": 100, "n_levels": 4, "note": ""},
            {"column": "sex", "within": within, "metric": "balanced_accuracy", "value": 0.71, "low": 0.62, "high": 0.79,
             "chance": 0.5, "n": 100, "n_levels": 2, "note": ""},
            {"column": "age", "within": within, "metric": "mae", "value": 6.1, "low": 5.2, "high": 7.1, "chance": 14.0,
             "n": 100, "n_levels": None, "note": ""},
            {"column": "age", "within": within, "metric": "r2", "value": 0.6, "low": 0.5, "high": 0.7, "chance": 0.0,
             "n": 100, "n_levels": None, "note": ""},
        ]  # fmt: skip
    return pd.DataFrame(rows)


def _add_probe(folder: Path) -> None:
    (folder / "probe").mkdir(exist_ok=True)
    content = {"format": 1, "name": "logistic", "C": 0.01, "features": [f"feature_{i:04d}" for i in range(64)]}
    (folder / "probe" / "probe.json").write_text(json.dumps(content))


def _add_explanation(folder: Path, summary: dict) -> None:
    (folder / "explanation").mkdir(exist_ok=True)
    shape, spacing = (46, 55, 46), 4.0
    affine = np.diag([spacing, spacing, spacing, 1.0])
    affine[:3, 3] = (-90.0, -126.0, -72.0)
    places = np.stack(np.meshgrid(*(np.arange(size) for size in shape), indexing="ij"), axis=-1)
    millimetres = nibabel.affines.apply_affine(affine, places)

    def blob(centre: tuple[float, float, float], width: float) -> np.ndarray:
        return np.exp(-((millimetres - centre) ** 2).sum(axis=-1) / (2 * width**2))

    volume = blob((26, -20, -16), 10) + 0.8 * blob((-26, -20, -16), 10) - 0.6 * blob((0, 50, 10), 14)
    image = nibabel.Nifti1Image((0.01 * volume).astype(np.float32), affine)
    nibabel.save(image, folder / "explanation" / "saliency.nii.gz")
    content = {
        "format": 1, "method": "occlusion", "n_subjects": 40, "target": summary["target"],
        "positive": summary["positive"], "spacing_mm": spacing, "shape": list(shape), "patch_mm": 16,
        "map": "saliency.nii.gz", "template": "MNI152NLin2009aSym", "simulated": summary["simulated"],
        "top_regions": [{"x": 26, "y": -20, "z": -16, "value": 0.0098}, {"x": 0, "y": 50, "z": 10, "value": -0.006}],
    }  # fmt: skip
    (folder / "explanation" / "explain.json").write_text(json.dumps(content))


def add_new_sites(folder: Path) -> Path:
    """Write what `evaluate` says of sites left out and of scans that lie outside."""
    path = folder / "evaluation.json"
    summary = json.loads(path.read_text())
    first = pd.read_csv(folder / "predictions.tsv", sep="\t", dtype={"session": str}).query("repeat == 0")
    table, block = _new_sites(first, summary["kind"])
    table.to_csv(folder / "new_sites.tsv", sep="\t", index=False)
    keys = {"new_site": block, "outlyingness": _write_outlyingness(folder / "outlyingness.tsv", first)}
    if summary.get("external"):
        tested = pd.read_csv(folder / "external_predictions.tsv", sep="\t", dtype={"session": str})
        outside = _write_outlyingness(folder / "external_outlyingness.tsv", tested, shift=20)
        keys["external"] = {**summary["external"], "outlyingness": outside}
    path.write_text(json.dumps(summary | keys, indent=2))
    return folder


def _new_sites(first: pd.DataFrame, kind: str) -> tuple[pd.DataFrame, dict]:
    """Return new_sites.tsv and the block of evaluation.json: the error is twice as large where a site is unseen."""
    metrics = {
        "continuous": {"mae": (7.0, 14.0), "r2": (0.7, -0.2), "spearman": (0.8, 0.5), "bias": (0.2, 9.0)},
        "binary": {"auc": (0.8, 0.6), "balanced_accuracy": (0.7, 0.55), "brier": (0.15, 0.3)},
        "multiclass": {"balanced_accuracy": (0.6, 0.4), "brier": (0.3, 0.5)},
    }[kind]
    guess = {"mae": 11.0, "brier": 0.25, "bias": 1.0, "auc": 0.5}
    shifts = {"embedding": 1.0, "baseline": 1.2}
    rows = []
    for site, part in first.groupby("site"):
        n = len(part)
        for model in (*shifts, "constant"):
            row: dict = {"site": site, "model": model, "n": n, "n_train": len(first) - n}
            for name, (known, unseen) in metrics.items():
                if model == "constant":
                    row[name] = row[f"home_{name}"] = guess.get(name)
                    continue
                for key, value in ((name, unseen * shifts[model]), (f"home_{name}", known * shifts[model])):
                    row |= {key: value, f"{key}_low": value - 0.1, f"{key}_high": value + 0.1}
            rows.append(row | {"note": ""})
    n = len(first)

    def part(place: int) -> dict:
        return {model: {name: {"value": pair[place] * shift, "low": pair[place] * shift - 0.05,
                               "high": pair[place] * shift + 0.05, "n": n} for name, pair in metrics.items()}
                for model, shift in shifts.items()}  # fmt: skip

    constant = {name: {"value": guess[name], "n": n} for name in metrics if name in guess}
    unseen = {**part(1), "constant": constant}
    errors = [name for name in metrics if name in ("mae", "brier")]
    ratio = {"embedding": {name: {"value": 2.0, "low": 1.7, "high": 2.4} for name in errors}}
    block = {
        "design": "leave-one-site-out", "metric": next(iter(metrics)), "models": ["embedding", "baseline"],
        "home": part(0), "unseen": unseen, "ratio": ratio, "n_sites": first["site"].nunique(),
        "left_out": sorted(first["site"].unique()), "skipped": [],
        "site_predictability": {"balanced_accuracy": 0.81, "low": 0.74, "high": 0.88, "chance": 0.25, "n_sites": 4},
    }  # fmt: skip
    return pd.DataFrame(rows), block


def _write_outlyingness(path: Path, scans: pd.DataFrame, *, shift: float = 0.0) -> dict:
    """Write a table of percentiles, the last site further out than the others; return what evaluation.json says."""
    random = np.random.default_rng(6)
    table = scans.reindex(columns=["participant_id", "subject_id", "session", "site"]).reset_index(drop=True)
    away = 60.0 * (table["site"] == sorted(table["site"].unique())[-1]) + shift
    percentiles = np.clip(random.uniform(0, 97, len(table)) + away, 0, 100).round(1)
    table = table.assign(reference="training folds", mahalanobis=percentiles / 10, mahalanobis_percentile=percentiles)
    table["outside"] = percentiles > 97.5
    table.to_csv(path, sep="\t", index=False)
    return {"reference": "probe" if shift else "training folds", "threshold_percentile": 97.5,
            "n_outside": int(table["outside"].sum()), "n": len(table), "note": None,
            "covariance": "within sites, Ledoit-Wolf, 50 principal axes",
            "by_site": _by_site(table, "mahalanobis_percentile", "outside")}  # fmt: skip


def _by_site(table: pd.DataFrame, column: str, flag: str) -> list[dict]:
    return [
        {"site": site, "n": len(part), "n_outside": int(part[flag].sum()),
         "median_percentile": float(part[column].median())}
        for site, part in table.groupby("site")
    ]  # fmt: skip
