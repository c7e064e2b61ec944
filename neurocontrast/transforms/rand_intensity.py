"""Random changes of intensities: bias field and noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from neurocontrast.transforms import augment
from neurocontrast.transforms.signal import RandSignald
from neurocontrast.transforms.volume import Random, RandVolumed

Array = NDArray[np.float64]


class RandBrainBiasFieldd(RandSignald):
    """Multiply the brain's signal by the exponential of a random polynomial of a random spread.

    MONAI's `RandBiasFieldd` draws coefficients, so that the spread of its field grows with the degree. Ranges are the
    fields of `neurocontrast.transforms.augment.BiasField`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainBiasFieldd
    >>> RandBrainBiasFieldd("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    Settings = augment.BiasField

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the polynomial."""
        strength = random.uniform(*self.settings.strength)
        return {"coefficients": strength * random_polynomial(self.settings.order, random)}

    def change(self, s_CDHW: Tensor, *, coefficients: Array) -> Tensor:
        """Return the signal times the exponential of a `smooth_field`."""
        return smooth_field(coefficients, s_CDHW.shape[1:], device=s_CDHW.device).exp_() * s_CDHW


def random_polynomial(order: int, random: Random) -> Array:
    """Draw Legendre coefficients of a field over the box whose mean is 0 and whose standard deviation is 1."""
    degree = np.arange(order + 1)
    total = degree[:, None, None] + degree[:, None] + degree
    mean_square = 1.0 / (2.0 * degree + 1.0)
    norm = np.einsum("i,j,k->ijk", mean_square, mean_square, mean_square)
    coefficients = np.where((total > 0) & (total <= order), random.standard_normal(total.shape), 0.0)
    return coefficients / math.sqrt(float((coefficients**2 * norm).sum()))


def smooth_field(coefficients: Array, shape: Sequence[int], *, device: torch.device | str = "cpu") -> Tensor:
    """Return a polynomial over a box (D, H, W): `coefficients` (n, n, n) of products of Legendre polynomials."""
    first, second, third = (_legendre(side, coefficients.shape[0]).to(device) for side in shape)
    of_third = torch.from_numpy(coefficients.astype(np.float32)).to(device) @ third.T
    of_second = second @ of_third
    return (first @ of_second.flatten(1)).reshape(tuple(shape))


@lru_cache(maxsize=64)
def _legendre(side: int, n: int) -> Tensor:
    places = (2.0 * np.arange(side) + 1.0) / side - 1.0
    return torch.from_numpy(np.polynomial.legendre.legvander(places, n - 1).astype(np.float32))


def _draw_noise(sigma: augment.Pair, random: Random) -> dict[str, Any]:
    """Draw the standard deviation and the seed of the noise."""
    return {"sigma": random.uniform(*sigma), "seed": int(random.randint(2**63 - 1, dtype=np.int64))}


def _noise(shape: tuple[int, ...], x_CDHW: Tensor, seed: int) -> Tensor:
    generator = torch.Generator(device=x_CDHW.device).manual_seed(seed)
    return torch.randn(shape, generator=generator, device=x_CDHW.device, dtype=x_CDHW.dtype)


class RandNoised(RandVolumed):
    """Add Gaussian noise of random strength; a CPU and a GPU draw different, equally distributed noise.

    The strength of MONAI's `RandGaussianNoised` is drawn from 0 on, or fixed. Ranges are the fields of
    `neurocontrast.transforms.augment.Noise`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandNoised
    >>> RandNoised("image", prob=1.0, sigma=(0.1, 0.2))({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    Settings = augment.Noise

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the standard deviation and the seed of the noise."""
        return _draw_noise(self.settings.sigma, random)

    def change(self, x_CDHW: Tensor, *, sigma: float, seed: int) -> Tensor:
        """Return the volume with noise drawn on its device by a generator seeded with `seed`."""
        return x_CDHW.add(_noise(x_CDHW.shape, x_CDHW, seed), alpha=sigma)


class RandBrainRiciand(RandSignald):
    """Give the brain the noise of a magnitude image: of a complex signal with Gaussian noise in both parts.

    The strength of MONAI's `RandRicianNoised` is drawn from 0 on, or fixed. Ranges are the fields of
    `neurocontrast.transforms.augment.Rician`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainRiciand
    >>> RandBrainRiciand("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    Settings = augment.Rician

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the standard deviation and the seed of the noise."""
        return _draw_noise(self.settings.sigma, random)

    def change(self, s_CDHW: Tensor, *, sigma: float, seed: int) -> Tensor:
        """Return the magnitude of the signal with noise in both parts."""
        noise = _noise((2, *s_CDHW.shape), s_CDHW, seed).mul_(sigma)
        return noise[0].add_(s_CDHW).hypot(noise[1])
