"""The configuration: its schema, its loading, and the objects that a configuration describes."""

from neurocontrast.config.load import AnyConfig, as_config, differences, load_config, write_config
from neurocontrast.config.schema import Config
from neurocontrast.losses.registry import build_objective

__all__ = [
    "AnyConfig",
    "Config",
    "as_config",
    "build_objective",
    "differences",
    "load_config",
    "write_config",
]
