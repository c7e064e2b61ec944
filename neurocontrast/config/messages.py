"""Pydantic's findings as lines a user can act on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from neurocontrast.exceptions import ConfigError, one_of, suggestion

__all__ = ["explain", "explain_all", "problems_of", "settings_from"]

_TAGS = ("loss", "type", "kind")
_PLAINER = {
    "Value error, ": "",
    "Input should be ": "must be ",
    "Input should ": "must ",
    "Tuple should have ": "must have ",
    " after validation, not 0": "",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "text",
    "a valid boolean": "true or false",
    "a valid array": "a list",
    "a valid tuple": "a list",
}
_Models = list[type[BaseModel]]
_Model = TypeVar("_Model", bound=BaseModel)


def settings_from(model: type[_Model], given: Mapping[str, Any], *, source: str) -> _Model:
    """Return the settings that a mapping describes.

    Raises
    ------
    ConfigError
        With all unknown keys and wrong values together, headed by `source`.
    """
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        raise problems_of(error, model, source=source) from None


def problems_of(error: ValidationError, model: type[BaseModel], *, source: str) -> ConfigError:
    """Return the error to raise for what pydantic found."""
    lines = explain_all(error.errors(), model)
    if len(lines) == 1:
        return ConfigError(f"{source}: {lines[0]}")
    return ConfigError(f"{source}: {len(lines)} problems\n" + "\n".join(f"  {line}" for line in lines))


def explain_all(errors: Sequence[ErrorDetails], model: type[BaseModel]) -> list[str]:
    """Return one line for each finding, without those that only follow from another."""
    places = [error["loc"] for error in errors]
    own = [
        error
        for error in errors
        # A list whose items are wrong counts as empty.
        if error["type"] != "too_short"
        or not any(len(place) > len(error["loc"]) and place[: len(error["loc"])] == error["loc"] for place in places)
    ]
    return list(dict.fromkeys(explain(error, model) for error in own))


def explain(error: ErrorDetails, model: type[BaseModel]) -> str:
    """Return one line: the dotted key, what is wrong, what was found, what is allowed."""
    place, models, inner, siblings = _walk(error["loc"], model)
    where, last = ".".join(place) or "the configuration", str(place[-1]) if place else ""
    kind = error["type"]
    if kind == "extra_forbidden":
        return f"{where}: unknown key.{_allowed(last, models)}{_elsewhere(last, models, siblings)}"
    if kind == "missing":
        return f"{where}: missing." if last.isdecimal() else f"{where}: missing.{_allowed(None, models)}"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _explain_tag(error, where, inner or models)
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return f"{where}: must be a section of keys, found {_shown(error['input'])}.{_allowed(None, inner, of='')}"
    rule = error["msg"].removesuffix(".")
    for theirs, ours in _PLAINER.items():
        rule = rule.replace(theirs, ours)
    names = re.findall(r"'([^']*)'", str(error.get("ctx", {}).get("expected", "")))
    near = suggestion(error["input"], names) if names and isinstance(error["input"], str) else ""
    # A rule about several keys says itself what was found; the whole section would only drown it.
    said = "got " in rule.lower() or (kind == "value_error" and isinstance(error["input"], Mapping))
    found = "" if said else f", found {_shown(error['input'])}"
    end = "" if rule.endswith("?") else "."
    return f"{where}: {rule}{found}{end}{near}"


def _walk(loc: Sequence[str | int], model: type[BaseModel]) -> tuple[list[str], _Models, _Models, _Models]:
    """Follow a location, dropping the tags of discriminated unions.

    Returns its dotted parts, the models that hold its last key, those below that key, and
    those that a tag excluded.
    """
    place: list[str] = []
    models: _Models = [model]
    holding, siblings = models, models[:0]
    in_mapping = False
    for part in loc:
        if in_mapping or isinstance(part, int):
            place.append(str(part))
            in_mapping = False
        elif part not in _keys(models) and any(part in _tags_of(each) for each in models):
            siblings = models
            holding = models = [each for each in models if part in _tags_of(each)]
        else:
            place.append(part)
            in_mapping = any(_is_mapping(each, part) for each in models)
            holding, models = models, _fields(models, part)
    return place, holding, models, siblings


def _is_mapping(model: type[BaseModel], name: str) -> bool:
    return name in model.model_fields and get_origin(model.model_fields[name].annotation) is dict


def _fields(models: _Models, name: str) -> _Models:
    return [
        found
        for each in models
        if name in each.model_fields
        for found in _models_in(each.model_fields[name].annotation)
    ]


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _keys(models: _Models) -> list[str]:
    return list(dict.fromkeys(name for each in models for name in each.model_fields))


def _tags_of(model: type[BaseModel]) -> tuple[str, ...]:
    fixed = vars(model).get("kind")
    return tuple(
        tag for name in _TAGS if name in model.model_fields for tag in get_args(model.model_fields[name].annotation)
    ) + ((fixed,) if isinstance(fixed, str) else ())


def _allowed(name: str | None, models: _Models, *, of: str | None = None) -> str:
    keys = _keys(models)
    near = suggestion(name, keys) if name is not None else ""
    tag = "".join(f" of '{tag}'" for tag in _tags_of(models[0])) if len(models) == 1 else ""
    tag = tag if of is None else of
    return f"{near} Allowed keys{tag}: {one_of(keys)}." if keys else near


def _elsewhere(name: str, models: _Models, siblings: _Models) -> str:
    owners = [tag for each in siblings if each not in models and name in each.model_fields for tag in _tags_of(each)]
    return f" ('{name}' belongs to {one_of(owners)}.)" if owners else ""


def _explain_tag(error: ErrorDetails, where: str, models: _Models) -> str:
    context: dict[str, Any] = error.get("ctx", {})
    key = str(context.get("discriminator", "")).strip("'")
    key = "kind" if key.endswith("()") else key  # a function that reads it, where it need not be said
    names = [tag for each in models for tag in _tags_of(each)]
    if error["type"] == "union_tag_not_found":
        found = "" if isinstance(error["input"], Mapping) else f", found {_shown(error['input'])}"
        return f"{where}: must be a section with the key '{key}', which is one of {one_of(names)}{found}."
    found_tag = str(context.get("tag"))
    return f"{where}.{key}: must be one of {one_of(names)}, found '{found_tag}'.{suggestion(found_tag, names)}"


def _shown(value: Any) -> str:
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
