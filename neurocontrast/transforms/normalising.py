"""Transforms for normalising intensities within the brain, and for smoothing in millimetres."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import scipy.ndimage
from monai.config import KeysCollection

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.transforms.images import (
    EachImage,
    affine_of,
    image_like,
    name_of,
    spacing_of,
    times,
    voxels_of,
)
from neurocontrast.transforms.preprocessing import FWHM_PER_SIGMA

_LITTLE = 0.02
"""Smallest share of brain under the Gaussian; with a smaller share, the smoothed value fades to
0."""
_SMALLEST = 1e-15
_LARGEST = 1e15
"""Limits of an image's largest intensity, beyond which float32 cannot sum squares of
intensities."""


class CheckVariesd(EachImage):
    """Refuse a constant image, which MONAI's `NormalizeIntensityd` would turn into zeros.

    An image whose intensities are too small or too large to be squared in float32 is refused too.

    Parameters
    ----------
    keys, allow_missing_keys : see `monai.transforms.MapTransform`
        Items that are images (C, D, H, W).
    nonzero : bool
        Whether to check the nonzero voxels of each channel instead of the whole image.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import CheckVariesd
    >>> image = torch.rand(1, 20, 24, 16)
    >>> same = CheckVariesd("image")({"image": image})["image"] is image
    """

    def __init__(
        self, keys: KeysCollection, *, nonzero: bool = False, allow_missing_keys: bool = False
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        self.nonzero = nonzero

    def made_of(self, image: Any) -> Any:
        """Return `image` unchanged if its intensities vary; raise a DataError if not.

        Intensities that are too small or too large to be squared in float32 are refused too.
        """
        voxels = voxels_of(image)
        must_vary = [voxels]
        if self.nonzero:
            must_vary = [channel[channel != 0] for channel in voxels]
        for values in must_vary:
            if values.size == 0 or values.min() == values.max():
                raise _nothing_varies(image)
        largest = float(max(-voxels.min(), voxels.max()))
        if not _SMALLEST < largest < _LARGEST:
            raise DataError(
                f"{name_of(image)}: its largest intensity is {largest:g}; it must be between "
                f"{_SMALLEST:g} and {_LARGEST:g} to be normalised. Scale the image."
            )
        return image


def _nothing_varies(image: Any) -> DataError:
    """Return the DataError to raise for an image of one intensity, with the image's file name."""
    shape = times(voxels_of(image).shape[1:])
    return DataError(
        f"{name_of(image)}: nothing varies in the {shape} box around the scan's centre."
    )


class ScaleByBrainPercentilesd(EachImage):
    """Scale each channel so that two percentiles of the brain become 0 and 1, and clip beyond.

    `monai.transforms.ScaleIntensityRangePercentilesd` computes percentiles over the background too.

    Parameters
    ----------
    keys, allow_missing_keys : see `monai.transforms.MapTransform`
        Items that are skull-stripped images (C, D, H, W).
    percentiles : tuple of float
        Lower and upper percentile, from 0 to 100.
    mask_key : str or None
        Key of the brain's mask; None takes the image's nonzero voxels as the brain.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import ScaleByBrainPercentilesd
    >>> image = torch.arange(64.0).reshape(1, 4, 4, 4)
    >>> scale = ScaleByBrainPercentilesd("image", percentiles=(0, 100))
    >>> float(scale({"image": image})["image"].max())
    1.0
    """

    def __init__(
        self,
        keys: KeysCollection,
        *,
        percentiles: tuple[float, float] = (1.0, 99.0),
        mask_key: str | None = None,
        allow_missing_keys: bool = False,
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        if len(percentiles) != 2 or not 0 <= percentiles[0] < percentiles[1] <= 100:
            raise ConfigError(
                f"{type(self).__name__}: percentiles must be two numbers from 0 to 100 that rise, "
                f"got {percentiles!r}."
            )
        self.percentiles = (float(percentiles[0]), float(percentiles[1]))
        self.mask_key = mask_key

    def change_item(self, item: dict[Hashable, Any], key: Hashable) -> None:
        """Replace the image under `key` in dictionary `item` by the scaled and clipped image.

        Only brain voxels are scaled. A DataError refuses a channel whose brain has one intensity.
        """
        voxels = np.array(voxels_of(item[key]), dtype=np.float32)
        for channel in voxels:
            inside = channel != 0
            if self.mask_key is not None:
                inside = voxels_of(item[self.mask_key])[0] != 0
            values = channel[inside]
            if not values.size:
                raise _nothing_varies(item[key])
            low, high = np.percentile(values, self.percentiles)
            if not high > low:
                raise _nothing_varies(item[key])
            scaled = (values - np.float32(low)) * np.float32(1 / (high - low))
            channel[inside] = np.clip(scaled, 0, 1)
        item[key] = image_like(item[key], voxels, affine_of(item[key]))


class SmoothByFwhmd(EachImage):
    """Smooth each channel within the brain by a Gaussian whose width is given in millimetres.

    The brain is where any channel is not 0. Smoothed channels are divided by the smoothed brain
    mask, so that a tighter brain extraction or a larger brain does not look like a change of tissue
    (``benchmarks/tissue``). `monai.transforms.GaussianSmoothd` takes widths in voxels, and has no
    mask.

    Parameters
    ----------
    keys, allow_missing_keys : see `monai.transforms.MapTransform`
        Items that are skull-stripped images (C, D, H, W).
    fwhm_mm : float
        Full width at half maximum of the Gaussian, as in SPM and nilearn, above 0 and at most 60.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import SmoothByFwhmd
    >>> image = torch.zeros(1, 9, 9, 9)
    >>> image[:, 2:7, 2:7, 2:7] = 0.5
    >>> smooth = SmoothByFwhmd("image", fwhm_mm=4.0)({"image": image})["image"]
    >>> round(float(smooth[0, 4, 4, 4]), 1), round(float(smooth[0, 4, 4, 7]), 1)
    (0.5, 0.5)
    """

    def __init__(
        self, keys: KeysCollection, *, fwhm_mm: float, allow_missing_keys: bool = False
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        if not 0 < fwhm_mm <= 60:
            raise ConfigError(
                f"SmoothByFwhmd: fwhm_mm must be above 0 and at most 60, got {fwhm_mm!r}."
            )
        self.fwhm_mm = fwhm_mm

    def made_of(self, image: Any) -> Any:
        """Return `image` with each channel smoothed and divided by the smoothed brain mask."""
        affine = affine_of(image)
        voxels = voxels_of(image)
        sigma = [self.fwhm_mm / FWHM_PER_SIGMA / step for step in spacing_of(affine)]
        brain = (voxels != 0).any(axis=0).astype(np.float32)
        channels = []
        for channel in voxels:
            channels.append(scipy.ndimage.gaussian_filter(channel, sigma, mode="constant"))
        smooth_brain = scipy.ndimage.gaussian_filter(brain, sigma, mode="constant")
        return image_like(image, np.stack(channels) / (smooth_brain + _LITTLE), affine)
