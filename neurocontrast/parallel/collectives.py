"""Gather samples and sums over the processes of a distributed run, and divide batches by process.

Every process returns the loss of the whole batch, and gathering is differentiated as the gradient
of the *sum over processes* of these losses. After PyTorch's DDP has averaged gradients over
processes, parameter gradients equal the gradients of a single process with the concatenated batch.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

_Row = TypeVar("_Row")
_local = ContextVar("local", default=False)


@contextmanager
def on_this_process_only() -> Iterator[None]:
    """Within the context, compute losses on this process's batch alone, not over all processes."""
    token = _local.set(True)
    try:
        yield
    finally:
        _local.reset(token)


def is_distributed() -> bool:
    """Tell whether losses and batch statistics are computed over several processes' batches."""
    return (
        dist.is_available()
        and dist.is_initialized()
        and dist.get_world_size() > 1
        and not _local.get()
    )


def gather_sizes(n: int, device: torch.device) -> list[int]:
    """Return the batch size of every process, from the size `n` of this process's batch.

    All sizes leave a GPU in a single transfer.
    """
    sizes = torch.zeros(dist.get_world_size(), dtype=torch.int64, device=device)
    sizes[dist.get_rank()] = n
    dist.all_reduce(sizes)
    return list(map(int, sizes.tolist()))


def gather_samples(samples: Tensor, sizes: list[int]) -> Tensor:
    """Concatenate the tensors (n, …) of all processes, whose n may differ; differentiable."""
    return cast(Tensor, _Gather.apply(samples, sizes))


def of_all_processes(samples: Tensor) -> Tensor:
    """Concatenate tensors `samples` (n, …) of all processes; one process gets `samples` back."""
    if not is_distributed():
        return samples
    return gather_samples(samples, gather_sizes(len(samples), samples.device))


def sum_over_processes(values: Tensor) -> Tensor:
    """Return the elementwise sum of each process's tensor `values`; differentiable."""
    return cast(Tensor, _Sum.apply(values))


def average_over_processes(gradients: Sequence[Tensor | None]) -> None:
    """Average gradients over processes, in place, for parameters that PyTorch's DDP leaves out."""
    if not is_distributed():
        return
    for gradient in gradients:
        if gradient is not None:
            dist.all_reduce(gradient)
            gradient /= dist.get_world_size()


@dataclass(frozen=True)
class Processes:
    """Number of this process in a distributed run, and exchange of small data with the others."""

    rank: int = 0
    size: int = 1
    """Number of processes in the run."""
    group: Any = None
    """Process group that communicates over the CPU, so that no GPU is waited for; None for one
    process."""

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and reports progress."""
        return self.rank == 0

    def share(self, rows: Sequence[_Row]) -> list[_Row]:
        """Return this process's contiguous part of a batch; parts differ by at most one row.

        `rows` is the whole batch.
        """
        first = len(rows) * self.rank // self.size
        last = len(rows) * (self.rank + 1) // self.size
        return list(rows[first:last])

    @contextmanager
    def divided(
        self, batches: Sequence[Sequence[int]], *, whole: bool = False
    ) -> Iterator[list[list[int]]]:
        """Yield a list with this process's rows of each batch, for losses over all processes.

        Until the context ends, functions that compute losses join the batches of all processes. If
        every process gets whole batches, they use the batch of this process alone.

        Parameters
        ----------
        batches : sequence of sequence of int
            Rows of each batch.
        whole : bool
            Whether every process gets all rows and computes the loss without the others, as is also
            done if a batch has fewer rows than there are processes.
        """
        if self.size > 1 and (whole or min(map(len, batches), default=0) < self.size):
            with on_this_process_only():
                yield list(map(list, batches))
        else:
            yield list(map(self.share, batches))

    def largest(self, number: int) -> int:
        """Return the largest of the numbers that processes pass; every process must call this."""
        largest = torch.tensor([number])
        if self.size > 1:
            dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=self.group)
        return int(largest.item())

    def wait_for_all(self) -> None:
        """Wait until every process has called this method."""
        self.largest(0)

    def from_first(self, content: Any) -> Any:
        """Return the JSON-ready content that the first process passes; every process must call."""
        if self.size == 1:
            return content
        encoded = b""
        if self.is_first:
            encoded = json.dumps(content).encode()
        message = torch.zeros(self.largest(len(encoded)), dtype=torch.uint8)
        if self.is_first:
            message = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
        dist.broadcast(message, src=0, group=self.group)
        return json.loads(message.numpy().tobytes())


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        del ctx
        total = values.contiguous().clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _Sum.forward(ctx, gradient)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, samples: Tensor, sizes: list[int]) -> Tensor:
        ctx.sizes = sizes
        padded = samples.new_zeros(max(sizes), *samples.shape[1:])
        padded[: len(samples)] = samples
        received = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(received, padded)
        of_processes = []
        for batch, size in zip(received, sizes, strict=True):
            of_processes.append(batch[:size])
        return torch.cat(of_processes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        summed = _Sum.forward(ctx, gradient)
        start = sum(ctx.sizes[: dist.get_rank()])
        return summed[start : start + ctx.sizes[dist.get_rank()]], None
