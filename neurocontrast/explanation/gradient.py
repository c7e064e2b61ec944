"""How a score answers to small changes of each voxel: gradients, averaged over noise (Smilkov et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from neurocontrast.explanation.score import LinearScore
from neurocontrast.seeds import derive_seed

__all__ = ["differentiate"]

Map = npt.NDArray[np.float32]


def differentiate(
    score: LinearScore,
    volume: torch.Tensor,
    *,
    fill: float,
    noise_sd: float,
    n_noisy: int,
    batch_size: int,
    seed: int,
    advance: Callable[[int], None],
) -> tuple[Map, Map, float]:
    """Return what each voxel carries of the score to first order, its sensitivity, and the score.

    Parameters
    ----------
    score, volume : LinearScore, Tensor (1, D, H, W)
        What is explained; one preprocessed scan, on its device.
    fill : float
        The value a voxel is compared with, as in an occlusion of a single voxel.
    noise_sd, n_noisy, seed : float, int, int
        Standard deviation of the noise that is added; noisy copies, of which a single one is the scan
        itself; what names the noise of this scan.
    batch_size, advance : int, callable
        Copies that pass the encoder together; what is told of each batch's number.

    Returns
    -------
    signed : ndarray (D, H, W)
        Mean of (voxel − fill) · ∂score/∂voxel: positive where what is there speaks for a higher score.
    absolute : ndarray (D, H, W)
        Mean of |∂score/∂voxel|.
    score : float
        Of the scan as it is.
    """
    with torch.no_grad():
        whole = float(score(volume[None])[0])
    signed, absolute = (torch.zeros(volume.shape[1:], dtype=torch.float64) for _ in range(2))
    for start in range(0, n_noisy, batch_size):
        copies = range(start, min(start + batch_size, n_noisy))
        # Drawn on the CPU: the same noise whatever the device and the batches.
        noise = torch.stack([_noise(volume, derive_seed("smoothgrad", seed, copy)) for copy in copies])
        noisy = volume + (noise_sd if n_noisy > 1 else 0.0) * noise.to(volume.device)
        noisy.requires_grad_()
        (gradient,) = torch.autograd.grad(score(noisy).sum(), noisy)
        signed += (gradient * (noisy.detach() - fill)).double().sum(dim=(0, 1)).cpu()
        absolute += gradient.abs().double().sum(dim=(0, 1)).cpu()
        advance(len(copies))
    return (signed / n_noisy).float().numpy(), (absolute / n_noisy).float().numpy(), whole


def _noise(volume: torch.Tensor, seed: int) -> torch.Tensor:
    return torch.randn(volume.shape, generator=torch.Generator().manual_seed(seed))
