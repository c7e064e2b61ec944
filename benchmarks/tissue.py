"""Measure what an encoder's input and kind change at home and at scanners never seen, on real brains.

    neurocontrast prepare ../shared/data/brains/participants.tsv --out PREPARED --spacing-mm 2 --imitations 3
    python benchmarks/tissue.py --prepared PREPARED --out OUT [--seeds 3] [--networks]

Everything goes through the package: maps by `prepare`, encoders by `pretrain`, features by `embed`. In each seed two
thirds of london's people are learned from; encoders are fitted on their scans, and probes (ridge for age, logistic
regression for sex) on their real scans. Tested: the other third of london, and novosibirsk and ucla, which nothing
was learned from. Error is split into bias and spread; k-shot takes the mean error of ten people of the site away,
twenty draws. Where one half of a new site's people chose, the other half is what counts (rows.tsv has both). With
``--networks`` small DenseNets are trained on the same scans. Finished encoders are kept: started again, it goes on.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import neurocontrast
from neurocontrast.data import read_cohort
from neurocontrast.embedding import read_embeddings

HOME = "london"
GRID = {"spacing_mm": 6.0, "shape": [32, 40, 32], "n_workers": 1, "val_fraction": 0.0}
MAPS = {"channels": ["gm", "wm", "csf"], "normalise": "none", "smooth_mm": 14.0}
N_SHOTS, N_DRAWS = 10, 20
LINEAR: dict[str, tuple[str, dict[str, Any]]] = {
    "pca, intensities": ("pca", {"normalise": "zscore-brain"}),
    "pca, intensities, eroded 6 mm": ("pca", {"normalise": "zscore-brain", "erode_mm": 6.0}),
    "pca, grey + white": ("pca", {**MAPS, "channels": ["gm", "wm"], "smooth_mm": 0.0}),
    "pca, grey + white, 14 mm": ("pca", {**MAPS, "channels": ["gm", "wm"]}),
    "pca, grey + white, eroded 6 mm, 18 mm": (
        "pca",
        {**MAPS, "channels": ["gm", "wm"], "erode_mm": 6.0, "smooth_mm": 18.0},
    ),
    "pca, grey + white + fluid, 14 mm": ("pca", MAPS),
    "lda, intensities": ("lda", {"normalise": "zscore-brain"}),
    "lda, grey + white, 14 mm": ("lda", {**MAPS, "channels": ["gm", "wm"]}),
    "lda, grey + white + fluid, 14 mm": ("lda", MAPS),
    "lda, grey + white + fluid, 18 mm": ("lda", {**MAPS, "smooth_mm": 18.0}),
}
TOGETHER = {
    "mean of predictions: pca and lda, grey + white (+ fluid), 14 and 18 mm": [
        "pca, grey + white, 14 mm",
        "pca, grey + white + fluid, 14 mm",
        "lda, grey + white, 14 mm",
        "lda, grey + white + fluid, 14 mm",
        "lda, grey + white + fluid, 18 mm",
    ],
}


def network(loss: str) -> dict[str, Any]:
    """Return the configuration of a small network on smoothed maps, trained by a loss; "untrained": not at all.

    "…, real scans alone": as many steps without imitated acquisitions.
    """
    loss, _, alone = loss.partition(", ")
    age_sex = [{"column": "age", "type": "gaussian", "sigma": 5.0}, {"column": "sex", "type": "categorical"}]
    objectives = {
        "conditional": {"loss": "conditional", "kernel": age_sex},
        "yaware": {"loss": "yaware", "kernel": age_sex},
        # All scans of a person are alike, imitated ones too, and nobody else's: NT-Xent over several views.
        "ntxent": {"loss": "yaware", "kernel": [{"column": "subject_id", "type": "categorical"}]},
    }
    affine = {"probability": 0.8, "rotation_degrees": [-3.0, 3.0], "translation_voxels": [-0.5, 0.5]}
    return {
        "data": {**GRID, **MAPS},
        "encoder": {"name": "densenet_small", "read_out": {"blocks": [2], "grid": [3, 4, 3]}},
        "objective": objectives.get(loss, objectives["conditional"]),
        "augment": {**dict.fromkeys(["flip", "blur", "crop", "cutout", "noise"]), "affine": affine},
        "training": {
            "epochs": 0 if loss == "untrained" else 40 if alone else 10,
            "batch_size": 32,
            "learning_rate": 1e-3,
            "probe_every": 0,
        },
    }


def features_of(config: dict[str, Any], learned: Path, everybody: Path, folder: Path, cache: Path) -> np.ndarray:
    """Fit an encoder on a table; return the features of all scans of another."""
    data = {**config["data"], "participants": str(learned), "cache_dir": str(cache)}
    if not (folder / "encoder.json").is_file():
        neurocontrast.pretrain({**config, "data": data}, out=folder, resume=folder.is_dir())
    made = folder.with_suffix(".parquet")
    if not made.is_file():
        config = {"data": {"cache_dir": str(cache), "n_workers": 1}}
        neurocontrast.embed(folder, participants=everybody, out=made, config=config)
    return read_embeddings(made).features.astype(float)


def balanced(blocks: list[np.ndarray], probed: np.ndarray) -> np.ndarray:
    """Return blocks of features beside each other, with the same total variance over the probed rows."""
    scaled = [StandardScaler().fit(block[probed]).transform(block) / np.sqrt(block.shape[1]) for block in blocks]
    return np.concatenate(scaled, axis=1)


def predictions(features: np.ndarray, table: pd.DataFrame, probed: np.ndarray, *, scale: bool = True) -> np.ndarray:
    """Return age and log odds of "male" of all scans, (n, 2), by probes fitted on the probed rows."""
    age, male = table["age"].to_numpy(dtype=float), (table["sex"] == "M").to_numpy(dtype=int)
    aged, scaler = probed & ~np.isnan(age), StandardScaler(with_std=scale)
    ridge = make_pipeline(scaler, RidgeCV(np.logspace(-3, 5, 33))).fit(features[aged], age[aged])
    logistic = LogisticRegressionCV(
        Cs=np.logspace(-5, 3, 17), cv=5, scoring="neg_log_loss", max_iter=2000, l1_ratios=(0.0,),
        use_legacy_attributes=False,
    )  # fmt: skip
    classify = make_pipeline(StandardScaler(with_std=scale), logistic).fit(features[probed], male[probed])
    return np.stack([ridge.predict(features), classify.decision_function(features)], axis=1)


def score(predicted: np.ndarray, table: pd.DataFrame, places: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Return the errors at each place."""
    age, male, rows = table["age"].to_numpy(dtype=float), (table["sex"] == "M").to_numpy(), []
    for place, at in places.items():
        aged, random = at & ~np.isnan(age), np.random.default_rng(0)
        error, shots = predicted[aged, 0] - age[aged], []
        for _ in range(N_DRAWS):
            order = random.permutation(len(error))
            shots.append(np.abs(error[order[N_SHOTS:]] - error[order[:N_SHOTS]].mean()).mean())
        found = {"MAE": np.abs(error).mean(), "bias": error.mean(), "spread": error.std(ddof=1)}
        found |= {"spearman": spearmanr(predicted[aged, 0], age[aged]).statistic, "MAE, 10 shots": np.nanmean(shots)}
        rows.append({"place": place, "n": int(at.sum()), **found, "sex AUC": roc_auc_score(male[at], predicted[at, 1])})
    return rows


def places_of(table: pd.DataFrame, held: np.ndarray) -> dict[str, np.ndarray]:
    """Return who is tested: london's held-out third, the new sites, and each half of the people of novosibirsk."""
    site = table["site"].to_numpy()
    places = {f"{HOME}, held out": held, "novosibirsk": site == "novosibirsk", "ucla": site == "ucla"}
    second = np.arange(len(table)) % 2 == 1
    return places | {f"novosibirsk, half {k + 1}": (site == "novosibirsk") & (second == k) for k in (0, 1)}


def main() -> None:
    """Print the table, means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepared", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--networks", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    everybody = options.prepared / "participants.tsv"
    table = read_cohort(everybody).table
    imitated = pd.read_csv(options.prepared / "imitations.tsv", sep="\t", dtype=str, keep_default_na=False)
    for column in ("path", "gm", "wm", "csf"):
        imitated[column] = [str((options.prepared / path).resolve()) for path in imitated[column]]
    site, rows = table["site"].to_numpy(), []
    systems = {name: {"data": {**GRID, **data}, "encoder": {"name": kind}} for name, (kind, data) in LINEAR.items()}
    together = dict(TOGETHER)
    if options.networks:
        members = ["lda, grey + white + fluid, 14 mm", "network, yaware", "network, conditional"]
        together["mean of predictions: lda 14 mm, networks yaware and conditional"] = members
        losses = ("untrained", "ntxent", "yaware", "conditional", "conditional, real scans alone")
        systems |= {f"network, {loss}": network(loss) for loss in losses}
    for seed in range(options.seeds):
        london = np.random.default_rng(seed).permutation(np.flatnonzero(site == HOME))
        held = np.isin(np.arange(len(table)), london[: len(london) // 3])
        probed, places = (site == HOME) & ~held, places_of(table, held)
        of_learned = imitated[imitated["participant_id"].isin(table["participant_id"][probed])]
        of_learned.to_csv(options.out / f"imitations-{seed}.tsv", sep="\t", index=False)
        real = ~of_learned["session"].str.contains("imitated")
        of_learned[real].to_csv(options.out / f"real-{seed}.tsv", sep="\t", index=False)
        # Kernels over age need it.
        aged = of_learned["age"] != "n/a"
        of_learned[aged].to_csv(options.out / f"aged-{seed}.tsv", sep="\t", index=False)
        of_learned[aged & real].to_csv(options.out / f"aged-real-{seed}.tsv", sep="\t", index=False)
        features, predicted = {}, {}
        for number, (name, config) in enumerate(systems.items()):
            learned = {"pca": "real", "lda": "imitations"}.get(name[:3], "aged-real" if "alone" in name else "aged")
            paths = options.out / f"{learned}-{seed}.tsv", everybody, options.out / f"run-{number}-{seed}"
            features[name] = features_of({"seed": seed, **config}, *paths, options.out / "cache")
            predicted[name] = predictions(features[name], table, probed)
        best = "lda, grey + white + fluid, 14 mm"
        for name in [name for name in systems if name.startswith("network")]:
            blocks = balanced([features[best], features[name]], probed)
            predicted[f"lda 14 mm and {name}, joined"] = predictions(blocks, table, probed, scale=False)
        for name, members in together.items():
            predicted[name] = np.mean([predicted[member] for member in members], axis=0)
        for name, each in predicted.items():
            rows += [{"system": name, "seed": seed, **row} for row in score(each, table, places)]
        pd.DataFrame(rows).to_csv(options.out / "rows.tsv", sep="\t", index=False)
        print(f"seed {seed} of {options.seeds} done", flush=True)
    frame = pd.DataFrame(rows).drop(columns="seed")
    print(frame.groupby(["place", "system"], sort=False).mean().round(2).to_string())


if __name__ == "__main__":
    main()
