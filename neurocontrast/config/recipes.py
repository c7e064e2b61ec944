"""Recipes that come with the package: where they are, their names, and the first words of each."""

import os
import re
from pathlib import Path

from neurocontrast.exceptions import ConfigError, suggestion


def recipes_folder() -> Path:
    """Locate the recipes: inside an installed package, beside the package in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "configs"
    if installed.is_dir():
        return installed
    return package.parent / "configs"


def list_recipes() -> dict[str, Path]:
    """Return the file of each recipe by its name."""
    files = sorted(recipes_folder().glob("*/*.yaml"))
    return {
        f"{'' if file.parent.name == 'brain' else file.parent.name + '/'}{file.stem}": file
        for file in files
    }


def describe_recipe(file: Path) -> str:
    """Return the beginning of a recipe's comment, up to a full stop, colon or semicolon outside of brackets."""
    lines = file.read_text(encoding="utf-8").splitlines()
    end = min(lines.index(line) for line in ("#", "") if line in lines)
    comment = " ".join(line.removeprefix("# ") for line in lines[:end])
    ends = (match.start() for match in re.finditer(r"(?<!et al)(?<!eq)[.:;](?= |$)", comment))
    return next(
        (comment[:end] for end in ends if comment[:end].count("(") == comment[:end].count(")")),
        comment,
    )


def find_config(given: str | os.PathLike[str]) -> Path:
    """Return the file of a configuration that is given as a path or as the name of a recipe.

    Existing files, absolute paths and names with a suffix such as ``.yaml`` are paths.
    """
    path = Path(given)
    if path.is_file() or path.is_absolute():
        return path
    name = path.as_posix()
    recipes = list_recipes()
    if path.suffix:
        known = path.with_suffix("").as_posix()
        if path.suffix in (".yaml", ".yml") and known in recipes:
            raise ConfigError(
                f"{name}: there is no such configuration file. Did you mean the recipe '{known}'?"
            )
        return path
    if name not in recipes:
        raise ConfigError(
            f"'{name}' is neither a file nor a recipe.{suggestion(name, recipes)} Recipes: neurocontrast config list."
        )
    return recipes[name]
