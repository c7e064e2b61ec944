"""Packages that only some users need."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from neurocontrast.exceptions import MissingDependencyError

__all__ = ["is_installed", "require"]


def is_installed(module: str) -> bool:
    """Say whether a module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or raise an error with the ``pip install`` line of the extra that holds it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise
        raise MissingDependencyError(
            f"{purpose} needs the package '{module}', which is not installed. "
            f"Install it with: pip install 'neurocontrast[{extra}]'"
        ) from error
