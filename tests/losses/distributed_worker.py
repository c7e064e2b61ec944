"""Every loss in several processes beside one: run as a script, once for all specimens.

Each process has its own part of a batch and a copy of one parameter. Written as JSON to the last
argument: the largest error of the loss, and of the gradient after the mean over processes, by specimen.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import multiprocessing

from neurocontrast import losses

SIZES = {2: [5, 3], 4: [1, 4, 2, 2]}
D = 6


def main() -> None:
    world_size, result = int(sys.argv[1]), Path(sys.argv[2])
    multiprocessing.spawn(_work, args=(world_size, result), nprocs=world_size)
    parts = [json.loads(_part(result, rank).read_text()) for rank in range(world_size)]
    result.write_text(
        json.dumps({name: [max(e) for e in zip(*(p[name] for p in parts), strict=True)] for name in parts[0]})
    )


def _part(result: Path, rank: int) -> Path:
    return result.with_suffix(f".{rank}.json")


def _work(rank: int, world_size: int, result: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{result.with_suffix('.rendezvous')}", rank=rank, world_size=world_size
    )
    specimens = _specimens()
    errors = {}
    for specimen in [*specimens.SPECIMENS, *specimens.PREDICTIONS]:
        errors[specimen.name] = _errors(specimen, specimens.random_batch, rank, SIZES[world_size])
    _part(result, rank).write_text(json.dumps(errors))
    dist.destroy_process_group()


def _errors(specimen, random_batch, rank: int, sizes: list[int]) -> tuple[float, float]:
    n = sum(sizes)
    views_and_metadata = random_batch(n, D, seed=11)
    x1, x2 = (view.detach() for view in views_and_metadata[:2])
    metadata = views_and_metadata[2]
    start = sum(sizes[:rank])
    mine = slice(start, start + sizes[rank])
    loss = specimen.build()

    with losses.on_this_process_only():
        alone, alone_gradient = _loss_and_gradient(loss, x1, x2, metadata)
    part = {name: column[mine] for name, column in metadata.items()}
    together, gradient = _loss_and_gradient(loss, x1[mine], x2[mine], part)
    dist.all_reduce(gradient)
    gradient /= len(sizes)
    weights = _weights()
    terms = sum(loss.terms(x1[mine] @ weights, x2[mine] @ weights, part).values())
    error = max((together - alone).abs().item(), (terms - alone).abs().item())
    return error, (gradient - alone_gradient).abs().max().item()


def _loss_and_gradient(loss, x1, x2, metadata):
    weights = _weights().requires_grad_()
    value = loss(x1 @ weights, x2 @ weights, metadata)
    value.backward()
    return value.detach(), weights.grad


def _weights():
    return torch.eye(D, dtype=torch.float64) + 0.1 * torch.arange(D * D, dtype=torch.float64).view(D, D).sin()


def _specimens():
    path = Path(__file__).with_name("specimens.py")
    spec = importlib.util.spec_from_file_location("specimens", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
