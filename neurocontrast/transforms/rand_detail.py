"""Random changes of fine detail: blur and sharpness."""

from __future__ import annotations

from typing import Any

import torch
from monai.networks.layers import gaussian_1d, separable_filtering
from torch import Tensor

from neurocontrast.transforms import augment
from neurocontrast.transforms.signal import RandSignald
from neurocontrast.transforms.volume import Random, RandVolumed


def blur(x_CDHW: Tensor, *, sigma_voxels: float) -> Tensor:
    """Return the volume under a Gaussian cut at four standard deviations, the border's voxels repeated beyond it."""
    width = torch.tensor(max(sigma_voxels, 1e-3))
    kernel = gaussian_1d(width, truncated=4.0, approx="sampled", normalize=True)
    return separable_filtering(x_CDHW[None], [kernel] * 3, mode="replicate")[0]


class RandBlurd(RandVolumed):
    """Blur volumes by a Gaussian of random width, the same along each axis.

    MONAI's `RandGaussianSmoothd` draws a width for each axis, and takes what lies beyond the border for 0. Ranges are
    the fields of `neurocontrast.transforms.augment.Blur`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBlurd
    >>> RandBlurd("image", prob=1.0, sigma_voxels=(0.5, 1.0))({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    Settings = augment.Blur

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the Gaussian's standard deviation."""
        return {"sigma_voxels": random.uniform(*self.settings.sigma_voxels)}

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

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw how many times the difference is added."""
        return {"amount": random.uniform(*self.settings.amount)}

    def change(self, s_CDHW: Tensor, *, amount: float) -> Tensor:
        """Return the signal, sharper or smoother, and nowhere below a quarter: a dim edge stays part of the brain."""
        smooth = blur(s_CDHW, sigma_voxels=self.settings.sigma_voxels)
        return s_CDHW.lerp(smooth, -amount).maximum(0.25 * s_CDHW)
