"""Gaussian noise, and the noise of a magnitude image.

MONAI's draw in double precision on the CPU, and its Rician noise changes the background (``benchmarks/views.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from neurocontrast.transforms.operation import Operation, Pair, Random, Span, uniform

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BrainRician", "Noise"]


def _noise(shape: tuple[int, ...], x_CDHW: Tensor, seed: int) -> Tensor:
    import torch

    generator = torch.Generator(device=x_CDHW.device).manual_seed(seed)
    return torch.randn(shape, generator=generator, device=x_CDHW.device, dtype=x_CDHW.dtype)


def _draw_noise(random: Random, sigma: Pair) -> dict[str, Any]:
    return {"sigma": uniform(random, sigma), "seed": int(random.randint(2**63 - 1, dtype=np.int64))}


class Noise(Operation):
    """Add Gaussian noise of random strength; a CPU and a GPU draw different, equally distributed noise.

    Parameters
    ----------
    probability : float
        How often.
    sigma : tuple of float
        Range of the standard deviation, in units of the volume's intensities (of its own standard deviation after
        z-scoring), drawn uniformly.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandNoised
    >>> RandNoised("image", prob=1.0, sigma=(0.1, 1.0))({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    sigma: Annotated[Pair, Span(ge=0.0, le=10.0)] = (0.1, 1.0)

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the noise's standard deviation and the seed of the noise."""
        return _draw_noise(random, self.sigma)

    def change(self, x_CDHW: Tensor, *, sigma: float, seed: int) -> Tensor:
        """Return the volume with noise drawn on its device by a generator seeded with `seed`."""
        return x_CDHW.add(_noise(x_CDHW.shape, x_CDHW, seed), alpha=sigma)


class BrainRician(Operation):
    """Give the brain the noise of a magnitude image: of a complex signal with Gaussian noise in both parts.

    Parameters
    ----------
    probability : float
        How often.
    sigma : tuple of float
        Range of either part's standard deviation, on the scale of `BrainContrast`, drawn uniformly.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainRiciand
    >>> RandBrainRiciand("image", prob=1.0, sigma=(0.01, 0.04))({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    stage = "scanner"
    sigma: Annotated[Pair, Span(ge=0.0, le=1.0)] = (0.01, 0.04)

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the standard deviation of either part of the complex noise, and the seed of the noise."""
        return _draw_noise(random, self.sigma)

    def change(self, s_CDHW: Tensor, *, sigma: float, seed: int) -> Tensor:
        """Return the magnitude of the signal with noise in both parts."""
        noise = _noise((2, *s_CDHW.shape), s_CDHW, seed).mul_(sigma)
        return noise[0].add_(s_CDHW).hypot(noise[1])
