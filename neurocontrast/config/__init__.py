"""The configuration: its schema, how it is loaded, and the objects it describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.config.load import as_config, differences, load_config, write_config
from neurocontrast.config.schema import AnyDataSettings, Config, DataSettings, ImageDataSettings, MeasureDataSettings
from neurocontrast.lazy import lazy_exports
from neurocontrast.losses.registry import build_objective

if TYPE_CHECKING:
    from neurocontrast.kernels.factors import build_kernel

__all__ = [
    "AnyDataSettings",
    "Config",
    "DataSettings",
    "ImageDataSettings",
    "MeasureDataSettings",
    "as_config",
    "build_kernel",
    "build_objective",
    "differences",
    "load_config",
    "write_config",
]

# Reading a configuration for a command that trains nothing needs the settings alone, and no torch.
__getattr__ = lazy_exports(__name__, {".kernels.factors": ["build_kernel"]})
