"""The whole way from a scan's file to the image that a network sees, as one `monai.transforms.Compose`."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from monai.transforms import Compose, DeleteItemsd, NormalizeIntensityd, Transform

from neurocontrast.exceptions import DataError
from neurocontrast.files import ScanFiles, as_scan
from neurocontrast.transforms.brain import KeepBraind, MarkBraind
from neurocontrast.transforms.grids import CheckFieldOfViewd, ResampleByAread
from neurocontrast.transforms.images import apply, voxels_of
from neurocontrast.transforms.loading import LoadScand
from neurocontrast.transforms.normalising import CheckVariesd, ScaleByBrainPercentilesd, SmoothByFwhmd
from neurocontrast.transforms.preprocessing import Preprocessing

Step: TypeAlias = tuple[type[Transform], dict[str, Any]]
"""Class and arguments of a transform."""


def brain_transforms(preprocessing: Preprocessing | None = None, *, key: str = "image", **settings: Any) -> Compose:
    """Return the transforms from the path of a scan to the image that a network sees.

    An item ``{"image": path, …}`` becomes ``{"image": MetaTensor (C, D, H, W), …}``: float32, axes to the right, to the
    front and upwards, with the affine of the new grid. A tuple of ``n_channels`` paths has one channel each. All other
    keys stay as they are. When called, an image that is
    refused is a RuntimeError of `Compose` with a DataError as its cause.

    Parameters
    ----------
    preprocessing : Preprocessing, optional
        Settings that were made elsewhere, for instance those of an encoder; else they are given by keyword.
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
        raise DataError(f"brain_transforms: give a preprocessing or settings, not both; got {', '.join(settings)} too.")
    return Compose([transform(**arguments) for transform, arguments in brain_steps(preprocessing, key)])


def brain_steps(preprocessing: Preprocessing, key: str) -> list[Step]:
    """Return the class and the arguments of each transform of `brain_transforms`."""
    steps = [*_to_box(preprocessing, key), *_to_intensities(preprocessing, key)]
    if preprocessing.smooth_mm:
        steps.append((SmoothByFwhmd, {"keys": key, "fwhm_mm": preprocessing.smooth_mm}))
    return [*steps, (DeleteItemsd, {"keys": _mask_key(key)})] if preprocessing.inside_brain else steps


def load_volume(scan: ScanFiles | os.PathLike[str], preprocessing: Preprocessing) -> npt.NDArray[np.float32]:
    """Read a scan and preprocess it, as float32 (C, D, H, W); a DataError names a scan that cannot be used."""
    return voxels_of(apply(preprocessing.compose(), {"image": as_scan(scan)})["image"])


def _mask_key(key: str) -> str:
    return f"{key}_brain"


def _to_box(preprocessing: Preprocessing, key: str) -> list[Step]:
    """Return the steps onto the grid, and those that keep the brain alone."""
    spacing, shape = preprocessing.spacing_mm, preprocessing.shape
    steps: list[Step] = [
        (LoadScand, {"keys": key, "spacing_mm": spacing or 1.0, "n_channels": preprocessing.n_channels}),
        (CheckFieldOfViewd, {"keys": key, "shape": shape, "spacing_mm": spacing}),
    ]
    grid: dict[str, Any] = {"spacing_mm": spacing, "shape": shape, "axcodes": preprocessing.orientation}
    if not preprocessing.inside_brain:
        # The corners are background in any usual scan, and padding continues it.
        background = 0.0 if preprocessing.normalise == "zscore-brain" else "corners"
        return [*steps, (ResampleByAread, {"keys": key, "background": background, **grid})]
    mask = _mask_key(key)
    return [
        *steps,
        (MarkBraind, {"keys": key, "mask_key": mask}),
        (ResampleByAread, {"keys": (key, mask), **grid}),
        (KeepBraind, {"keys": key, "mask_key": mask, "erode_mm": preprocessing.erode_mm}),
    ]


def _to_intensities(preprocessing: Preprocessing, key: str) -> list[Step]:
    match preprocessing.normalise:
        case "zscore":
            return [(CheckVariesd, {"keys": key}), (NormalizeIntensityd, {"keys": key})]
        case "zscore-brain":
            of_brain = {"keys": key, "nonzero": True, "channel_wise": True}
            return [(CheckVariesd, {"keys": key, "nonzero": True}), (NormalizeIntensityd, of_brain)]
        case "percentile":
            inside = {"keys": key, "mask_key": _mask_key(key), "percentiles": preprocessing.percentiles}
            return [(ScaleByBrainPercentilesd, inside)]
        case "none":
            return [(CheckVariesd, {"keys": key})]
