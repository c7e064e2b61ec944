"""Real brains: what frozen features know of age, sex and site, at the pretraining sites and at a new one.

Pretrains on healthy scans of two sites, freezes the encoder, fits linear probes on the same scans and tests them on
held-out scans of the first site and on a site that was never seen. Every method gets the same folds, scans and probes.

    python benchmarks/real_brains.py --data ../shared/data/brains --out benchmarks/results/real_brains

The folder given with --data holds participants.tsv with sites london, ucla and novosibirsk. Finished runs are kept:
started again after a kill, it goes on. Every seed is a new hold-out, a new initialisation and new views.

For the first seed the package's own evaluation, reports and comparisons are written too (folder `reports`):

    transfer-TARGET-METHOD   probes of the pretraining scans, tested on held-out scans and the new site (--test)
    unseen-TARGET-METHOD     cross-validated over people that pretraining never saw; unseen-TARGET compares the methods
                             (the diagnosis within the new site alone)
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, RidgeCV
from sklearn.metrics import balanced_accuracy_score, mean_absolute_error, r2_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import neurocontrast
from neurocontrast.cli.output import console_progress
from neurocontrast.data.cache import VolumeCache
from neurocontrast.embedding.table import read_embeddings, write_embeddings
from neurocontrast.transforms.preprocessing import Preprocessing

HOME, UNSEEN = "london", "novosibirsk"
LOSSES = ("yaware", "conditional", "ntxent")
KERNEL = "[{column: age, type: gaussian, sigma: 5.0}, {column: sex, type: categorical}]"
OBJECTIVES = {
    "conditional": f"{{loss: conditional, temperature: 0.1, uniformity_weight: 1.0, kernel: {KERNEL}}}",
    "ntxent": "{loss: ntxent, temperature: 0.1}",
}
NAMES = {
    "yaware": "y-Aware InfoNCE (age × sex)",
    "conditional": "conditional alignment + uniformity (age × sex)",
    "ntxent": "NT-Xent (no metadata)",
    "untrained": "the same network, untrained",
    "pca": "PCA-60 of voxels",
}


def main() -> None:
    options = _options()
    progress = console_progress()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed in range(options.seeds):
        for method, features, table, seconds in _features_of_every_method(options, seed, progress):
            rows.append({"seed": seed, "method": method, "seconds": seconds, **score(features, table)})
            pd.DataFrame(rows).to_csv(options.out / "scores.tsv", sep="\t", index=False)
            progress.message(
                f"seed {seed}, {method}: " + ", ".join(f"{k} {v:.3g}" for k, v in rows[-1].items() if k != "method")
            )
    text = summarise(pd.DataFrame(rows), _baselines(_table(options.data, 0)))
    (options.out / "table.md").write_text(text)
    print(text)
    _write_reports(options, progress)


def _options() -> argparse.Namespace:
    root = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=root.parent.parent / "shared" / "data" / "brains")
    parser.add_argument("--out", type=Path, default=root / "results" / "real_brains")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--spacing-mm", type=float, default=5.0)
    parser.add_argument("--shape", type=int, nargs=3, default=(32, 40, 32))
    return parser.parse_args()


def _table(data: Path, seed: int) -> pd.DataFrame:
    """Return the scans with a column `use`: pretrain, held-out, unseen, or unused (healthy people of unknown age)."""
    table = pd.read_csv(data / "participants.tsv", sep="\t", dtype=str, keep_default_na=False)
    table["path"] = [str((data / path).resolve()) for path in table["path"]]
    known_age = table["age"] != "n/a"
    home = np.flatnonzero((table["site"] == HOME) & known_age)
    # A quarter of the home site is held out: every fourth person by age, from a random start in each four.
    by_age = home[np.argsort(table["age"].to_numpy(dtype=object)[home].astype(float), kind="stable")]
    random = np.random.default_rng(seed)
    held_out = [random.choice(by_age[start : start + 4]) for start in range(0, len(by_age), 4)]
    table["use"] = "unused"
    table.loc[(table["diagnosis"] == "control") & known_age & (table["site"] != UNSEEN), "use"] = "pretrain"
    table.loc[held_out, "use"] = "held-out"
    table.loc[table["site"] == UNSEEN, "use"] = "unseen"
    return table


def _features_of_every_method(options, seed, progress):
    table = _table(options.data, seed)
    folder = options.out / f"seed-{seed}"
    folder.mkdir(exist_ok=True)
    participants = folder / "participants.tsv"
    table.to_csv(participants, sep="\t", index=False)
    for method in (*LOSSES, "untrained"):
        start = time.perf_counter()
        run = neurocontrast.pretrain(
            _config(options, method, seed, participants), out=folder / method, resume=True, progress=progress
        )
        seconds = time.perf_counter() - start
        written = neurocontrast.embed(run, participants=participants, out=folder / f"{method}.parquet", overwrite=True)
        embeddings = read_embeddings(written)
        yield method, embeddings.features, embeddings.table, seconds
    components = _voxel_components(options, table)
    write_embeddings(folder / "pca.parquet", embeddings.table, components, {"pretraining_subjects": []})
    yield "pca", components, table, 0.0


def _write_reports(options, progress) -> None:
    """Evaluate every method of the first seed as a user would, report each, and compare them on the same folds."""
    source, reports = options.out / "seed-0", options.out / "reports"
    never_seen = {"use": ["held-out", "unseen"]}
    people = {"age": never_seen, "sex": never_seen, "diagnosis": {"site": [UNSEEN]}}  # all depression is at one site
    for target, where in people.items():
        compared: list[Path] = []
        for method in NAMES:
            table = source / f"{method}.parquet"
            common = {"target": target, "overwrite": True, "progress": progress}
            folds = {"split_file": str(compared[0] / "splits.tsv")} if compared else {"n_repeats": 5}
            out = reports / f"unseen-{target}-{method}"
            compared.append(neurocontrast.evaluate(table, out=out, where=where, **folds, **common))
            made = [compared[-1]]
            if target != "diagnosis":
                out = reports / f"transfer-{target}-{method}"
                made.append(_transfer(table, out, never_seen, common))
            for evaluation in made:
                neurocontrast.report(evaluation, progress=progress)
        neurocontrast.compare(
            compared, out=reports / f"unseen-{target}", names=list(NAMES), overwrite=True, progress=progress
        )


def _transfer(table: Path, out: Path, never_seen: dict[str, list[str]], common) -> Path:
    return neurocontrast.evaluate(
        table,
        out=out,
        where={"use": ["pretrain"]},
        test=str(table),
        test_where=never_seen,
        covariates=("site",),
        allow_overlap=True,  # the probe may know the pretraining scans; who it is tested on was never seen
        **common,
    )


def _config(options, method: str, seed: int, participants: Path):
    recipe = Path(__file__).resolve().parent.parent / "configs" / "brain" / "yaware_plain.yaml"
    settings = {
        "seed": seed,
        "data.participants": str(participants),
        "data.where": "{use: [pretrain]}",
        "data.spacing_mm": options.spacing_mm,
        "data.shape": list(options.shape),
        "data.cache_dir": str(options.out / "cache"),
        "data.val_fraction": 0.0,
        "training.epochs": 0 if method == "untrained" else options.epochs,
        "training.batch_size": options.batch_size,
        "training.learning_rate": options.learning_rate,
    }
    if method in OBJECTIVES:
        settings["objective"] = OBJECTIVES[method]
    return neurocontrast.load_config(recipe, [f"{key}={value}" for key, value in settings.items()])


def _voxel_components(options, table: pd.DataFrame) -> np.ndarray:
    preprocessing = Preprocessing(spacing_mm=options.spacing_mm, shape=tuple(options.shape))
    cache = VolumeCache(options.out / "cache", preprocessing)
    cache.prepare(list(table["path"]), n_workers=1)
    voxels = np.stack([np.asarray(cache.read(path), dtype=np.float32).ravel() for path in table["path"]])
    components = PCA(60, random_state=0).fit(voxels[(table["use"] == "pretrain").to_numpy()])
    return components.transform(voxels)


def score(features: np.ndarray, table: pd.DataFrame) -> dict[str, float]:
    """Probe age and sex from the pretraining scans, and site from scans that pretraining never saw."""
    use = table["use"].to_numpy(dtype=object)
    age = pd.to_numeric(table["age"].replace("n/a", None)).to_numpy(dtype=float, na_value=np.nan)
    sex = (table["sex"].to_numpy(dtype=object) == "M").astype(int)
    train = use == "pretrain"
    age_probe = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-1, 6, 15))).fit(features[train], age[train])
    sex_probe = make_pipeline(StandardScaler(), LogisticRegressionCV(Cs=np.logspace(-5, 1, 7), cv=5, max_iter=2000))
    sex_probe.fit(features[train], sex[train])
    found = {}
    for part in ("held-out", "unseen"):
        rows = (use == part) & np.isfinite(age)
        predicted = age_probe.predict(features[rows])
        found[f"{part}_age_mae"] = mean_absolute_error(age[rows], predicted)
        found[f"{part}_age_r2"] = r2_score(age[rows], predicted)
        found[f"{part}_age_spearman"] = spearmanr(age[rows], predicted).statistic
        rows = use == part
        found[f"{part}_sex_auc"] = roc_auc_score(sex[rows], sex_probe.decision_function(features[rows]))
    rows = np.isin(use, ["held-out", "unseen"])
    site = table["site"].to_numpy(dtype=object)[rows].astype(str)
    site_probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, class_weight="balanced", max_iter=2000))
    guessed = cross_val_predict(site_probe, features[rows], site, cv=StratifiedKFold(5, shuffle=True, random_state=0))
    found["site_balanced_accuracy"] = balanced_accuracy_score(site, guessed)
    return found


def _baselines(table: pd.DataFrame) -> dict[str, float]:
    age = pd.to_numeric(table["age"].replace("n/a", None)).to_numpy(dtype=float, na_value=np.nan)
    use = table["use"].to_numpy(dtype=object)
    median = np.median(age[use == "pretrain"])
    return {part: float(np.nanmean(np.abs(age[use == part] - median))) for part in ("held-out", "unseen")}


def summarise(scores: pd.DataFrame, median_mae: dict[str, float]) -> str:
    """Return the table of means ± standard deviations over seeds, in Markdown."""
    columns = {
        "age MAE, held-out": "held-out_age_mae",
        "age R², held-out": "held-out_age_r2",
        "sex AUC, held-out": "held-out_sex_auc",
        "age MAE, new site": "unseen_age_mae",
        "age Spearman, new site": "unseen_age_spearman",
        "sex AUC, new site": "unseen_sex_auc",
        "site bal. acc.": "site_balanced_accuracy",
        "training, s": "seconds",
    }
    lines = ["| features | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for method, name in NAMES.items():
        part = scores[scores["method"] == method]
        cells = [_mean_sd(part[column]) for column in columns.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    home, unseen = (f"{median_mae[part]:.1f}" for part in ("held-out", "unseen"))
    lines.append(f"| median age of the pretraining scans | {home} | | | {unseen} | | | | |")
    return "\n".join(lines) + "\n"


def _mean_sd(values: pd.Series) -> str:
    digits = 0 if values.max() > 50 else 1 if values.max() > 2 else 2
    spread = f" ± {values.std(ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{spread}"


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=FutureWarning)
    main()
