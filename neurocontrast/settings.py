"""Check settings of a configuration or a constructor; errors name the key, the rule, and the value.

A component is an object whose settings are checked: for instance a loss, a kernel of a loss, or the
kind of data that the section ``data`` of a configuration names.
"""

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

Fields = dict[str, Any]
"""Key of a section → pair of type and default (``...`` for none), as `pydantic.create_model` takes
them."""

_Model = TypeVar("_Model", bound=BaseModel)
_Component = TypeVar("_Component")
_Arguments = ParamSpec("_Arguments")


class Settings(BaseModel):
    """Base class of pydantic models with a component's settings: unchangeable, no unknown keys."""

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
    """Wrap a constructor to check arguments by their annotations; a wrong one is a `ConfigError`.

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
    """Return a pydantic model that checks the arguments of a constructor, a field for each."""
    # No source has its fields: else pydantic searches every imported module for their docstrings.
    return create_model(
        "Arguments",
        __base__=Settings,
        __cls_kwargs__={"use_attribute_docstrings": False},
        **_fields_of(constructor),
    )


def settings_model(
    component: type[object], base: type[_Model], *, key: str, name: str
) -> type[_Model]:
    """Derive a component's section of a configuration, a pydantic model, from the constructor.

    Keys, defaults and rules are the parameters of ``__init__`` and their annotations, after the
    keys of `base`.

    Parameters
    ----------
    component : class
        Component with a written-out constructor.
    base : class
        Model with the keys that all such sections have.
    key : str
        Key of the section that names the component, such as ``loss``.
    name : str
        Value of that key for this component.

    Returns
    -------
    class
        Subclass of `base`, whose fields have the descriptions of the component's docstring.
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
    model = create_model(
        component.__name__,
        __base__=base,
        __cls_kwargs__={"use_attribute_docstrings": False},
        **fields,
    )
    model.__doc__ = (inspect.getdoc(component) or "").partition("\n\n")[0]
    return model


def _parameters_of(component: type[object]) -> dict[str, str]:
    """Return parameter → description, read from the numpydoc docstring of the class `component`."""
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


def _fields_of(constructor: Callable[..., None]) -> Fields:
    """Return parameter → pair of annotation and default, for all parameters of a constructor.

    The first parameter, ``self``, is left out; the default of a required parameter is ``...``.
    """
    annotations = get_type_hints(constructor, include_extras=True)
    _, *parameters = inspect.signature(constructor).parameters.values()
    fields: Fields = {}
    for parameter in parameters:
        default = parameter.default
        if default is parameter.empty:
            default = ...
        fields[parameter.name] = (annotations.get(parameter.name, Any), default)
    return fields


class KindsInSchema:
    """Annotation that adds the keys of all possible components to a section's JSON schema.

    A component is what a key of the section names, for instance the loss that the key ``loss``
    names, and each component has keys of its own. `models` is called only when a JSON schema is
    made, because settings of losses need PyTorch.

    Parameters
    ----------
    key : str
        The key that names the component, such as ``loss``.
    models : function
        Returns name of a component → class of the component's settings.
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
        """Return the JSON schema of a section, which allows any one of the components' schemas.

        The components are the losses, kernels or kinds of data that the section may name by its key
        `key`; `models` returns the settings class of each component, from which the component's
        schema is made. The given `schema` is not used.
        """
        del schema
        choices: list[CoreSchema | tuple[CoreSchema, str]] = []
        for model in self.models().values():
            choice = dict(model.__pydantic_core_schema__)
            choice.setdefault("ref", f"{model.__module__}.{model.__qualname__}:{id(model)}")
            choices.append(cast(CoreSchema, choice))
        kinds: list[JsonSchemaValue] = handler(core_schema.union_schema(choices))["anyOf"]
        if not self.is_required:
            return {"anyOf": kinds}
        named: list[JsonSchemaValue] = []
        for kind in kinds:
            named.append({"allOf": [kind], "required": [self.key]})
        if self.of_user:
            name = {"type": "string", "pattern": ":"}
            named.append({"properties": {self.key: name}, "required": [self.key]})
        return {"oneOf": named}


def settings_from(model: type[_Model], given: Mapping[str, object], *, source: str) -> _Model:
    """Check a mapping of keys and values, and return the settings as an instance of `model`.

    Parameters
    ----------
    model : class
        Pydantic class of the settings.
    given : mapping
        Keys and values.
    source : str
        Name of the file or section, with which messages begin.

    Raises
    ------
    ConfigError
        Naming all unknown keys and wrong values.
    """
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        raise problems_of(error, model, source=source) from None


def problems_of(error: ValidationError, model: type[BaseModel], *, source: str) -> ConfigError:
    """Turn pydantic's error into a `ConfigError` naming every wrong key of a file or section."""
    lines = []
    for line in _lines(error, model):
        if line[0] == ":":
            line = f"the configuration{line}"
        lines.append(line)
    if len(lines) == 1:
        return ConfigError(f"{source}: {lines[0]}")
    listed = "\n  ".join(lines)
    return ConfigError(f"{source}: {len(lines)} problems\n  {listed}")


def choose(
    given: Any,
    key: str,
    names: Sequence[str],
    find: Callable[[str], type[BaseModel] | None],
    *,
    default: str | None = None,
    from_json: bool = False,
) -> BaseModel:
    """Check the section `given`, and return the settings of the component that the section names.

    A component is, for instance, the loss that the key ``loss`` names. Each has a settings class,
    by which the section is checked, and of which an instance is returned.

    Parameters
    ----------
    given : mapping or model
        The section; an instance of a settings class is returned unchanged.
    key : str
        Key that names the component, such as ``loss``.
    names : sequence of str
        Names that a message offers.
    find : function
        Returns the settings class of a name, or None.
    default : str, optional
        Name of the component for a section without the key.
    from_json : bool
        Read lists as tuples.
    """
    if isinstance(given, BaseModel):
        return given
    rule = f": must be a section with the key '{key}', which is one of {one_of(names)}"
    if not isinstance(given, Mapping):
        raise _explained([_no_section(given, rule, find(default or ""))])
    name = given.get(key, default)
    if name is None:
        raise _explained([f"{rule}."])
    model = None
    if isinstance(name, str):
        model = find(name)
    if model is None:
        hint = _hint_for(str(name), names)
        raise _explained([f"{key}: must be one of {one_of(names)}, found {name!r}.{hint}"])
    # A default name is not filled in: `model_fields_set` must not hold the key.
    content = dict(given)
    try:
        if from_json:
            return model.model_validate_json(json.dumps(content), strict=True)
        return model(**content)
    except ValidationError as error:
        raise _explained(_lines(error, model)) from None


def _hint_for(name: str, names: Sequence[str]) -> str:
    """Return a sentence of advice on an unknown `name` in a configuration; "" without advice.

    The name should be one of `names`, of components such as losses or kernels. The advice is a
    similar name or, for ``module:Class`` of a user, to import the module.
    """
    module, _, attribute = name.partition(":")
    if module and attribute:
        return f" A class of your own is found once the program has imported '{module}'."
    return suggestion(name, names)


def _no_section(given: Any, rule: str, usual: type[BaseModel] | None) -> str:
    """Return the message for `given`, a list or a word where the configuration needs a section.

    `usual` is the class of the section's settings by default; the message lists the class's keys.
    For the section ``data``, for instance, the class is that of the settings for scans. If `usual`
    is None, the message begins with `rule`, a sentence that says which section is needed.
    """
    if usual is None:
        return f"{rule}, found {_shown(given)}."
    keys = f"Allowed keys: {one_of(usual.model_fields)}."
    return f": must be a section of keys and values, found {_shown(given)}. {keys}"


def _explained(lines: list[str]) -> PydanticCustomError:
    """Return a pydantic error that holds `lines`, one message for each wrong key of a section.

    Keys in the lines are relative to the section; `_lines_of_section` puts the section's key in
    front.
    """
    return PydanticCustomError("explained", "{text}", {"lines": lines, "text": "; ".join(lines)})


def _lines(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Return a message for each wrong key in pydantic's `error`: dotted key, rule and wrong value.

    `model` is the settings class that refused the keys, in which allowed keys are looked up.
    """
    problems = error.errors()
    sections = set()
    for problem in problems:
        for depth in range(len(problem["loc"])):
            sections.add(problem["loc"][:depth])
    lines: dict[str, None] = {}
    offered: set[tuple[str, ...]] = set()
    for problem in problems:
        keys = problem["loc"]
        if problem["type"] == "explained":
            lines |= dict.fromkeys(_lines_of_section(problem))
        elif problem["type"] == "extra_forbidden":
            allowed = tuple(_keys_beside(keys, model))
            lines[_unknown_key(keys, allowed, is_offered=allowed in offered)] = None
            offered.add(allowed)
        elif problem["type"] == "missing" and isinstance(keys[-1], int):  # of a list's fixed length
            shown = _shown(problem["input"])
            lines[f"{_dotted(keys[:-1])}: more values are needed, found {shown}."] = None
        # A list whose items are wrong counts as empty.
        elif problem["type"] != "too_short" or keys not in sections:
            lines[f"{_dotted(keys)}: {_rule(problem)}"] = None
    return list(lines)


def _dotted(keys: Sequence[str | int]) -> str:
    return ".".join(map(str, keys))


def _lines_of_section(problem: ErrorDetails) -> Iterator[str]:
    """Yield the messages on wrong keys of a nested section, each with the section's key in front.

    `problem` is the section's entry in pydantic's error, which holds the messages of `_explained`.
    """
    section = _dotted(problem["loc"])
    for line in problem["ctx"]["lines"]:
        if line[0] == ":":
            yield f"{section}{line}"
        else:
            yield f"{section}.{line}"


def _unknown_key(keys: Sequence[str | int], allowed: Sequence[str], *, is_offered: bool) -> str:
    """Return the message on the unknown key at the path `keys`, with a similar allowed key.

    All `allowed` keys are listed unless `is_offered`: an earlier message of the section lists them.
    """
    line = f"{_dotted(keys)}: unknown key.{suggestion(str(keys[-1]), allowed)}"
    if is_offered:
        return line
    return f"{line} Allowed keys: {one_of(allowed)}."


def _rule(error: ErrorDetails) -> str:
    """Return a sentence on one wrong value of pydantic's `error`: rule, value, similar name."""
    rule = error["msg"].removeprefix("Value error, ").removesuffix(".")
    rule = re.sub(r"^(Input|List|Tuple|String) should ", "must ", rule)
    rule = re.sub("a valid (array|tuple)", "a list", rule).replace(" after validation, not 0", "")
    if error["type"] == "missing":
        return "missing."
    # A rule on several keys names their values.
    if error["type"] == "value_error" and ("got " in rule or isinstance(error["input"], Mapping)):
        if rule.endswith("?"):
            return rule
        return f"{rule}."
    near = ""
    if isinstance(error["input"], str):
        near = suggestion(error["input"], re.findall(r"'([^']*)'", rule))
    return f"{rule}, found {_shown(error['input'])}.{near}"


def _keys_beside(loc: Sequence[str | int], model: type[BaseModel]) -> list[str]:
    """Return the allowed keys of the section that holds a wrong key.

    `loc` is the path of the wrong key in the settings class `model`.
    """
    models = [model]
    for key in loc[:-1]:
        inner: list[type[BaseModel]] = []
        for outer in models:
            if key in outer.model_fields:
                inner += _models_in(outer.model_fields[str(key)].annotation)
        models = inner or models  # without inner models, a key of a mapping
    keys: dict[str, None] = {}
    for holder in models:
        keys |= dict.fromkeys(holder.model_fields)
    return list(keys)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the pydantic models within a type annotation, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _shown(value: object) -> str:
    """Return `value` as text for a message, cut to 80 characters; True is "true", None "null"."""
    shown = repr(value)
    if value is None:
        shown = "null"
    if isinstance(value, bool):
        shown = str(value).lower()
    if len(shown) > 80:
        return shown[:77] + "…"
    return shown
