"""Cohorts (tables of scans), datasets of preprocessed images, and the images' cache on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.data.cache import VolumeCache
    from neurocontrast.data.cohort import Cohort, Kind, read_cohort
    from neurocontrast.data.datasets import CohortDataset
    from neurocontrast.data.measures.joining import read_measures
    from neurocontrast.data.settings import DataSettings, MeasureDataSettings

__all__ = [
    "Cohort",
    "CohortDataset",
    "DataSettings",
    "Kind",
    "MeasureDataSettings",
    "VolumeCache",
    "read_cohort",
    "read_measures",
]

# Loaded when asked for: a report needs the cohort, and neither torch nor nibabel.
__getattr__ = lazy_exports(
    __name__,
    {
        "cache": ["VolumeCache"],
        "cohort": ["Cohort", "Kind", "read_cohort"],
        "datasets": ["CohortDataset"],
        "measures.joining": ["read_measures"],
        "settings": ["DataSettings", "MeasureDataSettings"],
    },
)
