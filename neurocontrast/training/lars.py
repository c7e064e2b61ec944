"""Layer-wise adaptive rate scaling, for SGD with large batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

__all__ = ["LARS"]


class LARS(torch.optim.Optimizer):
    """SGD with momentum whose steps are proportional to the norm of the weight they change.

    The gradient g of a weight w, with the decay λw added, is scaled by η‖w‖ / (‖g‖ + λ‖w‖) (You, Gitman &
    Ginsburg 2017, equation 6), or by 1 where a norm is 0. Parameters with at most one dimension (biases, and the
    scales and shifts of normalisation) are neither scaled nor decayed, as is usual in contrastive learning
    (SimCLR, BYOL). The learning rate multiplies the step after the momentum, as in PyTorch's SGD; the paper
    has it before, which is the same while the rate is constant.

    Parameters
    ----------
    parameters : iterable of Parameter
        The weights, or groups of them.
    lr : float
        Learning rate.
    momentum : float
        Of the scaled gradients.
    weight_decay : float
        λ, on weights with more than one dimension.
    trust_coefficient : float
        η.

    Examples
    --------
    >>> weight = torch.nn.Parameter(torch.ones(2, 2))
    >>> weight.grad = torch.full((2, 2), 50.0)
    >>> LARS([weight], lr=1.0, momentum=0.0, trust_coefficient=0.1).step()
    >>> weight.data
    tensor([[0.9000, 0.9000],
            [0.9000, 0.9000]])
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        *,
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust_coefficient: float = 0.001,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "trust_coefficient": trust_coefficient,
        }
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Change the weights by one step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._step_of(weight, group)
        return loss

    def _step_of(self, weight: Tensor, group: dict[str, Any]) -> None:
        step = weight.grad
        assert step is not None
        if weight.ndim > 1:
            step = _scaled(weight, step, decay=group["weight_decay"], trust=group["trust_coefficient"])
        if group["momentum"]:
            state = self.state[weight]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(weight)
            step = state["momentum_buffer"].mul_(group["momentum"]).add_(step)
        weight.add_(step, alpha=-group["lr"])


def _scaled(weight: Tensor, gradient: Tensor, *, decay: float, trust: float) -> Tensor:
    # Tensors, not numbers: nothing waits for the device.
    of_weight, of_gradient = weight.norm(), gradient.norm()
    ratio = trust * of_weight / (of_gradient + decay * of_weight)
    ratio = torch.where((of_weight > 0) & (of_gradient > 0), ratio, torch.ones_like(ratio))
    return gradient.add(weight, alpha=decay).mul_(ratio)
