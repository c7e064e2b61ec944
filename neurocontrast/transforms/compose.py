"""Build MONAI `Compose` transforms from a scan's file to a network's input, and to random views."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from monai.transforms import Compose, DeleteItemsd, NormalizeIntensityd, Transform

from neurocontrast.exceptions import DataError
from neurocontrast.files import ScanFiles, as_scan
from neurocontrast.transforms.augment import AugmentSettings
from neurocontrast.transforms.brain import KeepBraind, MarkBraind
from neurocontrast.transforms.grids import CheckFieldOfViewd, ResampleByAread
from neurocontrast.transforms.images import apply, voxels_of
from neurocontrast.transforms.loading import LoadScand
from neurocontrast.transforms.normalising import (
    CheckVariesd,
    ScaleByBrainPercentilesd,
    SmoothByFwhmd,
)
from neurocontrast.transforms.preprocessing import Preprocessing
from neurocontrast.transforms.rand_intensity import (
    RandBlurd,
    RandBrainBiasFieldd,
    RandBrainContrastd,
    RandBrainRiciand,
    RandBrainSharpnessd,
    RandNoised,
    RandTissueShiftd,
)
from neurocontrast.transforms.rand_parts import RandCutoutd, RandMaskEdged, RandTightMaskd
from neurocontrast.transforms.rand_place import (
    RandBrainAffined,
    RandMirrord,
    RandResizedCropd,
)
from neurocontrast.transforms.rand_volumes import RandVolumed
from neurocontrast.transforms.signal import FromSignald, ToSignald

_ON_SIGNAL: dict[str, Callable[..., RandVolumed]] = {
    "affine": RandBrainAffined,
    "contrast": RandBrainContrastd,
    "bias_field": RandBrainBiasFieldd,
    "sharpness": RandBrainSharpnessd,
    "rician": RandBrainRiciand,
    "tight_mask": RandTightMaskd,
    "mask_edge": RandMaskEdged,
}
"""Operation → transform of the brain's signal, a `RandSignald`; `AugmentSettings` has the order."""
_LAST: dict[str, Callable[..., RandVolumed]] = {
    "tissue_shift": RandTissueShiftd,
    "blur": RandBlurd,
    "noise": RandNoised,
    "cutout": RandCutoutd,
    "crop": RandResizedCropd,
}
"""Operation → transform of the volume; applied after the transforms of the brain's signal."""


def brain_transforms(
    preprocessing: Preprocessing | None = None, *, key: str = "image", **settings: Any
) -> Compose:
    """Return the transforms that load and preprocess a scan, from the path to the network's input.

    An item ``{"image": path, …}`` becomes ``{"image": MetaTensor (C, D, H, W), …}``: float32, axes
    to the right, to the front and upwards, with the affine of the new grid. A tuple of
    ``n_channels`` paths becomes one image with a channel for each path. All other keys are
    unchanged. For an unusable scan, calling the result raises a RuntimeError of `Compose` whose
    cause is a DataError.

    Parameters
    ----------
    preprocessing : Preprocessing, optional
        Settings of the preprocessing, such as those stored with an encoder; by default
        ``**settings`` are used.
    key : str
        Key of the path, and then of the image.
    **settings
        Fields of `Preprocessing`, in place of `preprocessing`.

    Examples
    --------
    >>> from monai.transforms import Compose, RandFlipd
    >>> from neurocontrast.transforms import brain_transforms
    >>> fixed = brain_transforms(spacing_mm=2.0, shape=(91, 109, 91))
    >>> views = Compose([fixed, RandFlipd("image", prob=0.5)])
    """
    if preprocessing is None:
        preprocessing = Preprocessing.from_settings(settings, "brain_transforms")
    elif settings:
        raise DataError(
            "brain_transforms: give a preprocessing or settings, not both; got "
            f"{', '.join(settings)} too."
        )
    mask_key = f"{key}_brain"
    steps = [*_to_box(preprocessing, key, mask_key), *_to_intensities(preprocessing, key, mask_key)]
    if preprocessing.smooth_mm:
        steps.append(SmoothByFwhmd(key, fwhm_mm=preprocessing.smooth_mm))
    if preprocessing.inside_brain:
        steps.append(DeleteItemsd(mask_key))
    return Compose(steps)


def load_volume(
    scan: ScanFiles | os.PathLike[str], preprocessing: Preprocessing
) -> npt.NDArray[np.float32]:
    """Load and preprocess a scan as float32 (C, D, H, W); a DataError names an unusable scan."""
    return voxels_of(apply(preprocessing.compose(), {"image": as_scan(scan)})["image"])


def _to_box(preprocessing: Preprocessing, key: str, mask_key: str) -> list[Transform]:
    """Return the transforms that load a scan, resample to the grid and mask the brain.

    `preprocessing` gives the grid, `key` is the dictionary key of the scan, and `mask_key` that of
    the brain mask, which is made only if a setting needs one.
    """
    spacing = preprocessing.spacing_mm
    shape = preprocessing.shape
    steps: list[Transform] = [
        LoadScand(key, spacing_mm=spacing or 1.0, n_channels=preprocessing.n_channels),
        CheckFieldOfViewd(key, shape=shape, spacing_mm=spacing),
    ]
    axcodes = preprocessing.orientation
    if not preprocessing.inside_brain:
        # The corners are background in any usual scan, and padding continues the background.
        background: float | str = "corners"
        if preprocessing.normalise == "zscore-brain":
            background = 0.0
        resample = ResampleByAread(
            key, background=background, spacing_mm=spacing, shape=shape, axcodes=axcodes
        )
        return [*steps, resample]
    return [
        *steps,
        MarkBraind(key, mask_key=mask_key),
        ResampleByAread((key, mask_key), spacing_mm=spacing, shape=shape, axcodes=axcodes),
        KeepBraind(key, mask_key=mask_key, erode_mm=preprocessing.erode_mm),
    ]


def _to_intensities(preprocessing: Preprocessing, key: str, mask_key: str) -> list[Transform]:
    """Return the transforms that normalise an image's intensities as the preprocessing asks.

    `key` is the dictionary key of the image, and `mask_key` that of the brain mask.
    """
    match preprocessing.normalise:
        case "zscore":
            return [CheckVariesd(key), NormalizeIntensityd(key)]
        case "zscore-brain":
            return [
                CheckVariesd(key, nonzero=True),
                NormalizeIntensityd(key, nonzero=True, channel_wise=True),
            ]
        case "percentile":
            return [
                ScaleByBrainPercentilesd(
                    key, mask_key=mask_key, percentiles=preprocessing.percentiles
                )
            ]
        case "none":
            return [CheckVariesd(key)]


def brain_views(settings: AugmentSettings | None = None, *, key: str = "image") -> Compose:
    """Return the random transforms that make a view, by settings such as the section ``augment``.

    Parameters
    ----------
    settings : AugmentSettings, optional
        Random operations and their ranges; by default those of `AugmentSettings()`.
    key : str
        Key of volumes (channels, D, H, W) in a dictionary.

    Returns
    -------
    Compose
        Transforms of the operations that are not None; without any, a view is the volume itself.
        `TwoViews` applies them to a whole batch at once.

    Examples
    --------
    >>> from neurocontrast.transforms import AugmentSettings, brain_views
    >>> [type(transform).__name__ for transform in brain_views(AugmentSettings()).transforms]
    ['RandBlurd', 'RandNoised', 'RandCutoutd']
    """
    chosen = settings or AugmentSettings()
    on_signal: list[Transform] = list(_operations(_ON_SIGNAL, chosen, key))
    if on_signal:
        on_signal = [ToSignald(key), *on_signal, FromSignald(key)]
    first = _operations({"flip": RandMirrord}, chosen, key)
    return Compose([*first, *on_signal, *_operations(_LAST, chosen, key)])


def _operations(
    transforms: dict[str, Callable[..., RandVolumed]], settings: AugmentSettings, key: str
) -> list[RandVolumed]:
    """Return a transform for each random operation that `settings` turn on and `transforms` has.

    `transforms` maps the name of an operation, which is a field of the settings, to the class of
    its transform. An operation whose field is None is off. Transforms are in the order of the
    settings, and change volumes under `key`.
    """
    operations = []
    for name, operation in settings:
        if name in transforms and operation is not None:
            ranges = dict(operation)
            operations.append(transforms[name](key, ranges.pop("probability"), **ranges))
    return operations
