"""Networks, losses and probes of `regions.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
import yaml
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from sklearn.linear_model import RidgeCV
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.nn import functional

import neurocontrast
from neurocontrast.embedding import ScanEmbedder
from neurocontrast.encoders import load_encoder

__all__ = ["DEFAULTS", "LOSSES", "TRIALS", "WITH_RATES", "components", "encode", "features_of", "gaussian_process",
           "pretrain_run", "probe", "site_accuracy", "supervise", "tune"]  # fmt: skip

Floats = npt.NDArray[np.floating[Any]]
Rows = npt.NDArray[np.intp]
RECIPE = Path(__file__).parents[1] / "configs" / "brain" / "measures.yaml"
EPOCHS, MIN_STEPS, NOISE = 40, 150, 0.3
MAX_MISSING = 0.1  # one person lacks 13 of 179 measures, all others at most 7
KERNEL_LOSSES = ("conditional A+U", "y-Aware", "L^exp")
LOSSES = (*KERNEL_LOSSES, "Rank-N-Contrast", "NT-Xent", "SupCon")
DEFAULTS = {"temperature": 1.0, "sigma": 5.0, "corruption": 0.2, "rate": 1e-3, "weight": 1.0}
_TEMPERATURES = ("temperature", (0.1, 0.3, 1.0, 3.0, 10.0, 30.0))
_RATES, _SIGMAS, _SHARES = (
    ("rate", (1e-3, 3e-3, 1e-2)),
    ("sigma", (2.0, 5.0, 10.0)),
    ("corruption", (0.2, 0.4, 0.6)),
)
TRIALS: dict[str, tuple[tuple[str, tuple[float, ...]], ...]] = {
    **dict.fromkeys(KERNEL_LOSSES, (_TEMPERATURES, _SIGMAS)),
    **dict.fromkeys(LOSSES[3:], (_TEMPERATURES, _SHARES)),
    "supervised": (("rate", (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)), _SHARES),
    "PCA": (("components", (20.0, 60.0, 120.0)),),
}
"""Settings tried one after the other, each at the best of those before."""
WITH_RATES = {**TRIALS, **{name: (TRIALS[name][0], _RATES, TRIALS[name][1]) for name in LOSSES}}


def _objective(name: str, settings: Mapping[str, float]) -> dict[str, Any]:
    """Return the section ``objective:`` of a run."""
    kernel = [
        {"column": "age", "type": "gaussian", "sigma": settings["sigma"]},
        {"column": "sex", "type": "categorical"},
    ]
    described: dict[str, dict[str, Any]] = {
        "conditional A+U": {
            "loss": "conditional",
            "kernel": kernel,
            "uniformity_weight": settings["weight"],
        },
        "y-Aware": {"loss": "yaware", "kernel": kernel},
        "L^exp": {"loss": "exponential_yaware", "kernel": kernel},
        "Rank-N-Contrast": {"loss": "rank_n_contrast", "column": "age"},
        "NT-Xent": {"loss": "ntxent"},
        "SupCon": {"loss": "supcon", "label": "decade_and_sex"},
    }
    return {**described[name], "temperature": settings["temperature"]}


def pretrain_run(
    name: str,
    people: pd.DataFrame,
    measures: Path,
    given: Mapping[str, float],
    seed: int,
    out: Path,
) -> Path:
    """Pretrain the recipe's network on `people`, and return the run; ``untrained`` takes no step."""
    settings = {**DEFAULTS, **given}
    out.mkdir(parents=True)
    decade = (people["age"] // 10 * 10).astype(int).astype(str)
    table = people[["participant_id", "subject_id", "session", "age", "sex", "site"]]
    table.assign(decade_and_sex=decade + people["sex"]).to_csv(
        out / "people.tsv", sep="\t", index=False
    )
    config = yaml.safe_load(RECIPE.read_text())
    config["seed"] = seed
    config["data"] |= {"participants": str(out / "people.tsv"), "measures": str(measures),
                       "max_missing": MAX_MISSING, "val_fraction": 0.0}  # fmt: skip
    config["encoder"]["beside"] = None  # the table has the measures themselves beside networks
    config["augment"]["corruption"]["fraction"] = settings["corruption"]
    batches = math.ceil(len(people) / config["training"]["batch_size"])
    epochs = 0 if name == "untrained" else max(EPOCHS, math.ceil(MIN_STEPS / batches))
    config["training"] |= {"epochs": epochs, "learning_rate": settings["rate"]}
    if name != "untrained":
        config["objective"] = _objective(name, settings)
    return neurocontrast.pretrain(config, out=out / "run")


def features_of(run: Path, measures: pd.DataFrame) -> Floats:
    """Return the features that a run's encoder has for people, (people, 128)."""
    return ScanEmbedder(run, batch_size=1024).fit().transform(measures)


class Network(nn.Module):
    """An encoder like the recipe's, and a linear head that predicts."""

    def __init__(self, n_measures: int, n_out: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            *(nn.Linear(n_measures, 512), nn.BatchNorm1d(512), nn.ReLU()),
            *(nn.Linear(512, 128), nn.BatchNorm1d(128), nn.ReLU()),
        )
        self.head = nn.Linear(128, n_out)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x))


def _make_view(x: Tensor, corruption: float, generator: torch.Generator) -> Tensor:
    """Return measures with noise, a share of them taken from another person of the batch (SCARF)."""
    others = x[torch.randperm(len(x), generator=generator)]
    taken = torch.rand(x.shape, generator=generator) < corruption
    return torch.where(taken, others, x) + NOISE * torch.randn(x.shape, generator=generator)


def _optimise(
    model: nn.Module,
    x: Tensor,
    loss_of: Callable[[Tensor, Tensor], Tensor],
    *,
    seed: int,
    corruption: float,
    rate: float,
    min_steps: int = MIN_STEPS,
    epochs: int = EPOCHS,
) -> nn.Module:
    """Take the steps of `epochs` epochs, or `min_steps` where these are more; `loss_of(outputs of two views, rows)`."""
    generator = torch.Generator().manual_seed(seed)
    batch = min(256, len(x))
    n_steps = max(min_steps, epochs * (len(x) // batch))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    order = torch.empty(0, dtype=torch.long)
    model.train()
    for _ in range(n_steps):
        if len(order) < batch:
            order = torch.randperm(len(x), generator=generator)
        rows, order = order[:batch], order[batch:]
        loss = loss_of(
            model(torch.cat([_make_view(x[rows], corruption, generator) for _ in range(2)])), rows
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def supervise(
    x: Floats, age: Floats, male: Floats, given: Mapping[str, float], seed: int
) -> Network:
    """Train a network to predict age (standardised) and sex from the views that the others are given."""
    settings = {**DEFAULTS, **given}
    years, sex = torch.tensor(age, dtype=torch.float32), torch.tensor(male, dtype=torch.float32)
    wanted = (years - years.mean()) / years.std()

    def error(found: Tensor, rows: Tensor) -> Tensor:
        of_sex = functional.binary_cross_entropy_with_logits(found[:, 1], sex[rows].repeat(2))
        return functional.mse_loss(found[:, 0], wanted[rows].repeat(2)) + of_sex

    torch.manual_seed(seed)
    spread = {"seed": seed, "corruption": settings["corruption"], "rate": settings["rate"]}
    return _optimise(Network(x.shape[1], 2), torch.tensor(x), error, **spread)


def tune(run: Path, x: Floats, labels: Floats, seed: int) -> nn.Module:
    """Fine-tune a run's encoder and a new head to a label of few people: 30 epochs or 40 steps, a third of the rate."""
    encoder, _ = load_encoder(run)
    torch.manual_seed(seed)
    model = nn.Sequential(encoder, nn.Linear(encoder.n_features, 1))
    wanted = torch.tensor(labels, dtype=torch.float32)

    def error(found: Tensor, rows: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(found[:, 0], wanted[rows].repeat(2))

    spread = {"seed": seed, "corruption": 0.2, "rate": 3e-4, "min_steps": 40, "epochs": 30}
    return _optimise(model, torch.tensor(x), error, **spread)


@torch.no_grad()
def encode(model: nn.Module, x: Floats) -> Floats:
    return model(torch.tensor(x)).numpy()


def components(x: Floats, learned: npt.NDArray[np.intp], n: int) -> Floats:
    return (
        PCA(min(n, len(learned) - 1), random_state=0)
        .fit(x[learned])
        .transform(x)
        .astype(np.float32)
    )


def probe(features: Floats, learned: npt.NDArray[np.intp], wanted: Floats) -> Floats:
    """Return predictions for all people by ridge regression, its penalty by generalised cross-validation."""
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(0, 6, 19)))
    return ridge.fit(features[learned].astype(float), wanted[learned]).predict(
        features.astype(float)
    )


def gaussian_process(x: Floats, learned: npt.NDArray[np.intp], wanted: Floats, seed: int) -> Floats:
    """Return predictions of a Gaussian process, linear and RBF, whose kernel is fitted to 400 people."""
    random = np.random.default_rng(seed)
    few = random.choice(learned, min(400, len(learned)), replace=False)
    scale = np.sqrt(x.shape[1])
    kernel = (
        ConstantKernel(1.0) * RBF(1.0, (0.1, 30))
        + ConstantKernel(0.3) * DotProduct(1.0)
        + WhiteKernel(0.3)
    )
    mean, spread = wanted[learned].mean(), wanted[learned].std()
    scaled = (wanted - mean) / spread
    fitted = GaussianProcessRegressor(kernel).fit(x[few] / scale, scaled[few])
    whole = GaussianProcessRegressor(fitted.kernel_, optimizer=None).fit(
        x[learned] / scale, scaled[learned]
    )
    return whole.predict(x / scale) * spread + mean


def site_accuracy(
    features: Floats, learned: npt.NDArray[np.intp], home: npt.NDArray[np.intp], sites: Floats
) -> float:
    """Return how well other people's site is told: linear discriminants with shrinkage, balanced accuracy."""
    counts = dict(zip(*np.unique(sites[learned], return_counts=True), strict=True))
    fitted = np.array([row for row in learned if counts[sites[row]] > 1])
    priors = np.full(len(np.unique(sites[fitted])), 1 / len(np.unique(sites[fitted])))
    teller = make_pipeline(
        StandardScaler(), LinearDiscriminantAnalysis("lsqr", shrinkage="auto", priors=priors)
    )
    told = teller.fit(features[fitted].astype(float), sites[fitted]).predict(
        features[home].astype(float)
    )
    return float(balanced_accuracy_score(sites[home], told))
