"""Real brains and simulated ones side by side: what the calibration of `neurocontrast simulate` rests on.

    python -m benchmarks.simulation --data DATA                 # 207 real brains, and two simulated
    cohorts like them python -m benchmarks.simulation --data DATA --cohort
    earlier=cohort/participants.tsv     # and one more column python -m benchmarks.simulation
    --slices FILE.png           # one person young, old, ill and scanned elsewhere

DATA holds `participants.tsv` and images of brains that lie in MNI152. A simulated cohort of as many
sites is cut to people of the same ages and sexes. Models are fitted to the healthy people of the
largest site, by five-fold cross-validation there, and read the healthy people of all other sites,
whom they never saw.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import itertools
import tempfile
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
import torch
from nibabel.processing import resample_from_to
from scipy import ndimage
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from neurocontrast.commands.simulate import simulate
from neurocontrast.data.simulation import SimulationSettings, draw_person, render_scan

SPACING_MM = 4.0
SHAPE, ORIGIN_MM = (46, 55, 46), (-90.0, -126.0, -72.0)
BANDS_MM = ((np.inf, 60.0), (60.0, 30.0), (30.0, 20.0), (20.0, 13.0), (13.0, 8.0))


def read(participants: Path, like: pd.DataFrame | None = None) -> tuple[np.ndarray, pd.DataFrame]:
    """Return brains over their white matter's intensity (n, *SHAPE) and their table, or people like others alone."""
    table = pd.read_csv(participants, sep="\t")
    table["age"] = pd.to_numeric(table["age"], errors="coerce")
    table = table.dropna(subset=["age", "sex"])
    table = table[table["sex"].isin(["F", "M"])]
    if like is not None:
        table = matched(table, like)
    volumes = np.stack([on_grid(participants.parent / path) for path in table["path"]])
    return volumes, table.reset_index(drop=True)


def on_grid(path: Path) -> np.ndarray:
    """Return a brain at 4 mm on the simulator's grid, over its white matter's intensity."""
    image = nib.as_closest_canonical(nib.load(path))
    voxels = np.asarray(image.dataobj, dtype=np.float32)
    spacing = image.header.get_zooms()[0]
    affine = np.diag([SPACING_MM] * 3 + [1.0])
    affine[:3, 3] = ORIGIN_MM
    if image.shape != SHAPE or not np.allclose(image.affine, affine):
        if spacing < SPACING_MM - 0.1:
            voxels = ndimage.gaussian_filter(
                voxels, 0.42 * np.sqrt((SPACING_MM / spacing) ** 2 - 1)
            )
        voxels = resample_from_to(
            nib.Nifti1Image(voxels, image.affine), (SHAPE, affine), order=1
        ).get_fdata()
    return (voxels / np.percentile(voxels[voxels > 0], 90)).astype(np.float32)


def matched(table: pd.DataFrame, like: pd.DataFrame) -> pd.DataFrame:
    """Return people of the sexes and nearly the ages of others, the sites in order of size."""
    sites = dict(
        zip(like["site"].value_counts().index, table["site"].value_counts().index, strict=False)
    )
    free = table.copy()
    rows = []
    for person in like.itertuples():
        able = free[(free["site"] == sites[person.site]) & (free["sex"] == person.sex)]
        nearest = (able["age"] - person.age).abs().idxmin()
        rows.append(nearest)
        free = free.drop(index=nearest)
    return table.loc[rows]


class Network(RegressorMixin, BaseEstimator):
    """A small convolutional network on volumes, for a number."""

    def __init__(self, epochs: int = 40, seed: int = 0) -> None:
        self.epochs = epochs
        self.seed = seed

    def fit(self, x: np.ndarray, y: np.ndarray) -> Network:
        """Learn a number of each volume."""
        torch.manual_seed(self.seed)
        sizes = (1, 8, 16, 32, 32)
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(sizes):
            layers += [
                nn.Conv3d(before, after, 3, stride=2, padding=1),
                nn.BatchNorm3d(after),
                nn.ReLU(),
            ]
        self.net_ = nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.3), nn.LazyLinear(1))
        self.mean_, self.sd_ = float(np.mean(y)), float(np.std(y))
        images, truth = (
            self._images(x),
            torch.tensor((y - self.mean_) / self.sd_, dtype=torch.float32),
        )
        self.net_(images[:2])
        optimiser = torch.optim.AdamW(self.net_.parameters(), lr=1e-3, weight_decay=1e-2)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.epochs)
        for _ in range(self.epochs):
            order = torch.randperm(len(truth))
            for batch in order.split(16):
                if len(batch) > 1:
                    shifted = torch.roll(
                        images[batch], tuple(torch.randint(-1, 2, (3,)).tolist()), (2, 3, 4)
                    )
                    loss = nn.functional.mse_loss(self.net_(shifted)[:, 0], truth[batch])
                    optimiser.zero_grad()
                    loss.backward()
                    optimiser.step()
            schedule.step()
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the number of each volume."""
        self.net_.eval()
        with torch.no_grad():
            found = torch.cat([self.net_(part)[:, 0] for part in self._images(x).split(32)])
        return self.mean_ + self.sd_ * found.numpy()

    def _images(self, x: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(x.reshape(-1, 1, *SHAPE)).float()


def models() -> dict[str, BaseEstimator]:
    """Return regressors of voxels; the classes of sex are regressed as ±1, which ranks as well."""
    alphas = np.logspace(-2, 8, 31)
    few = [PCA(60, svd_solver="randomized", random_state=0), StandardScaler()]
    return {
        "60 components": make_pipeline(*few, RidgeCV(np.logspace(-2, 4, 13))),
        "ridge on voxels": RidgeCV(alphas),
        "small network": Network(),
    }


def measure(volumes: np.ndarray, table: pd.DataFrame) -> dict[str, float]:
    """Return all figures of a cohort."""
    flat = volumes.reshape(len(volumes), -1)
    flat = (flat - flat.mean(axis=1, keepdims=True)) / flat.std(axis=1, keepdims=True)
    age, sex = table["age"].to_numpy(), np.where(table["sex"] == "M", 1.0, -1.0)
    healthy = (table["diagnosis"] == "control").to_numpy()
    sites = table["site"].to_numpy()
    home = healthy & (sites == table["site"].value_counts().index[0])
    away = healthy & (sites != table["site"].value_counts().index[0])
    found: dict[str, float] = {}
    for name, model in models().items():
        guess = cross_val_predict(
            model, flat[home], age[home], cv=KFold(5, shuffle=True, random_state=0)
        )
        found[f"age, MAE at home: {name}"] = np.abs(guess - age[home]).mean()
        error = clone(model).fit(flat[home], age[home]).predict(flat[away]) - age[away]
        found[f"age, MAE at new scanners: {name}"] = np.abs(error).mean()
        found[f"age, size of the mean error at new scanners: {name}"] = np.mean(
            [abs(error[sites[away] == site].mean()) for site in np.unique(sites[away])]
        )
        cut = StratifiedKFold(5, shuffle=True, random_state=0).split(flat[home], sex[home])
        guess = cross_val_predict(model, flat[home], sex[home], cv=list(cut))
        found[f"sex, AUC at home: {name}"] = roc_auc_score(sex[home], guess)
    few = make_pipeline(
        PCA(20, random_state=0), StandardScaler(), LogisticRegression(max_iter=1000)
    )
    cut = StratifiedKFold(5, shuffle=True, random_state=0)
    found["site, balanced accuracy"] = balanced_accuracy_score(
        sites, cross_val_predict(few, flat, sites, cv=cut)
    )
    return found | spectrum(volumes[home], age[home], sex[home])


def spectrum(volumes: np.ndarray, age: np.ndarray, sex: np.ndarray) -> dict[str, float]:
    """Return how much people differ, where, how finely, and how much of that a few components hold."""
    mean = volumes.mean(axis=0)
    flat = volumes.reshape(len(volumes), -1)
    design = np.column_stack([np.ones_like(age), age, age**2, sex])
    left = flat - design @ np.linalg.lstsq(design, flat, rcond=None)[0]
    sd = (np.sqrt((left**2).sum(axis=0) / (len(left) - 4))).reshape(mean.shape)
    inside = (volumes > 0).mean(axis=0) > 0.9
    height_mm = ORIGIN_MM[2] + SPACING_MM * np.arange(SHAPE[2])
    depth = ndimage.distance_transform_edt(inside) * SPACING_MM
    rim, deep = inside & (depth <= 16.0) & (height_mm > 0), inside & (depth > 24.0)
    found = {
        "differences between people (SD over white matter), outer 16 mm": np.median(sd[rim]),
        "… deeper than 24 mm": np.median(sd[deep]),
    }
    without = design[:, [0, 3]]
    unaged = flat - without @ np.linalg.lstsq(without, flat, rcond=None)[0]
    kept = inside.ravel()
    found["share of the variance inside that age explains"] = (
        1 - (left[:, kept] ** 2).sum() / (unaged[:, kept] ** 2).sum()
    )
    window = ndimage.gaussian_filter(inside.astype(np.float32), 1.0)
    power = np.mean(
        [np.abs(np.fft.fftn(each.reshape(SHAPE) * window)) ** 2 for each in left], axis=0
    )
    frequency = np.sqrt(
        sum(
            f**2
            for f in np.meshgrid(*[np.fft.fftfreq(n, SPACING_MM) for n in SHAPE], indexing="ij")
        )
    )
    total = power[frequency < 1.0 / BANDS_MM[-1][1]].sum()
    for longest, shortest in BANDS_MM:
        band = (frequency >= 1.0 / longest) & (frequency < 1.0 / shortest)
        found[f"… of its power at wavelengths {shortest:g} to {longest:g} mm"] = (
            power[band].sum() / total
        )
    kept = []
    for train, test in KFold(5, shuffle=True, random_state=0).split(flat):
        pca = PCA(30, random_state=0).fit(flat[train])
        lost = flat[test] - pca.inverse_transform(pca.transform(flat[test]))
        kept.append(1 - (lost**2).sum() / ((flat[test] - flat[train].mean(0)) ** 2).sum())
    return found | {
        "share of other people's variance that 30 components hold": float(np.mean(kept))
    }


def draw_slices(path: Path) -> None:
    """Draw one person as she would look younger, older, ill, folded otherwise, or scanned elsewhere."""
    import matplotlib.pyplot as plt

    settings = SimulationSettings(spacing_mm=2.0)
    drawn = draw_person(settings, 1)
    person = dataclasses.replace(
        drawn, age=50.0, brain_age_gap=0.0, ventricle_gap=0.0, focal_loss=0.0
    )
    shown = {
        "22 years": {"age": 22.0},
        "80 years": {"age": 80.0},
        "50 years": {},
        "50 years, patient": {
            "focal_loss": settings.focal_atrophy,
            "brain_age_gap": settings.patient_ageing_years,
        },
        "another person": {"index": 2},
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


def main() -> None:
    """Print the table, or draw slices."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of the real brains")
    parser.add_argument(
        "--cohort", action="append", default=[], metavar="NAME=PARTICIPANTS", help="one more cohort"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--slices", type=Path, help="draw mid-slices into this file instead")
    options = parser.parse_args()
    if options.slices:
        draw_slices(options.slices)
        return
    real, people = read(options.data / "participants.tsv")
    columns = {"real": measure(real, people)}
    for given in options.cohort:
        name, _, path = given.partition("=")
        columns[name] = measure(*read(Path(path), people))
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as folder:
            made = simulate(
                Path(folder) / "cohort",
                n_subjects=1500,
                n_sites=people["site"].nunique(),
                patients=0.0,
                seed=seed,
            )
            columns[f"simulated, seed {seed}"] = measure(*read(made, people))
    print(f"{datetime.date.today()}, {len(people)} people\n\n| | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in columns["real"]:
        print(
            f"| {name} | " + " | ".join(f"{column[name]:.3g}" for column in columns.values()) + " |"
        )


if __name__ == "__main__":
    main()
