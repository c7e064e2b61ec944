"""Images made smooth inside the brain: what is left of tissue maps is the share of a tissue about a place."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.ndimage
from monai.config import KeysCollection

from neurocontrast.exceptions import ConfigError
from neurocontrast.transforms.images import EachImage, affine_of, image_like, spacing_of, voxels_of

__all__ = ["FWHM_PER_SIGMA", "SmoothByFwhmd"]

FWHM_PER_SIGMA = 2.3548200450309493
_LITTLE = 0.02  # of brain about a place; where there is less, values fade to 0


class SmoothByFwhmd(EachImage):
    """Smooth each channel inside the brain by a Gaussian, whose width is given in millimetres as in SPM and nilearn.

    The brain is where any channel is not 0. What is smoothed is divided by the smoothed brain, so that a tighter or
    wider brain extraction, or a larger brain, does not pass for another tissue (``benchmarks/tissue.py``).
    `monai.transforms.GaussianSmoothd` takes its width in voxels, and has no mask.

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
    >>> image[:, 2:7, 2:7, 2:7] = 0.5
    >>> made = SmoothByFwhmd("image", fwhm_mm=4.0)({"image": image})["image"]
    >>> round(float(made[0, 4, 4, 4]), 1), round(float(made[0, 4, 4, 7]), 1)
    (0.5, 0.5)
    """

    def __init__(self, keys: KeysCollection, *, fwhm_mm: float, allow_missing_keys: bool = False) -> None:
        super().__init__(keys, allow_missing_keys)
        if not 0 < fwhm_mm <= 60:
            raise ConfigError(f"SmoothByFwhmd: fwhm_mm must be above 0 and at most 60, got {fwhm_mm!r}.")
        self.fwhm_mm = fwhm_mm

    def made_of(self, image: Any) -> Any:
        """Return the smooth image."""
        affine, voxels = affine_of(image), voxels_of(image)
        sigma = [self.fwhm_mm / FWHM_PER_SIGMA / step for step in spacing_of(affine)]
        brain = (voxels != 0).any(axis=0).astype(np.float32)
        smooth = [scipy.ndimage.gaussian_filter(each, sigma, mode="constant") for each in (*voxels, brain)]
        return image_like(image, np.stack(smooth[:-1]) / (smooth[-1] + _LITTLE), affine)
