"""Load a configuration: a YAML file or mapping, overridden by single keys, checked as a whole."""

import copy
import json
import os
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import pydantic
import yaml
from pydantic_core import to_jsonable_python

from neurocontrast.config.bases import read_config, with_base
from neurocontrast.config.parsing import check_size, parse_value
from neurocontrast.config.recipes import find_config
from neurocontrast.config.schema import (
    DEFAULT_OBJECTIVE,
    OBJECTIVE_AS_GIVEN,
    OF_MEASURES,
    Config,
    kind_of_section,
    with_defaults_of_kind,
)
from neurocontrast.documents.document import Json
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import write_text
from neurocontrast.settings import problems_of

AnyConfig: TypeAlias = Config | Mapping[str, object] | str | os.PathLike[str]
"""Configuration as every command takes it: sections, or the file or name of a recipe."""
_PATHS = (
    ("data", "participants"),
    ("data", "measures"),
    ("data", "images_root"),
    ("data", "cache_dir"),
    ("data_2", "measures"),
    ("training", "init"),
    ("images", "source"),
)
"""Section and key of each setting that is a path or list of paths, written as absolute paths."""
_KIND = ("data.kind=", *map("data.{}=".format, sorted(OF_MEASURES)))
"""Beginnings of overrides that decide the kind of data, such as ``data.kind=``.

The defaults of other keys depend on the kind of data, so that these overrides are applied first.
"""


def load_config(
    path: str | os.PathLike[str] | Mapping[str, object] | None = None,
    overrides: Sequence[str] = (),
    *,
    sections: Mapping[str, Mapping[str, object]] | None = None,
    check_objective: bool = True,
) -> Config:
    """Load a configuration and check every key; all wrong keys and values are one `ConfigError`.

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

    Returns
    -------
    Config
        Every key, with the defaults of keys that are not given.
    """
    content = _content_of_any(path)
    # Which objective is the default, and has a key to override, depends on the kind of data.
    for override in sorted(overrides, key=_is_of_another_key):
        content = _override(content, override)
    content = _with_sections(content, sections or {})
    source = "configuration"
    if isinstance(path, str | os.PathLike):
        source = os.fspath(path)
    if overrides:
        source += " with --set"
    try:
        return _validate(content, source=source, check_objective=check_objective)
    except ConfigError as error:
        if any(override.startswith("objective.loss=") for override in overrides):
            hint = (
                "To change the loss, replace the whole section, for instance "
                "--set 'objective={loss: ntxent}'."
            )
            raise ConfigError(f"{error}\n{hint}") from None
        raise


def _is_of_another_key(override: str) -> bool:
    """Tell whether an override (``dotted.key=value``) sets another key than the kind of data.

    The kind of data is set by ``data.kind``, or by a key of ``data`` that only regional measures
    have. Overrides of other keys are applied later, since their defaults depend on the kind.
    """
    return not override.replace(" ", "").startswith(_KIND)


def _with_sections(content: Json, sections: Mapping[str, Mapping[str, object]]) -> Json:
    """Return the sections `content` of a configuration, with single keys replaced from `sections`.

    `sections` is name of a section → key → value. Keys of a section that are absent there stay, and
    so does a key with the value None. A new section is added.
    """
    for name, values in sections.items():
        stated = {key: value for key, value in values.items() if value is not None}
        section = content.get(name) or {}
        if stated and isinstance(section, Mapping):
            content = {**content, name: {**section, **stated}}
    return content


def _content_of_any(config: object) -> Json:
    """Return the sections of a configuration that is a file, a recipe's name, or a mapping.

    A recipe is a configuration that comes with the package, such as ``yaware``. None gives no
    sections, and a `Config` the keys that were set in it. A configuration that extends another
    (``extends``) has the sections of both, merged.
    """
    if config is None:
        return {}
    if isinstance(config, Config):
        return config.model_dump(mode="json", exclude_unset=True)
    if isinstance(config, Mapping):
        check_size(config, source="configuration")
        return with_base(dict(config), source="configuration", folder=Path(), above=[])
    if isinstance(config, str | os.PathLike):
        return read_config(find_config(config))
    raise ConfigError(
        "config: must be a path, the name of a recipe or a mapping of sections, got "
        f"{type(config).__name__}."
    )


def as_config(config: AnyConfig) -> Config:
    """Return a checked `Config` from a `Config`, a mapping, a YAML file or a recipe's name."""
    if isinstance(config, Config):
        if not isinstance(config.objective, Mapping):
            return config
        # The objective alone is checked anew, so that keys given and defaults stay told apart.
        checked = _validate({"objective": config.objective}, source="configuration")
        return config.model_copy(update={"objective": checked.objective})
    return load_config(config)


def write_config(path: Path, config: Config) -> None:
    """Write every key of a configuration, with absolute paths, as a file for `load_config`."""
    content = _content_of(config)
    write_text(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100))


def _content_of(config: Config) -> Json:
    """Return every key of a configuration by section, as plain values, with absolute paths."""
    content = config.model_dump(mode="json")
    for section, key in _PATHS:
        path = (content[section] or {}).get(key)
        if isinstance(path, str):
            content[section][key] = _absolute(path)
        elif path is not None:
            content[section][key] = list(map(_absolute, path))
    return content


def _absolute(path: str) -> str:
    """Return `path` as an absolute path, with the home folder in place of ``~``."""
    return str(Path(path).expanduser().absolute())


def differences(earlier: Config, now: Config, *, ignore: Sequence[str] = ()) -> list[str]:
    """Return a line for each dotted key whose values differ between two configurations.

    Parameters
    ----------
    earlier : Config
        Configuration whose values the lines call ``was``.
    now : Config
        Configuration whose values the lines call ``is``.
    ignore : sequence of str
        Sections and dotted keys that may differ, such as ``training.devices``.
    """
    old = _by_dotted_key(earlier)
    new = _by_dotted_key(now)
    ignored = tuple(f"{name}." for name in ignore)
    lines = []
    for key in dict.fromkeys([*old, *new]):
        differs = old.get(key) != new.get(key)
        if differs and not f"{key}.".startswith(ignored):
            lines.append(f"{key}: was {json.dumps(old.get(key))}, is {json.dumps(new.get(key))}")
    return lines


def _by_dotted_key(config: Config) -> Mapping[Hashable, object]:
    """Return the values of a configuration by dotted key, such as ``training.epochs``."""
    return pd.json_normalize(_content_of(config)).iloc[0].to_dict()


def _override(content: Json, override: str) -> Json:
    """Return the sections of a configuration with one key replaced, as ``dotted.key=value`` says.

    `content` stays unchanged. A key that cannot be in the sections is refused.
    """
    key, equals, words = override.partition("=")
    *above, last = names = key.strip().split(".")
    if not equals or not all(names):
        raise ConfigError(
            f"--set {override}: must be dotted.key=value, for instance training.epochs=10."
        )
    value = parse_value(words, source=f"--set {override}")
    changed = copy.deepcopy(content)
    if names[0] == "objective" and len(names) > 1 and "objective" not in changed:
        # Which keys it has depends on the loss, so a single key is meant for the default objective.
        of_kind = with_defaults_of_kind({"data": {"kind": kind_of_section(changed.get("data"))}})
        changed["objective"] = copy.deepcopy(of_kind.get("objective", DEFAULT_OBJECTIVE))
    section: Any = changed
    for depth, name in enumerate(above, start=1):
        key_or_position = _key_or_position(name, section, override)
        if isinstance(section, dict) and section.get(name) is None:
            section[name] = {}
        section = section[key_or_position]
        if not isinstance(section, dict | list):
            dotted = ".".join(names[:depth])
            raise ConfigError(f"--set {override}: '{dotted}' is {section!r}, which has no keys.")
    section[_key_or_position(last, section, override)] = value
    return changed


def _key_or_position(name: str, values: Json | list[object], override: str) -> Any:
    """Return one step of a dotted key: `name` for a mapping, a position (int) for a list.

    `values` is the mapping or list; a position that the list lacks is refused in a message about
    `override`.
    """
    if isinstance(values, dict):
        return name
    if not name.isdecimal() or int(name) >= len(values):
        raise ConfigError(
            f"--set {override}: '{name}' must be a position in a list of {len(values)}, "
            "counted from 0."
        )
    return int(name)


def _refuse_tables(content: object, *, source: str, key: str = "") -> None:
    """Refuse a DataFrame anywhere in the values of a configuration, which holds paths of tables.

    `source` and the dotted `key` name the place in the message.
    """
    if isinstance(content, pd.DataFrame | pd.Series):
        raise ConfigError(
            f"{source}: {key}: found a {type(content).__name__}; allowed is the path of a table, "
            "or a list of paths. Write the table first, as with to_csv; people are "
            "given to `pretrain` and `embed` as participants=DataFrame."
        )
    if isinstance(content, Mapping):
        for name, value in content.items():
            _refuse_tables(value, source=source, key=f"{key}.{name}".removeprefix("."))
    elif isinstance(content, list | tuple):
        for value in content:
            _refuse_tables(value, source=source, key=key)


def _validate(content: Json, *, source: str, check_objective: bool = True) -> Config:
    """Return the checked configuration; all wrong keys and values are one `ConfigError`.

    `content` are its sections, `source` is its name in messages. Without `check_objective` section
    ``objective`` stays as it is.
    """
    check_size(content, source=source)
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
    context = None
    if not check_objective:
        context = OBJECTIVE_AS_GIVEN
    try:
        filled = json.dumps(with_defaults_of_kind(plain))
        config = Config.model_validate_json(filled, strict=True, context=context)
        config.model_fields_set.intersection_update(plain)  # defaults of the kind were not given
        return config
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    except pydantic.ValidationError as error:
        raise problems_of(error, Config, source=source) from None
