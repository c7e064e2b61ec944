"""The random views of volumes that the section ``augment:`` asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
from monai.transforms import Compose, EnsureTyped, OneOf, RandAdjustContrastd, RandAffined, RandFlipd

from neurocontrast.transforms.augment import Affine, AugmentSettings, Flip
from neurocontrast.transforms.rand_intensity import (
    RandBlurd,
    RandBrainBiasFieldd,
    RandBrainRiciand,
    RandBrainSharpnessd,
    RandNoised,
    RandTissueShiftd,
)
from neurocontrast.transforms.rand_parts import RandCutoutd, RandMaskEdged, RandResizedCropd, RandTightMaskd
from neurocontrast.transforms.signal import FromSignald, RandVolumed, ToSignald, brain_key

_ON_SIGNAL: dict[str, type[RandVolumed]] = {
    "bias_field": RandBrainBiasFieldd,
    "sharpness": RandBrainSharpnessd,
    "rician": RandBrainRiciand,
    "tight_mask": RandTightMaskd,
    "mask_edge": RandMaskEdged,
}
_LAST: dict[str, type[RandVolumed]] = {
    "tissue_shift": RandTissueShiftd,
    "blur": RandBlurd,
    "noise": RandNoised,
    "cutout": RandCutoutd,
    "crop": RandResizedCropd,
}


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
        An operation that is None is not in it. Without any, a view is the volume itself.

    Examples
    --------
    >>> from neurocontrast.transforms import AugmentSettings, brain_views
    >>> [type(transform).__name__ for transform in brain_views(AugmentSettings()).transforms]
    ['RandBlurd', 'RandNoised', 'RandCutoutd']
    """
    chosen = settings or AugmentSettings()
    first = [] if chosen.flip is None else _flips(chosen.flip, key)
    on_signal: list[Any] = []
    if chosen.affine is not None:
        on_signal.append(_affine(chosen.affine, key))
    if chosen.contrast is not None:
        on_signal.append(RandAdjustContrastd(key, chosen.contrast.probability, gamma=chosen.contrast.gamma))
    on_signal += _chosen(_ON_SIGNAL, chosen, key)
    if on_signal:
        on_signal = [ToSignald(key), *on_signal, FromSignald(key)]
    return Compose([*first, *on_signal, *_chosen(_LAST, chosen, key)])


def _chosen(transforms: dict[str, type[RandVolumed]], settings: AugmentSettings, key: str) -> list[RandVolumed]:
    given = {name: getattr(settings, name) for name in transforms}
    ranges = {name: dict(operation) for name, operation in given.items() if operation is not None}
    return [transforms[name](key, each.pop("probability"), **each) for name, each in ranges.items()]


def _flips(flip: Flip, key: str) -> list[Any]:
    """Return a choice of one flip, then a conversion to a plain tensor, which later steps change faster."""
    flips = [RandFlipd(key, prob=flip.probability, spatial_axis=axis) for axis in flip.axes]
    return [OneOf(flips), EnsureTyped(key, track_meta=False)]


def _affine(affine: Affine, key: str) -> RandAffined:
    low, high = affine.scale
    return RandAffined(
        [key, brain_key(key)],
        prob=affine.probability,
        rotate_range=[tuple(np.deg2rad(affine.rotation_degrees))] * 3,
        translate_range=[affine.translation_voxels] * 3,
        scale_range=[(1.0 / high - 1.0, 1.0 / low - 1.0)] * 3,  # MONAI scales the grid: 0.5 doubles lengths
        mode=("bilinear", "nearest"),
        padding_mode="zeros",
    )
