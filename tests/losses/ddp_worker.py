"""Losses under DistributedDataParallel, on both paths: run as a script.

Written as JSON to the last argument: for each case, the largest difference of the loss and of the
parameters' gradient from those of one process on the concatenated batch, over processes.
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

from neurocontrast import losses
from neurocontrast.kernels import Categorical, Gaussian
from neurocontrast.losses import core
from tests.losses import specimens

SIZES = {2: [5, 3], 4: [1, 4, 3, 2]}


def cases() -> dict[str, tuple[nn.Module, int, bool]]:
    """Return losses with their number of views and whether anchors are weighted: all specimens, and harder ones."""
    yaware = losses.YAwareInfoNCE(
        Gaussian("some_age", sigma=5.0, missing="marginal") * Categorical("sex")
    )
    of_equals = losses.ConditionalAlignmentUniformity(Gaussian("stage", sigma=1.0))
    on_features = losses.HardNegativeCCLK(
        Gaussian("embedding", sigma=2.0), on="features", own=False
    )
    learning = [nn.Parameter(torch.tensor(0.3)) for _ in range(3)]
    return {each.name: (each.build(), 2, False) for each in specimens.SPECIMENS} | {
        "ntxent-cold": (losses.NTXent(temperature=0.001), 2, False),
        "ntxent-of-3": (losses.NTXent(), 3, False),
        "yaware-of-3": (yaware, 3, False),
        "conditional-equal-metadata": (of_equals, 2, False),
        "conditional-equal-metadata-of-3": (of_equals, 3, False),
        "conditional-cold": (
            losses.ConditionalUniformity(Categorical("sex"), temperature=0.01),
            2,
            False,
        ),
        "sincere-of-1": (losses.SINCERE("sex"), 1, False),
        "supcon-of-1": (losses.SupCon("sex"), 1, False),
        "yaware-learning": (losses.YAwareInfoNCE(yaware.kernel, temperature=learning[0]), 2, False),
        "rank-n-contrast-learning": (
            losses.RankNContrast("weight", temperature=learning[1]),
            2,
            False,
        ),
        "debiased-learning": (losses.DebiasedInfoNCE(temperature=learning[2]), 2, False),
        "ntxent-clip": (losses.NTXent(temperature="learnable").double(), 2, False),
        "infonce-weighted": (losses.InfoNCE(), 2, True),
        "conditional-weighted": (losses.ConditionalAlignmentUniformity(yaware.kernel), 2, True),
        "sincere-weighted-of-1": (losses.SINCERE("sex"), 1, True),
        "cclk-hard-on-features": (on_features, 2, False),
    }


def main() -> None:
    world_size = int(sys.argv[1])
    result = Path(sys.argv[2])
    # Forked, processes need not import PyTorch once more each.
    multiprocessing.start_processes(
        _work, args=(world_size, result), nprocs=world_size, start_method="fork"
    )


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
        for name, (loss, n_views, weighted) in cases().items():
            errors[f"{name}-{tile}"] = _compare(
                loss, batch, part, n_views=n_views, weighted=weighted
            )
    largest = torch.tensor(list(errors.values()))
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    if rank == 0:
        result.write_text(json.dumps(dict(zip(errors, largest.tolist(), strict=True))))
    dist.destroy_process_group()


def _batch(n: int) -> dict[str, torch.Tensor]:
    x1, x2, metadata = specimens.random_batch(n, 6)
    x1 = x1.detach()
    x2 = x2.detach()
    some_age = metadata["age"].clone()
    some_age[n // 2] = torch.nan
    more = {
        "some_age": some_age,
        "weight": 1 + torch.arange(n) % 3 / 5,
        "stage": torch.arange(n) % 4 / 2,
    }
    return {"x1": x1, "x2": x2, "features": x1[:, :4], **metadata, **more}


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
    value = loss(
        together(torch.cat(_views(part, n_views))).chunk(n_views), None, part, **options[1]
    )
    value.backward()
    for parameter, _ in learnt:
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    pairs = [
        (a.grad, b.grad) for a, b in zip(together.parameters(), alone.parameters(), strict=True)
    ]
    pairs += [(parameter.grad, wanted) for parameter, wanted in learnt]
    return abs(value.item() - expected.item()), max(float((a - b).abs().max()) for a, b in pairs)


if __name__ == "__main__":
    main()
