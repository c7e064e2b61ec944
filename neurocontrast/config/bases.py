"""Files of configurations, each read together with the recipe or file that the file extends."""

import os
from pathlib import Path

from neurocontrast.config.extending import EXTENDS, extend, extend_text
from neurocontrast.config.parsing import read_yaml
from neurocontrast.config.recipes import find_config, list_recipes
from neurocontrast.documents.document import Json
from neurocontrast.exceptions import ConfigError, suggestion


def read_config(path: Path) -> Json:
    """Read a configuration file, and merge in the configuration that its ``extends`` names (base).

    Return a mapping of sections, not checked. Keys that the file lacks have the values of the base.
    """
    content = read_yaml(path)
    return with_base(content, source=str(path), folder=path.parent, above=[path.resolve()])


def with_base(content: Json, *, source: str, folder: Path, above: list[Path]) -> Json:
    """Return the sections of a configuration's base with the configuration's own keys put in.

    The base is the configuration that ``extends`` names; its section ``objective`` is replaced
    whole. Without ``extends``, `content` is returned.

    Parameters
    ----------
    content : dict
        Sections of the configuration, and ``extends`` if there is a base.
    source : str
        Name of the configuration in messages.
    folder : Path
        Folder in which a base that is a file is looked for.
    above : list of Path
        The configuration's file, and files that extend the configuration directly or in turn; none
        of them may be its base.
    """
    if EXTENDS not in content:
        return content
    path = _base_of(content[EXTENDS], source=source, folder=folder, above=above)
    above = [*above, path.resolve()]
    base = with_base(read_yaml(path), source=str(path), folder=path.parent, above=above)
    differences = dict(content)
    del differences[EXTENDS]
    return extend(base, differences)


def bases_of(config: str | os.PathLike[str]) -> list[Path]:
    """List the files of the configurations that a configuration extends, the direct base first.

    The bases are recipes, which come with the package, or other YAML files. A workflow names them
    as inputs, so that a change of any of them runs its rules again.
    """
    path = find_config(config)
    content = read_yaml(path)
    above = [path.resolve()]
    bases = []
    while EXTENDS in content:
        path = _base_of(content[EXTENDS], source=str(path), folder=path.parent, above=above)
        content = read_yaml(path)
        above.append(path.resolve())
        bases.append(path)
    return bases


def _base_of(name: object, *, source: str, folder: Path, above: list[Path]) -> Path:
    """Return the path of the recipe or configuration file that ``extends`` names.

    `name` is the value of ``extends`` in the configuration `source`. A file in `above`, which lists
    the files that led to the base, is refused: files would extend each other.
    """
    if not isinstance(name, str):
        raise ConfigError(
            f"{source}: {EXTENDS}: must be the name of a recipe, or a YAML file, found {name!r}."
        )
    path = _file_of_base(name, source=source, folder=folder)
    if path.resolve() in above:
        raise ConfigError(
            f"{source}: {EXTENDS}: '{name}' extends this file in turn. Name another recipe."
        )
    return path


def _file_of_base(name: str, *, source: str, folder: Path) -> Path:
    """Return the path of the configuration `name` that another one extends (its base).

    A name that ends with ``.yaml`` or ``.yml`` is a path that starts from `folder`; any other is
    the name of a recipe. A name for which there is no file is refused in a message about `source`,
    the extending configuration.
    """
    if Path(name).suffix in (".yaml", ".yml"):
        path = folder / name
        if not path.is_file():
            raise ConfigError(f"{source}: {EXTENDS}: there is no file '{path}'.")
        return path
    recipes = list_recipes()
    if name not in recipes:
        raise ConfigError(
            f"{source}: {EXTENDS}: '{name}' is no recipe.{suggestion(name, recipes)} "
            "Recipes: neurocontrast config list."
        )
    return recipes[name]


def write_out(recipe: Path) -> str:
    """Return the text of a recipe with every key and comment, the keys of its base included.

    A recipe is a YAML file of a configuration that comes with the package; its base is the recipe
    that the key ``extends`` names.
    """
    lines = recipe.read_text(encoding="utf-8")
    if EXTENDS not in read_yaml(recipe):
        return lines
    (base, *_) = bases_of(recipe)
    return extend_text(write_out(base), lines)
