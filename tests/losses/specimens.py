"""One of every loss of the public surface, beside the naive loops it must equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from neurocontrast import kernels, losses

Metadata = dict[str, Tensor]


@dataclass(frozen=True)
class Specimen:
    """A loss, and the same value from plain loops."""

    name: str
    build: Callable[[], nn.Module]
    reference: Callable[[ModuleType, Tensor, Tensor, Metadata], Tensor]


def random_batch(n: int, d: int, *, seed: int = 0, n_labels: int = 3) -> tuple[Tensor, Tensor, Metadata]:
    """Two related views of any norm in float64, and every column a specimen reads."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def codes(n_values: int) -> Tensor:
        return torch.randint(n_values, (n,), generator=generator)

    z1 = normal(n, d)
    z2 = 1.7 * (z1 + 0.7 * normal(n, d))
    metadata = {
        "age": 40 + 15 * normal(n),
        "scores": normal(n, 2),
        "sex": codes(2),
        "label": codes(n_labels),
        "cluster": codes(n_labels),
    }
    metadata["decade"] = (metadata["age"] / 10).round()
    metadata["partial"] = metadata["sex"].clone()
    metadata["partial"][1::3] = -1
    return z1.requires_grad_(), z2.requires_grad_(), metadata


def _age(naive: ModuleType, m: Metadata) -> Any:
    return naive.gaussian(m["age"], 5.0)


def _age_by_sex(naive: ModuleType, m: Metadata) -> Any:
    return naive.product(naive.gaussian(m["age"], 5.0), naive.categorical(m["sex"]))


def _age_or_sex(naive: ModuleType, m: Metadata) -> Any:
    return naive.weighted_sum((2.0, _age(naive, m)), (1.0, naive.categorical(m["sex"])))


def _euclidean_laplacian(values: Tensor, sigma: float) -> Any:
    return lambda i, j: float(torch.exp(-(values[i] - values[j]).norm() / sigma))


def _embeddings(naive: ModuleType, z: Tensor) -> Tensor:
    return torch.stack(naive.units(z.detach()))


def _hard_negative(naive: ModuleType, z1: Tensor, z2: Tensor, kernel: Callable[[Tensor], Any]) -> Tensor:
    return naive.fair_cclk(z1, z2, kernel(_embeddings(naive, z1)), 0.2, 0.05)


SPECIMENS = [
    Specimen("infonce", lambda: losses.InfoNCE(temperature=0.1), lambda N, a, b, m: N.infonce(a, b, 0.1)),
    Specimen(
        "infonce-one-way",
        lambda: losses.InfoNCE(temperature=0.3, symmetric=False),
        lambda N, a, b, m: N.infonce(a, b, 0.3, symmetric=False),
    ),
    Specimen("ntxent", lambda: losses.NTXent(temperature=0.1), lambda N, a, b, m: N.ntxent(a, b, 0.1)),
    Specimen(
        "yaware",
        lambda: losses.YAwareInfoNCE(kernels.Gaussian("age", sigma=5.0), temperature=0.1),
        lambda N, a, b, m: N.yaware(a, b, _age(N, m), 0.1),
    ),
    Specimen(
        "yaware-age-by-sex",
        lambda: losses.YAwareInfoNCE(kernels.Gaussian("age", sigma=5.0) * kernels.Categorical("sex"), temperature=0.1),
        lambda N, a, b, m: N.yaware(a, b, _age_by_sex(N, m), 0.1),
    ),
    Specimen(
        "exponential-yaware",
        lambda: losses.ExponentialYAware(kernels.Gaussian("age", sigma=5.0), temperature=0.1),
        lambda N, a, b, m: N.exponential_yaware(a, b, _age(N, m), 0.1),
    ),
    Specimen(
        "exponential-yaware-of-a-sum",
        lambda: losses.ExponentialYAware(
            2.0 * kernels.Gaussian("age", sigma=5.0) + kernels.Categorical("sex"), temperature=0.05
        ),
        lambda N, a, b, m: N.exponential_yaware(a, b, _age_or_sex(N, m), 0.05, 3.0),
    ),
    Specimen(
        "rank-n-contrast",
        lambda: losses.RankNContrast("age", temperature=0.5),
        lambda N, a, b, m: N.rank_n_contrast(a, b, m["age"], 0.5),
    ),
    Specimen(
        "rank-n-contrast-ties",
        lambda: losses.RankNContrast("decade"),
        lambda N, a, b, m: N.rank_n_contrast(a, b, m["decade"], 2.0),
    ),
    Specimen(
        "conditional-alignment",
        lambda: losses.ConditionalAlignment(kernels.Gaussian("age", sigma=5.0), temperature=0.1),
        lambda N, a, b, m: N.conditional_alignment(a, b, _age(N, m), 0.1),
    ),
    Specimen(
        "conditional-uniformity",
        lambda: losses.ConditionalUniformity(kernels.Gaussian("age", sigma=5.0), temperature=0.1),
        lambda N, a, b, m: N.conditional_uniformity(a, b, _age(N, m), 1.0, 0.1),
    ),
    Specimen(
        "conditional-uniformity-of-a-sum",
        lambda: losses.ConditionalUniformity(
            2.0 * kernels.Gaussian("age", sigma=5.0) + kernels.Categorical("sex"), temperature=0.1
        ),
        lambda N, a, b, m: N.conditional_uniformity(a, b, _age_or_sex(N, m), 3.0, 0.1),
    ),
    Specimen(
        "conditional-uniformity-linear",
        lambda: losses.ConditionalUniformity(kernels.Linear("age"), temperature=0.2),
        lambda N, a, b, m: N.conditional_uniformity(
            a, b, N.linear(m["age"]), N.largest(N.linear(m["age"]), len(m["age"])), 0.2
        ),
    ),
    Specimen(
        "yaware-some-missing",
        lambda: losses.YAwareInfoNCE(
            kernels.Gaussian("age", sigma=5.0) * kernels.Categorical("partial", missing="marginal"), temperature=0.1
        ),
        lambda N, a, b, m: N.yaware(
            a, b, N.product(_age(N, m), N.marginal(N.categorical(m["partial"]), (m["partial"] >= 0).tolist())), 0.1
        ),
    ),
    Specimen(
        "conditional-alignment-uniformity",
        lambda: losses.ConditionalAlignmentUniformity(
            kernels.Gaussian("age", sigma=5.0) * kernels.Categorical("sex"), temperature=0.1, uniformity_weight=0.7
        ),
        lambda N, a, b, m: (
            N.conditional_alignment(a, b, _age_by_sex(N, m), 0.1)
            + 0.7 * N.conditional_uniformity(a, b, _age_by_sex(N, m), 1.0, 0.1)
        ),
    ),
    Specimen(
        "yaware-across-sites-some-missing",
        lambda: losses.YAwareInfoNCE(
            kernels.Gaussian("age", sigma=5.0) * kernels.Different("partial", within=0.3, missing="marginal"),
            temperature=0.1,
        ),
        lambda N, a, b, m: N.yaware(
            a,
            b,
            N.product(
                _age(N, m), N.own(N.marginal(N.different(m["partial"], 0.3, own=False), (m["partial"] >= 0).tolist()))
            ),
            0.1,
        ),
    ),
    Specimen(
        "yaware-within-site-negatives",
        lambda: losses.YAwareInfoNCE(
            kernels.Gaussian("age", sigma=15.0) * kernels.Different("cluster"),
            temperature=0.2,
            negatives=kernels.Categorical("cluster"),
        ),
        lambda N, a, b, m: N.yaware_among(
            a,
            b,
            N.product(N.gaussian(m["age"], 15.0), N.different(m["cluster"], 0.0)),
            N.categorical(m["cluster"]),
            0.2,
        ),
    ),
    Specimen(
        "conditional-uniformity-within-site",
        lambda: losses.ConditionalUniformity(
            kernels.Gaussian("age", sigma=5.0) * kernels.Categorical("sex"),
            temperature=0.1,
            negatives=kernels.Categorical("cluster"),
        ),
        lambda N, a, b, m: N.conditional_uniformity_among(a, b, _age_by_sex(N, m), N.categorical(m["cluster"]), 0.1),
    ),
    Specimen(
        "conditional-across-sites-within-site-negatives",
        lambda: losses.ConditionalAlignmentUniformity(
            kernels.Gaussian("age", sigma=5.0) * kernels.Different("cluster", within=0.5),
            temperature=0.1,
            uniformity_weight=0.7,
            negatives=kernels.Categorical("cluster"),
        ),
        lambda N, a, b, m: (
            N.conditional_alignment(a, b, N.product(_age(N, m), N.different(m["cluster"], 0.5)), 0.1)
            + 0.7
            * N.conditional_uniformity_among(
                a,
                b,
                N.product(_age(N, m), N.different(m["cluster"], 0.5)),
                N.categorical(m["cluster"]),
                0.1,
            )
        ),
    ),
    Specimen(
        "global-uniformity",
        lambda: losses.GlobalUniformity(temperature=0.1),
        lambda N, a, b, m: N.global_uniformity(a, b, 0.1),
    ),
    Specimen(
        "alignment-uniformity",
        lambda: losses.AlignmentUniformity(alpha=2.0, t=2.0, uniformity_weight=0.5),
        lambda N, a, b, m: N.wang_isola(a, b, 2.0, 2.0, 0.5),
    ),
    Specimen(
        "supcon",
        lambda: losses.SupCon("label", temperature=0.1),
        lambda N, a, b, m: N.supcon(a, b, m["label"].tolist(), 0.1),
    ),
    Specimen(
        "sincere",
        lambda: losses.SINCERE("label", temperature=0.1),
        lambda N, a, b, m: N.sincere(a, b, m["label"].tolist(), 0.1),
    ),
    Specimen(
        "epsilon-supinfonce",
        lambda: losses.EpsilonSupInfoNCE("label", temperature=0.1, epsilon=0.25),
        lambda N, a, b, m: N.sincere(a, b, m["label"].tolist(), 0.1, 0.25),
    ),
    Specimen(
        "debiased",
        lambda: losses.DebiasedInfoNCE(temperature=0.5, positive_prior=0.1),
        lambda N, a, b, m: N.debiased(a, b, 0.5, 0.1),
    ),
    Specimen(
        "debiased-clamped",
        lambda: losses.DebiasedInfoNCE(temperature=0.1, positive_prior=0.1),
        lambda N, a, b, m: N.debiased(a, b, 0.1, 0.1),
    ),
    Specimen(
        "hard-negative",
        lambda: losses.HardNegativeInfoNCE(temperature=0.5, positive_prior=0.1, concentration=1.0),
        lambda N, a, b, m: N.hard_negative(a, b, 0.5, 0.1, 1.0),
    ),
    Specimen(
        "hard-negative-clamped",
        lambda: losses.HardNegativeInfoNCE(temperature=0.2, positive_prior=0.1, concentration=0.5),
        lambda N, a, b, m: N.hard_negative(a, b, 0.2, 0.1, 0.5),
    ),
    Specimen(
        "fair-infonce",
        lambda: losses.FairInfoNCE("cluster", temperature=0.1),
        lambda N, a, b, m: N.fair_infonce(a, b, m["cluster"].tolist(), 0.1),
    ),
    Specimen(
        "triplet",
        lambda: losses.Triplet("label", margin=0.2),
        lambda N, a, b, m: N.triplet(a, b, m["label"].tolist(), 0.2),
    ),
    Specimen(
        "cclk-weak-gaussian",
        lambda: losses.WeaklySupervisedCCLK(kernels.Gaussian("age", sigma=5.0), temperature=0.1, ridge=0.01),
        lambda N, a, b, m: N.weakly_supervised_cclk(a, b, _age(N, m), 0.1, 0.01),
    ),
    Specimen(
        "cclk-weak-laplacian-symmetric",
        lambda: losses.WeaklySupervisedCCLK(
            kernels.Laplacian("age", sigma=5.0), temperature=0.2, ridge=0.1, symmetric=True
        ),
        lambda N, a, b, m: N.both_directions(N.weakly_supervised_cclk, a, b, N.laplacian(m["age"], 5.0), 0.2, 0.1),
    ),
    Specimen(
        "cclk-fair-linear",
        lambda: losses.FairCCLK(kernels.Linear("scores"), temperature=0.2, ridge=0.1),
        lambda N, a, b, m: N.fair_cclk(a, b, N.linear(m["scores"]), 0.2, 0.1),
    ),
    Specimen(
        "cclk-weak-others",
        lambda: losses.WeaklySupervisedCCLK(
            kernels.Gaussian("age", sigma=9.0), temperature=0.2, ridge=0.1, own=False, symmetric=True
        ),
        lambda N, a, b, m: N.both_directions(
            N.weakly_supervised_cclk, a, b, N.gaussian(m["age"], 9.0), 0.2, 0.1, False
        ),
    ),
    Specimen(
        "cclk-fair-others",
        lambda: losses.FairCCLK(kernels.Laplacian("scores", sigma=2.0, norm=2), temperature=0.2, ridge=0.1, own=False),
        lambda N, a, b, m: N.fair_cclk(a, b, _euclidean_laplacian(m["scores"], 2.0), 0.2, 0.1, False),
    ),
    Specimen(
        "cclk-hard-gaussian",
        lambda: losses.HardNegativeCCLK(kernels.Gaussian("embedding", sigma=0.5), temperature=0.2, ridge=0.05),
        lambda N, a, b, m: _hard_negative(N, a, b, lambda z: N.gaussian(z, 0.5)),
    ),
    Specimen(
        "cclk-hard-cosine-symmetric",
        lambda: losses.HardNegativeCCLK(kernels.Cosine("embedding"), temperature=0.2, ridge=0.05, symmetric=True),
        lambda N, a, b, m: (_hard_negative(N, a, b, N.cosine) + _hard_negative(N, b, a, N.cosine)) / 2,
    ),
]

# Not of embeddings, whose norm would not matter.
PREDICTIONS = [
    Specimen(
        "supervised-absolute",
        lambda: losses.Supervised("age"),
        lambda N, a, b, m: sum((z[:, 0] - m["age"]).abs().mean() for z in (a, b)) / 2,
    ),
    Specimen(
        "supervised-squared",
        lambda: losses.Supervised("age", error="squared"),
        lambda N, a, b, m: sum((z[:, 0] - m["age"]).square().mean() for z in (a, b)) / 2,
    ),
    Specimen(
        "supervised-cross-entropy",
        lambda: losses.Supervised("label", error="cross-entropy"),
        lambda N, a, b, m: -sum(z.softmax(1)[range(len(z)), m["label"]].log().mean() for z in (a, b)) / 2,
    ),
]
