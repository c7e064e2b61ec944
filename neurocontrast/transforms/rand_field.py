"""Smooth random fields over a volume, and the bias field made of one.

MONAI's `RandBiasFieldd` sets no spread (its coefficients are uniform, so that the field grows with the degree), adds a
constant, and takes longer (``benchmarks/site_views.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from neurocontrast.transforms.operation import Operation, Pair, Random, Span, uniform

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["Array", "BrainBiasField", "random_polynomial", "smooth_field"]

Array = NDArray[np.float64]


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


def random_polynomial(order: int, random: Random) -> Array:
    """Draw Legendre coefficients of a field over the box whose mean is 0 and whose standard deviation is 1."""
    degree = np.arange(order + 1)
    total = degree[:, None, None] + degree[:, None] + degree
    mean_square = 1.0 / (2.0 * degree + 1.0)
    norm = np.einsum("i,j,k->ijk", mean_square, mean_square, mean_square)
    coefficients = np.where((total > 0) & (total <= order), random.standard_normal(total.shape), 0.0)
    return coefficients / math.sqrt(float((coefficients**2 * norm).sum()))


class BrainBiasField(Operation):
    """Multiply the brain's signal by a smooth field: the exponential of a random polynomial.

    Parameters
    ----------
    probability : float
        How often.
    order : int
        The polynomial's total degree.
    strength : tuple of float
        Range of the standard deviation of the field's logarithm over the box, drawn uniformly.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainBiasFieldd
    >>> RandBrainBiasFieldd("image", prob=1.0, order=2)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    stage = "scanner"
    order: int = Field(3, ge=1, le=6)
    strength: Annotated[Pair, Span(ge=0.0, le=1.0)] = (0.05, 0.25)

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the polynomial."""
        return {"coefficients": uniform(random, self.strength) * random_polynomial(self.order, random)}

    def change(self, s_CDHW: Tensor, *, coefficients: Array) -> Tensor:
        """Return the signal times the exponential of a `smooth_field`."""
        return smooth_field(coefficients, s_CDHW.shape[1:], device=s_CDHW.device).exp_() * s_CDHW
