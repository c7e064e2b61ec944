"""Random changes of intensities: bias field, noise, blur and sharpness, and of maps of tissue."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from monai.networks.layers import gaussian_1d, separable_filtering
from numpy.typing import NDArray
from torch import Tensor

from neurocontrast.transforms import augment
from neurocontrast.transforms.signal import Random, RandSignald, RandVolumed, corner_median

Array = NDArray[np.float64]


class RandBrainBiasFieldd(RandSignald):
    """Multiply the brain's signal by the exponential of a random polynomial of a random spread.

    MONAI's `RandBiasFieldd` draws coefficients, so that the spread of its field grows with the
    degree. Ranges are the fields of `neurocontrast.transforms.augment.BiasField`.

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
        (strength,) = super().draw(random).values()
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
    coefficients = np.where(
        (total > 0) & (total <= order), random.standard_normal(total.shape), 0.0
    )
    return coefficients / math.sqrt(float((coefficients**2 * norm).sum()))


def smooth_field(
    coefficients: Array, shape: Sequence[int], *, device: torch.device | str = "cpu"
) -> Tensor:
    """Return a polynomial over a box (D, H, W): `coefficients` (n, n, n) of products of Legendre polynomials."""
    first, second, third = (_legendre(side, coefficients.shape[0]).to(device) for side in shape)
    of_third = torch.from_numpy(coefficients.astype(np.float32)).to(device) @ third.T
    of_second = second @ of_third
    return (first @ of_second.flatten(1)).reshape(tuple(shape))


@lru_cache(maxsize=64)
def _legendre(side: int, n: int) -> Tensor:
    places = (2.0 * np.arange(side) + 1.0) / side - 1.0
    return torch.from_numpy(np.polynomial.legendre.legvander(places, n - 1).astype(np.float32))


def _noise(shape: tuple[int, ...], x_CDHW: Tensor, seed: int) -> Tensor:
    generator = torch.Generator(device=x_CDHW.device).manual_seed(seed)
    return torch.randn(shape, generator=generator, device=x_CDHW.device, dtype=x_CDHW.dtype)


class RandNoised(RandVolumed):
    """Add Gaussian noise of random strength; a CPU and a GPU draw different, equally distributed noise.

    The strength of MONAI's `RandGaussianNoised` is drawn from 0 on, or fixed. Ranges are the fields
    of `neurocontrast.transforms.augment.Noise`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandNoised
    >>> RandNoised("image", prob=1.0, sigma=(0.1, 0.2))({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    Settings = augment.Noise
    n_seeds = 2**63 - 1

    def change(self, x_CDHW: Tensor, *, sigma: float, seed: int) -> Tensor:
        """Return the volume with noise drawn on its device by a generator seeded with `seed`."""
        return x_CDHW.add(_noise(x_CDHW.shape, x_CDHW, seed), alpha=sigma)


class RandBrainRiciand(RandSignald):
    """Give the brain the noise of a magnitude image: of a complex signal with Gaussian noise in both parts.

    The strength of MONAI's `RandRicianNoised` is drawn from 0 on, or fixed. Ranges are the fields
    of `neurocontrast.transforms.augment.Rician`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainRiciand
    >>> RandBrainRiciand("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    Settings = augment.Rician
    n_seeds = 2**63 - 1

    def change(self, s_CDHW: Tensor, *, sigma: float, seed: int) -> Tensor:
        """Return the magnitude of the signal with noise in both parts."""
        noise = _noise((2, *s_CDHW.shape), s_CDHW, seed).mul_(sigma)
        return noise[0].add_(s_CDHW).hypot(noise[1])


def blur(x_CDHW: Tensor, *, sigma_voxels: float) -> Tensor:
    """Return the volume under a Gaussian cut at four standard deviations, the border's voxels repeated beyond it."""
    width = torch.tensor(max(sigma_voxels, 1e-3))
    kernel = gaussian_1d(width, truncated=4.0, approx="sampled", normalize=True)
    return separable_filtering(x_CDHW[None], [kernel] * 3, mode="replicate")[0]


class RandBlurd(RandVolumed):
    """Blur volumes by a Gaussian of random width, the same along each axis.

    MONAI's `RandGaussianSmoothd` draws a width for each axis, and takes what lies beyond the border
    for 0. Ranges are the fields of `neurocontrast.transforms.augment.Blur`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBlurd
    >>> RandBlurd("image", prob=1.0, sigma_voxels=(0.5, 1.0))({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    Settings = augment.Blur

    def change(self, x_CDHW: Tensor, *, sigma_voxels: float) -> Tensor:
        """Return the blurred volume."""
        return blur(x_CDHW, sigma_voxels=sigma_voxels)


class RandBrainSharpnessd(RandSignald):
    """Make the brain sharper or smoother by an unsharp mask.

    Ranges are the fields of `neurocontrast.transforms.augment.Sharpness`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainSharpnessd
    >>> RandBrainSharpnessd("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    Settings = augment.Sharpness

    def change(self, s_CDHW: Tensor, *, amount: float) -> Tensor:
        """Return the signal, sharper or smoother, and nowhere below a quarter: a dim edge stays part of the brain."""
        smooth = blur(s_CDHW, sigma_voxels=self.settings.sigma_voxels)
        return s_CDHW.lerp(smooth, -amount).maximum(0.25 * s_CDHW)


class RandTissueShiftd(RandVolumed):
    """Multiply each map of tissue by a smooth field, and add another inside the brain, as another scanner would.

    MONAI's `RandBiasFieldd` multiplies all channels by one field, and adds nothing. Ranges are the
    fields of `neurocontrast.transforms.augment.TissueShift`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandTissueShiftd
    >>> RandTissueShiftd("image", prob=1.0)({"image": torch.rand(2, 9, 9, 9)})["image"].shape
    torch.Size([2, 9, 9, 9])
    """

    Settings = augment.TissueShift
    n_seeds = 2**32

    def change(self, x_CDHW: Tensor, *, gain: float, shift: float, seed: int) -> Tensor:
        """Return y = x·exp(gain·f) + shift·b·h, with fields f and h of a map, and b from 0 outside the brain to 1.

        Each field is a polynomial whose standard deviation over views and voxels is 1; half of the
        variance is a constant. The brain is where the sum of the maps exceeds half of its largest
        value; towards zero, b falls with the sum, so that smoothed maps get no edge. Nothing falls
        below the background, or rises above 1 or the largest value of the map. Values are counted
        from the background.
        """
        background = corner_median(x_CDHW)
        maps = (x_CDHW - background).clamp_(min=0.0)
        largest = maps.amax((1, 2, 3), keepdim=True)
        total = maps.sum(0)
        brain = (2.0 * total / total.amax().clamp(min=1e-6)).clamp_(max=1.0)
        random = np.random.RandomState(seed)
        for channel, top in zip(maps, largest.flatten(), strict=True):
            factor, added = (self._field(channel, random) for _ in range(2))
            channel.mul_(factor.mul_(gain).exp_()).add_(added.mul_(shift * top).mul_(brain))
        return maps.clamp_(min=0.0).minimum(largest.clamp(min=1.0)).add_(background)

    def _field(self, x_DHW: Tensor, random: Random) -> Tensor:
        coefficients = random_polynomial(self.settings.order, random)
        coefficients[0, 0, 0] = random.standard_normal()
        return smooth_field(coefficients / math.sqrt(2.0), x_DHW.shape, device=x_DHW.device)
