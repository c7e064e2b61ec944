"""Networks, losses and probes of `regions.py`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
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

from neurocontrast import losses
from neurocontrast.kernels import Categorical, Gaussian, Kernel

__all__ = ["FIRST", "LOSSES", "SECOND", "Person", "components", "encode", "gaussian_process", "probe", "site_accuracy",
           "train", "tune", "untrained"]  # fmt: skip

Floats = npt.NDArray[np.floating[Any]]
BATCH, EPOCHS, MIN_STEPS, NOISE = 256, 40, 150, 0.3
KERNEL_LOSSES = ("conditional A+U", "y-Aware", "L^exp")
LOSSES = (*KERNEL_LOSSES, "Rank-N-Contrast", "NT-Xent", "SupCon")
DEFAULTS = {"temperature": 1.0, "sigma": 5.0, "corruption": 0.2, "rate": 1e-3, "weight": 1.0}
FIRST = {**dict.fromkeys(LOSSES, ("temperature", (0.1, 0.3, 1.0, 3.0))), "supervised": ("rate", (3e-4, 1e-3, 3e-3))}
SECOND = {
    **dict.fromkeys(KERNEL_LOSSES, ("sigma", (2.0, 5.0, 10.0))),
    **dict.fromkeys((*LOSSES[3:], "supervised"), ("corruption", (0.2, 0.4, 0.6))),
}


class Person(NamedTuple):
    """What is known of people: age in years, 1 for men."""

    age: Floats
    male: Floats


class Network(nn.Module):
    """An encoder of two layers, and a linear head that is thrown away, or predicts age and sex."""

    def __init__(self, n_measures: int, n_out: int = 64) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            *(nn.Linear(n_measures, 512), nn.BatchNorm1d(512), nn.ReLU()),
            *(nn.Linear(512, 128), nn.BatchNorm1d(128), nn.ReLU()),
        )
        self.head = nn.Linear(128, n_out)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x))


def make_objective(name: str, settings: Mapping[str, float]) -> losses.Objective:
    temperature = settings["temperature"]
    kernel: Kernel = Gaussian("age", sigma=settings["sigma"]) * Categorical("sex")
    if name == "conditional A+U":
        weight = settings["weight"]
        return losses.ConditionalAlignmentUniformity(kernel, temperature=temperature, uniformity_weight=weight)
    plain: dict[str, Callable[[], losses.Objective]] = {
        "y-Aware": lambda: losses.YAwareInfoNCE(kernel, temperature=temperature),
        "L^exp": lambda: losses.ExponentialYAware(kernel, temperature=temperature),
        "Rank-N-Contrast": lambda: losses.RankNContrast("age", temperature=temperature),
        "NT-Xent": lambda: losses.NTXent(temperature=temperature),
        "SupCon": lambda: losses.SupCon("bin", temperature=temperature),
    }
    return plain[name]()


def make_view(x: Tensor, corruption: float, generator: torch.Generator) -> Tensor:
    """Return measures with noise, a share of them taken from another person of the batch (SCARF)."""
    others = x[torch.randperm(len(x), generator=generator)]
    taken = torch.rand(x.shape, generator=generator) < corruption
    return torch.where(taken, others, x) + NOISE * torch.randn(x.shape, generator=generator)


def _optimise(
    model: Network,
    x: Tensor,
    loss_of: Callable[[Tensor, Tensor], Tensor],
    *,
    seed: int,
    corruption: float,
    rate: float,
    min_steps: int = MIN_STEPS,
    epochs: int = EPOCHS,
) -> Network:
    """Take the steps of `epochs` epochs, or `min_steps` where these are more; `loss_of(outputs of two views, rows)`."""
    generator = torch.Generator().manual_seed(seed)
    batch = min(BATCH, len(x))
    n_steps = max(min_steps, epochs * (len(x) // batch))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    order = torch.empty(0, dtype=torch.long)
    model.train()
    for _ in range(n_steps):
        if len(order) < batch:
            order = torch.randperm(len(x), generator=generator)
        rows, order = order[:batch], order[batch:]
        views = [make_view(x[rows], corruption, generator) for _ in range(2)]
        loss = loss_of(model(torch.cat(views)), rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def untrained(n_measures: int, seed: int, n_out: int = 64) -> Network:
    torch.manual_seed(seed)
    return Network(n_measures, n_out).eval()


def train(name: str, x: Floats, known: Person, given: Mapping[str, float], seed: int) -> Network:
    """Train a network on people that a loss compares, or whose age (standardised) and sex it predicts."""
    settings = {**DEFAULTS, **given}
    spread = {"seed": seed, "corruption": settings["corruption"], "rate": settings["rate"]}
    age, male = torch.tensor(known.age, dtype=torch.float32), torch.tensor(known.male)
    if name == "supervised":
        wanted, sex = ((age - age.mean()) / age.std()).repeat(2), male.float().repeat(2)

        def error(found: Tensor, rows: Tensor) -> Tensor:
            both = torch.cat([rows, rows + len(age)])
            of_sex = functional.binary_cross_entropy_with_logits(found[:, 1], sex[both])
            return functional.mse_loss(found[:, 0], wanted[both]) + of_sex

        return _optimise(untrained(x.shape[1], seed, 2), torch.tensor(x), error, **spread)
    objective = make_objective(name, settings)
    metadata = {"age": age, "sex": male, "bin": 2 * (age // 10).long() + male}

    def contrast(found: Tensor, rows: Tensor) -> Tensor:
        return objective(*found.chunk(2), {key: metadata[key][rows] for key in objective.columns})

    return _optimise(untrained(x.shape[1], seed), torch.tensor(x), contrast, **spread)


def tune(start: Network, x: Floats, labels: Floats, seed: int) -> Network:
    """Fine-tune all weights to a label of few people: a new head, 30 epochs or 40 steps, a third of the rate."""
    torch.manual_seed(seed)
    model = Network(x.shape[1], 1)
    model.encoder = copy.deepcopy(start.encoder)
    wanted = torch.tensor(labels, dtype=torch.float32).repeat(2)

    def error(found: Tensor, rows: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(found[:, 0], wanted[torch.cat([rows, rows + len(labels)])])

    spread = {"seed": seed, "corruption": 0.2, "rate": 3e-4, "min_steps": 40, "epochs": 30}
    return _optimise(model, torch.tensor(x), error, **spread)


@torch.no_grad()
def encode(model: nn.Module, x: Floats) -> Floats:
    return model(torch.tensor(x)).numpy()


def components(x: Floats, learned: npt.NDArray[np.intp], n: int) -> Floats:
    return PCA(min(n, len(learned) - 1), random_state=0).fit(x[learned]).transform(x).astype(np.float32)


def probe(features: Floats, learned: npt.NDArray[np.intp], wanted: Floats) -> Floats:
    """Return predictions for all people by ridge regression, its penalty by generalised cross-validation."""
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(0, 6, 19)))
    return ridge.fit(features[learned].astype(float), wanted[learned]).predict(features.astype(float))


def gaussian_process(x: Floats, learned: npt.NDArray[np.intp], wanted: Floats, seed: int) -> Floats:
    """Return predictions of a Gaussian process, linear and RBF, whose kernel is fitted to 400 people."""
    random = np.random.default_rng(seed)
    few = random.choice(learned, min(400, len(learned)), replace=False)
    scale = np.sqrt(x.shape[1])
    kernel = ConstantKernel(1.0) * RBF(1.0, (0.1, 30)) + ConstantKernel(0.3) * DotProduct(1.0) + WhiteKernel(0.3)
    mean, spread = wanted[learned].mean(), wanted[learned].std()
    scaled = (wanted - mean) / spread
    fitted = GaussianProcessRegressor(kernel).fit(x[few] / scale, scaled[few])
    whole = GaussianProcessRegressor(fitted.kernel_, optimizer=None).fit(x[learned] / scale, scaled[learned])
    return whole.predict(x / scale) * spread + mean


def site_accuracy(features: Floats, learned: npt.NDArray[np.intp], home: npt.NDArray[np.intp], sites: Floats) -> float:
    """Return how well other people's site is told: linear discriminants with shrinkage, balanced accuracy."""
    counts = dict(zip(*np.unique(sites[learned], return_counts=True), strict=True))
    fitted = np.array([row for row in learned if counts[sites[row]] > 1])
    priors = np.full(len(np.unique(sites[fitted])), 1 / len(np.unique(sites[fitted])))
    teller = make_pipeline(StandardScaler(), LinearDiscriminantAnalysis("lsqr", shrinkage="auto", priors=priors))
    told = teller.fit(features[fitted].astype(float), sites[fitted]).predict(features[home].astype(float))
    return float(balanced_accuracy_score(sites[home], told))
