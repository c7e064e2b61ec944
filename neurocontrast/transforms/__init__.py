"""Transforms of scans and images, each composable in `monai.transforms.Compose`, and keyed random views by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.lazy import lazy_exports
from neurocontrast.transforms.natural.settings import (
    ColourJitterSettings,
    GrayscaleSettings,
    ImageAffineSettings,
    ImageAugmentSettings,
    ImageBlurSettings,
    ImageFlipSettings,
    PadCropSettings,
    ResizedCropSettings,
)
from neurocontrast.transforms.settings import (
    AugmentSettings,
    BlurSettings,
    CropSettings,
    CutoutSettings,
    FlipSettings,
    NoiseSettings,
)
from neurocontrast.transforms.site_settings import (
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

if TYPE_CHECKING:
    from neurocontrast.transforms.augmentation import brain_views
    from neurocontrast.transforms.brain import KeepBraind, MarkBraind
    from neurocontrast.transforms.checks import CheckFieldOfViewd, CheckVariesd
    from neurocontrast.transforms.compose import brain_transforms, load_volume
    from neurocontrast.transforms.loading import IsalNibabelReader, LoadScand
    from neurocontrast.transforms.natural.views import RandImageViewd
    from neurocontrast.transforms.normalising import (
        MatchHistogramd,
        ScaleByBrainPercentilesd,
        ScaleByWhiteMatterd,
        ZScoreBraind,
        ZScored,
    )
    from neurocontrast.transforms.preprocessing import Preprocessing
    from neurocontrast.transforms.rand_affine import RandBrainAffined
    from neurocontrast.transforms.rand_blur import RandBlurd, RandBrainSharpnessd
    from neurocontrast.transforms.rand_boxes import RandCutoutd, RandResizedCropd
    from neurocontrast.transforms.rand_field import RandBrainBiasFieldd
    from neurocontrast.transforms.rand_ghosting import RandBrainGhostingd
    from neurocontrast.transforms.rand_intensity import RandBrainContrastd, RandBrainHistogramd
    from neurocontrast.transforms.rand_mask import RandMaskEdged, RandTightMaskd
    from neurocontrast.transforms.rand_noise import RandBrainRiciand, RandNoised
    from neurocontrast.transforms.rand_resolution import RandBrainResolutiond
    from neurocontrast.transforms.resampling import ResampleByAread
    from neurocontrast.transforms.signal import FromSignald, ToSignald
    from neurocontrast.transforms.targets import build_transforms
    from neurocontrast.transforms.views import BatchTransform, TwoViews

__all__ = [
    "AffineSettings",
    "AugmentSettings",
    "BatchTransform",
    "BiasFieldSettings",
    "BlurSettings",
    "CheckFieldOfViewd",
    "CheckVariesd",
    "ColourJitterSettings",
    "ContrastSettings",
    "CropSettings",
    "CutoutSettings",
    "FlipSettings",
    "FromSignald",
    "GhostingSettings",
    "GrayscaleSettings",
    "HistogramSettings",
    "ImageAffineSettings",
    "ImageAugmentSettings",
    "ImageBlurSettings",
    "ImageFlipSettings",
    "IsalNibabelReader",
    "KeepBraind",
    "LoadScand",
    "MarkBraind",
    "MaskEdgeSettings",
    "MatchHistogramd",
    "NoiseSettings",
    "PadCropSettings",
    "Preprocessing",
    "RandBlurd",
    "RandBrainAffined",
    "RandBrainBiasFieldd",
    "RandBrainContrastd",
    "RandBrainGhostingd",
    "RandBrainHistogramd",
    "RandBrainResolutiond",
    "RandBrainRiciand",
    "RandBrainSharpnessd",
    "RandCutoutd",
    "RandImageViewd",
    "RandMaskEdged",
    "RandNoised",
    "RandResizedCropd",
    "RandTightMaskd",
    "ResampleByAread",
    "ResizedCropSettings",
    "ResolutionSettings",
    "RicianSettings",
    "ScaleByBrainPercentilesd",
    "ScaleByWhiteMatterd",
    "SharpnessSettings",
    "TightMaskSettings",
    "ToSignald",
    "TwoViews",
    "ZScoreBraind",
    "ZScored",
    "brain_transforms",
    "brain_views",
    "build_transforms",
    "load_volume",
]

# Loaded when asked for: settings need neither torch nor MONAI.
__getattr__ = lazy_exports(
    __name__,
    {
        "augmentation": ["brain_views"],
        "natural.views": ["RandImageViewd"],
        "rand_affine": ["RandBrainAffined"],
        "rand_blur": ["RandBlurd", "RandBrainSharpnessd"],
        "rand_boxes": ["RandCutoutd", "RandResizedCropd"],
        "rand_field": ["RandBrainBiasFieldd"],
        "rand_ghosting": ["RandBrainGhostingd"],
        "rand_intensity": ["RandBrainContrastd", "RandBrainHistogramd"],
        "rand_mask": ["RandMaskEdged", "RandTightMaskd"],
        "rand_noise": ["RandBrainRiciand", "RandNoised"],
        "rand_resolution": ["RandBrainResolutiond"],
        "signal": ["FromSignald", "ToSignald"],
        "views": ["BatchTransform", "TwoViews"],
        "brain": ["KeepBraind", "MarkBraind"],
        "checks": ["CheckFieldOfViewd", "CheckVariesd"],
        "compose": ["brain_transforms", "load_volume"],
        "normalising": [
            "MatchHistogramd",
            "ScaleByBrainPercentilesd",
            "ScaleByWhiteMatterd",
            "ZScoreBraind",
            "ZScored",
        ],
        "loading": ["IsalNibabelReader", "LoadScand"],
        "preprocessing": ["Preprocessing"],
        "resampling": ["ResampleByAread"],
        "targets": ["build_transforms"],
    },
)
