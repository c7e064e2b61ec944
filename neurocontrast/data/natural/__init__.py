"""Natural images: decoded once into a memory map of bytes and a table, read from there by index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.data.settings import ImagesSettings
from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.data.natural.dataset import ImageDataset

__all__ = ["ImageDataset", "ImagesSettings"]

# Loaded when asked for: a configuration needs the settings, and neither torch nor Pillow.
__getattr__ = lazy_exports(__name__, {"dataset": ["ImageDataset"]})
