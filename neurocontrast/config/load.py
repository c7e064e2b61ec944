"""A YAML file and overrides become one checked configuration.

YAML is read as people write it: ``1e-4`` is a number, ``no`` is a word, and a key may be given
once.
"""

import copy
import itertools
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import pydantic
import yaml
from pydantic_core import to_jsonable_python

from neurocontrast.config.extending import EXTENDS, extend, extend_text
from neurocontrast.config.recipes import find_config, list_recipes
from neurocontrast.config.schema import (
    DEFAULT_OBJECTIVE,
    OBJECTIVE_AS_GIVEN,
    OF_MEASURES,
    Config,
    kind_of_section,
    with_defaults_of_kind,
)
from neurocontrast.documents.document import Json
from neurocontrast.exceptions import ConfigError, suggestion
from neurocontrast.files import write_text
from neurocontrast.reading import DAMAGE, NO_FILE, problem_of_place, read_text
from neurocontrast.settings import problems_of

AnyConfig: TypeAlias = Config | Mapping[str, object] | str | os.PathLike[str]
"""Configuration as every command takes it: sections, or the file or name of a recipe."""
_Counts: TypeAlias = dict[int, int]
_PATHS = (
    ("data", "participants"),
    ("data", "measures"),
    ("data", "images_root"),
    ("data", "cache_dir"),
    ("data_2", "measures"),
    ("training", "init"),
    ("images", "source"),
)
_KIND = ("data.kind=", *map("data.{}=".format, sorted(OF_MEASURES)))
"""Keys that other keys depend on."""


def load_config(
    path: str | os.PathLike[str] | Mapping[str, object] | None = None,
    overrides: Sequence[str] = (),
    *,
    sections: Mapping[str, Mapping[str, object]] | None = None,
    check_objective: bool = True,
) -> Config:
    """Load a configuration file, and return the whole configuration.

    All wrong keys and values are one `ConfigError`.

    Parameters
    ----------
    path : path, str or mapping, optional
        YAML file, the name of a recipe, such as ``"yaware"``, or the content of such a file: keys
        by section. A section that is absent has its defaults.
    overrides : sequence of str
        ``dotted.key=value``, for instance ``training.epochs=10``, ``data.shape=[32,36,32]``,
        ``augment.noise=null`` or ``objective.kernel.0.sigma=3``; the value is YAML, and replaces
        that of the file.
    sections : mapping, optional
        Values of keys by section, for instance ``{"training": {"epochs": 10}}``, which replace
        those of the file and of `overrides`; None is a value that is not given.
    check_objective : bool
        False leaves the section ``objective`` as it is given, for commands that train nothing: its
        settings are those of the loss, which need PyTorch.
    """
    content = _content_given(path)
    # What else can be said depends on the kind of images.
    for override in sorted(overrides, key=lambda each: not each.replace(" ", "").startswith(_KIND)):
        content = _override(content, override)
    for name, values in (sections or {}).items():
        stated = {key: value for key, value in values.items() if value is not None}
        section = content.get(name) or {}
        if stated and isinstance(section, Mapping):
            content = {**content, name: {**section, **stated}}
    source = "configuration"
    if isinstance(path, str | os.PathLike):
        source = os.fspath(path)
    source += " with --set" if overrides else ""
    try:
        return _validate(content, source=source, check_objective=check_objective)
    except ConfigError as error:
        if any(override.startswith("objective.loss=") for override in overrides):
            hint = "To change the loss, replace the whole section, for instance --set 'objective={loss: ntxent}'."
            raise ConfigError(f"{error}\n{hint}") from None
        raise


def _content_given(config: object) -> Json:
    """Return the sections of a configuration: of a file, a recipe's name or a mapping."""
    if config is None:
        return {}
    if isinstance(config, Config):
        return config.model_dump(mode="json", exclude_unset=True)
    if isinstance(config, Mapping):
        _check_size(config, source="configuration")
        return _with_base(dict(config), source="configuration", folder=Path(), above=[])
    if isinstance(config, str | os.PathLike):
        return read_config(find_config(config))
    raise ConfigError(
        "config: must be a path, the name of a recipe or a mapping of sections, got "
        f"{type(config).__name__}."
    )


def as_config(config: AnyConfig) -> Config:
    """Return a configuration given as one, as a mapping of sections, or as the path of a YAML file."""
    if isinstance(config, Config):
        if not isinstance(config.objective, Mapping):
            return config
        # Only the objective is checked anew: which of the other keys were given must stay known.
        checked = _validate({"objective": config.objective}, source="configuration")
        return config.model_copy(update={"objective": checked.objective})
    return load_config(config)


def write_config(path: Path, config: Config) -> None:
    """Write the resolved configuration: every key, with absolute paths, readable by `load_config`."""
    write_text(
        path, yaml.safe_dump(_content_of(config), sort_keys=False, allow_unicode=True, width=100)
    )


def _content_of(config: Config) -> Json:
    """Return every key of a configuration, with absolute paths."""
    content = config.model_dump(mode="json")
    for section, key in _PATHS:
        found = (content[section] or {}).get(key)
        if found is not None:
            listed = [found] if isinstance(found, str) else found
            places = [str(Path(each).expanduser().absolute()) for each in listed]
            content[section][key] = places[0] if isinstance(found, str) else places
    return content


def differences(earlier: Config, now: Config, *, ignore: Sequence[str] = ()) -> list[str]:
    """Return a line for each dotted key that differs, without keys that start as `ignore` says."""
    old, new = (pd.json_normalize(_content_of(each)).iloc[0].to_dict() for each in (earlier, now))
    return [
        f"{key}: was {json.dumps(old.get(key))}, is {json.dumps(new.get(key))}"
        for key in dict.fromkeys([*old, *new])
        if old.get(key) != new.get(key)
        and not any(f"{key}.".startswith(f"{each}.") for each in ignore)
    ]


def _override(content: Json, override: str) -> Json:
    key, equals, text = override.partition("=")
    *above, last = parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(
            f"--set {override}: must be dotted.key=value, for instance training.epochs=10."
        )
    value = parse_value(text, place=f"--set {override}")
    changed = copy.deepcopy(content)
    if parts[0] == "objective" and len(parts) > 1 and "objective" not in changed:
        # Which keys it has depends on the loss, so a single key is meant for the default objective.
        of_kind = with_defaults_of_kind({"data": {"kind": kind_of_section(changed.get("data"))}})
        changed["objective"] = copy.deepcopy(of_kind.get("objective", DEFAULT_OBJECTIVE))
    here: Any = changed
    for depth, part in enumerate(above, start=1):
        place = _place(part, here, override)
        if isinstance(here, dict) and here.get(part) is None:
            here[part] = {}
        here = here[place]
        if not isinstance(here, dict | list):
            raise ConfigError(
                f"--set {override}: '{'.'.join(parts[:depth])}' is {here!r}, which has no keys."
            )
    here[_place(last, here, override)] = value
    return changed


def _place(part: str, values: Json | list[object], override: str) -> Any:
    """Return the key of a mapping, or the position in a list."""
    if isinstance(values, dict):
        return part
    if not part.isdecimal() or int(part) >= len(values):
        raise ConfigError(
            f"--set {override}: '{part}' must be a position in a list of {len(values)}, counted from 0."
        )
    return int(part)


def _refuse_tables(content: object, *, source: str, key: str = "") -> None:
    """Refuse a DataFrame in a configuration, which holds paths of tables."""
    if isinstance(content, pd.DataFrame | pd.Series):
        raise ConfigError(
            f"{source}: {key}: found a {type(content).__name__}; allowed is the path of a table, or "
            f"a list of paths. Write the table first, as with to_csv; people are "
            "given to `pretrain` and `embed` as participants=DataFrame."
        )
    if isinstance(content, Mapping):
        for name, value in content.items():
            _refuse_tables(value, source=source, key=f"{key}.{name}".removeprefix("."))
    elif isinstance(content, list | tuple):
        for value in content:
            _refuse_tables(value, source=source, key=key)


def _validate(content: Json, *, source: str, check_objective: bool = True) -> Config:
    _check_size(content, source=source)
    _refuse_tables(content, source=source)
    # Validated as JSON: lists become tuples and text becomes paths there, and nothing else is
    # converted.
    try:
        plain = to_jsonable_python(content, fallback=str)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{source}: not a tree of keys and values ({error}); a part must not hold itself."
        ) from None
    # `training:` with nothing below it is an empty section; an objective is never meant to be
    # empty.
    plain = {key: value for key, value in plain.items() if value is not None or key == "objective"}
    try:
        text = json.dumps(with_defaults_of_kind(plain))
        context = None if check_objective else OBJECTIVE_AS_GIVEN
        config = Config.model_validate_json(text, strict=True, context=context)
        config.model_fields_set.intersection_update(plain)  # defaults of the kind were not given
        return config
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    except pydantic.ValidationError as error:
        raise problems_of(error, Config, source=source) from None


_N_VALUES = 100_000
_TOO_MANY = (
    f"more than {_N_VALUES:,} values, with what its aliases (*name) repeat; "
    "a part must not hold itself"
)


def _check_size(content: object, *, source: str) -> None:
    """Refuse a configuration that would be too large if shared parts were written out."""
    if _n_values(content, _parts_of_object, {}) > _N_VALUES:
        raise ConfigError(f"{source}: {_TOO_MANY}.")


def _n_values(value: object, parts_of: Callable[[object], list[object]], counts: _Counts) -> int:
    """Count the values below a value, shared ones anew; one that holds itself has too many."""
    parts = parts_of(value)
    if not parts:
        return 1
    if id(value) not in counts:
        counts[id(value)] = _N_VALUES + 1  # while its parts are counted
        n_below = 0
        for part in parts:
            n_below += _n_values(part, parts_of, counts)
        counts[id(value)] = 1 + n_below
    return counts[id(value)]


def _parts_of_object(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    return []


def _parts_of_node(node: object) -> list[object]:
    if isinstance(node, yaml.MappingNode):
        return list(itertools.chain.from_iterable(node.value))
    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    return []


_SCALARS = {
    "bool": "true|True|TRUE|false|False|FALSE",
    "int": "[-+]?(?:0|[1-9][0-9]*)",
    "float": (
        r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
    ),
    "null": "~|null|Null|NULL|",
    "merge": "<<",
}
"""Tag → the scalars without quotes that are of it; every other one is text."""
_FAULTS: tuple[type[Exception], ...] = (
    yaml.YAMLError,
    *DAMAGE,
)  # its types meet wrong texts with nearly any
_N_BYTES = 2**20


class _Loader(yaml.SafeLoader):
    """YAML 1.2's scalars: no sexagesimal or octal numbers, no dates, no yes/no, and floats without a point."""

    def get_single_node(self) -> yaml.Node | None:
        """Return the document; refuse one that is too large once its aliases are written out."""
        node: yaml.Node | None = super().get_single_node()
        if node is not None and _n_values(node, _parts_of_node, {}) > _N_VALUES:
            raise yaml.YAMLError(_TOO_MANY)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping; a key that is no text or is given twice is refused."""
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            if key_node.tag.endswith(":merge"):
                continue
            key = self.construct_object(key_node, deep=True)
            problem = ""
            if not isinstance(key, str):
                problem = f"a key must be text, found {key!r}; put it in quotes"
            elif key in seen:
                problem = f"key '{key}' is given twice (first in line {seen[key]}); remove one"
            if problem:
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen[key] = key_node.start_mark.line + 1
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), None
    )


def read_yaml(path: Path) -> Json:
    """Read a configuration file as a mapping; errors name the file and, if known, the line."""
    if problem_of_place(path) == NO_FILE:
        near = (
            sorted(other.name for other in path.parent.glob("*.y*ml"))
            if path.parent.is_dir()
            else []
        )
        there = f" In that folder: {', '.join(near)}." if near else ""
        raise ConfigError(f"{path}: there is no such configuration file.{there}")
    content = parse_value(read_text(path, error=ConfigError, limit=_N_BYTES), place=str(path))
    if content is None:
        return {}
    if not isinstance(content, dict):
        found = "a list" if isinstance(content, list) else f"'{content}'"
        raise ConfigError(f"{path}: must hold sections (`key: value` lines), found {found}.")
    return content


def read_config(path: Path) -> Json:
    """Read a configuration file over the keys of the file or recipe that ``extends`` names."""
    return _with_base(read_yaml(path), source=str(path), folder=path.parent, above=[path.resolve()])


def _with_base(content: Json, *, source: str, folder: Path, above: list[Path]) -> Json:
    """Return a content with the sections of its base; `above` are the files that led here."""
    if EXTENDS not in content:
        return content
    path = _base_of(content[EXTENDS], source=source, folder=folder, above=above)
    base = _with_base(
        read_yaml(path), source=str(path), folder=path.parent, above=[*above, path.resolve()]
    )
    differences = {name: section for name, section in content.items() if name != EXTENDS}
    return extend(base, differences)


def bases_of(config: str | os.PathLike[str]) -> list[Path]:
    """List the recipes and files that a configuration extends, the nearest first.

    A workflow names them as inputs, so that a change of any of them runs its rules again.
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
    """Return the recipe, or the file beside the configuration, that the configuration extends.

    One of the files `above`, which led to this configuration, is refused.
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
    """Find a YAML file beside the configuration, or a recipe by its name."""
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
    """Return the text of a recipe with every key and comment, of its base too."""
    text = recipe.read_text(encoding="utf-8")
    content = read_yaml(recipe)
    if EXTENDS not in content:
        return text
    (base, *_) = bases_of(recipe)
    return extend_text(write_out(base), text)


def parse_value(text: str, *, place: str) -> Any:
    """Return a value by YAML's rules; an error names `place`."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError(f"{place}: not valid YAML: {where}{what}.") from None
    except _FAULTS as error:
        raise ConfigError(f"{place}: not valid YAML: {' '.join(str(error).split())}.") from None
