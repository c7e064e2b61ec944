"""Recipes: YAML files of configurations that come with the package, and are used by name."""

import os
import re
from pathlib import Path

from neurocontrast.exceptions import ConfigError, suggestion


def recipes_folder() -> Path:
    """Return the folder of the recipes, of the installed package or of a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "configs"
    if installed.is_dir():
        return installed
    return package.parent / "configs"


def list_recipes() -> dict[str, Path]:
    """Return name of a recipe → its file; a name is such as ``yaware`` or ``natural/simclr``."""
    files = sorted(recipes_folder().glob("*/*.yaml"))
    recipes = {}
    for file in files:
        name = file.stem
        if file.parent.name != "brain":
            name = f"{file.parent.name}/{name}"
        recipes[name] = file
    return recipes


def describe_recipe(file: Path) -> str:
    """Return the first sentence of the comment at a recipe's top, for the list of recipes.

    A colon or semicolon ends a sentence too, but nothing inside brackets does.
    """
    lines = file.read_text(encoding="utf-8").splitlines()
    end = min(lines.index(line) for line in ("#", "") if line in lines)
    comment = " ".join(line.removeprefix("# ") for line in lines[:end])
    for match in re.finditer(r"(?<!et al)(?<!eq)[.:;](?= |$)", comment):
        sentence = comment[: match.start()]
        if sentence.count("(") == sentence.count(")"):
            return sentence
    return comment


def find_config(config: str | os.PathLike[str]) -> Path:
    """Return the file of a configuration, given by a path, or by the name of a recipe.

    A recipe is a configuration that comes with the package. Existing files and absolute paths are
    returned unchanged. A name with a suffix such as ``.json`` is returned as a path even if no such
    file exists, unless the name without ``.yaml`` or ``.yml`` is that of a recipe: this is refused.
    A name without suffix must be the name of a recipe.
    """
    path = Path(config)
    if path.is_file() or path.is_absolute():
        return path
    name = path.as_posix()
    recipes = list_recipes()
    if path.suffix:
        recipe = path.with_suffix("").as_posix()
        if path.suffix in (".yaml", ".yml") and recipe in recipes:
            raise ConfigError(
                f"{name}: there is no such configuration file. Did you mean the recipe '{recipe}'?"
            )
        return path
    if name not in recipes:
        raise ConfigError(
            f"'{name}' is neither a file nor a recipe.{suggestion(name, recipes)} "
            "Recipes: neurocontrast config list."
        )
    return recipes[name]
