"""Samples and sums of the whole batch of a distributed run, and what its processes share.

Every process returns the loss of the whole batch, and collectives are differentiated as the
gradient of the *sum over processes* of these losses. After the mean over processes that PyTorch's
DDP takes, parameter gradients equal those of one process on the concatenated batch.
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
    """Compute on this process's batch alone, where not every process takes part."""
    token = _local.set(True)
    try:
        yield
    finally:
        _local.reset(token)


def is_distributed() -> bool:
    """Say whether losses and batch statistics are those of several processes' batches."""
    return (
        dist.is_available()
        and dist.is_initialized()
        and dist.get_world_size() > 1
        and not _local.get()
    )


def gather_sizes(n: int, device: torch.device) -> list[int]:
    """Return every process's batch size; the only thing read back from an accelerator, and only when distributed."""
    sizes = torch.zeros(dist.get_world_size(), dtype=torch.int64, device=device)
    sizes[dist.get_rank()] = n
    dist.all_reduce(sizes)
    return list(map(int, sizes.tolist()))


def gather_samples(samples: Tensor, sizes: list[int]) -> Tensor:
    """Concatenate (n, …) tensors of all processes, whose n may differ; differentiable."""
    return cast(Tensor, _Gather.apply(samples, sizes))


def of_all_processes(samples: Tensor) -> Tensor:
    """Concatenate (n, …) tensors of all processes, as `gather_samples`; in one process the tensor itself."""
    return (
        gather_samples(samples, gather_sizes(len(samples), samples.device))
        if is_distributed()
        else samples
    )


def sum_over_processes(values: Tensor) -> Tensor:
    """Sum a tensor over processes; differentiable."""
    return cast(Tensor, _Sum.apply(values))


def average_over_processes(gradients: Sequence[Tensor | None]) -> None:
    """Replace gradients by their mean over processes, in place, for parameters that DDP does not know."""
    for gradient in gradients if is_distributed() else ():
        if gradient is not None:
            dist.all_reduce(gradient)
            gradient /= dist.get_world_size()


@dataclass(frozen=True)
class Processes:
    """The processes of a run, which exchange small things over the CPU by `group`, so that a GPU is not waited for."""

    rank: int = 0
    size: int = 1
    group: Any = None

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and reports progress."""
        return self.rank == 0

    def share(self, rows: Sequence[_Row]) -> list[_Row]:
        """Return this process's contiguous part of a batch; the parts' sizes differ by at most one."""
        first, last = (len(rows) * rank // self.size for rank in (self.rank, self.rank + 1))
        return list(rows[first:last])

    @contextmanager
    def divided(
        self, batches: Sequence[Sequence[int]], *, whole: bool = False
    ) -> Iterator[list[list[int]]]:
        """Give this process's part of every batch; all rows where `whole` is set, or a batch is too small to share."""
        if self.size > 1 and (whole or min(map(len, batches), default=0) < self.size):
            with on_this_process_only():
                yield list(map(list, batches))
        else:
            yield [self.share(rows) for rows in batches]

    def largest(self, number: int) -> int:
        """Return the largest of the processes' numbers; every process must call."""
        largest = torch.tensor([number])
        if self.size > 1:
            dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=self.group)
        return int(largest.item())

    def wait_for_all(self) -> None:
        """Wait until every process has called."""
        self.largest(0)

    def from_first(self, content: Any) -> Any:
        """Return the first process's JSON-ready content; every process must call."""
        if self.size == 1:
            return content
        text = json.dumps(content).encode() if self.is_first else b""
        sent = torch.zeros(self.largest(len(text)), dtype=torch.uint8)
        if self.is_first:
            sent = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        dist.broadcast(sent, src=0, group=self.group)
        return json.loads(sent.numpy().tobytes())


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
        return torch.cat([part[:size] for part, size in zip(received, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        summed = _Sum.forward(ctx, gradient)
        start = sum(ctx.sizes[: dist.get_rank()])
        return summed[start : start + ctx.sizes[dist.get_rank()]], None
