"""Images made smooth: what is left of tissue maps is how much tissue is about a place."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.ndimage
from monai.config import KeysCollection

from neurocontrast.exceptions import ConfigError
from neurocontrast.transforms.images import EachImage, affine_of, image_like, spacing_of, voxels_of

__all__ = ["FWHM_PER_SIGMA", "SmoothByFwhmd"]

FWHM_PER_SIGMA = 2.3548200450309493


class SmoothByFwhmd(EachImage):
    """Smooth each channel by a Gaussian, whose width is given in millimetres as in SPM and nilearn.

    What lies outside the image counts as 0. `monai.transforms.GaussianSmoothd` takes its width in voxels.

    Parameters
    ----------
    keys, allow_missing_keys : as of `monai.transforms.MapTransform`
        Items that are images (C, D, H, W).
    fwhm_mm : float
        Full width at half maximum of the Gaussian, above 0.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import SmoothByFwhmd
    >>> image = torch.zeros(1, 9, 9, 9)
    >>> image[0, 4, 4, 4] = 1.0
    >>> float(SmoothByFwhmd("image", fwhm_mm=4.0)({"image": image})["image"].max()) < 0.1
    True
    """

    def __init__(self, keys: KeysCollection, *, fwhm_mm: float, allow_missing_keys: bool = False) -> None:
        super().__init__(keys, allow_missing_keys)
        if not 0 < fwhm_mm <= 60:
            raise ConfigError(f"SmoothByFwhmd: fwhm_mm must be above 0 and at most 60, got {fwhm_mm!r}.")
        self.fwhm_mm = fwhm_mm

    def made_of(self, image: Any) -> Any:
        """Return the smooth image."""
        affine = affine_of(image)
        sigma = [self.fwhm_mm / FWHM_PER_SIGMA / step for step in spacing_of(affine)]
        channels = [
            scipy.ndimage.gaussian_filter(channel, sigma, mode="constant", output=np.float32)
            for channel in voxels_of(image)
        ]
        return image_like(image, np.stack(channels), affine)
