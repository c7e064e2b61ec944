"""Measure what an encoder's input changes at home and at scanners never seen: intensities, tissue maps, smoothed maps.

    python benchmarks/tissue.py --data ../shared/data --out /tmp/tissue [--seeds 3] [--networks]

Everything goes through the package: maps by `neurocontrast.prepare`'s segmentation, `pretrain`, `embed`. In each seed
two thirds of london's people (and ucla) are learned from; the encoder is fitted on their scans, and the probes (ridge
for age, logistic regression for sex) on london's. Tested: the other third of london, novosibirsk, and ucla with an
encoder that never saw ucla. Error is split into bias and spread; k-shot takes the bias of ten people of the new site
away, twenty draws. With ``--networks`` small DenseNets are trained on the same scans.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import neurocontrast
from neurocontrast.embedding import read_embeddings
from neurocontrast.prepare.tissue import segment_tissue, tissue_priors

GRID = {"spacing_mm": 4.0, "shape": [48, 56, 48], "n_workers": 2, "val_fraction": 0.0}
MAPS = {"channels": ["gm", "wm"], "normalise": "none"}
INPUTS: dict[str, dict[str, Any]] = {
    "intensities": {"normalise": "zscore-brain"},
    "intensities, eroded 6 mm": {"normalise": "zscore-brain", "erode_mm": 6.0},
    "grey + white": MAPS,
    "grey + white, 14 mm": {**MAPS, "smooth_mm": 14.0},
    "grey + white, eroded 4 mm, 18 mm": {**MAPS, "erode_mm": 4.0, "smooth_mm": 18.0},
    "grey + white + fluid, 14 mm": {"channels": ["gm", "wm", "csf"], "normalise": "none", "smooth_mm": 14.0},
}
N_SHOTS, N_DRAWS = 10, 20


def make_maps(data: Path, out: Path, brains: pd.DataFrame | None = None) -> pd.DataFrame:
    """Write the tissue maps of all brains, or of these rows of their table, once; return their table."""
    brains = pd.read_csv(data / "brains" / "participants.tsv", sep="\t") if brains is None else brains
    (out / "maps").mkdir(parents=True, exist_ok=True)
    priors = None
    for name, path in zip(brains["participant_id"], brains["path"], strict=True):
        files = {tissue: out / "maps" / f"{name}_{tissue}.nii.gz" for tissue in ("gm", "wm", "csf")}
        if all(file.is_file() for file in files.values()):
            continue
        image = nib.load(data / "brains" / path)
        voxels = image.get_fdata(dtype=np.float32)
        priors = tissue_priors(image.affine, image.shape) if priors is None else priors
        maps = segment_tissue(voxels, voxels > 0, priors)
        for tissue, found in (("gm", maps.grey), ("wm", maps.white), ("csf", maps.fluid)):
            nib.save(nib.Nifti1Image(found, image.affine), files[tissue])
    table = brains[["participant_id", "subject_id", "session", "age", "sex", "site"]].copy()
    table["path"] = [str((data / "brains" / path).resolve()) for path in brains["path"]]
    for tissue in ("gm", "wm", "csf"):
        table[tissue] = [str((out / "maps" / f"{name}_{tissue}.nii.gz").resolve()) for name in brains["participant_id"]]
    return table


def features_of(
    table: pd.DataFrame, learned: np.ndarray, config: dict[str, Any], folder: Path, cache: Path
) -> np.ndarray:
    """Fit an encoder on the learned rows; return the features of all scans."""
    folder.mkdir(parents=True, exist_ok=True)
    table[learned].to_csv(folder / "learned.tsv", sep="\t", index=False)
    table.to_csv(folder / "all.tsv", sep="\t", index=False)
    config = {
        **config,
        "data": {**config["data"], "participants": str(folder / "learned.tsv"), "cache_dir": str(cache)},
    }
    if not (folder / "run" / "encoder.json").is_file():
        neurocontrast.pretrain(config, out=folder / "run", resume=(folder / "run").is_dir())
    made = folder / "all.parquet"
    if not made.is_file():
        settings = {
            "data": {"cache_dir": str(cache), "n_workers": 2},
            **{k: config[k] for k in ("embedding",) if k in config},
        }
        neurocontrast.embed(folder / "run", participants=folder / "all.tsv", out=made, config=settings)
    return read_embeddings(made).features.astype(float)


def score(features: np.ndarray, table: pd.DataFrame, probed: np.ndarray, tested: dict[str, np.ndarray]) -> list[dict]:
    """Return errors at each place of a probe fitted on the probed rows."""
    age, sex = table["age"].to_numpy(dtype=float), (table["sex"] == "M").to_numpy(dtype=int)
    aged = ~np.isnan(age)
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-1, 5, 25))).fit(
        features[probed & aged], age[probed & aged]
    )
    logistic = LogisticRegressionCV(Cs=np.logspace(-5, 1, 13), cv=5, scoring="neg_log_loss", max_iter=2000)
    classify = make_pipeline(StandardScaler(), logistic).fit(features[probed], sex[probed])
    random, rows = np.random.default_rng(0), []
    for place, at in tested.items():
        predicted, error = ridge.predict(features[at & aged]), ridge.predict(features[at & aged]) - age[at & aged]
        shots = []
        for _ in range(N_DRAWS):
            order = random.permutation(len(error))
            shots.append(np.abs(error[order[N_SHOTS:]] - error[order[:N_SHOTS]].mean()).mean())
        rows.append(
            {
                "place": place,
                "n": int(at.sum()),
                "MAE": np.abs(error).mean(),
                "bias": error.mean(),
                "spread": error.std(ddof=1),
                "spearman": spearmanr(predicted, age[at & aged]).statistic,
                "MAE, 10 shots": np.mean(shots),
                "sex AUC": roc_auc_score(sex[at], classify.decision_function(features[at])),
            }
        )
    return rows


def networks(input_: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return configurations of small networks on an input, trained by each loss, and untrained."""
    kernel = [{"column": "age", "type": "gaussian", "sigma": 5.0}, {"column": "sex", "type": "categorical"}]
    losses = {
        "conditional": {"loss": "conditional", "kernel": kernel},
        "yaware": {"loss": "yaware", "kernel": kernel},
        "ntxent": {"loss": "ntxent"},
    }
    augment = {
        "flip": None, "blur": None, "crop": None, "cutout": None,
        "noise": {"probability": 0.5, "sigma": [0.005, 0.03]},
        "affine": {"probability": 0.8, "rotation_degrees": [-4.0, 4.0], "translation_voxels": [-0.7, 0.7]},
    }  # fmt: skip
    training = {"epochs": 20, "batch_size": 32, "learning_rate": 1e-3, "probe_every": 0}
    made = {
        name: {"data": {**GRID, **input_}, "encoder": {"name": "densenet_small"}, "objective": loss, "augment": augment,
               "training": training}
        for name, loss in losses.items()
    }  # fmt: skip
    made["untrained"] = {**made["conditional"], "training": {**training, "epochs": 0}}
    return made


def main() -> None:
    """Print the table, means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--networks", action="store_true")
    options = parser.parse_args()
    table = make_maps(options.data, options.out)
    site, rows = table["site"].to_numpy(), []
    systems = {name: {"data": {**GRID, **data}, "encoder": {"name": "pca"}} for name, data in INPUTS.items()}
    if options.networks:
        smooth = INPUTS["grey + white, 14 mm"]
        systems |= {f"densenet_small, {name}, grey + white, 14 mm": config for name, config in networks(smooth).items()}
    for seed in range(options.seeds):
        london = np.random.default_rng(seed).permutation(np.flatnonzero(site == "london"))
        held = np.isin(np.arange(len(table)), london[: len(london) // 3])
        probed = (site == "london") & ~held
        for number, (name, config) in enumerate(systems.items()):
            config = {"seed": seed, **config}
            both, alone = probed | (site == "ucla"), probed
            folder = options.out / f"{number}-{seed}"
            features = features_of(table, both, config, folder / "both", options.out / "cache")
            tested = {"london, held out": held, "novosibirsk": site == "novosibirsk"}
            found = score(features, table, probed, tested)
            features = features_of(table, alone, config, folder / "alone", options.out / "cache")
            found += score(features, table, probed, {"ucla, left out": site == "ucla"})
            rows += [{"system": name, "seed": seed, **row} for row in found]
            print(pd.DataFrame(rows[-3:]).round(2).to_string(index=False, header=number == 0), flush=True)
    frame = pd.DataFrame(rows)
    frame.to_csv(options.out / "rows.tsv", sep="\t", index=False)
    print(frame.drop(columns="seed").groupby(["place", "system"], sort=False).mean().round(2).to_string())


if __name__ == "__main__":
    main()
