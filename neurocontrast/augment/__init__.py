"""Random views of volumes, on the device that trains, keyed so that a resumed run sees the same ones."""

from neurocontrast.augment.settings import (
    AugmentSettings,
    BlurSettings,
    CropSettings,
    CutoutSettings,
    FlipSettings,
    NoiseSettings,
)
from neurocontrast.augment.volume import TwoViews, ViewParameters, draw_view

__all__ = [
    "AugmentSettings",
    "BlurSettings",
    "CropSettings",
    "CutoutSettings",
    "FlipSettings",
    "NoiseSettings",
    "TwoViews",
    "ViewParameters",
    "draw_view",
]
