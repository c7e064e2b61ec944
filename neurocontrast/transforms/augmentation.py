"""The random views of brains that a configuration asks for, as one `Compose` of MONAI."""

from __future__ import annotations

from typing import Any

from monai.transforms import Compose, EnsureTyped, OneOf, RandFlipd

from neurocontrast.transforms.rand_affine import RandBrainAffined
from neurocontrast.transforms.rand_blur import RandBlurd, RandBrainSharpnessd
from neurocontrast.transforms.rand_boxes import RandCutoutd, RandResizedCropd
from neurocontrast.transforms.rand_field import RandBrainBiasFieldd
from neurocontrast.transforms.rand_ghosting import RandBrainGhostingd
from neurocontrast.transforms.rand_intensity import RandBrainContrastd, RandBrainHistogramd
from neurocontrast.transforms.rand_mask import RandMaskEdged, RandTightMaskd
from neurocontrast.transforms.rand_noise import RandBrainRiciand, RandNoised
from neurocontrast.transforms.rand_resolution import RandBrainResolutiond
from neurocontrast.transforms.settings import AugmentSettings, FlipSettings
from neurocontrast.transforms.signal import FromSignald, ToSignald

__all__ = ["brain_views"]

_AT_SITE = {
    "affine": RandBrainAffined,
    # What happens in the scanner, in the order in which it happens there; then the brain is extracted anew.
    "contrast": RandBrainContrastd,
    "histogram": RandBrainHistogramd,
    "bias_field": RandBrainBiasFieldd,
    "sharpness": RandBrainSharpnessd,
    "resolution": RandBrainResolutiond,
    "ghosting": RandBrainGhostingd,
    "rician": RandBrainRiciand,
    "tight_mask": RandTightMaskd,
    "mask_edge": RandMaskEdged,
}
_AFTER = {"blur": RandBlurd, "noise": RandNoised, "cutout": RandCutoutd, "crop": RandResizedCropd}


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
    settings = settings or AugmentSettings()
    transforms = _flip(settings.flip, key) if settings.flip else []
    at_site = _chosen(_AT_SITE, settings, key)
    if at_site:
        transforms += [ToSignald(key, at_once=False), *at_site, FromSignald(key)]
    return Compose([*transforms, *_chosen(_AFTER, settings, key)])


def _flip(chosen: FlipSettings, key: str) -> list[Any]:
    flips = [RandFlipd(key, prob=chosen.probability, spatial_axis=axis) for axis in chosen.axes]
    # Back to a plain tensor: what follows need not look at metadata.
    return [OneOf(flips), EnsureTyped(key, track_meta=False)]


def _chosen(classes: dict[str, Any], settings: AugmentSettings, key: str) -> list[Any]:
    made = []
    for name, transform in classes.items():
        chosen = getattr(settings, name)
        if chosen is not None:
            ranges = {field: value for field, value in chosen if field != "probability"}
            made.append(transform(key, chosen.probability, **ranges))
    return made
