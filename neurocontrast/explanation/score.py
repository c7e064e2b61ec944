"""The number that is explained, and what of one scan it depends on: by occlusion, or by gradients."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from neurocontrast.seeds import derive_seed

__all__ = ["LinearScore", "differentiate", "occlude", "offset_of", "patches_of"]

Map = npt.NDArray[np.float32]
Patch = tuple[slice, ...]
Size = tuple[int, int, int]
_SHIFTS = (0.8191725133961645, 0.6710436067037893, 0.5497004779019703)
"""Powers of the inverse of 1.2207…, the root of x⁴ = x + 1: multiples of them fill a cube evenly."""


class LinearScore(nn.Module):
    """A frozen encoder with a linear probe on its features, as one differentiable function.

    Parameters
    ----------
    encoder : torch.nn.Module
        Maps volumes (n, C, D, H, W) to features (n, p); put in evaluation mode and frozen.
    weights : array (p,)
        Of the features as they are, not standardised.
    intercept : float
        Added to the weighted sum.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from neurocontrast.explanation import LinearScore
    >>> LinearScore(torch.nn.Flatten(), np.ones(8), 0.5)(torch.ones(1, 1, 2, 2, 2))
    tensor([8.5000], dtype=torch.float64)
    """

    weights: torch.Tensor

    def __init__(self, encoder: nn.Module, weights: npt.NDArray[np.float64], intercept: float) -> None:
        super().__init__()
        self.encoder = encoder.eval().requires_grad_(False)
        self.register_buffer("weights", torch.as_tensor(weights, dtype=torch.float64))
        self.intercept = float(intercept)

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Return the score (n,) of each volume, in float64: occlusions change its last digits."""
        return self.encoder(volumes).double() @ self.weights + self.intercept


def offset_of(number: int, size: Size) -> Size:
    """Return where a lattice of patches begins; differing lattices tell places apart within a patch."""
    first, second, third = (int(number * shift % 1 * n) for shift, n in zip(_SHIFTS, size, strict=True))
    return first, second, third


def patches_of(mask: npt.NDArray[np.bool_], size: Size, offset: Size) -> list[Patch]:
    """Return the patches of a lattice that hold any voxel of the mask; each voxel is in one at most."""
    axes = [
        [slice(max(0, start), min(n, start + side)) for start in range(-first, n, side)]
        for n, side, first in zip(mask.shape, size, offset, strict=True)
    ]
    return [patch for patch in product(*axes) if mask[patch].any()]


@torch.no_grad()
def occlude(
    score: LinearScore,
    volume: torch.Tensor,
    patches: list[Patch],
    *,
    fill: torch.Tensor,
    batch_size: int,
    advance: Callable[[int], None],
) -> tuple[Map, float]:
    """Return a map of how much of a volume's score each patch carries, and the score (Zeiler & Fergus 2014).

    The map has in each patch the score of the scan minus that with the patch set to `fill` (C, 1, 1, 1): positive where
    what is there speaks for a higher score. It is 0 outside all patches.
    """
    whole = float(score(volume[None])[0])
    found = np.zeros(volume.shape[1:], dtype=np.float32)
    for start in range(0, len(patches), batch_size):
        some = patches[start : start + batch_size]
        occluded = volume.expand(len(some), *volume.shape).clone()
        for made, patch in zip(occluded, some, strict=True):
            made[(slice(None), *patch)] = fill
        for patch, without in zip(some, score(occluded).tolist(), strict=True):
            found[patch] = whole - without
        advance(len(some))
    return found, whole


def differentiate(
    score: LinearScore,
    volume: torch.Tensor,
    *,
    fill: torch.Tensor,
    noise_sd: torch.Tensor,
    n_noisy: int,
    batch_size: int,
    seed: int,
    advance: Callable[[int], None],
) -> tuple[Map, Map, float]:
    """Return what each voxel carries of the score to first order, the score's sensitivity to it, and the score.

    The first map is the mean of (voxel − fill) · ∂score/∂voxel, the second of |∂score/∂voxel|, over `n_noisy` copies
    of the volume with noise of `noise_sd` (C, 1, 1, 1) (SmoothGrad, Smilkov et al. 2017); a single copy has none.
    """
    with torch.no_grad():
        whole = float(score(volume[None])[0])
    signed, absolute = (torch.zeros(volume.shape[1:], dtype=torch.float64) for _ in range(2))
    for start in range(0, n_noisy, batch_size):
        copies = range(start, min(start + batch_size, n_noisy))
        # Drawn on the CPU: the same noise whatever the device and the batches.
        noise = torch.stack([_noise(volume, derive_seed("smoothgrad", seed, copy)) for copy in copies])
        noisy = volume + (noise_sd if n_noisy > 1 else torch.zeros_like(noise_sd)) * noise.to(volume.device)
        noisy.requires_grad_()
        (gradient,) = torch.autograd.grad(score(noisy).sum(), noisy)
        signed += (gradient * (noisy.detach() - fill)).double().sum(dim=(0, 1)).cpu()
        absolute += gradient.abs().double().sum(dim=(0, 1)).cpu()
        advance(len(copies))
    return (signed / n_noisy).float().numpy(), (absolute / n_noisy).float().numpy(), whole


def _noise(volume: torch.Tensor, seed: int) -> torch.Tensor:
    return torch.randn(volume.shape, generator=torch.Generator().manual_seed(seed))
