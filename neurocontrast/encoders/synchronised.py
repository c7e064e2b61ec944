"""Batch normalisation over the batches of all processes: PyTorch's on GPUs, one of our own on CPUs.

PyTorch's refuses CPUs, where several processes could then not be shown to be one.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from neurocontrast.collectives import is_distributed, sum_over_processes

__all__ = ["SynchronisedBatchNorm", "is_synchronised", "synchronise"]


class SynchronisedBatchNorm(_BatchNorm):
    """A batch normalisation whose statistics are those of all processes together.

    In one process, in evaluation mode, and within `neurocontrast.collectives.on_this_process_only` PyTorch's own is
    applied. The sizes of the processes' batches may differ; none may be empty.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        """Take any number of axes; the base class asks for this to be decided."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalise (n, C, …)."""
        if not (self.training and is_distributed()):
            return super().forward(input)
        dims = [dim for dim in range(input.ndim) if dim != 1]
        of_channels = [1, -1, *[1] * (input.ndim - 2)]
        exact = input if input.dtype == torch.float64 else input.float()
        n_values = exact.new_tensor(input.numel() // input.shape[1])
        dist.all_reduce(n_values)
        mean = sum_over_processes(exact.sum(dims)) / n_values
        centred = exact - mean.view(of_channels)
        variance = sum_over_processes(centred.square().sum(dims)) / n_values
        normalised = centred * (variance + self.eps).rsqrt().view(of_channels)
        if self.affine:
            normalised = normalised * self.weight.view(of_channels) + self.bias.view(of_channels)
        self._remember(mean.detach(), variance.detach() * (n_values / (n_values - 1)))
        return normalised.to(input.dtype)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        share = 1.0 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(variance.to(self.running_var.dtype), share)


def synchronise(module: nn.Module, *, on_gpu: bool = False) -> None:
    """Let every batch normalisation below a module be one over all processes; weights and their names stay."""
    if on_gpu:
        nn.SyncBatchNorm.convert_sync_batchnorm(module)
        return
    for layer in module.modules():
        if isinstance(layer, _BatchNorm):
            layer.__class__ = SynchronisedBatchNorm  # parameters and buffers stay those that others hold


def is_synchronised(layer: nn.Module) -> bool:
    """Say whether a batch normalisation is one over all processes."""
    return isinstance(layer, (SynchronisedBatchNorm, nn.SyncBatchNorm))
