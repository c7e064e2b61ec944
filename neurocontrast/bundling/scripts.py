"""The code of a bundle: modules of this package, and all that they import of it, as one flat package ``scripts``."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from monai.transforms import Randomizable

from neurocontrast.exceptions import ConfigError
from neurocontrast.provenance import version

__all__ = ["MODULES", "as_target", "sources_of"]

MODULES = tuple(f"neurocontrast.bundling.{name}" for name in ("inference", "models"))
"""What the configuration of every bundle of scans names."""
_ROOT = Path(__file__).resolve().parents[1]
_ALLOWED = {"torch", "monai", "numpy", "scipy", "nibabel", "isal"}
"""Packages that a bundle may need; without isal it reads compressed scans more slowly."""
_IMPORT = re.compile(r"^( *)from neurocontrast(?:\.\w+)*\.(\w+) import", re.MULTILINE)


def sources_of(modules: Iterable[str]) -> dict[str, str]:
    """Return the text of each file of ``scripts``, by its name.

    Parameters
    ----------
    modules : iterable of str
        Modules of this package; what they import of it comes too.

    Raises
    ------
    ConfigError
        Where a module needs a package that a bundle does without.
    """
    waiting, found = list(modules), {"__init__.py": _init()}
    seen = set(waiting)
    while waiting:
        name = waiting.pop()
        text = (_ROOT / Path(*name.split(".")[1:])).with_suffix(".py").read_text(encoding="utf-8")
        for imported in _imports(ast.parse(text)):
            if imported.startswith("neurocontrast."):
                waiting += [] if imported in seen else [imported]
                seen.add(imported)
            elif imported.partition(".")[0] not in _ALLOWED and not _is_standard(imported):
                raise ConfigError(f"run: it cannot be bundled: {name} needs {imported}, which a bundle does without.")
        found[f"{name.rpartition('.')[2]}.py"] = _IMPORT.sub(r"\1from scripts.\2 import", text)
    return dict(sorted(found.items()))


def as_target(transform: type, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a transform as a configuration of MONAI names it; one of this package is one of ``scripts``."""
    module = transform.__module__
    if issubclass(transform, Randomizable):
        raise ConfigError(f"run: it cannot be bundled: {transform.__name__} is a view of training, no preprocessing.")
    place = f"scripts.{module.rpartition('.')[2]}" if module.startswith("neurocontrast.") else "monai.transforms"
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in arguments.items()}
    return {"_target_": f"{place}.{transform.__name__}", **plain}


def _init() -> str:
    return (
        f'"""Code of neurocontrast {version()} (BSD-3-Clause, docs/license.txt) that reads, prepares, encodes and '
        'predicts scans."""\n'
    )


def _imports(node: ast.AST) -> Iterator[str]:
    """Give the modules that a file imports at its top, except for type checking."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield child.module or ""
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        elif not isinstance(child, ast.FunctionDef):
            yield from _imports(child)


def _is_standard(name: str) -> bool:
    return name.partition(".")[0] in sys.stdlib_module_names
