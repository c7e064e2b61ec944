"""The commands `config list`, `config show`, `config copy` and `config schema`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from neurocontrast.cli.command import Given, argument
from neurocontrast.cli.output import Result
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import write_text
from neurocontrast.reading import read_json

__all__ = ["copy_recipe", "list_recipes", "show_recipe", "show_schema"]

_SCHEMA = "neurocontrast.schema.json"
Name = Annotated[str, argument("NAME", "Name of a recipe, such as yaware or natural/simclr.")]


def list_recipes(given: Given) -> Result:
    """List the recipes that come with the package."""
    from neurocontrast.config.recipes import describe_recipe, list_recipes

    del given
    found = {name: describe_recipe(file) for name, file in list_recipes().items()}
    width = max(map(len, found))
    title = f"{len(found)} recipes: neurocontrast pretrain --config NAME"
    return Result({"recipes": found}, title, notes=[f"{name:<{width}}  {about}" for name, about in found.items()])


def show_recipe(given: Given, name: Name) -> Result:
    """Print a recipe."""
    from neurocontrast.config.recipes import find_config

    del given
    text = find_config(name).read_text(encoding="utf-8")
    return Result({"recipe": text}, notes=[text.rstrip()])


def copy_recipe(
    given: Given,
    name: Name,
    file: Annotated[Path | None, argument("FILE", "NAME.yaml by default.")] = None,
) -> Result:
    """Copy a recipe, to be changed, with the schema that editors check it by beside it."""
    from neurocontrast.config.recipes import find_config

    del given
    source = find_config(name)
    target = file or Path(source.name)
    schema, made = target.parent / _SCHEMA, _schema()
    if target.exists() or target.name == _SCHEMA:
        raise ConfigError(f"'{target}' exists, or is the schema's. Name another file: config copy {name} FILE.")
    if schema.exists() and read_json(schema).get("title") != json.loads(made)["title"]:
        raise ConfigError(f"'{schema}' exists and is no schema of configurations. Copy into another folder.")
    write_text(schema, made)
    write_text(target, f"# yaml-language-server: $schema={_SCHEMA}\n{source.read_text(encoding='utf-8')}")
    return Result({"schema": str(schema)}, path=target)


def show_schema(given: Given) -> Result:
    """Print the JSON schema of configurations, by which editors complete and check them."""
    del given
    schema = _schema()
    return Result({"schema": json.loads(schema)}, notes=[schema])


def _schema() -> str:
    from neurocontrast.config import Config

    return json.dumps(Config.model_json_schema(), indent=2)
