"""Scans and their table: a validated cohort, preprocessed volumes, and the cache between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neurocontrast.data.cohort import Cohort, Kind, read_cohort

if TYPE_CHECKING:
    from neurocontrast.data.cache import Prepared, VolumeCache, default_cache_folder
    from neurocontrast.data.datasets import VolumeDataset, encode_metadata
    from neurocontrast.data.splits import split_by_subject
    from neurocontrast.data.volumes import Preprocessing, load_volume

__all__ = [
    "Cohort",
    "Kind",
    "Prepared",
    "Preprocessing",
    "VolumeCache",
    "VolumeDataset",
    "default_cache_folder",
    "encode_metadata",
    "load_volume",
    "read_cohort",
    "split_by_subject",
]

_LAZY = {
    "Prepared": "cache",
    "Preprocessing": "volumes",
    "VolumeCache": "cache",
    "VolumeDataset": "datasets",
    "default_cache_folder": "cache",
    "encode_metadata": "datasets",
    "load_volume": "volumes",
    "split_by_subject": "splits",
}


def __getattr__(name: str) -> Any:
    # Loaded when asked for: a report needs the cohort, and neither torch nor nibabel.
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"neurocontrast.data.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'neurocontrast.data' has no attribute '{name}'")
