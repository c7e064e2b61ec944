"""A YAML file and overrides become one checked configuration."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pydantic
import yaml

from neurocontrast.config.schema import (
    DEFAULT_OBJECTIVE,
    OBJECTIVE_AS_GIVEN,
    Config,
    kind_of_section,
    with_defaults_of_kind,
)
from neurocontrast.config.yaml_file import parse_value, read_yaml
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import write_text
from neurocontrast.settings import problems_of

__all__ = ["as_config", "differences", "load_config", "write_config"]

_PATHS = (
    ("data", "participants"),
    ("data", "images_root"),
    ("data", "cache_dir"),
    ("images", "source"),
    ("images", "attributes"),
)

_ANY = object()
_RETIRED: dict[str, Any] = {
    "training.strategy": _ANY,
    "explanation.method": "occlusion",
    "explanation.n_noisy": _ANY,
    "explanation.noise": _ANY,
    "images.vectors": {},
    "images.unmatched": "error",
    "images.classes": None,
    "images.label_column": None,
    "images.split_column": None,
    "images.clusters.vector": None,
}
"""Keys of earlier versions → the value with which a key did nothing: files that hold that value are still read."""


def load_config(
    path: str | os.PathLike[str] | None = None, overrides: Sequence[str] = (), *, check_objective: bool = True
) -> Config:
    """Load a configuration file and apply overrides.

    Parameters
    ----------
    path : path, optional
        YAML file; the defaults alone when not given. A section that is absent has its defaults.
    overrides : sequence of str
        ``dotted.key=value``, for instance ``training.epochs=10``, ``data.shape=[32,36,32]``,
        ``augment.noise=null`` or ``objective.kernel.0.sigma=3``; the value is YAML, and
        replaces what the file says.
    check_objective : bool
        False leaves the section ``objective`` as it is given, for commands that train nothing: its settings are those
        of the loss, which need PyTorch.

    Returns
    -------
    Config
        The configuration, all keys filled in.

    Raises
    ------
    ConfigError
        With all wrong keys and values together, each with its dotted key.
    """
    content = read_yaml(Path(path)) if path is not None else {}
    # What else can be said depends on the kind of images.
    for override in sorted(overrides, key=lambda each: not each.replace(" ", "").startswith("data.kind=")):
        content = _override(content, override)
    source = str(path) if path is not None else "configuration"
    try:
        source = f"{source} with --set" if overrides else source
        return _validate(content, source=source, check_objective=check_objective)
    except ConfigError as error:
        if any(override.startswith("objective.loss=") for override in overrides):
            hint = "To change the loss, replace the whole section, for instance --set 'objective={loss: ntxent}'."
            raise ConfigError(f"{error}\n{hint}") from None
        raise


def as_config(config: Config | Mapping[str, Any] | str | os.PathLike[str]) -> Config:
    """Return a configuration given as one, as a mapping of sections, or as the path of a YAML file."""
    if isinstance(config, Config) and not isinstance(config.objective, Mapping):
        return config
    if isinstance(config, Config):
        # Only the objective is checked anew: which of the other keys were given must stay known.
        checked = _validate({"objective": config.objective}, source="configuration")
        return config.model_copy(update={"objective": checked.objective})
    if isinstance(config, Mapping):
        return _validate(dict(config), source="configuration")
    return load_config(config)


def write_config(path: Path, config: Config) -> None:
    """Write the resolved configuration: every key, with absolute paths, readable by `load_config`."""
    content = config.model_dump(mode="json")
    for section, key in _PATHS:
        if content[section].get(key) is not None:
            content[section][key] = str(Path(content[section][key]).expanduser().absolute())
    write_text(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100))


def differences(earlier: Config, now: Config, *, ignore: Sequence[str] = ()) -> list[str]:
    """Return one line for each dotted key that differs, but for those that start with one in `ignore`."""
    old, new = _flat(earlier.model_dump(mode="json")), _flat(now.model_dump(mode="json"))
    return [
        f"{key}: was {json.dumps(old.get(key))}, is {json.dumps(new.get(key))}"
        for key in dict.fromkeys([*old, *new])
        if old.get(key) != new.get(key) and not any(f"{key}.".startswith(f"{each}.") for each in ignore)
    ]


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _override(content: dict[str, Any], override: str) -> dict[str, Any]:
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"--set {override}: must be dotted.key=value, for instance training.epochs=10.")
    value = parse_value(text, place=f"--set {override}")
    changed = copy.deepcopy(content)
    if parts[0] == "objective" and len(parts) > 1 and "objective" not in changed:
        # Which keys it has depends on the loss, so a single key is meant for the default objective.
        of_kind = with_defaults_of_kind({"data": {"kind": kind_of_section(changed.get("data"))}})
        changed["objective"] = copy.deepcopy(of_kind.get("objective", DEFAULT_OBJECTIVE))
    here: Any = changed
    for depth, part in enumerate(parts[:-1]):
        if isinstance(here, list):
            here = here[_position(part, here, override)]
        elif isinstance(here, dict):
            if here.get(part) is None:
                here[part] = {}
            here = here[part]
        if not isinstance(here, dict | list):
            raise ConfigError(f"--set {override}: '{'.'.join(parts[: depth + 1])}' is {here!r}, which has no keys.")
    if isinstance(here, list):
        here[_position(parts[-1], here, override)] = value
    else:
        here[parts[-1]] = value
    return changed


def _position(part: str, values: list[Any], override: str) -> int:
    if not part.isdecimal() or int(part) >= len(values):
        raise ConfigError(f"--set {override}: '{part}' must be a position in a list of {len(values)}, counted from 0.")
    return int(part)


def _validate(content: dict[str, Any], *, source: str, check_objective: bool = True) -> Config:
    # Validated as JSON: lists become tuples and text becomes paths there, and nothing else is converted.
    try:
        plain = json.loads(json.dumps(content, default=_as_json))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{source}: not a tree of keys and values ({error}); a part must not hold itself.") from None
    # `training:` with nothing below it is an empty section; an objective is never meant to be empty.
    plain = {key: value for key, value in plain.items() if value is not None or key == "objective"}
    for key, idle in _RETIRED.items():
        _drop(plain, key.split("."), idle)
    try:
        text = json.dumps(with_defaults_of_kind(plain))
        return Config.model_validate_json(text, strict=True, context=None if check_objective else OBJECTIVE_AS_GIVEN)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    except pydantic.ValidationError as error:
        raise problems_of(error, Config, source=source) from None


def _drop(content: Any, place: list[str], idle: Any) -> None:
    """Remove a key where the value is `idle`."""
    *above, last = place
    for key in above:
        content = content.get(key) if isinstance(content, dict) else None
    if isinstance(content, dict) and last in content and idle in (content[last], _ANY):
        del content[last]


def _as_json(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json")
    return str(value)
