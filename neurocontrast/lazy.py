"""Import the names of a package, or an optional package, when they are first needed.

Evaluation, reports and the command line's help must neither need PyTorch nor wait for its import:
packages of which only a part needs PyTorch load their names when asked.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from neurocontrast.exceptions import MissingDependencyError


def lazy_exports(package: str, places: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``, which imports a name's module at the name's first use.

    ``dir`` of the package lists its ``__all__``, loaded or not.

    Parameters
    ----------
    package : str
        Name of the package, whose ``__init__`` calls this function.
    places : mapping
        Module of the package → names to import from the module.
    """
    module_of = {}
    for module, exported in places.items():
        module_of.update(dict.fromkeys(exported, module))

    def find(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(f".{module_of[name]}", package), name)

    names = vars(sys.modules[package])

    def list_names() -> list[str]:
        special = [name for name in names if name.startswith("__")]
        return sorted({*names["__all__"], *special})

    names["__dir__"] = list_names
    return find


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional module; if absent, name the extra of neurocontrast to install.

    Parameters
    ----------
    module : str
        Module to import.
    extra : str
        Extra of neurocontrast that installs the module.
    purpose : str
        Words for the part of the package that needs the module; the message begins with them.

    Raises
    ------
    MissingDependencyError
        With the line of ``pip install``.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise
        raise MissingDependencyError(
            f"{purpose} needs the package '{module}', which is not installed. "
            f"Install it with: pip install 'neurocontrast[{extra}]'"
        ) from error
