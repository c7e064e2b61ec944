"""Random views of volumes, on the device that trains, keyed so that a resumed run sees the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.augment.settings import (
    AugmentSettings,
    BlurSettings,
    CropSettings,
    CutoutSettings,
    FlipSettings,
    NoiseSettings,
)
from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
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

# Loaded when asked for: reading a configuration needs the settings alone, and no torch.
__getattr__ = lazy_exports(
    __name__,
    {
        "volume": ["TwoViews", "ViewParameters", "draw_view"],
    },
)
