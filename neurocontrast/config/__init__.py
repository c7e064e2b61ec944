"""The configuration: its schema, how it is loaded, and the objects it describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.config.data import AnyDataSettings, DataSettings, ImageDataSettings
from neurocontrast.config.load import as_config, differences, load_config, write_config
from neurocontrast.config.schema import Config
from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.config.build import build_kernel, build_objective

__all__ = [
    "AnyDataSettings",
    "Config",
    "DataSettings",
    "ImageDataSettings",
    "as_config",
    "build_kernel",
    "build_objective",
    "differences",
    "load_config",
    "write_config",
]

# Loaded when asked for: reading a configuration needs the settings alone, and no torch.
__getattr__ = lazy_exports(
    __name__,
    {
        "build": ["build_kernel", "build_objective"],
    },
)
