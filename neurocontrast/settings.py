"""Typed settings of components, and messages for wrong ones: the dotted key, the rule, and what was found."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache, wraps
from typing import (
    Annotated,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    TypeVar,
    cast,
    get_args,
    get_type_hints,
)

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    create_model,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from neurocontrast.exceptions import ConfigError, one_of, suggestion

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Column = Annotated[str, Field(min_length=1)]

_Model = TypeVar("_Model", bound=BaseModel)
_Component = TypeVar("_Component")
_Arguments = ParamSpec("_Arguments")
# Else pydantic searches every module for the source of each derived class, which has none.
_NO_SOURCE = {"use_attribute_docstrings": False}


class Settings(BaseModel):
    """A frozen group of settings of a component; an unknown key is an error, never ignored."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        validate_default=True,
        protected_namespaces=(),
        use_attribute_docstrings=True,
    )


def checked(
    constructor: Callable[Concatenate[_Component, _Arguments], None],
) -> Callable[Concatenate[_Component, _Arguments], None]:
    """Check the arguments of a constructor by their annotations; a wrong one is a `ConfigError`.

    Examples
    --------
    >>> from neurocontrast.settings import Positive, checked
    >>> class Smoothing:
    ...     @checked
    ...     def __init__(self, *, width: Positive = 1.0) -> None:
    ...         self.width = width
    >>> Smoothing(width=-1.0)
    Traceback (most recent call last):
    neurocontrast.exceptions.ConfigError: width must be greater than 0, found -1.0.
    """
    signature = inspect.signature(constructor)

    @wraps(constructor)
    def construct(
        component: _Component, /, *arguments: _Arguments.args, **keywords: _Arguments.kwargs
    ) -> None:
        values = signature.bind(component, *arguments, **keywords).arguments
        values.pop(next(iter(values)))
        model = _model_of(constructor)
        try:
            settings = model.model_validate(values, strict=True)
        except ValidationError as error:
            problem = error.errors()[0]
            raise ConfigError(f"{problem['loc'][0]} {_rule(problem)}") from None
        constructor(component, **dict(settings))  # type: ignore[call-arg]

    return construct


@cache
def _model_of(constructor: Callable[..., None]) -> type[BaseModel]:
    """Return the model of a constructor's arguments."""
    return create_model(
        "Arguments", __base__=Settings, __cls_kwargs__=_NO_SOURCE, **_fields_of(constructor)
    )


def settings_model(
    component: type[object], base: type[_Model], *, key: str, name: str
) -> type[_Model]:
    """Derive the section of a configuration that describes a component: its constructor says what YAML accepts.

    Keys, defaults and rules are the parameters of ``__init__`` and their annotations, after the
    keys of `base`; the `key` of the section that names the component is `name`.
    """
    return cast(type[_Model], _derive_model(cast(Hashable, component), base, key, name))


@cache
def _derive_model(
    component: type[object], base: type[BaseModel], key: str, name: str
) -> type[BaseModel]:
    fields = _fields_of(component.__init__)
    descriptions = _parameters_of(component)
    for parameter, (annotation, default) in fields.items():
        described = Field(description=descriptions.get(parameter))
        fields[parameter] = (Annotated[annotation, described], default)
    fields[key] = (Literal[name], name)
    model = create_model(component.__name__, __base__=base, __cls_kwargs__=_NO_SOURCE, **fields)
    model.__doc__ = (inspect.getdoc(component) or "").partition("\n\n")[0]
    return model


def _parameters_of(component: type[object]) -> dict[str, str]:
    """Return descriptions of the parameters of a class, by the section Parameters of its docstring."""
    docstring = inspect.getdoc(component) or ""
    _, _, section = docstring.partition("Parameters\n----------\n")
    section = re.split(r"\n\n\w+\n-+\n", section)[0]
    descriptions: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if line and not line.startswith(" "):
            names = line.partition(" : ")[0].split(", ")
            continue
        for name in names:
            descriptions[name] = f"{descriptions.get(name, '')} {line.strip()}".strip()
    return descriptions


def _fields_of(constructor: Callable[..., None]) -> dict[str, Any]:
    """Return annotation and default of the parameters of a constructor, by their names."""
    annotations = get_type_hints(constructor, include_extras=True)
    _, *parameters = inspect.signature(constructor).parameters.values()
    fields: dict[str, Any] = {}
    for parameter in parameters:
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (annotations.get(parameter.name, Any), default)
    return fields


class KindsInSchema:
    """Annotate a section for editors: the keys that it has for each name of the component it describes.

    `models` are asked for the settings of each name when a JSON schema is made, because those of a
    loss need PyTorch.

    Parameters
    ----------
    key : str
        The key that names the component, such as ``loss``.
    models : function
        Returns the settings of each name.
    is_required : bool, default True
        Whether the section must have the key.
    of_user : bool, default False
        Whether the name may be ``module:Class``, with any keys.
    """

    def __init__(
        self,
        key: str,
        models: Callable[[], Mapping[str, type[BaseModel]]],
        *,
        is_required: bool = True,
        of_user: bool = False,
    ) -> None:
        self.key = key
        self.models = models
        self.is_required = is_required
        self.of_user = of_user

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return a union that the key discriminates; without it several kinds may fit."""
        del schema
        choices: list[CoreSchema | tuple[CoreSchema, str]] = []
        for model in self.models().values():
            choice = dict(model.__pydantic_core_schema__)
            choice.setdefault("ref", f"{model.__module__}.{model.__qualname__}:{id(model)}")
            choices.append(cast(CoreSchema, choice))
        kinds: list[JsonSchemaValue] = handler(core_schema.union_schema(choices))["anyOf"]
        if not self.is_required:
            return {"anyOf": kinds}
        kinds = [{"allOf": [kind], "required": [self.key]} for kind in kinds]
        if self.of_user:
            name = {"type": "string", "pattern": ":"}
            kinds.append({"properties": {self.key: name}, "required": [self.key]})
        return {"oneOf": kinds}


def settings_from(model: type[_Model], given: Mapping[str, Any], *, source: str) -> _Model:
    """Return the settings that a mapping describes; all unknown keys and wrong values are one error of `source`."""
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        raise problems_of(error, model, source=source) from None


def problems_of(error: ValidationError, model: type[BaseModel], *, source: str) -> ConfigError:
    """Return the error to raise for what pydantic found."""
    lines = [
        line if line[0] != ":" else f"the configuration{line}" for line in _lines(error, model)
    ]
    if len(lines) == 1:
        return ConfigError(f"{source}: {lines[0]}")
    return ConfigError(
        f"{source}: {len(lines)} problems\n" + "\n".join(f"  {line}" for line in lines)
    )


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

    `find` returns the settings of a name, or None; `names` are those that a message offers;
    `from_json` says that lists are read as tuples.
    """
    if isinstance(given, BaseModel):
        return given
    name = given.get(key, default) if isinstance(given, Mapping) else None
    if name is None:
        found = "" if isinstance(given, Mapping) else f", found {_shown(given)}"
        raise _explained(
            [f": must be a section with the key '{key}', which is one of {one_of(names)}{found}."]
        )
    model = find(name) if isinstance(name, str) else None
    if model is None:
        raise _explained(
            [
                f"{key}: must be one of {one_of(names)}, found {name!r}.{suggestion(str(name), names)}"
            ]
        )
    content = dict(
        given
    )  # a name that was not given is not filled in: `model_fields_set` must not hold it
    try:
        return (
            model.model_validate_json(json.dumps(content), strict=True)
            if from_json
            else model(**content)
        )
    except ValidationError as error:
        raise _explained(_lines(error, model)) from None


def _explained(lines: list[str]) -> PydanticCustomError:
    """Return an error with one message per wrong key, whose dotted key starts at the section."""
    return PydanticCustomError("explained", "{text}", {"lines": lines, "text": "; ".join(lines)})


def _lines(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Return one line for each problem: its dotted key, the rule, and what was found."""
    found = error.errors()
    above = {each["loc"][:depth] for each in found for depth in range(len(each["loc"]))}
    lines: dict[str, None] = {}
    offered: set[tuple[str, ...]] = set()
    for each in found:
        where = ".".join(map(str, each["loc"]))
        if each["type"] == "explained":
            lines |= dict.fromkeys(
                f"{where}{'' if line[0] == ':' else '.'}{line}" for line in each["ctx"]["lines"]
            )
        elif each["type"] == "extra_forbidden":
            keys = _keys_beside(each["loc"], model)
            near = suggestion(str(each["loc"][-1]), keys)
            # The keys of a section are listed once, however many wrong ones it has.
            allowed = "" if tuple(keys) in offered else f" Allowed keys: {one_of(keys)}."
            lines[f"{where}: unknown key.{near}{allowed}"] = None
            offered.add(tuple(keys))
        elif each["type"] == "missing" and isinstance(
            each["loc"][-1], int
        ):  # of a list with a fixed length
            key = ".".join(map(str, each["loc"][:-1]))
            lines[f"{key}: more values are needed, found {_shown(each['input'])}."] = None
        elif (
            each["type"] != "too_short" or each["loc"] not in above
        ):  # a list whose items are wrong counts as empty
            lines[f"{where}: {_rule(each)}"] = None
    return list(lines)


def _rule(error: ErrorDetails) -> str:
    """Return pydantic's rule with what was found, and the likely name where names are allowed."""
    rule = error["msg"].removeprefix("Value error, ").removesuffix(".")
    rule = re.sub(r"^(Input|List|Tuple|String) should ", "must ", rule)
    rule = re.sub("a valid (array|tuple)", "a list", rule).replace(" after validation, not 0", "")
    if error["type"] == "missing":
        return "missing."
    if error["type"] == "value_error" and ("got " in rule or isinstance(error["input"], Mapping)):
        return (
            rule if rule.endswith("?") else f"{rule}."
        )  # a rule about several keys names the values itself
    names = re.findall(r"'([^']*)'", rule)
    near = suggestion(error["input"], names) if isinstance(error["input"], str) else ""
    return f"{rule}, found {_shown(error['input'])}.{near}"


def _keys_beside(loc: Sequence[str | int], model: type[BaseModel]) -> list[str]:
    """Return the keys of the models that hold the last key of a location."""
    models = [model]
    for part in loc[:-1]:
        fields = [each.model_fields[part] for each in models if part in each.model_fields]
        models = [
            each for field in fields for each in _models_in(field.annotation)
        ] or models  # a key of a mapping
    return list(dict.fromkeys(key for each in models for key in each.model_fields))


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that an annotation holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _shown(value: Any) -> str:
    """Return a value as it is written in a configuration, at most 80 characters."""
    text = (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    )
    return text if len(text) <= 80 else text[:77] + "…"
