"""Smooth random fields over a volume, and the bias field made of one.

MONAI's `RandBiasFieldd` sets no spread (its coefficients are uniform, so that the field grows with the degree), adds a
constant, and takes longer (``benchmarks/site_views.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from neurocontrast.transforms.rand_volume import RandBrainTransform
from neurocontrast.transforms.site_settings import BiasFieldSettings

__all__ = ["RandBrainBiasFieldd", "bias_field", "random_polynomial", "smooth_field"]


Array = NDArray[np.float64]


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


def bias_field(s_CDHW: Tensor, *, coefficients: Array) -> Tensor:
    """Return the volume times the exponential of a `smooth_field`."""
    return smooth_field(coefficients, s_CDHW.shape[1:], device=s_CDHW.device).exp_() * s_CDHW


def random_polynomial(order: int, state: np.random.RandomState) -> Array:
    """Draw Legendre coefficients of a field over the box whose mean is 0 and whose standard deviation is 1."""
    there, norm = _terms(order)
    coefficients = np.where(there, state.standard_normal(there.shape), 0.0)
    return coefficients / math.sqrt(float((coefficients**2 * norm).sum()))


@lru_cache(maxsize=8)
def _terms(order: int) -> tuple[NDArray[np.bool_], Array]:
    degree = np.arange(order + 1)
    total = degree[:, None, None] + degree[:, None] + degree
    mean_square = 1.0 / (2.0 * degree + 1.0)
    return (total > 0) & (total <= order), np.einsum("i,j,k->ijk", mean_square, mean_square, mean_square)


class RandBrainBiasFieldd(RandBrainTransform):
    """Multiply the brain's signal by the exponential of a smooth random polynomial.

    Parameters
    ----------
    keys, prob, allow_missing_keys, order, strength
        As in MONAI's random transforms (`prob` is 0.5 by default), and as `BiasFieldSettings` says.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainBiasFieldd
    >>> transform = RandBrainBiasFieldd("image", prob=1.0, order=2)
    >>> transform({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    operation = BiasFieldSettings

    def draw(self) -> dict[str, Any]:
        """Draw the polynomial."""
        strength = self.between(self.settings.strength)
        return {"coefficients": strength * random_polynomial(self.settings.order, self.R)}

    def change(self, s_CDHW: Tensor, *, coefficients: Array) -> Tensor:
        """Return the signal times the field."""
        return bias_field(s_CDHW, coefficients=coefficients)
