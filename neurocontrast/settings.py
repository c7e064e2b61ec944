"""Typed settings of components, and messages for wrong ones: the dotted key, what was found, what is allowed."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from neurocontrast.exceptions import ConfigError, one_of, suggestion

__all__ = ["Column", "Configurable", "NonNegative", "Positive", "Settings", "choose", "problems_of", "settings_from"]

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Column = Annotated[str, Field(min_length=1)]

_PLAINER = {
    "Value error, ": "",
    "Input should be ": "must be ",
    "Input should ": "must ",
    "Tuple should have ": "must have ",
    "String should have ": "must have ",
    " after validation, not 0": "",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "text",
    "a valid boolean": "true or false",
    "a valid array": "a list",
    "a valid tuple": "a list",
}
_Models = list[type[BaseModel]]
_Named = Mapping[str, type[BaseModel]]
_Model = TypeVar("_Model", bound=BaseModel)


class Settings(BaseModel):
    """A frozen group of settings of a component; an unknown key is an error, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, protected_namespaces=())


class Configurable:
    """A component whose constructor takes the keys of its nested ``Settings``, which become attributes.

    The first required key may be given by position.
    """

    Settings: ClassVar[type[Settings]]
    tag: ClassVar[str]
    """The key that names the component in a configuration; Python's constructor does not take it."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Values of the settings are attributes."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Give the constructor the signature of its settings."""
        super().__init_subclass__(**options)
        fields = sorted(cls.Settings.__signature__.parameters.values(), key=lambda each: each.default is not each.empty)
        annotations = {name: each.annotation for name, each in cls.Settings.model_fields.items()}
        kept = [each.replace(annotation=annotations[each.name]) for each in fields if each.name != cls.tag]
        if kept and kept[0].default is kept[0].empty:
            kept[0] = kept[0].replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
        cls.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]

    def configure(self, *arguments: Any, **keywords: Any) -> None:
        """Check the arguments of the constructor, and set them as attributes."""
        given = self.__signature__.bind(*arguments, **keywords).arguments
        try:
            chosen = self.Settings.model_validate(given, strict=True)
        except ValidationError as error:
            raise ConfigError(_in_python(error.errors()[0], self.Settings)) from None
        for name in self.__signature__.parameters:
            self.accept(name, getattr(chosen, name))

    def accept(self, name: str, value: Any) -> None:
        """Keep a value of the settings."""
        setattr(self, name, value)


def settings_from(model: type[_Model], given: Mapping[str, Any], *, source: str) -> _Model:
    """Return the settings that a mapping describes; all unknown keys and wrong values are one error of `source`."""
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        raise problems_of(error, model, source=source) from None


def problems_of(error: ValidationError, model: type[BaseModel], *, source: str) -> ConfigError:
    """Return the error to raise for what pydantic found."""
    lines = [line.removeprefix(".") for line in _explain_all(error, model)]
    lines = [f"the configuration{line}" if line.startswith(":") else line for line in lines]
    if len(lines) == 1:
        return ConfigError(f"{source}: {lines[0]}")
    return ConfigError(f"{source}: {len(lines)} problems\n" + "\n".join(f"  {line}" for line in lines))


def choose(
    given: Any,
    key: str,
    names: Sequence[str],
    find: Callable[[str], type[BaseModel] | None],
    *,
    default: str | None = None,
    from_json: bool = False,
) -> BaseModel:
    """Return a section as the settings of the component that one of its keys names; settings stay as they are.

    `find` returns the settings of a name, or None; `names` are those that a message offers; `from_json` says that lists
    are read as tuples.
    """
    if isinstance(given, BaseModel):
        return given
    if not isinstance(given, Mapping):
        allowed = _allowed(None, [model for name in names if (model := find(name))])
        raise _explained([f": must be a section of keys, found {_shown(given)}.{allowed}"])
    name = given.get(key, default)
    if name is None:
        raise _explained([f": must be a section with the key '{key}', which is one of {one_of(names)}."])
    model = find(name) if isinstance(name, str) else None
    if model is None:
        text = f".{key}: must be one of {one_of(names)}, found '{name}'.{suggestion(str(name), names)}"
        raise _explained([text])
    # A name that was not given stays a default, so that it can be told from one that was.
    content = dict(given)
    try:
        return model.model_validate_json(json.dumps(content), strict=True) if from_json else model(**content)
    except ValidationError as error:
        others = {other: each for other in names if other != name and (each := find(other))}
        raise _explained(_explain_all(error, model, name=name, others=others)) from None


def _explained(lines: list[str]) -> PydanticCustomError:
    """An error of a section that says itself what is wrong, each line from its own dotted key on."""
    return PydanticCustomError("explained", "{text}", {"lines": lines, "text": "; ".join(lines)})


def _explain_all(
    error: ValidationError,
    model: type[BaseModel],
    *,
    name: str = "",
    others: Mapping[str, type[BaseModel]] | None = None,
) -> list[str]:
    """Return a line for each finding, without those that only follow from another."""
    found = error.errors()
    above = {each["loc"][:depth] for each in found for depth in range(len(each["loc"]))}
    lines: dict[str, None] = {}
    for each in found:
        if each["type"] != "too_short" or each["loc"] not in above:  # a list whose items are wrong counts as empty
            lines |= dict.fromkeys(_explain(each, model, name, others or {}))
    return list(lines)


def _explain(
    error: ErrorDetails, model: type[BaseModel], name: str, others: Mapping[str, type[BaseModel]]
) -> list[str]:
    """Return what is wrong at one place: the dotted key, what was found, what is allowed."""
    place, models, inner = _walk(error["loc"], model)
    where, kind = "".join(f".{part}" for part in place), error["type"]
    if kind == "explained":
        return [where + line for line in error["ctx"]["lines"]]
    of = f" of '{name}'" if name and models == [model] else ""
    if kind == "extra_forbidden":
        owners = [other for other, each in others.items() if of and place[-1] in each.model_fields]
        elsewhere = f" ('{place[-1]}' belongs to {one_of(owners)}.)" if owners else ""
        return [f"{where}: unknown key.{_allowed(place[-1], models, of)}{elsewhere}"]
    if kind == "missing":
        return [f"{where}: missing." if place[-1].isdecimal() else f"{where}: missing.{_allowed(None, models, of)}"]
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return [f"{where}: must be a section of keys, found {_shown(error['input'])}.{_allowed(None, inner)}"]
    rule, near = _rule_and_near_miss(error)
    # A rule about several keys says itself what was found; the whole section would only drown it.
    says_it = "got " in rule.lower() or (kind == "value_error" and isinstance(error["input"], Mapping))
    found = "" if says_it else f", found {_shown(error['input'])}"
    return [f"{where}: {rule}{found}{'' if rule.endswith('?') else '.'}{near}"]


def _rule_and_near_miss(error: ErrorDetails) -> tuple[str, str]:
    """Return pydantic's message in plain words, and the likely name where names are allowed."""
    rule = error["msg"].removesuffix(".")
    for theirs, ours in _PLAINER.items():
        rule = rule.replace(theirs, ours)
    expected = rule if error["type"] == "value_error" else str(error.get("ctx", {}).get("expected", ""))
    names = [] if "got " in expected else re.findall(r"'([^']*)'", expected)
    return rule, suggestion(error["input"], names) if names and isinstance(error["input"], str) else ""


def _in_python(error: ErrorDetails, model: type[BaseModel]) -> str:
    """Return the message of a constructor: the argument, what is allowed, what it got."""
    name, (rule, near) = str(error["loc"][0]), _rule_and_near_miss(error)
    if limits := _limits(model.model_fields[name]):
        whole = "whole " if model.model_fields[name].annotation is int else ""
        rule = f"must be a {whole}number {limits}"
    got = "" if "got " in rule else f", got {error['input']!r}"
    return f"{name} {rule}{got}.{near}"


def _limits(field: FieldInfo) -> str:
    """Return the limits of a number in words, such as "above 0"."""
    words = {"gt": "above {:g}", "ge": "of at least {:g}", "lt": "below {:g}", "le": "of at most {:g}"}
    found = {key: getattr(each, key) for key in words for each in field.metadata if hasattr(each, key)}
    if found.keys() == {"ge", "le"}:
        return f"from {found['ge']:g} to {found['le']:g}"
    return " and ".join(words[key].format(limit) for key, limit in found.items())


def _walk(loc: Sequence[str | int], model: type[BaseModel]) -> tuple[list[str], _Models, _Models]:
    """Follow a location: its parts, the models that hold its last key, and those below that key."""
    holding, inner = [model], [model]
    in_mapping = False
    for part in loc:
        if in_mapping or isinstance(part, int):
            in_mapping = False
            continue
        fields = [each.model_fields[part] for each in inner if part in each.model_fields]
        in_mapping = any(get_origin(field.annotation) is dict for field in fields)
        holding, inner = inner, [each for field in fields for each in _models_in(field.annotation)]
    return [str(part) for part in loc], holding, inner


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that an annotation holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _allowed(name: str | None, models: _Models, of: str = "") -> str:
    """Return the keys of some models, after the likely one of them."""
    keys = list(dict.fromkeys(key for each in models for key in each.model_fields))
    near = suggestion(name, keys) if name is not None else ""
    return f"{near} Allowed keys{of}: {one_of(keys)}." if keys else near


def _shown(value: Any) -> str:
    """Return a value as it is written in a configuration, at most 80 characters."""
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
