"""Natural images, such as CIFAR: stores of pixels, views, data source, and words for reports.

Only the configuration's schema, the command ``images`` and `neurocontrast`, which calls
`registration`, import from this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.natural.augment import ImageAugmentSettings
    from neurocontrast.natural.dataset import ImageDataset
    from neurocontrast.natural.views import RandImageViewd

# Loaded when asked for: settings need neither PyTorch nor Kornia.
_PLACES = {
    "augment": ["ImageAugmentSettings"],
    "dataset": ["ImageDataset"],
    "views": ["RandImageViewd"],
}
__all__ = sorted(name for names in _PLACES.values() for name in names)
__getattr__ = lazy_exports(__name__, _PLACES)
