"""Batch normalisation over the batches of all processes: PyTorch's on GPUs, one of our own on CPUs.

PyTorch's refuses CPUs, where several processes could then not be shown to be one.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from neurocontrast.collectives import is_distributed

__all__ = ["SynchronisedBatchNorm", "is_synchronised", "synchronise"]


class SynchronisedBatchNorm(_BatchNorm):
    """A batch normalisation whose statistics are those of all processes together.

    In one process, in evaluation mode, and within `neurocontrast.collectives.on_this_process_only`
    it is PyTorch's own. The sizes of the processes' batches may differ; none may be empty.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        """Take any number of axes; the base class asks for this to be decided."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalise (n, C, …)."""
        if not (self.training and is_distributed()):
            return super().forward(input)
        normalised, mean, variance, n_values = _Normalise.apply(input, self.weight, self.bias, self.eps)
        if self.track_running_stats and self.running_mean is not None:
            assert self.running_var is not None
            assert self.num_batches_tracked is not None
            self.num_batches_tracked.add_(1)
            share = 1.0 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
            unbiased = variance * (n_values / (n_values - 1))
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)
        return cast(Tensor, normalised)


def synchronise(module: nn.Module, *, on_gpu: bool = False) -> None:
    """Let every batch normalisation below a module be one over all processes; weights and their names stay."""
    if on_gpu:
        nn.SyncBatchNorm.convert_sync_batchnorm(module)
        return
    for name, child in module.named_children():
        if isinstance(child, _BatchNorm):
            setattr(module, name, _synchronised(child))
        else:
            synchronise(child)


def is_synchronised(layer: nn.Module) -> bool:
    """Say whether a batch normalisation is one over all processes."""
    return isinstance(layer, (SynchronisedBatchNorm, nn.SyncBatchNorm))


def _synchronised(layer: _BatchNorm) -> SynchronisedBatchNorm:
    made = SynchronisedBatchNorm(layer.num_features, layer.eps, layer.momentum, layer.affine, layer.track_running_stats)
    # The parameters and buffers themselves, so that whoever holds them holds these.
    made._parameters, made._buffers = layer._parameters, layer._buffers
    return made.train(layer.training)


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, samples: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        exact = samples if samples.dtype == torch.float64 else samples.float()
        variance, mean = torch.var_mean(exact, _all_but_channels(samples), correction=0)
        mean, variance, n_values = _of_all_processes(mean, variance, samples.numel() // samples.shape[1])
        normalised = functional.batch_norm(samples, mean, variance, weight, bias, training=False, eps=eps)
        ctx.save_for_backward(samples, weight, mean, variance, n_values)
        ctx.eps = eps
        ctx.mark_non_differentiable(mean, variance, n_values)
        return normalised, mean, variance, n_values

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None, None]:
        samples, weight, mean, variance, n_values = ctx.saved_tensors
        gradient, dims = gradients[0], _all_but_channels(samples)
        inverse = (variance + ctx.eps).rsqrt()
        # Σ g and Σ g·x̂, of this process for the parameters' gradients and of all for the samples'.
        own = torch.empty(2, len(mean), dtype=mean.dtype, device=mean.device)
        own[0] = gradient.sum(dims, dtype=mean.dtype)
        centred = samples.to(mean.dtype) - _per_channel(mean, samples)
        own[1] = (gradient * centred).sum(dims, dtype=mean.dtype) * inverse
        means = own.clone()
        dist.all_reduce(means)
        means /= n_values
        scale = inverse if weight is None else inverse * weight.to(mean.dtype)
        to_samples = gradient - _per_channel(means[0], samples)
        to_samples -= centred.mul_(_per_channel(means[1] * inverse, samples))
        to_samples = to_samples.mul_(_per_channel(scale, samples)).to(samples.dtype)
        if weight is None:
            return to_samples, None, None, None
        return to_samples, own[1].to(weight.dtype), own[0].to(weight.dtype), None


def _of_all_processes(mean: Tensor, variance: Tensor, n_values: int) -> tuple[Tensor, Tensor, Tensor]:
    """Merge means and variances exactly, as if their samples were in one batch."""
    count = mean.new_full((1,), n_values)
    own = torch.cat([mean, variance, count])
    received = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(received, own)
    means, variances, counts = torch.stack(received).split([len(mean), len(mean), 1], dim=1)
    shares = counts / counts.sum()
    merged = (shares * means).sum(dim=0)
    return merged, (shares * (variances + (means - merged).square())).sum(dim=0), counts.sum()


def _all_but_channels(samples: Tensor) -> list[int]:
    return [dim for dim in range(samples.ndim) if dim != 1]


def _per_channel(values: Tensor, samples: Tensor) -> Tensor:
    return values.view(1, -1, *[1] * (samples.ndim - 2))
