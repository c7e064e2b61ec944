"""Operations on intensities: contrast, bias field, noise.

MONAI's own differ: `AdjustContrast` keeps the volume's brightest voxel in its place, where here the signal's 1 stays,
and `RandAdjustContrastd` draws the exponent uniformly;
`RandBiasFieldd` sets no spread (its field grows with the degree), adds a constant, and takes longer
(``benchmarks/site_views.py``); noise is drawn in double precision on the CPU, and Rician noise changes the background
(``benchmarks/views.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from neurocontrast.transforms.operation import Operation, Pair, Random, Span

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Array = NDArray[np.float64]


class BrainContrast(Operation):
    """Raise the brain's signal, from its darkest voxel (0) to the 99th percentile (1), to a random power (gamma)."""

    stage = "scanner"
    gamma: Annotated[
        Pair, Span("Exponent, drawn by its logarithm; below 1 dark tissue grows brighter.", ge=0.2, le=5.0)
    ] = (0.8, 1.25)

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the exponent, uniformly in its logarithm."""
        return {"gamma": math.exp(random.uniform(*np.log(self.gamma)))}

    def change(self, s_CDHW: Tensor, *, gamma: float) -> Tensor:
        """Return the signal to the power; nothing is below 0."""
        return s_CDHW.clamp(min=0.0).pow_(gamma)


class BrainBiasField(Operation):
    """Multiply the brain's signal by a smooth field: the exponential of a random polynomial."""

    stage = "scanner"
    order: int = Field(3, ge=1, le=6, description="Total degree of the polynomial.")
    strength: Annotated[Pair, Span("Standard deviation of the field's logarithm.", ge=0.0, le=1.0)] = (0.05, 0.25)

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the polynomial."""
        return {"coefficients": random.uniform(*self.strength) * random_polynomial(self.order, random)}

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
    import torch

    first, second, third = (_legendre(side, coefficients.shape[0]).to(device) for side in shape)
    of_third = torch.from_numpy(coefficients.astype(np.float32)).to(device) @ third.T
    of_second = second @ of_third
    return (first @ of_second.flatten(1)).reshape(tuple(shape))


@lru_cache(maxsize=64)
def _legendre(side: int, n: int) -> Tensor:
    import torch

    places = (2.0 * np.arange(side) + 1.0) / side - 1.0
    return torch.from_numpy(np.polynomial.legendre.legvander(places, n - 1).astype(np.float32))


class _Noisy(Operation):
    sigma: Annotated[Pair, Span(ge=0.0)]

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the standard deviation and the seed of the noise."""
        return {"sigma": random.uniform(*self.sigma), "seed": int(random.randint(2**63 - 1, dtype=np.int64))}


class Noise(_Noisy):
    """Add Gaussian noise of random strength; a CPU and a GPU draw different, equally distributed noise."""

    sigma: Annotated[Pair, Span("Standard deviation, in units of the intensities.", ge=0.0, le=10.0)] = (0.1, 1.0)

    def change(self, x_CDHW: Tensor, *, sigma: float, seed: int) -> Tensor:
        """Return the volume with noise drawn on its device by a generator seeded with `seed`."""
        return x_CDHW.add(_noise(x_CDHW.shape, x_CDHW, seed), alpha=sigma)


class BrainRician(_Noisy):
    """Give the brain the noise of a magnitude image: of a complex signal with Gaussian noise in both parts."""

    stage = "scanner"
    sigma: Annotated[
        Pair, Span("Standard deviation of either part, on the scale of `BrainContrast`.", ge=0.0, le=1.0)
    ] = (0.01, 0.04)

    def change(self, s_CDHW: Tensor, *, sigma: float, seed: int) -> Tensor:
        """Return the magnitude of the signal with noise in both parts."""
        noise = _noise((2, *s_CDHW.shape), s_CDHW, seed).mul_(sigma)
        return noise[0].add_(s_CDHW).hypot(noise[1])


def _noise(shape: tuple[int, ...], x_CDHW: Tensor, seed: int) -> Tensor:
    import torch

    generator = torch.Generator(device=x_CDHW.device).manual_seed(seed)
    return torch.randn(shape, generator=generator, device=x_CDHW.device, dtype=x_CDHW.dtype)
