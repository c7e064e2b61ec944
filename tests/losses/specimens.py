"""One of every loss of the public surface, beside the naive loops it must equal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from neurocontrast import kernels, losses
from tests.losses import naive as N

Metadata = dict[str, Tensor]


@dataclass(frozen=True)
class Specimen:
    """A loss, and the same value from plain loops."""

    name: str
    build: Callable[[], nn.Module]
    reference: Callable[[N.Batch, Metadata], Tensor]
    """The value from the loops of ``naive.py``."""


def random_batch(
    n: int, d: int, *, seed: int = 0, n_labels: int = 3
) -> tuple[Tensor, Tensor, Metadata]:
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


def _age(m: Metadata) -> Any:
    return N.gaussian(m["age"], 5.0)


def _age_by_sex(m: Metadata) -> Any:
    return N.product(_age(m), N.categorical(m["sex"]))


def _age_or_sex(m: Metadata) -> Any:
    return N.weighted_sum((2.0, _age(m)), (1.0, N.categorical(m["sex"])))


def _hard_negative(z1: Tensor, z2: Tensor, kernel: Callable[[Tensor], Any]) -> Tensor:
    return N.fair_cclk(z1, z2, kernel(torch.stack(N.units(z1.detach()))), 0.2, 0.05)


def _twin(i: int, j: int) -> float:
    return float(i == j)


def _either(v: Any, w: Any) -> Any:
    return lambda i, j: max(v(i, j), w(i, j))


def _apart(w: Any, supremum: float = 1.0, v: Any = lambda _i, _j: 1.0) -> Any:
    return lambda i, j: (supremum - w(i, j)) * v(i, j)


def _seen(m: Metadata) -> list[bool]:
    return (m["partial"] >= 0).tolist()


def _across(m: Metadata, within: float) -> Any:
    return N.product(_age(m), N.different(m["cluster"], within))


AGE = kernels.Gaussian("age", sigma=5.0)
SEX = kernels.Categorical("sex")
CLUSTER = kernels.Categorical("cluster")
PARTIAL = {"column": "partial", "missing": "marginal"}

SPECIMENS = [
    Specimen(
        "infonce", lambda: losses.InfoNCE(temperature=0.1), lambda o, m: N.infonce(*o.views, 0.1)
    ),
    Specimen(
        "infonce-one-way",
        lambda: losses.InfoNCE(temperature=0.3, symmetric=False),
        lambda o, m: N.infonce(*o.views, 0.3, symmetric=False),
    ),
    Specimen(
        "ntxent", lambda: losses.NTXent(temperature=0.1), lambda o, m: o.at(0.1).yaware(_twin)
    ),
    Specimen(
        "yaware",
        lambda: losses.YAwareInfoNCE(AGE, temperature=0.1),
        lambda o, m: o.at(0.1).yaware(_age(m)),
    ),
    Specimen(
        "exponential-yaware",
        lambda: losses.ExponentialYAware(AGE, temperature=0.1),
        lambda o, m: o.at(0.1).yaware(_age(m), damping=_apart(_age(m))),
    ),
    Specimen(
        "exponential-yaware-of-a-sum",
        lambda: losses.ExponentialYAware(2.0 * AGE + SEX, temperature=0.05),
        lambda o, m: o.at(0.05).yaware(
            _age_or_sex(m), damping=_apart(_age_or_sex(m), 3.0, lambda _i, _j: 1 / 3)
        ),
    ),
    Specimen(
        "rank-n-contrast",
        lambda: losses.RankNContrast("age", temperature=0.5),
        lambda o, m: o.at(0.5).rank_n_contrast(m["age"]),
    ),
    Specimen(
        "rank-n-contrast-ties",
        lambda: losses.RankNContrast("decade"),
        lambda o, m: o.at(2.0).rank_n_contrast(m["decade"]),
    ),
    Specimen(
        "conditional-alignment",
        lambda: losses.ConditionalAlignment(AGE, temperature=0.1),
        lambda o, m: o.at(0.1).alignment(_age(m)),
    ),
    Specimen(
        "conditional-uniformity",
        lambda: losses.ConditionalUniformity(AGE, temperature=0.1),
        lambda o, m: o.at(0.1).conditional_uniformity(_apart(_age(m))),
    ),
    Specimen(
        "conditional-uniformity-of-a-sum",
        lambda: losses.ConditionalUniformity(2.0 * AGE + SEX, temperature=0.1),
        lambda o, m: o.at(0.1).conditional_uniformity(_apart(_age_or_sex(m), 3.0)),
    ),
    Specimen(
        "conditional-uniformity-linear",
        lambda: losses.ConditionalUniformity(kernels.Linear("age"), temperature=0.2),
        lambda o, m: o.at(0.2).conditional_uniformity(
            _apart(N.linear(m["age"]), N.largest(N.linear(m["age"]), len(m["age"])))
        ),
    ),
    Specimen(
        "yaware-some-missing",
        lambda: losses.YAwareInfoNCE(AGE * kernels.Categorical(**PARTIAL), temperature=0.1),
        lambda o, m: o.at(0.1).yaware(
            N.product(_age(m), N.marginal(N.categorical(m["partial"]), _seen(m)))
        ),
    ),
    Specimen(
        "conditional-alignment-uniformity",
        lambda: losses.ConditionalAlignmentUniformity(
            AGE * SEX, temperature=0.1, uniformity_weight=0.7
        ),
        lambda o, m: (
            o.at(0.1).alignment(_age_by_sex(m))
            + 0.7 * o.at(0.1).conditional_uniformity(_apart(_age_by_sex(m)))
        ),
    ),
    Specimen(
        "yaware-across-sites-some-missing",
        lambda: losses.YAwareInfoNCE(
            AGE * kernels.Different(**PARTIAL, within=0.3), temperature=0.1
        ),
        lambda o, m: o.at(0.1).yaware(
            N.product(
                _age(m), N.own(N.marginal(N.different(m["partial"], 0.3, own=False), _seen(m)))
            )
        ),
    ),
    Specimen(
        "yaware-within-site-negatives",
        lambda: losses.YAwareInfoNCE(
            AGE * kernels.Different("cluster"), temperature=0.2, negatives=CLUSTER
        ),
        lambda o, m: o.at(0.2).yaware(
            _across(m, 0.0), b=_either(N.categorical(m["cluster"]), _across(m, 0.0))
        ),
    ),
    Specimen(
        "conditional-across-sites-within-site-negatives",
        lambda: losses.ConditionalAlignmentUniformity(
            AGE * kernels.Different("cluster", within=0.5),
            temperature=0.1,
            uniformity_weight=0.7,
            negatives=CLUSTER,
        ),
        lambda o, m: (
            o.at(0.1).alignment(_across(m, 0.5))
            + 0.7
            * o.at(0.1).conditional_uniformity(
                _apart(_across(m, 0.5), v=N.categorical(m["cluster"]))
            )
        ),
    ),
    Specimen(
        "global-uniformity",
        lambda: losses.GlobalUniformity(temperature=0.1),
        lambda o, m: o.at(0.1).uniformity(),
    ),
    Specimen(
        "alignment-uniformity",
        lambda: losses.AlignmentUniformity(alpha=2.0, t=2.0, uniformity_weight=0.5),
        lambda o, m: N.wang_isola(*o.views, 2.0, 2.0, 0.5),
    ),
    Specimen(
        "supcon",
        lambda: losses.SupCon("label", temperature=0.1),
        lambda o, m: o.at(0.1).yaware(N.categorical(m["label"])),
    ),
    Specimen(
        "sincere",
        lambda: losses.SINCERE("label", temperature=0.1),
        lambda o, m: o.at(0.1).sincere(N.categorical(m["label"])),
    ),
    Specimen(
        "epsilon-supinfonce",
        lambda: losses.EpsilonSupInfoNCE("label", temperature=0.1, epsilon=0.25),
        lambda o, m: o.at(0.1).sincere(N.categorical(m["label"]), 0.25),
    ),
    *(
        Specimen(
            f"debiased-{t}",
            lambda t=t: losses.DebiasedInfoNCE(temperature=t, positive_prior=0.1),
            lambda o, m, t=t: o.at(t).corrected(0.1),
        )
        for t in (0.5, 0.1)  # at 0.1 most are clamped
    ),
    *(
        Specimen(
            f"hard-negative-{t}",
            lambda t=t, beta=beta: losses.HardNegativeInfoNCE(
                temperature=t, positive_prior=0.1, concentration=beta
            ),
            lambda o, m, t=t, beta=beta: o.at(t).corrected(0.1, beta),
        )
        for t, beta in ((0.5, 1.0), (0.2, 0.5))
    ),
    Specimen(
        "fair-infonce",
        lambda: losses.FairInfoNCE("cluster", temperature=0.1),
        lambda o, m: o.at(0.1).yaware(_twin, b=N.categorical(m["cluster"])),
    ),
    *(
        Specimen(
            f"triplet-{margin}",
            lambda margin=margin: losses.Triplet("label", margin=margin),
            lambda o, m, margin=margin: o.at(1.0).triplet(N.categorical(m["label"]), margin),
        )
        for margin in (0.0, 0.2, 2.0)
    ),
    Specimen(
        "cclk-weak-gaussian",
        lambda: losses.WeaklySupervisedCCLK(
            kernels.Gaussian("age", sigma=5.0), temperature=0.1, ridge=0.01
        ),
        lambda o, m: N.weakly_supervised_cclk(*o.views, _age(m), 0.1, 0.01),
    ),
    Specimen(
        "cclk-weak-laplacian-symmetric",
        lambda: losses.WeaklySupervisedCCLK(
            kernels.Laplacian("age", sigma=5.0), temperature=0.2, ridge=0.1, symmetric=True
        ),
        lambda o, m: N.both_directions(
            N.weakly_supervised_cclk, *o.views, N.laplacian(m["age"], 5.0), 0.2, 0.1
        ),
    ),
    Specimen(
        "cclk-fair-linear",
        lambda: losses.FairCCLK(kernels.Linear("scores"), temperature=0.2, ridge=0.1),
        lambda o, m: N.fair_cclk(*o.views, N.linear(m["scores"]), 0.2, 0.1),
    ),
    Specimen(
        "cclk-weak-others",
        lambda: losses.WeaklySupervisedCCLK(
            kernels.Gaussian("age", sigma=9.0),
            temperature=0.2,
            ridge=0.1,
            own=False,
            symmetric=True,
        ),
        lambda o, m: N.both_directions(
            N.weakly_supervised_cclk, *o.views, N.gaussian(m["age"], 9.0), 0.2, 0.1, False
        ),
    ),
    Specimen(
        "cclk-fair-others",
        lambda: losses.FairCCLK(
            kernels.Laplacian("scores", sigma=2.0, norm=2), temperature=0.2, ridge=0.1, own=False
        ),
        lambda o, m: N.fair_cclk(
            *o.views, N.euclidean_laplacian(m["scores"], 2.0), 0.2, 0.1, False
        ),
    ),
    Specimen(
        "cclk-hard-gaussian",
        lambda: losses.HardNegativeCCLK(
            kernels.Gaussian("embedding", sigma=0.5), temperature=0.2, ridge=0.05
        ),
        lambda o, m: _hard_negative(*o.views, lambda z: N.gaussian(z, 0.5)),
    ),
    Specimen(
        "cclk-hard-cosine-symmetric",
        lambda: losses.HardNegativeCCLK(
            kernels.Cosine("embedding"), temperature=0.2, ridge=0.05, symmetric=True
        ),
        lambda o, m: (
            sum(_hard_negative(*views, N.cosine) for views in (o.views, o.views[::-1])) / 2
        ),
    ),
]

# Not of embeddings, whose norm would not matter.
PREDICTIONS = [
    Specimen(
        "supervised-absolute",
        lambda: losses.Supervised("age"),
        lambda o, m: sum((z[:, 0] - m["age"]).abs().mean() for z in o.views) / 2,
    ),
    Specimen(
        "supervised-squared",
        lambda: losses.Supervised("age", error="squared"),
        lambda o, m: sum((z[:, 0] - m["age"]).square().mean() for z in o.views) / 2,
    ),
    Specimen(
        "supervised-cross-entropy",
        lambda: losses.Supervised("label", error="cross-entropy"),
        lambda o, m: (
            -sum(z.softmax(1)[range(len(z)), m["label"]].log().mean() for z in o.views) / 2
        ),
    ),
]
