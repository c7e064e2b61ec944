"""Imports that wait until they are needed: of names of a package, and of optional packages.

Evaluation, reports and the command line's help must neither need PyTorch nor wait for it,
so packages that also hold what needs it export their names this way.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from neurocontrast.exceptions import MissingDependencyError


def lazy_exports(package: str, places: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a module-level ``__getattr__`` that finds the names of the package `package` in its modules.

    ``dir`` of the package lists its ``__all__``, loaded or not. `places` maps a module below the
    package to the names it holds.
    """
    module_of = {name: module for module, names in places.items() for name in names}

    def find(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(f".{module_of[name]}", package), name)

    names = vars(sys.modules[package])
    names["__dir__"] = lambda: sorted(
        {*names["__all__"], *(name for name in names if name.startswith("__"))}
    )
    return find


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or raise an error with the ``pip install`` line of the extra that holds it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise
        raise MissingDependencyError(
            f"{purpose} needs the package '{module}', which is not installed. "
            f"Install it with: pip install 'neurocontrast[{extra}]'"
        ) from error
