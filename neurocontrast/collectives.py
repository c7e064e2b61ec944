"""What the processes of a distributed run know together: samples, sums and statistics of the whole batch.

Collectives are differentiated as what they are: the gradient of the *sum over processes* of the
losses they lead to. Every process returns the loss of the whole batch, so that sum is world-size times
the loss, and after the mean over processes (`average_gradients`, or PyTorch's DDP) parameter gradients
equal those of one process on the concatenated batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = [
    "average_gradients",
    "gather_samples",
    "gather_sizes",
    "is_distributed",
    "of_all_processes",
    "on_this_process_only",
    "sum_over_processes",
]

_local = ContextVar("local", default=False)


@contextmanager
def on_this_process_only() -> Iterator[None]:
    """Compute on this process's batch alone, for what not every process takes part in."""
    token = _local.set(True)
    try:
        yield
    finally:
        _local.reset(token)


def is_distributed() -> bool:
    """Say whether losses and batch statistics are those of several processes' batches."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1 and not _local.get()


def gather_sizes(n: int, device: torch.device) -> list[int]:
    """Return every process's batch size; the only thing read back from an accelerator, and only when distributed."""
    sizes = torch.zeros(dist.get_world_size(), dtype=torch.int64, device=device)
    sizes[dist.get_rank()] = n
    dist.all_reduce(sizes)
    return [int(size) for size in sizes.tolist()]


def gather_samples(samples: Tensor, sizes: list[int]) -> Tensor:
    """Concatenate (n, …) tensors of all processes, whose n may differ; differentiable."""
    gathered: Tensor = _Gather.apply(samples, sizes)
    return gathered


def of_all_processes(samples: Tensor) -> Tensor:
    """Concatenate (n, …) tensors of all processes, as `gather_samples`; in one process the tensor itself."""
    return gather_samples(samples, gather_sizes(len(samples), samples.device)) if is_distributed() else samples


def sum_over_processes(values: Tensor) -> Tensor:
    """Sum a tensor over processes; differentiable."""
    total: Tensor = _Sum.apply(values)
    return total


@torch.no_grad()
def average_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Replace gradients by their mean over processes: those of one process on the whole batch.

    One sum over one buffer, always laid out alike: PyTorch's DDP lays its buckets out anew after the
    first step, so that a resumed run would add in another order than one that was never stopped.
    """
    if not is_distributed():
        return
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for gradient, mean in zip(gradients, flat.split([each.numel() for each in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, samples: Tensor, sizes: list[int]) -> Tensor:
        ctx.sizes = sizes
        padded = samples.new_zeros(max(sizes), *samples.shape[1:])
        padded[: len(samples)] = samples
        received = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(received, padded)
        return torch.cat([part[:size] for part, size in zip(received, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        summed = gradient.contiguous().clone()
        dist.all_reduce(summed)
        start = sum(ctx.sizes[: dist.get_rank()])
        return summed[start : start + ctx.sizes[dist.get_rank()]], None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:  # noqa: ARG004
        summed = values.clone()
        dist.all_reduce(summed)
        return summed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ARG004
        summed = gradient.clone()
        dist.all_reduce(summed)
        return summed
