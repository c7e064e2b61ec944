"""Transforms of MRI scans and regional measures in MONAI's style, and reproducible random views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.transforms.augment import (
        AugmentSettings,
        MeasureAugmentSettings,
        MeasureSettings,
    )
    from neurocontrast.transforms.brain import KeepBraind, MarkBraind
    from neurocontrast.transforms.compose import brain_transforms, brain_views, load_volume
    from neurocontrast.transforms.grids import CheckFieldOfViewd, ResampleByAread
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
    from neurocontrast.transforms.rand_measures import RandMeasureViewd
    from neurocontrast.transforms.rand_parts import RandCutoutd, RandMaskEdged, RandTightMaskd
    from neurocontrast.transforms.rand_place import (
        RandBrainAffined,
        RandMirrord,
        RandResizedCropd,
    )
    from neurocontrast.transforms.signal import FromSignald, ToSignald
    from neurocontrast.transforms.views import TwoViews

# Loaded when asked for: settings need neither torch nor MONAI.
_PLACES = {
    "augment": ["AugmentSettings", "MeasureAugmentSettings", "MeasureSettings"],
    "brain": ["KeepBraind", "MarkBraind"],
    "grids": ["CheckFieldOfViewd", "ResampleByAread"],
    "compose": ["brain_transforms", "brain_views", "load_volume"],
    "loading": ["LoadScand"],
    "normalising": ["CheckVariesd", "ScaleByBrainPercentilesd", "SmoothByFwhmd"],
    "preprocessing": ["Preprocessing"],
    "rand_intensity": [
        *("RandBlurd", "RandBrainBiasFieldd", "RandBrainContrastd", "RandBrainRiciand"),
        *("RandBrainSharpnessd", "RandNoised", "RandTissueShiftd"),
    ],
    "rand_measures": ["RandMeasureViewd"],
    "rand_parts": ["RandCutoutd", "RandMaskEdged", "RandTightMaskd"],
    "rand_place": ["RandBrainAffined", "RandMirrord", "RandResizedCropd"],
    "signal": ["FromSignald", "ToSignald"],
    "views": ["TwoViews"],
}
__all__ = sorted(name for names in _PLACES.values() for name in names)
__getattr__ = lazy_exports(__name__, _PLACES)
