"""The whole way from a scan's file to the image that a network sees, and its random views, each as one `Compose`."""

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
_LAST: dict[str, Callable[..., RandVolumed]] = {
    "tissue_shift": RandTissueShiftd,
    "blur": RandBlurd,
    "noise": RandNoised,
    "cutout": RandCutoutd,
    "crop": RandResizedCropd,
}


def brain_transforms(
    preprocessing: Preprocessing | None = None, *, key: str = "image", **settings: Any
) -> Compose:
    """Return the transforms from the path of a scan to the image that a network sees.

    An item ``{"image": path, …}`` becomes ``{"image": MetaTensor (C, D, H, W), …}``: float32, axes
    to the right, to the front and upwards, with the affine of the new grid. A tuple of
    ``n_channels`` paths has one channel each. All other keys stay as they are. When called, an
    image that is refused is a RuntimeError of `Compose` with a DataError as its cause.

    Parameters
    ----------
    preprocessing : Preprocessing, optional
        Settings that were made elsewhere, for instance those of an encoder; else they are given by
        keyword.
    key : str
        The item that is a path, and becomes the image.
    **settings
        The fields of `Preprocessing`.

    Examples
    --------
    >>> from monai.transforms import Compose, RandFlipd
    >>> from neurocontrast.transforms import brain_transforms
    >>> views = Compose([brain_transforms(spacing_mm=2.0, shape=(91, 109, 91)), RandFlipd("image", prob=0.5)])
    """
    if preprocessing is None:
        preprocessing = Preprocessing.from_settings(settings, "brain_transforms")
    elif settings:
        raise DataError(
            f"brain_transforms: give a preprocessing or settings, not both; got {', '.join(settings)} too."
        )
    mask_key = f"{key}_brain"
    steps = [*_to_box(preprocessing, key, mask_key), *_to_intensities(preprocessing, key, mask_key)]
    if preprocessing.smooth_mm:
        steps.append(SmoothByFwhmd(key, fwhm_mm=preprocessing.smooth_mm))
    return Compose([*steps, DeleteItemsd(mask_key)] if preprocessing.inside_brain else steps)


def load_volume(
    scan: ScanFiles | os.PathLike[str], preprocessing: Preprocessing
) -> npt.NDArray[np.float32]:
    """Read a scan and preprocess it, as float32 (C, D, H, W); a DataError names a scan that cannot be used."""
    return voxels_of(apply(preprocessing.compose(), {"image": as_scan(scan)})["image"])


def _to_box(preprocessing: Preprocessing, key: str, mask_key: str) -> list[Transform]:
    """Return the transforms onto the grid, and those that keep the brain alone."""
    spacing = preprocessing.spacing_mm
    shape = preprocessing.shape
    steps: list[Transform] = [
        LoadScand(key, spacing_mm=spacing or 1.0, n_channels=preprocessing.n_channels),
        CheckFieldOfViewd(key, shape=shape, spacing_mm=spacing),
    ]
    grid: dict[str, Any] = {
        "spacing_mm": spacing,
        "shape": shape,
        "axcodes": preprocessing.orientation,
    }
    if not preprocessing.inside_brain:
        # The corners are background in any usual scan, and padding continues it.
        background = 0.0 if preprocessing.normalise == "zscore-brain" else "corners"
        return [*steps, ResampleByAread(key, background=background, **grid)]
    return [
        *steps,
        MarkBraind(key, mask_key=mask_key),
        ResampleByAread((key, mask_key), **grid),
        KeepBraind(key, mask_key=mask_key, erode_mm=preprocessing.erode_mm),
    ]


def _to_intensities(preprocessing: Preprocessing, key: str, mask_key: str) -> list[Transform]:
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
    """Return the random transforms of the section ``augment:``, in its order.

    Parameters
    ----------
    settings : AugmentSettings, optional
        The operations; by default those of a configuration that says nothing of them.
    key : str
        Where volumes (channels, D, H, W) are in a dictionary.

    Returns
    -------
    Compose
        An operation that is None is not in it. Without any, a view is the volume itself. `TwoViews`
        makes the views of a whole batch at once with it.

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
    """Return the transforms of the operations that are on."""
    operations = []
    for name, transform in transforms.items():
        operation = getattr(settings, name)
        if operation is not None:
            ranges = dict(operation)
            operations.append(transform(key, ranges.pop("probability"), **ranges))
    return operations
