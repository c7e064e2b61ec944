"""Gaussian noise, and the noise of a magnitude image.

MONAI's draw in double precision on the CPU, and its Rician noise changes the background (``benchmarks/views.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from neurocontrast.transforms.rand_volume import RandBrainTransform, RandVolumeTransform
from neurocontrast.transforms.settings import NoiseSettings
from neurocontrast.transforms.site_settings import RicianSettings

__all__ = ["RandBrainRiciand", "RandNoised", "add_noise", "rician_noise"]


def add_noise(x_CDHW: Tensor, *, sigma: float, seed: int) -> Tensor:
    """Return the volume with Gaussian noise, drawn on the volume's device by a generator seeded with `seed`."""
    noise = _noise(x_CDHW.shape, x_CDHW, seed)
    return torch.add(x_CDHW, noise, alpha=sigma, out=noise)


def rician_noise(s_CDHW: Tensor, *, sigma: float, seed: int) -> Tensor:
    """Return the magnitude of the volume with Gaussian noise in both parts of a complex signal."""
    noise = _noise((2, *s_CDHW.shape), s_CDHW, seed).mul_(sigma)
    return torch.hypot(noise[0].add_(s_CDHW), noise[1])


def _noise(shape: tuple[int, ...], x_CDHW: Tensor, seed: int) -> Tensor:
    generator = torch.Generator(device=x_CDHW.device).manual_seed(seed)
    return torch.randn(shape, generator=generator, device=x_CDHW.device, dtype=x_CDHW.dtype)


def _seed(state: np.random.RandomState) -> int:
    return int(state.randint(2**63 - 1, dtype=np.int64))


class RandNoised(RandVolumeTransform):
    """Add Gaussian noise of random strength; a CPU and a GPU draw different, equally distributed noise.

    Parameters
    ----------
    keys, prob, allow_missing_keys, sigma
        As in MONAI's random transforms (`prob` is 0.5 by default), and as `NoiseSettings` says.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandNoised
    >>> transform = RandNoised("image", prob=1.0, sigma=(0.1, 1.0))
    >>> transform({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    operation = NoiseSettings

    def draw(self) -> dict[str, Any]:
        """Draw the noise's standard deviation and the seed of the noise."""
        return {"sigma": self.between(self.settings.sigma), "seed": _seed(self.R)}

    def change(self, x_CDHW: Tensor, *, sigma: float, seed: int) -> Tensor:
        """Return the noisy volume."""
        return add_noise(x_CDHW, sigma=sigma, seed=seed)


class RandBrainRiciand(RandBrainTransform):
    """Give the brain's signal the noise of a magnitude image (Rice's distribution), of random strength.

    Parameters
    ----------
    keys, prob, allow_missing_keys, sigma
        As in MONAI's random transforms (`prob` is 0.5 by default), and as `RicianSettings` says.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainRiciand
    >>> transform = RandBrainRiciand("image", prob=1.0, sigma=(0.01, 0.04))
    >>> transform({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    operation = RicianSettings

    def draw(self) -> dict[str, Any]:
        """Draw the standard deviation of either part of the complex noise, and the seed of the noise."""
        return {"sigma": self.between(self.settings.sigma), "seed": _seed(self.R)}

    def change(self, s_CDHW: Tensor, *, sigma: float, seed: int) -> Tensor:
        """Return the noisy signal."""
        return rician_noise(s_CDHW, sigma=sigma, seed=seed)
