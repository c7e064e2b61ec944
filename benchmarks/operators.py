"""Operators that a loss starts, forward and backward, beside the expression one would write.

At 64 pairs a loss takes the time of starting its operators, on a CPU as on a GPU. Their number is
the same on every machine, and counts views too::

    python -m benchmarks.operators                # a table of all losses
    python -m benchmarks.operators --of SINCERE   # its operators by name, beside the expression's
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.losses import EXPRESSIONS, gaussian, make_batch, pool, same_label
from neurocontrast import kernels, losses

MOST = 1.5
"""Largest ratio of a loss's operators to the expression's."""
Loss = Callable[..., Tensor]


class Counting(TorchDispatchMode):
    """Count every operator that is started, by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.started = Counter[str]()

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self.started[operator.name().removeprefix("aten::")] += 1
        return operator(*args, **(kwargs or {}))


def operators_of(loss: Loss, views: list[Tensor], metadata: Mapping[str, Tensor]) -> Counter[str]:
    """Return how often each operator is started by one forward and backward pass."""
    for view in views:
        view.grad = None
    with Counting() as counting:
        loss(*views, metadata).backward()
    return counting.started


def exponential(a: Tensor, b: Tensor, m: dict[str, Tensor]) -> Tensor:
    s, own = pool(a, b)
    w = gaussian(m)
    damped = (s * (1 - w)).masked_fill(own, -torch.inf)
    w = w.masked_fill(own, 0)
    return (damped.logsumexp(1) - (w * s).sum(1) / w.sum(1)).mean()


def uniformity(a: Tensor, b: Tensor, _: dict[str, Tensor]) -> Tensor:
    s, own = pool(a, b)
    return (s.masked_fill(own, -torch.inf).logsumexp(1) - math.log(len(s) - 1)).mean()


def alignment(a: Tensor, b: Tensor, m: dict[str, Tensor]) -> Tensor:
    s, own = pool(a, b)
    w = gaussian(m).masked_fill(own, 0)
    return -((w * s).sum(1) / w.sum(1)).mean()


def conditional_uniformity(a: Tensor, b: Tensor, m: dict[str, Tensor]) -> Tensor:
    s, own = pool(a, b)
    apart = (1 - gaussian(m)).masked_fill(own, 0)
    weighed = (apart / apart.sum(1, keepdim=True)).log() + s
    return weighed.logsumexp((0, 1)) - math.log(len(s))


def age_and_sex(a: Tensor, b: Tensor, m: dict[str, Tensor]) -> Tensor:
    s, own = pool(a, b)
    w = gaussian(m) * (m["sex"][:, None] == m["sex"]).repeat(2, 2)
    apart = (1 - w).masked_fill(own, 0)
    w = w.masked_fill(own, 0)
    uniform = ((apart / apart.sum(1, keepdim=True)).log() + s).logsumexp((0, 1))
    return uniform - math.log(len(s)) - (w * s).sum(1).div(w.sum(1)).mean()


def epsilon_supinfonce(a: Tensor, b: Tensor, m: dict[str, Tensor], epsilon: float = 0.25) -> Tensor:
    s, own = pool(a, b)
    same = same_label(m)
    negatives = s.masked_fill(same, -torch.inf).logsumexp(1, keepdim=True)
    positives = (same & ~own).float()
    values = (functional.softplus(negatives + epsilon - s) * positives).sum(1) / positives.sum(1)
    return values.mean() - epsilon


def distances(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    z = functional.normalize(torch.cat([a, b]))
    own = torch.eye(len(z), dtype=torch.bool)
    return (2 - 2 * z @ z.T).masked_fill(own, 1).sqrt().masked_fill(own, 0), own


def triplet(a: Tensor, b: Tensor, m: dict[str, Tensor], margin: float = 0.2) -> Tensor:
    d, own = distances(a, b)
    same = same_label(m)
    active = (same & ~own)[:, :, None] & ~same[:, None]
    values = (d[:, :, None] - d[:, None] + margin).relu() * active
    return values.sum() / (values > 0).sum()


def rank_n_contrast(a: Tensor, b: Tensor, m: dict[str, Tensor], tau: float = 2.0) -> Tensor:
    d, own = distances(a, b)
    s = d / -tau
    age = m["age"].repeat(2)
    apart = (age[:, None] - age).abs()
    is_nearer = apart[:, None] < apart[:, :, None]  # anchor, positive, negative
    left = s[:, None].masked_fill(is_nearer | own[:, None], -torch.inf)
    values = (left.logsumexp(2) - s).masked_fill(own, 0)
    return values.sum() / (len(s) * (len(s) - 1))


def operator(k: Tensor, ridge: float = 0.01) -> Tensor:
    k = k.double()
    return torch.linalg.solve(k + ridge * torch.eye(len(k)), k).float()


def of_age(m: dict[str, Tensor]) -> Tensor:
    return torch.exp(-0.5 * ((m["age"][:, None] - m["age"]) / 5) ** 2)


def cclk(a: Tensor, b: Tensor, k: Tensor, *, is_fair: bool) -> Tensor:
    e = (functional.normalize(a) @ functional.normalize(b).T / 0.1).exp()
    means = (e * operator(k).T).sum(1).clamp_min(torch.finfo(e.dtype).tiny)
    if is_fair:
        twins = e.diagonal()
        return -(twins / (twins + (len(a) - 1) * means)).log().mean()
    rest = e.masked_fill(torch.eye(len(a), dtype=torch.bool), 0).sum(1)
    return -(means / (means + rest)).log().mean()


def weak_cclk(a: Tensor, b: Tensor, m: dict[str, Tensor]) -> Tensor:
    return cclk(a, b, of_age(m), is_fair=False)


def fair_cclk(a: Tensor, b: Tensor, m: dict[str, Tensor]) -> Tensor:
    return cclk(a, b, of_age(m), is_fair=True)


def hard_cclk(a: Tensor, b: Tensor, _: dict[str, Tensor]) -> Tensor:
    z = functional.normalize(a.detach())
    return cclk(a, b, torch.exp(-2 * torch.cdist(z, z).square()), is_fair=True)


def absolute_error(a: Tensor, b: Tensor, m: dict[str, Tensor]) -> Tensor:
    return ((a[:, 0] - m["age"]).abs().mean() + (b[:, 0] - m["age"]).abs().mean()) / 2


AGE = kernels.Gaussian("age", sigma=5.0)
LOSSES: dict[str, tuple[Loss, Loss]] = {
    "InfoNCE": (losses.InfoNCE(), EXPRESSIONS["InfoNCE"]),
    "NTXent": (losses.NTXent(), EXPRESSIONS["NTXent"]),
    "YAwareInfoNCE": (losses.YAwareInfoNCE(AGE), EXPRESSIONS["YAwareInfoNCE"]),
    "ExponentialYAware": (losses.ExponentialYAware(AGE), exponential),
    "ConditionalAlignmentUniformity": (
        losses.ConditionalAlignmentUniformity(AGE),
        EXPRESSIONS["ConditionalAlignmentUniformity"],
    ),
    "… on age × sex": (
        losses.ConditionalAlignmentUniformity(AGE * kernels.Categorical("sex")),
        age_and_sex,
    ),
    "ConditionalAlignment": (losses.ConditionalAlignment(AGE), alignment),
    "ConditionalUniformity": (losses.ConditionalUniformity(AGE), conditional_uniformity),
    "GlobalUniformity": (losses.GlobalUniformity(), uniformity),
    "AlignmentUniformity": (losses.AlignmentUniformity(), EXPRESSIONS["AlignmentUniformity"]),
    "SupCon": (losses.SupCon("label"), EXPRESSIONS["SupCon"]),
    "SINCERE": (losses.SINCERE("label"), EXPRESSIONS["SINCERE"]),
    "EpsilonSupInfoNCE": (losses.EpsilonSupInfoNCE("label"), epsilon_supinfonce),
    "DebiasedInfoNCE": (losses.DebiasedInfoNCE(), EXPRESSIONS["DebiasedInfoNCE"]),
    "HardNegativeInfoNCE": (losses.HardNegativeInfoNCE(), EXPRESSIONS["HardNegativeInfoNCE"]),
    "FairInfoNCE": (losses.FairInfoNCE("label"), EXPRESSIONS["FairInfoNCE"]),
    "Triplet": (losses.Triplet("label"), triplet),
    "RankNContrast": (losses.RankNContrast("age"), rank_n_contrast),
    "WeaklySupervisedCCLK": (losses.WeaklySupervisedCCLK(AGE), weak_cclk),
    "FairCCLK": (losses.FairCCLK(AGE), fair_cclk),
    "HardNegativeCCLK": (
        losses.HardNegativeCCLK(kernels.Gaussian("embedding", sigma=0.5)),
        hard_cclk,
    ),
    "Supervised": (losses.Supervised("age"), absolute_error),
}
"""Each loss beside the dense expression one would write for it, without its checks and empty cases."""


def batch_of(n_pairs: int) -> tuple[list[Tensor], dict[str, Tensor]]:
    views, metadata = make_batch(2 * n_pairs)
    return views, {**metadata, "sex": metadata["label"] % 2}


def table(n_pairs: int) -> str:
    batch = batch_of(n_pairs)
    lines = [f"| operators at {n_pairs} pairs | loss | expression | ratio |", "|---|---|---|---|"]
    for name, (loss, plain) in LOSSES.items():
        counts = [operators_of(each, *batch).total() for each in (loss, plain)]
        lines.append(f"| {name} | {counts[0]} | {counts[1]} | {counts[0] / counts[1]:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=64)
    parser.add_argument("--of", choices=LOSSES, help="a loss, for its operators by name")
    options = parser.parse_args()
    if options.of is None:
        print(table(options.pairs))
        return
    for title, loss in zip(("loss", "expression"), LOSSES[options.of], strict=True):
        started = operators_of(loss, *batch_of(options.pairs))
        print(f"{title}: {started.total()}")
        print("\n".join(f"  {n:3} {name}" for name, n in started.most_common()))


if __name__ == "__main__":
    main()
