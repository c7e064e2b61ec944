"""Table of scans, dataset of preprocessed images, and the cache between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.data.cache import VolumeCache
    from neurocontrast.data.cohort import Cohort, Kind, read_cohort
    from neurocontrast.data.datasets import CohortDataset
    from neurocontrast.data.measures.joining import read_measures

__all__ = [
    "Cohort",
    "CohortDataset",
    "Kind",
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
    },
)
