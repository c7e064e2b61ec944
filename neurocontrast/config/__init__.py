"""The configuration: its schema, how it is loaded, and the objects it describes."""

from neurocontrast.config.build import build_kernel, build_objective
from neurocontrast.config.load import as_config, differences, load_config, write_config
from neurocontrast.config.schema import Config, DataSettings

__all__ = [
    "Config",
    "DataSettings",
    "as_config",
    "build_kernel",
    "build_objective",
    "differences",
    "load_config",
    "write_config",
]
