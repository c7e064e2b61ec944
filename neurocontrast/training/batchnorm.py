"""Batch normalisation in training: frozen statistics, and statistics of all processes."""

import contextlib
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from neurocontrast.parallel.collectives import is_distributed, sum_over_processes


def layers_of(model: nn.Module) -> list[_BatchNorm]:
    """Return the model's layers of batch normalisation."""
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


@contextlib.contextmanager
def batch_statistics(model: nn.Module) -> Iterator[None]:
    """Evaluate with each batch's own statistics, as in training, and leave the running ones untouched."""
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
    """Let training-mode layers use each batch's statistics without moving the running ones."""
    layers = [layer for layer in layers_of(model) if layer.training and layer.track_running_stats]
    for layer in layers:
        layer.track_running_stats = False
    try:
        yield
    finally:
        for layer in layers:
            layer.track_running_stats = True


class SynchronisedBatchNorm(_BatchNorm):
    """A batch normalisation whose statistics are those of all processes together, on CPUs, which PyTorch's refuses.

    In one process, in evaluation mode, and within `on_this_process_only` PyTorch's own is applied.
    The sizes of the processes' batches may differ; none may be empty.
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
        if (
            self.track_running_stats
            and self.running_mean is not None
            and self.running_var is not None
        ):
            assert self.num_batches_tracked is not None
            self.num_batches_tracked.add_(1)
            share = (
                1.0 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
            )
            unbiased = variance.detach() * (n_values / (n_values - 1))
            self.running_mean.lerp_(mean.detach().to(self.running_mean.dtype), share)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)
        return normalised.to(input.dtype)


def synchronise(module: nn.Module, *, on_gpu: bool = False) -> None:
    """Let every batch normalisation below a module be one over all processes; weights and their names stay."""
    if on_gpu:
        nn.SyncBatchNorm.convert_sync_batchnorm(module)
        return
    for layer in layers_of(module):
        layer.__class__ = (
            SynchronisedBatchNorm  # parameters and buffers stay those that others hold
        )


def is_synchronised(layer: nn.Module) -> bool:
    """Say whether a batch normalisation is one over all processes."""
    return isinstance(layer, (SynchronisedBatchNorm, nn.SyncBatchNorm))
