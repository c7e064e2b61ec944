"""Random views of volumes and of images, on the device that trains, keyed so that a resumed run sees the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.augment.image_settings import (
    ColourJitterSettings,
    GrayscaleSettings,
    ImageAffineSettings,
    ImageAugmentSettings,
    ImageBlurSettings,
    ImageFlipSettings,
    PadCropSettings,
    ResizedCropSettings,
)
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
    from neurocontrast.augment.image import ImageViewParameters, TwoImageViews, draw_image_views
    from neurocontrast.augment.sites import SiteParameters, draw_site
    from neurocontrast.augment.volume import TwoViews, ViewParameters, draw_view

__all__ = [
    "AffineSettings",
    "AugmentSettings",
    "BiasFieldSettings",
    "BlurSettings",
    "ColourJitterSettings",
    "ContrastSettings",
    "CropSettings",
    "CutoutSettings",
    "FlipSettings",
    "GhostingSettings",
    "GrayscaleSettings",
    "HistogramSettings",
    "ImageAffineSettings",
    "ImageAugmentSettings",
    "ImageBlurSettings",
    "ImageFlipSettings",
    "ImageViewParameters",
    "MaskEdgeSettings",
    "NoiseSettings",
    "PadCropSettings",
    "ResizedCropSettings",
    "ResolutionSettings",
    "RicianSettings",
    "SharpnessSettings",
    "SiteParameters",
    "TightMaskSettings",
    "TwoImageViews",
    "TwoViews",
    "ViewParameters",
    "draw_image_views",
    "draw_site",
    "draw_view",
]

# Loaded when asked for: reading a configuration needs the settings alone, and no torch.
__getattr__ = lazy_exports(
    __name__,
    {
        "image": ["ImageViewParameters", "TwoImageViews", "draw_image_views"],
        "sites": ["SiteParameters", "draw_site"],
        "volume": ["TwoViews", "ViewParameters", "draw_view"],
    },
)
