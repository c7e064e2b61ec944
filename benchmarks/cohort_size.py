"""When is pretraining worth it? Error of age against the number of people to learn from, in simulated cohorts.

    python -m benchmarks.cohort_size --out OUT                                       # an hour on
    two quiet cores python -m benchmarks.cohort_size --out OUT --sizes 3000 1000 300 100 --seeds 1
    --epochs 5   # the README's

N healthy people of eight simulated scanners (`neurocontrast simulate`, default effects, 19×22×19
voxels of 10 mm) are learned from; tested are 1,000 others of the same scanners, and 1,000 of eight
scanners never seen. Every method has the same N scans and ages. Linear: ridge regression on
principal components of the voxels, 60 or all of them. Networks: one small encoder, the same views,
optimiser and number of steps; *supervised* is trained on age from scratch and predicts it itself,
the others are frozen, and ridge regression reads age off their features. The rate was the better of
two (0.001, 0.004) on other people. A finished cell (seed, N, method) is a line of OUT/cells.tsv and
is not computed again.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from neurocontrast import losses
from neurocontrast.data.simulation import SimulationSettings, draw_person, render_scan
from neurocontrast.encoders import EncoderSettings, build_encoder, build_model
from neurocontrast.kernels import Categorical, Gaussian
from neurocontrast.transforms import TwoViews
from neurocontrast.transforms.compose import brain_views

N_TESTED, N_COMPONENTS, BATCH, LEARNING_RATE = 1000, 60, 64, 4e-3
ENCODER = EncoderSettings(
    name="lenet", read_out={"blocks": [3], "grid": [3, 3, 3]}, projection=(256, 64)
)
AGE_SEX = Gaussian("age", sigma=5.0) * Categorical("sex")
OBJECTIVES = {
    "NT-Xent": losses.NTXent(temperature=0.1),
    "y-Aware": losses.YAwareInfoNCE(AGE_SEX, temperature=0.1),
    "conditional A+U": losses.ConditionalAlignmentUniformity(AGE_SEX, temperature=0.1),
}
METHODS = ("PCA-60", "all voxels", "supervised", *OBJECTIVES, "untrained")


class Cohort(NamedTuple):
    """Volumes (n, 1, x, y, z), standardised inside the brain, with age in years and sex (1: male)."""

    volumes: Tensor
    age: Tensor
    sex: Tensor

    def first(self, n: int) -> Cohort:
        """Return the first people."""
        return Cohort(*(each[:n] for each in self))


def simulate(n: int, *, seed: int, site_seed: int, spacing_mm: float) -> Cohort:
    """Simulate healthy people in memory; person number i does not depend on `n`."""
    settings = SimulationSettings(
        n_subjects=n, seed=seed, site_seed=site_seed, patients=0.0, spacing_mm=spacing_mm
    )
    people = [draw_person(settings, index) for index in range(n)]
    volumes = []
    for person in people:
        volume = render_scan(settings, person).astype(np.float32)
        inside = volume[volume > 0]
        volumes.append(
            np.where(volume > 0, (volume - inside.mean()) / inside.std(), 0.0).astype(np.float32)
        )
    age, sex = [person.age for person in people], [person.sex == "M" for person in people]
    return Cohort(
        torch.from_numpy(np.stack(volumes))[:, None], torch.tensor(age), torch.tensor(sex).long()
    )


def predict_linear(
    learned: Cohort, tested: list[Cohort], n_components: int | None
) -> list[np.ndarray]:
    """Return ages predicted by ridge regression on principal components of the voxels, or on all of them (None)."""
    ridge = RidgeCV(np.logspace(0, 8, 33))
    parts = (
        []
        if n_components is None
        else [PCA(min(n_components, len(learned.age) - 1), random_state=0)]
    )
    model = make_pipeline(*parts, ridge).fit(
        learned.volumes.flatten(1).numpy(), learned.age.numpy()
    )
    return [model.predict(cohort.volumes.flatten(1).numpy()) for cohort in tested]


def optimise(model: nn.Module, learned: Cohort, n_steps: int, seed: int, loss_of) -> None:
    """Take `n_steps` steps over shuffled batches; `loss_of(views, rows)` is the loss of two views of the rows."""
    views, random = TwoViews(brain_views(), seed=seed), np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, n_steps)
    model.train()
    epoch, order = 0, np.array([], dtype=int)
    for _ in range(n_steps):
        if len(order) < min(BATCH, len(learned.age)):
            epoch, order = epoch + 1, random.permutation(len(learned.age))
        rows, order = order[:BATCH], order[BATCH:]
        loss = loss_of(views(learned.volumes[rows], [str(row) for row in rows], epoch=epoch), rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()


@torch.no_grad()
def encode(model: nn.Module, cohort: Cohort) -> np.ndarray:
    """Return what a model makes of every volume."""
    return torch.cat([model(part) for part in cohort.volumes.split(256)]).numpy()


def predict_network(
    method: str, learned: Cohort, tested: list[Cohort], n_steps: int, seed: int
) -> list[np.ndarray]:
    """Return ages predicted by a network trained from scratch, or read off a frozen one."""
    if method == "supervised":
        encoder = build_encoder(ENCODER, seed=seed)
        torch.manual_seed(seed)
        model = nn.Sequential(encoder, nn.Linear(encoder.n_features, 1))
        mean, spread = learned.age.mean(), learned.age.std()
        wanted = ((learned.age - mean) / spread)[:, None]

        def squared_error(views: tuple[Tensor, Tensor], rows: np.ndarray) -> Tensor:
            return nn.functional.mse_loss(model(torch.cat(views)), wanted[rows].repeat(2, 1))

        optimise(model, learned, n_steps, seed, squared_error)
        return [encode(model, cohort)[:, 0] * float(spread) + float(mean) for cohort in tested]
    model = build_model(ENCODER, seed=seed)
    if method in OBJECTIVES:

        def contrast(views: tuple[Tensor, Tensor], rows: np.ndarray) -> Tensor:
            z1, z2 = model(torch.cat(views)).chunk(2)
            return OBJECTIVES[method](z1, z2, {"age": learned.age[rows], "sex": learned.sex[rows]})

        optimise(model, learned, n_steps, seed, contrast)
    encoder = model.encoder.eval()
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-1, 6, 29)))
    ridge.fit(encode(encoder, learned), learned.age.numpy())
    return [ridge.predict(encode(encoder, cohort)) for cohort in tested]


def measure(
    method: str, learned: Cohort, tested: list[Cohort], options: argparse.Namespace, seed: int
) -> dict:
    """Return the errors of a method at home and at new scanners."""
    start = time.process_time()
    n_steps = max(options.min_steps, round(options.epochs * len(learned.age) / BATCH))
    linear = {"PCA-60": N_COMPONENTS, "all voxels": None}
    if method in linear:
        predicted = predict_linear(learned, tested, linear[method])
    else:
        predicted = predict_network(method, learned, tested, n_steps, seed)
    errors = [found - cohort.age.numpy() for found, cohort in zip(predicted, tested, strict=True)]
    row = {
        f"{place}_mae": np.abs(error).mean()
        for place, error in zip(("home", "new"), errors, strict=True)
    }
    return row | {"new_bias": errors[1].mean(), "seconds": time.process_time() - start}


def run_cells(options: argparse.Namespace) -> pd.DataFrame:
    """Compute the cells that are missing; return all of them."""
    file = options.out / "cells.tsv"
    cells = (
        pd.read_csv(file, sep="\t")
        if file.is_file()
        else pd.DataFrame(columns=["seed", "n", "method"])
    )
    for seed in range(options.seeds):
        wanted = [(n, method) for n in sorted(options.sizes) for method in METHODS]
        known = set(zip(cells["seed"], cells["n"], cells["method"], strict=True))
        missing = [(n, method) for n, method in wanted if (seed, n, method) not in known]
        if not missing:
            continue
        sites = {"home": 2 * seed, "new": 2 * seed + 1}
        cohorts = [
            ("home", 3 * seed, max(options.sizes)),
            ("home", 3 * seed + 1, N_TESTED),
            ("new", 3 * seed + 2, N_TESTED),
        ]
        learned, *tested = (
            simulate(n, seed=people, site_seed=sites[place], spacing_mm=options.spacing_mm)
            for place, people, n in cohorts
        )
        for n, method in missing:
            row = {
                "seed": seed,
                "n": n,
                "method": method,
                **measure(method, learned.first(n), tested, options, seed),
            }
            row["median_mae"] = float((tested[0].age - learned.first(n).age.median()).abs().mean())
            cells = pd.concat([cells, pd.DataFrame([row])], ignore_index=True)
            cells.to_csv(file, sep="\t", index=False)
            print(pd.Series(row).to_dict(), flush=True)
    return cells[cells["n"].isin(options.sizes) & (cells["seed"] < options.seeds)]


def tabulate(cells: pd.DataFrame, column: str) -> str:
    """Return a Markdown table of means over seeds, with the range where there are several."""

    def cell(values: pd.Series) -> str:
        spread = f" ({values.min():.1f}–{values.max():.1f})" if len(values) > 1 else ""
        return f"{values.mean():.1f}{spread}"

    table = (
        cells.groupby(["method", "n"])[column].apply(cell).unstack("n").reindex(METHODS).fillna("")
    )
    rows = [
        ["", *(f"N = {n:,}" for n in table)],
        ["---"] * (1 + table.shape[1]),
        *table.reset_index().to_numpy(),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def draw(cells: pd.DataFrame, file: Path) -> None:
    """Draw both errors against the number of people, mean and range over seeds."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
    for axis, (place, title) in zip(
        axes,
        {"home": "other people, same scanners", "new": "scanners never seen"}.items(),
        strict=True,
    ):
        for number, method in enumerate(METHODS):
            part = (
                cells[cells["method"] == method]
                .groupby("n")[f"{place}_mae"]
                .agg(["mean", "min", "max"])
            )
            look = {"ls": "--"} if method in ("PCA-60", "all voxels", "untrained") else {}
            axis.plot(
                part.index, part["mean"], marker="o", ms=3, color=f"C{number}", label=method, **look
            )
            axis.fill_between(
                part.index, part["min"], part["max"], color=f"C{number}", alpha=0.12, lw=0
            )
        axis.set(xscale="log", xlabel="people to learn from", title=title)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("error of age, years")
    axes[1].legend(fontsize="x-small")
    figure.savefig(file, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1000, 3000, 5000])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--epochs", type=float, default=12, help="passes over N, but at least --min-steps steps"
    )
    parser.add_argument("--min-steps", type=int, default=250)
    parser.add_argument("--spacing-mm", type=float, default=10.0)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    cells = run_cells(options)
    for column, title in {"home_mae": "same scanners", "new_mae": "scanners never seen"}.items():
        median = cells["median_mae"].mean()
        print(
            f"\nError of age in years, {title} (the median age: {median:.1f}):\n\n{tabulate(cells, column)}"
        )
    draw(cells, options.out / "cohort_size.png")


if __name__ == "__main__":
    main()
