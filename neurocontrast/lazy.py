"""Names of a package that are imported when they are first asked for.

Evaluation, reports and the command line's help must neither need PyTorch nor wait for it,
so packages that also hold what needs it export their names this way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

__all__ = ["lazy_exports", "load"]


def lazy_exports(package: str, places: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a module-level ``__getattr__`` that finds the names of the package `package` in its modules.

    `places` maps a module below the package to the names it holds. A module that begins with a dot is found from the
    package's parent, as in ``from ..room import name``.
    """
    module_of = {name: module for module, names in places.items() for name in names}

    def find(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(f".{module_of[name]}", package), name)

    return find


def load(place: str) -> Any:
    """Return what an import path such as ``"package.module:Name"`` leads to."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
