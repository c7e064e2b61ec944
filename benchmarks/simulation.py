"""How quickly a cohort is simulated, and what linear models on plain voxels find in it.

    python benchmarks/simulation.py               # 600 subjects at 4 mm, three seeds; about two minutes

`--slices FILE.png` draws mid-slices of one person young, old, as a patient, and at other sites.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import tempfile
import time
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import balanced_accuracy_score, mean_absolute_error, r2_score, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from neurocontrast.data.simulation import SimulationSettings, draw_person, render_scan
from neurocontrast.stages.make_data import simulate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-subjects", type=int, default=600)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--slices", type=Path, help="draw mid-slices into this file instead")
    arguments = parser.parse_args()
    if arguments.slices:
        draw_slices(arguments.slices)
        return
    print(f"{datetime.date.today()}, {arguments.n_subjects} subjects, 4 mm, default effects\n")
    columns = (
        "seed",
        "subjects/s of CPU time",
        "age R²",
        "age MAE",
        "sex AUC",
        "patient AUC",
        "covariates only",
        "site",
    )
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for seed in arguments.seeds:
        with tempfile.TemporaryDirectory() as folder:
            start = time.process_time()
            participants = simulate(Path(folder) / "cohort", n_subjects=arguments.n_subjects, seed=seed)
            speed = arguments.n_subjects / (time.process_time() - start)
            figures = linear_models(participants)
        print(f"| {seed} | {speed:.0f} | " + " | ".join(f"{figure:.2f}" for figure in figures) + " |")


def linear_models(participants: Path) -> tuple[float, ...]:
    """Five-fold: PCA-60 of voxels pooled to 8 mm, then a linear model; patients by all components."""
    table = pd.read_csv(participants, sep="\t")
    voxels = np.stack([pooled(participants.parent / path) for path in table["path"]])
    age = cross_val_predict(
        reduced(RidgeCV(np.logspace(-2, 4, 13))), voxels, table["age"], cv=KFold(5, shuffle=True, random_state=0)
    )
    site = cross_val_predict(reduced(LogisticRegression(C=0.1, max_iter=1000)), voxels, table["site"], cv=folds())
    sex = (table["sex"] == "M").astype(int)
    patient = (table["diagnosis"] == "patient").astype(int)
    covariates = pd.get_dummies(table[["age", "sex", "site"]], columns=["sex", "site"]).astype(float)
    plain = make_pipeline(StandardScaler(), PCA(), LogisticRegression(C=1e-4, max_iter=500))
    return (
        r2_score(table["age"], age),
        mean_absolute_error(table["age"], age),
        auc(plain, voxels, sex),
        auc(plain, voxels, patient),
        auc(make_pipeline(StandardScaler(), LogisticRegression()), covariates, patient),
        balanced_accuracy_score(table["site"], site),
    )


def pooled(path: Path) -> np.ndarray:
    volume = nib.load(path).get_fdata(dtype=np.float32)
    volume = (volume - volume.mean()) / volume.std()
    x, y, z = (side // 2 for side in volume.shape)
    return volume[: 2 * x, : 2 * y, : 2 * z].reshape(x, 2, y, 2, z, 2).mean(axis=(1, 3, 5)).ravel()


def reduced(model: BaseEstimator) -> BaseEstimator:
    return make_pipeline(PCA(60, svd_solver="randomized", random_state=0), StandardScaler(), model)


def folds() -> StratifiedKFold:
    return StratifiedKFold(5, shuffle=True, random_state=0)


def auc(model: BaseEstimator, features: np.ndarray | pd.DataFrame, y: pd.Series) -> float:
    return roc_auc_score(y, cross_val_predict(model, features, y, cv=folds(), method="predict_proba")[:, 1])


def draw_slices(path: Path) -> None:
    """One person, as she would look younger, older, ill, or scanned elsewhere; no other difference."""
    import matplotlib.pyplot as plt

    settings = SimulationSettings(spacing_mm=2.0)
    drawn = draw_person(settings, 1)
    person = dataclasses.replace(drawn, ages=(50.0,), brain_age_gap=0.0, ventricle_gap=0.0, focal_loss=0.0)
    shown = {
        "22 years": {"ages": (22.0,)},
        "80 years": {"ages": (80.0,)},
        "50 years": {},
        "50 years, patient": {"focal_loss": settings.focal_atrophy, "brain_age_gap": settings.patient_ageing_years},
        "site 2": {"site": 1},
        "site 5": {"site": 4},
    }
    figure, axes = plt.subplots(3, len(shown), figsize=(2.2 * len(shown), 6.6), facecolor="black")
    for column, (title, change) in zip(axes.T, shown.items(), strict=True):
        volume = render_scan(settings, dataclasses.replace(person, **change)).astype(float)
        for axis, image in zip(column, (volume[:, :, 39], volume[:, 53], volume[33]), strict=True):
            axis.imshow(image.T, origin="lower", cmap="gray", vmax=np.quantile(volume, 0.998))
            axis.set_axis_off()
        column[0].set_title(title, color="white", fontsize=10)
    figure.suptitle("simulated", color="white", fontsize=9, x=0.01, y=0.04, ha="left")
    figure.tight_layout(pad=0.3)
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    main()
