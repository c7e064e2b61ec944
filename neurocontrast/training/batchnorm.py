"""Freeze running statistics of batch normalisation, or compute statistics over all processes."""

import contextlib
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from neurocontrast.parallel.collectives import is_distributed, sum_over_processes


def layers_of(model: nn.Module) -> list[_BatchNorm]:
    """Return all batch normalisation layers inside `model`, in the order of its modules."""
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


@contextlib.contextmanager
def batch_statistics(model: nn.Module) -> Iterator[None]:
    """Let a model's batch normalisation use the statistics of each batch until the context ends.

    The model's other layers are in evaluation mode, without dropout. The running means and
    variances of batch normalisation stay unchanged. Afterwards the model returns to its mode
    before.
    """
    was_training = model.training
    model.eval()
    for layer in layers_of(model):
        layer.training = True
    try:
        with still_statistics(model):
            yield
    finally:
        model.train(was_training)


@contextlib.contextmanager
def still_statistics(model: nn.Module) -> Iterator[None]:
    """Keep a model's running means and variances of batch normalisation until the context ends.

    Batch normalisation layers in training mode still normalise by the statistics of each batch.
    """
    layers = [layer for layer in layers_of(model) if layer.training and layer.track_running_stats]
    for layer in layers:
        layer.track_running_stats = False
    try:
        yield
    finally:
        for layer in layers:
            layer.track_running_stats = True


class SynchronisedBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of all processes, on CPUs.

    PyTorch's SyncBatchNorm runs on GPUs only. In a single process, in evaluation mode, and within
    `on_this_process_only`, the layer behaves as PyTorch's batch normalisation. The batch sizes of
    processes may differ; no batch may be empty.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        """Accept an input tensor with any number of axes; PyTorch's base class calls this check."""

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` (n, C, …) with each channel normalised over the batches of all processes.

        The layer's running statistics are updated too. In evaluation mode, or with one process, the
        result is that of PyTorch's batch normalisation.
        """
        if not (self.training and is_distributed()):
            return super().forward(input)
        dims = [0, *range(2, input.ndim)]
        of_channels = [1, -1, *[1] * (input.ndim - 2)]
        exact = input
        if input.dtype != torch.float64:
            exact = input.float()
        n_values = exact.new_tensor(input.numel() // input.shape[1])
        dist.all_reduce(n_values)
        mean = sum_over_processes(exact.sum(dims)) / n_values
        centred = exact - mean.view(of_channels)
        variance = sum_over_processes(centred.square().sum(dims)) / n_values
        normalised = centred * (variance + self.eps).rsqrt().view(of_channels)
        if self.affine:
            normalised = normalised * self.weight.view(of_channels) + self.bias.view(of_channels)
        unbiased = variance.detach() * (n_values / (n_values - 1))
        self._update_running(mean.detach(), unbiased)
        return normalised.to(input.dtype)

    def _update_running(self, mean: Tensor, variance: Tensor) -> None:
        """Move the layer's running mean and variance towards `mean` and `variance` of a batch.

        A layer that keeps no running statistics stays unchanged.
        """
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share = self.momentum
        if share is None:
            share = 1.0 / self.num_batches_tracked.item()
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(variance.to(self.running_var.dtype), share)


def synchronise(module: nn.Module, *, on_gpu: bool = False) -> None:
    """Change a module's batch normalisation layers to compute statistics over all processes.

    The layers are changed in place: to PyTorch's `SyncBatchNorm` if `on_gpu`, or else to
    `SynchronisedBatchNorm`.
    """
    if on_gpu:
        nn.SyncBatchNorm.convert_sync_batchnorm(module)
        return
    for layer in layers_of(module):
        layer.__class__ = SynchronisedBatchNorm  # parameters and buffers stay the same objects


def is_synchronised(layer: nn.Module) -> bool:
    """Tell whether a batch normalisation `layer` computes statistics over all processes."""
    return isinstance(layer, (SynchronisedBatchNorm, nn.SyncBatchNorm))
