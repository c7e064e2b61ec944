"""Recipes that come with the package, by their names: those of brains as they are, others as ``natural/simclr``."""

from __future__ import annotations

import os
import re
from pathlib import Path

from neurocontrast.exceptions import ConfigError, suggestion

__all__ = ["describe_recipe", "find_config", "list_recipes"]

_FOLDER = Path(__file__).parents[1] / "recipes"


def list_recipes() -> dict[str, Path]:
    """Return the file of each recipe by its name."""
    files = sorted(_FOLDER.glob("*/*.yaml"))
    return {f"{'' if file.parent.name == 'brain' else file.parent.name + '/'}{file.stem}": file for file in files}


def describe_recipe(file: Path) -> str:
    """Return the beginning of a recipe's comment, up to a full stop, colon or semicolon outside of brackets."""
    lines = file.read_text(encoding="utf-8").splitlines()
    end = min(lines.index(line) for line in ("#", "") if line in lines)
    comment = " ".join(line.removeprefix("# ") for line in lines[:end])
    ends = (match.start() for match in re.finditer(r"(?<!et al)(?<!eq)[.:;](?= |$)", comment))
    return next((comment[:end] for end in ends if comment[:end].count("(") == comment[:end].count(")")), comment)


def find_config(given: str | os.PathLike[str]) -> Path:
    """Return the file of a configuration that is given as a path or as the name of a recipe.

    What is a file, absolute, or has a suffix such as ``.yaml`` is a path.
    """
    path = Path(given)
    if path.is_file() or path.is_absolute():
        return path
    name, recipes = path.as_posix(), list_recipes()
    if path.suffix:
        known = path.with_suffix("").as_posix()
        if path.suffix in (".yaml", ".yml") and known in recipes:
            raise ConfigError(f"{name}: there is no such configuration file. Did you mean the recipe '{known}'?")
        return path
    if name not in recipes:
        raise ConfigError(
            f"'{name}' is neither a file nor a recipe.{suggestion(name, recipes)} Recipes: neurocontrast config list."
        )
    return recipes[name]
