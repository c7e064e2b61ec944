"""Intensities made comparable: one transform for each way, over the whole image or inside the brain; and smoothing."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.ndimage
from monai.config import KeysCollection
from monai.transforms import MapTransform, NormalizeIntensityd

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.transforms.grids import mean_of
from neurocontrast.transforms.images import (
    EachImage,
    affine_of,
    image_like,
    name_of,
    settled,
    spacing_of,
    times,
    voxels_of,
)
from neurocontrast.transforms.limits import FWHM_PER_SIGMA

_LITTLE = 0.02  # of brain about a place; where there is less, smoothed values fade to 0

Values = npt.NDArray[np.float32]


_N_TOGETHER = 2**15
"""Voxels that stay in a core's cache while they are squared and added."""


class CheckVariesd(EachImage):
    """Refuse an image in which nothing varies, which `monai.transforms.NormalizeIntensityd` would turn into zeros.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import CheckVariesd
    >>> image = torch.rand(1, 20, 24, 16)
    >>> same = CheckVariesd("image")({"image": image})["image"] is image
    """

    def made_of(self, image: Any) -> Any:
        """Return the image as it is."""
        voxels = voxels_of(image)
        if voxels.min() == voxels.max():
            raise _nothing_varies(image)
        return image


def _nothing_varies(image: Any) -> DataError:
    shape = times(voxels_of(image).shape[1:])
    return DataError(f"{name_of(image)}: nothing varies in the {shape} box around the scan's centre.")


class ZScored(NormalizeIntensityd):
    """MONAI's `NormalizeIntensityd` of the whole image, all channels together; refuses one in which nothing varies.

    Intensities whose squares float32 does not hold, where MONAI's deviation is infinite or 0, are scaled first.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import ZScored
    >>> made = ZScored("image")({"image": torch.rand(1, 8, 8, 8)})["image"]
    >>> round(float(made.std(correction=0)), 4)
    1.0
    """

    def __init__(self, keys: KeysCollection, *, allow_missing_keys: bool = False) -> None:
        super().__init__(keys, allow_missing_keys=allow_missing_keys)

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the item with its images normalised."""
        item = dict(data)
        for key in self.key_iterator(item):
            item[key] = settled(item[key])
            voxels = voxels_of(item[key])
            low, high = float(voxels.min()), float(voxels.max())
            if low == high:
                raise _nothing_varies(item[key])
            largest = max(-low, high)
            if not 1e-9 < largest < 1e12:
                item[key] = item[key] / largest
        normalised: dict[Hashable, Any] = super().__call__(item)
        return normalised


class _InsideBraind(MapTransform):
    """Change the intensities inside the brain of each channel; what is outside is kept."""

    def __init__(self, keys: KeysCollection, *, mask_key: str | None = None, allow_missing_keys: bool = False) -> None:
        super().__init__(keys, allow_missing_keys)
        self.mask_key = mask_key

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the item with its images normalised."""
        item = dict(data)
        for key in self.key_iterator(item):
            image = settled(item[key])
            voxels = np.array(voxels_of(image), dtype=np.float32)
            given = None if self.mask_key is None else voxels_of(settled(item[self.mask_key]))[0] != 0
            for channel in voxels:
                inside = channel != 0 if given is None else given
                values = self._normalised(channel[inside])
                if values is None:
                    raise _nothing_varies(image)
                channel[inside] = values
            item[key] = image_like(image, voxels, affine_of(image))
        return item

    def _normalised(self, values: Values) -> Values | None:
        """Return the new intensities inside the brain, or None where nothing varies."""
        raise NotImplementedError


class ZScoreBraind(_InsideBraind):
    """Bring intensities inside the brain of each channel to mean 0 and deviation 1.

    The result is that of `monai.transforms.NormalizeIntensityd` with ``nonzero=True`` to float rounding, which takes
    longer than all else that is done to a scan (``benchmarks/data.py``).

    Parameters
    ----------
    keys, allow_missing_keys : see `monai.transforms.MapTransform`
        Items that are skull-stripped images (C, D, H, W).
    mask_key : str or None
        Item that is the brain's mask; None takes the voxels that are not 0.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import ZScoreBraind
    >>> image = torch.zeros(1, 4, 4, 4)
    >>> image[:, :2] = torch.arange(1.0, 33.0).reshape(1, 2, 4, 4)
    >>> made = ZScoreBraind("image")({"image": image})["image"]
    >>> abs(float(made[:, :2].mean())) < 1e-6, float(made[:, 2:].abs().max())
    (True, 0.0)
    """

    def _normalised(self, values: Values) -> Values | None:
        return zscore(values)


class ScaleByBrainPercentilesd(_InsideBraind):
    """Map the brain's lower percentile to 0 and the upper one to 1, and clip beyond.

    Further keywords are those of `ZScoreBraind`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import ScaleByBrainPercentilesd
    >>> image = torch.arange(64.0).reshape(1, 4, 4, 4)
    >>> float(ScaleByBrainPercentilesd("image", percentiles=(0, 100))({"image": image})["image"].max())
    1.0
    """

    def __init__(
        self, keys: KeysCollection, *, percentiles: tuple[float, float] = (1.0, 99.0), **of_brain: Any
    ) -> None:
        super().__init__(keys, **of_brain)
        if len(percentiles) != 2 or not 0 <= percentiles[0] < percentiles[1] <= 100:
            raise ConfigError(
                f"{type(self).__name__}: percentiles must be two numbers from 0 to 100 that rise, got {percentiles!r}."
            )
        self.percentiles = (float(percentiles[0]), float(percentiles[1]))

    def _normalised(self, values: Values) -> Values | None:
        return scale_by_percentiles(values, self.percentiles)


class SmoothByFwhmd(EachImage):
    """Smooth each channel inside the brain by a Gaussian, whose width is given in millimetres as in SPM and nilearn.

    The brain is where any channel is not 0. What is smoothed is divided by the smoothed brain, so that a tighter or
    wider brain extraction, or a larger brain, does not pass for another tissue (``benchmarks/tissue.py``).
    `monai.transforms.GaussianSmoothd` takes its width in voxels, and has no mask. `fwhm_mm` is the full width at half
    maximum, above 0 and at most 60.

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


def zscore(values: Values) -> Values | None:
    """Return values with mean 0 and deviation 1; None where nothing varies.

    Intensities whose sums or squares float32 does not hold are normalised all the same.
    """
    if values.size == 0 or values.min() == values.max():
        return None
    centred = values - np.float32(mean_of(values))
    deviation = np.sqrt(_mean_square(centred))
    if deviation == 0:
        return None
    centred /= np.float32(deviation)
    return centred


def scale_by_percentiles(values: Values, percentiles: tuple[float, float]) -> Values | None:
    """Map the lower percentile to 0 and the upper one to 1, and clip beyond; None where they are the same."""
    low, high = np.percentile(values, percentiles)
    if not high > low:
        return None
    scaled = (values - np.float32(low)) * np.float32(1 / (high - low))
    return np.clip(scaled, 0, 1, out=scaled)


def _mean_square(centred: Values) -> float:
    flat = centred.reshape(-1)
    parts = (flat[start : start + _N_TOGETHER] for start in range(0, flat.size, _N_TOGETHER))
    with np.errstate(over="ignore", under="ignore"):
        total = sum(float(np.square(part).sum()) for part in parts)
    if not np.isfinite(total) or total < np.finfo(np.float32).tiny:  # squares that float32 does not hold
        total = float(np.square(flat, dtype=np.float64).sum())
    return total / flat.size
