"""Build optimisers, and compute the learning rate of each training step."""

import math
from collections.abc import Callable, Iterable
from typing import Any, NotRequired, TypedDict, cast

import torch
from torch import Tensor, nn

from neurocontrast.training.settings import TrainingSettings

_MOMENTUM = 0.9
"""Momentum of SGD and LARS if the settings give none."""
_TRUST = 0.001
"""Trust coefficient η of LARS if the settings give none."""


class ParameterGroup(TypedDict):
    """Parameters with a common learning rate and decay, in the form of PyTorch's optimisers."""

    params: list[nn.Parameter]
    weight_decay: NotRequired[float]
    factor: NotRequired[float]
    """Learning rate of the group relative to the settings' rate; 1 by default."""


class _GroupOfLARS(TypedDict):
    params: list[nn.Parameter]
    lr: float
    momentum: float
    weight_decay: float
    trust_coefficient: float


class LARS(torch.optim.Optimizer):
    """LARS optimiser: SGD with momentum, and steps proportional to the norm of each weight.

    The gradient g of a weight w, with the decay λw added, is scaled by η‖w‖ / (‖g‖ + λ‖w‖) (You,
    Gitman & Ginsburg 2017, equation 6), or by 1 where a norm is 0. Biases and normalisation are
    neither scaled nor decayed (SimCLR, BYOL). The learning rate multiplies the step after the
    momentum, as in PyTorch's SGD.
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        *,
        lr: float,
        momentum: float = _MOMENTUM,
        weight_decay: float = 0.0,
        trust_coefficient: float = _TRUST,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__(parameters, {**defaults, "trust_coefficient": trust_coefficient})

    @torch.no_grad()
    def step(  # type: ignore[override]
        self, closure: Callable[[], float] | None = None
    ) -> float | None:
        """Change each weight that has a gradient by one optimisation step.

        `closure`, if given, computes the loss before the step, and the loss is returned; None
        without.
        """
        loss = None
        if closure is not None:
            loss = torch.enable_grad()(closure)()
        for group in cast(list[_GroupOfLARS], self.param_groups):
            for weight in group["params"]:
                if weight.grad is not None:
                    self._step_of(weight, weight.grad, group)
        return loss

    def _step_of(self, weight: Tensor, step: Tensor, group: _GroupOfLARS) -> None:
        if weight.ndim > 1:
            # Tensors, not numbers: nothing waits for the device.
            of_weight = weight.norm()
            of_gradient = step.norm()
            decay = group["weight_decay"]
            ratio = group["trust_coefficient"] * of_weight / (of_gradient + decay * of_weight)
            ratio = torch.where((of_weight > 0) & (of_gradient > 0), ratio, torch.ones_like(ratio))
            step = step.add(weight, alpha=decay).mul_(ratio)
        if group["momentum"]:
            state = self.state[weight]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(weight)
            step = state["momentum_buffer"].mul_(group["momentum"]).add_(step)
        weight.add_(step, alpha=-group["lr"])


def build_optimizer(parameters: Iterable[Any], settings: TrainingSettings) -> torch.optim.Optimizer:
    """Build the optimiser that the settings name, for a model's parameters.

    Parameters
    ----------
    parameters : iterable
        Parameters, or groups of parameters (`ParameterGroup`); see `set_learning_rate`.
    settings : TrainingSettings
        Name of the optimiser, learning rate, weight decay, momentum and precision.
    """
    rate = settings.learning_rate
    decay = settings.weight_decay
    momentum = settings.momentum
    if momentum is None:
        momentum = _MOMENTUM
    if settings.optimizer == "lars":
        trust = settings.trust_coefficient
        if trust is None:
            trust = _TRUST
        return LARS(
            parameters, lr=rate, weight_decay=decay, momentum=momentum, trust_coefficient=trust
        )
    # Fused steps take a third of the time, and cannot see the scaled gradients of float16.
    fused = settings.precision != "16-mixed"
    if settings.optimizer == "sgd":
        return torch.optim.SGD(
            parameters, lr=rate, weight_decay=decay, momentum=momentum, fused=fused
        )
    if settings.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=rate, weight_decay=decay, fused=fused)
    return torch.optim.AdamW(parameters, lr=rate, weight_decay=decay, fused=fused)


def set_learning_rate(optimizer: Any, rate: float) -> None:
    """Set each parameter group's learning rate to `rate` times the `factor` of the group."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("factor", 1.0)


def learning_rate_of(
    epoch: int, settings: TrainingSettings, *, batch: int = 0, n_batches: int = 1
) -> float:
    """Return the learning rate of the step after `epoch` epochs and `batch` of `n_batches` batches.

    The rate depends on these numbers and the settings alone, so that a resumed run needs no state
    of a schedule.
    """
    rate = settings.learning_rate
    if settings.schedule == "step":
        rate *= settings.step_factor ** (epoch // settings.step_epochs)
    lowest = settings.min_learning_rate or 0.0
    step = epoch * n_batches + batch
    n_warm = settings.warmup_epochs * n_batches
    if step + 1 < n_warm:
        return lowest + (rate - lowest) * (step + 1) / n_warm
    if settings.schedule == "cosine":
        n_steps = settings.epochs * n_batches
        done = max(0.0, step - n_warm) / (n_steps - n_warm)
        rate = lowest + (rate - lowest) * ((1 + math.cos(math.pi * done)) / 2)
    return rate
