"""The number that is explained: what the probe makes of an encoder's features."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

__all__ = ["LinearScore"]


class LinearScore(nn.Module):
    """A frozen encoder with a linear probe on its features, as one differentiable function.

    Parameters
    ----------
    encoder : torch.nn.Module
        Maps volumes (n, 1, D, H, W) to features (n, p); put in evaluation mode and frozen.
    weights : array (p,)
        Of the features as they are, not standardised.
    intercept : float
        Added to the weighted sum.
    """

    def __init__(self, encoder: nn.Module, weights: npt.NDArray[np.float64], intercept: float) -> None:
        super().__init__()
        self.encoder = encoder.eval().requires_grad_(False)
        self.register_buffer("weights", torch.as_tensor(weights, dtype=torch.float64))
        self.intercept = float(intercept)

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Return the score (n,) of each volume, in float64: occlusions change its last digits."""
        assert isinstance(self.weights, torch.Tensor)
        return self.encoder(volumes).double() @ self.weights + self.intercept
