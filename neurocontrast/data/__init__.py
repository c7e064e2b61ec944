"""Scans and their table: a validated cohort, a dataset of preprocessed images, and the cache between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.data.cohort import Cohort, Kind, read_cohort, split_by_subject
from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.data.cache import Prepared, VolumeCache, default_cache_folder
    from neurocontrast.data.datasets import CohortDataset
    from neurocontrast.data.fitting import fit_preprocessing
    from neurocontrast.data.metadata import encode_metadata

__all__ = [
    "Cohort",
    "CohortDataset",
    "Kind",
    "Prepared",
    "VolumeCache",
    "default_cache_folder",
    "encode_metadata",
    "fit_preprocessing",
    "read_cohort",
    "split_by_subject",
]

# Loaded when asked for: a report needs the cohort, and neither torch nor nibabel.
__getattr__ = lazy_exports(
    __name__,
    {
        "cache": ["Prepared", "VolumeCache", "default_cache_folder"],
        "datasets": ["CohortDataset"],
        "metadata": ["encode_metadata"],
        "fitting": ["fit_preprocessing"],
    },
)
