"""Losses under DistributedDataParallel, on both paths: run as a script.

Written as JSON to the last argument: for each case, the largest difference of the loss and of the parameters'
gradient from those of one process on the concatenated batch, over processes.
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

from neurocontrast import losses
from neurocontrast.kernels import Categorical, Gaussian, Linear
from neurocontrast.losses import core

SIZES = {2: [5, 3], 4: [1, 4, 3, 2]}


def cases():
    age = Gaussian("age", sigma=5.0, missing="marginal")
    product = age * Categorical("sex")
    return {
        "infonce": losses.InfoNCE(),
        "infonce-one-way": losses.InfoNCE(symmetric=False),
        "ntxent": losses.NTXent(),
        "ntxent-cold": losses.NTXent(temperature=0.001),
        "yaware": losses.YAwareInfoNCE(product),
        "exponential-yaware": losses.ExponentialYAware(product),
        "rank-n-contrast": losses.RankNContrast("weight"),
        "conditional": losses.ConditionalAlignmentUniformity(product),
        "conditional-linear": losses.ConditionalAlignmentUniformity(Linear("weight")),
        "conditional-equal-metadata": losses.ConditionalAlignmentUniformity(Gaussian("stage", sigma=1.0)),
        "conditional-cold": losses.ConditionalUniformity(Categorical("sex"), temperature=0.01),
        "wang-isola": losses.AlignmentUniformity(),
        "sincere": losses.SINCERE("sex"),
        "epsilon": losses.EpsilonSupInfoNCE("sex"),
        "debiased": losses.DebiasedInfoNCE(),
        "hard": losses.HardNegativeInfoNCE(),
        "fair": losses.FairInfoNCE("sex"),
        "triplet": losses.Triplet("sex"),
        "ntxent-3": losses.NTXent(),
        "yaware-3": losses.YAwareInfoNCE(product),
        "conditional-equal-metadata-3": losses.ConditionalAlignmentUniformity(Gaussian("stage", sigma=1.0)),
        "sincere-1": losses.SINCERE("sex"),
        "supcon-1": losses.SupCon("sex"),
        "yaware-learning": losses.YAwareInfoNCE(product, temperature=_learning()),
        "rank-n-contrast-learning": losses.RankNContrast("weight", temperature=_learning()),
        "debiased-learning": losses.DebiasedInfoNCE(temperature=_learning()),
        "ntxent-clip": losses.NTXent(temperature="learnable"),
        "infonce-weighted": losses.InfoNCE(),
        "conditional-weighted": losses.ConditionalAlignmentUniformity(product),
        "sincere-weighted-1": losses.SINCERE("sex"),
        "cclk-hard": losses.HardNegativeCCLK(Gaussian("embedding", sigma=2.0), on="features", own=False),
        "cclk": losses.WeaklySupervisedCCLK(Gaussian("weight", sigma=0.2), symmetric=True),
    }


def _learning() -> nn.Parameter:
    return nn.Parameter(torch.tensor(0.3))


def main() -> None:
    world_size, result = int(sys.argv[1]), Path(sys.argv[2])
    multiprocessing.spawn(_work, args=(world_size, result), nprocs=world_size)


def _work(rank: int, world_size: int, result: Path) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    rendezvous = f"file://{result.with_suffix('.rendezvous')}"
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=world_size)
    sizes = SIZES[world_size]
    batch = _batch(sum(sizes))
    mine = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    part = {name: column[mine] for name, column in batch.items()}
    errors = {}
    core.FEWEST = 1
    for tile in (None, 3):
        core.AT_ONCE = 2**20 if tile is None else tile**2
        for name, loss in cases().items():
            n_views = int(name[-1]) if name[-1].isdigit() else 2
            errors[f"{name}-{tile}"] = _compare(loss, batch, part, n_views=n_views, weighted="weighted" in name)
    largest = torch.tensor(list(errors.values()))
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    if rank == 0:
        result.write_text(json.dumps(dict(zip(errors, largest.tolist(), strict=True))))
    dist.destroy_process_group()


def _batch(n: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x1 = torch.randn(n, 6, generator=generator)
    age = 50 + 10 * torch.randn(n, generator=generator)
    age[n // 2] = torch.nan
    return {
        "x1": x1,
        "x2": x1 + 0.5 * torch.randn(n, 6, generator=generator),
        "age": age,
        "weight": 1 + torch.rand(n, generator=generator),
        "sex": torch.randint(2, (n,), generator=generator),
        "stage": torch.arange(n) % 4 / 2,
        "features": x1[:, :4],
    }


def _network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5))


def _views(batch, n_views: int) -> list[torch.Tensor]:
    return [batch["x1"], batch["x2"], batch["x1"] - batch["x2"]][:n_views]


def _compare(loss, batch, part, *, n_views: int, weighted: bool) -> tuple[float, float]:
    options = [{"weights": columns["weight"]} if weighted else {} for columns in (batch, part)]
    alone = _network()
    with losses.on_this_process_only():
        expected = loss([alone(view) for view in _views(batch, n_views)], None, batch, **options[0])
        expected.backward()
    learnt = [(parameter, parameter.grad.clone()) for parameter in loss.parameters()]
    loss.zero_grad()
    together = DistributedDataParallel(_network())
    value = loss(together(torch.cat(_views(part, n_views))).chunk(n_views), None, part, **options[1])
    value.backward()
    for parameter, _ in learnt:
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    pairs = [(a.grad, b.grad) for a, b in zip(together.parameters(), alone.parameters(), strict=True)]
    pairs += [(parameter.grad, wanted) for parameter, wanted in learnt]
    return abs(value.item() - expected.item()), max(float((a - b).abs().max()) for a, b in pairs)


if __name__ == "__main__":
    main()
