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
from neurocontrast.augment.site_settings import (
    AffineSettings,
    BiasFieldSettings,
    ContrastSettings,
    GhostingSettings,
    HistogramSettings,
    MaskEdgeSettings,
    ResolutionSettings,
    RicianSettings,
    SharpnessSettings,
    TightMaskSettings,
)
from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.augment.sites import SiteParameters, draw_site
    from neurocontrast.augment.volume import TwoViews, ViewParameters, draw_view

__all__ = [
    "AffineSettings",
    "AugmentSettings",
    "BiasFieldSettings",
    "BlurSettings",
    "ContrastSettings",
    "CropSettings",
    "CutoutSettings",
    "FlipSettings",
    "GhostingSettings",
    "HistogramSettings",
    "MaskEdgeSettings",
    "NoiseSettings",
    "ResolutionSettings",
    "RicianSettings",
    "SharpnessSettings",
    "SiteParameters",
    "TightMaskSettings",
    "TwoViews",
    "ViewParameters",
    "draw_site",
    "draw_view",
]

# Loaded when asked for: reading a configuration needs the settings alone, and no torch.
__getattr__ = lazy_exports(
    __name__,
    {
        "sites": ["SiteParameters", "draw_site"],
        "volume": ["TwoViews", "ViewParameters", "draw_view"],
    },
)
