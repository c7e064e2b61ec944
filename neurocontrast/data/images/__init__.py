"""Natural images: decoded once into a memory map of bytes and a table, read from there by index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.data.images.paths import is_image_path, split_image_path
from neurocontrast.data.images.settings import ClusterSettings, ImagesSettings
from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.data.images.dataset import ImageDataset
    from neurocontrast.data.images.store import ImageStore, write_store

__all__ = [
    "ClusterSettings",
    "ImageDataset",
    "ImageStore",
    "ImagesSettings",
    "is_image_path",
    "split_image_path",
    "write_store",
]

# Loaded when asked for: a configuration needs the settings, and neither torch nor Pillow.
__getattr__ = lazy_exports(__name__, {"dataset": ["ImageDataset"], "store": ["ImageStore", "write_store"]})
