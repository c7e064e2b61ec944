"""Describe transforms as JSON by class and settings, to tell different transforms apart."""

from __future__ import annotations

import inspect
import json
import logging
import random
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Mapping, Sequence
from copyreg import __newobj__  # type: ignore[attr-defined]
from enum import Enum
from functools import partial, singledispatch
from operator import itemgetter
from pathlib import PurePath
from types import MethodType, ModuleType, NoneType
from typing import TypeAlias

import numpy as np
import torch
from monai.data import MetaTensor
from monai.transforms import Compose

from neurocontrast.files import digest_of
from neurocontrast.transforms.attributes import (
    attributes_of,
    describe_path,
    describe_text,
    is_absolute,
    name_of_text,
    state_names,
)
from neurocontrast.transforms.naming import (
    ROUTINES,
    Position,
    is_plain,
    is_usual_maker,
    name_of,
    name_of_ufunc,
    no_description,
    object_of,
    state_by_class,
    typed_key,
)

Description: TypeAlias = (
    "bool | int | float | str | Sequence[Description] | Mapping[str, Description] | None"
)
"""JSON value that describes an object, such as a transform, by class and settings."""

_OPTIONS_OF_COMPOSE = {
    "map_items": True,
    "unpack_items": False,
    "lazy": False,
    "overrides": None,
}
_GENERATORS = (
    np.random.RandomState,
    np.random.Generator,
    np.random.BitGenerator,
    random.Random,
    torch.Generator,
)
_PLAIN_CONTAINERS = (dict, frozenset, list, set, tuple)
METHOD = "method"
OWNER = "of"
AFFINE = "affine"
CONTAINER = "container"
ITEMS = "items"
MAKER = "made by"
WRAPPED = "wrapped"
WRITTEN_KEYS = "__pydantic_fields_set__"
"""Attribute of pydantic models that lists explicitly set fields; earlier versions stored the
list."""
_OUTSIDE = Position()


def describe(value: object, position: Position = _OUTSIDE) -> Description:
    """Describe an object by class and settings, recursively down to numbers and text.

    Two transforms have the same description when they are of one class and were made with the same
    settings. The code of a user's class is not compared: give the class a version attribute, and
    raise the version when the code changes. State that MONAI's classes keep of a call (the files
    that a reader read last, the numbers that a random transform drew last) is left out. A user's
    class leaves attributes out by ``__getstate__``. An absolute path becomes a digest of the file's
    content, or of the path if there is no file.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if id(value) in position.around:
        return "itself"
    return _describe(value, position)


@singledispatch
def _describe(value: object, position: Position) -> Description:
    """Return the description of an object without a rule for its class.

    The object is described by the arguments that pickle stores if its class defines pickling, and
    by its attributes if not. Functions and images of nibabel have rules of their own.
    """
    if isinstance(value, np.ufunc):
        return name_of_ufunc(value, position)
    if isinstance(value, ROUTINES):
        return _describe_routine(value, position)
    kind = type(value)
    if callable(getattr(value, "get_fdata", None)):  # an image of nibabel
        return _describe_image(value, position)
    if kind.__reduce__ is not object.__reduce__ or kind.__reduce_ex__ is not object.__reduce_ex__:
        return _describe_pickled(value, position)
    return _describe_attributes(value, position)


@_describe.register(str)
def _describe_text(value: str, position: Position) -> Description:
    del position
    return describe_text(value)


@_describe.register(float)
def _describe_float(value: float, position: Position) -> Description:
    del position
    if np.isfinite(value):
        return value
    return f"{type(value).__name__}: {value!r}"


@_describe.register(complex)
@_describe.register(np.generic)
@_describe.register(torch.dtype)
@_describe.register(torch.device)
@_describe.register(np.dtype)
@_describe.register(range)
def _describe_by_repr(value: object, position: Position) -> Description:
    del position
    return f"{type(value).__name__}: {value!r}"


@_describe.register
def _describe_pure_path(value: PurePath, position: Position) -> Description:
    if is_absolute(str(value)):
        return describe_path(str(value))
    return _describe_by_repr(value, position)


@_describe.register
def _describe_enum(value: Enum, position: Position) -> Description:
    del position
    return f"{type(value).__qualname__}.{value.name}"


@_describe.register(bytes)
@_describe.register(bytearray)
def _describe_bytes(value: bytes, position: Position) -> Description:
    del position
    return {"bytes": digest_of("bytes", bytes(value).hex())}


@_describe.register
def _describe_array(value: np.ndarray, position: Position) -> Description:
    if value.dtype.hasobject:
        items = describe(value.ravel().tolist(), position)
        return {"array": {"shape": list(value.shape), "items": items}}
    array = np.ascontiguousarray(value)
    digest = digest_of("array", str(array.dtype), str(array.shape), array.tobytes().hex())
    description: dict[str, Description] = {"array": digest}
    if isinstance(value, np.ma.MaskedArray):
        description["mask"] = describe(np.ma.getmaskarray(value), position)
    return description


@_describe.register
def _describe_tensor(value: torch.Tensor, position: Position) -> Description:
    if value.layout is not torch.strided:
        dense = _describe_tensor(value.to_dense(), position)
        return {"layout": str(value.layout), "dense": dense}
    if value.is_meta or value.is_quantized:
        position.refuse(no_description(type(value)))
    tensor = value.detach().cpu().resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        return {"bfloat16": _describe_array(tensor.float().numpy(), position)}
    if tensor.is_floating_point() and tensor.itemsize == 1:
        name = str(tensor.dtype).removeprefix("torch.")
        return {name: _describe_array(tensor.float().numpy(), position)}
    description = _describe_array(np.asarray(tensor.numpy()), position)
    if isinstance(value, MetaTensor) and isinstance(description, dict):
        description[AFFINE] = describe(value.affine.numpy(), position)
    return description


@_describe.register
def _describe_compose(value: Compose, position: Position) -> Description:
    if type(value) is not Compose:  # OneOf, SomeOf and RandomOrder have settings of their own
        return _describe_attributes(value, position)
    inside = position.within(value)
    options: dict[str, Description] = {}
    for name, default in _OPTIONS_OF_COMPOSE.items():
        option = getattr(value, name, default)
        if option != default and option != {}:
            options[name] = describe(option, inside.at(name))
    transforms: list[Description] = []
    for transform in value.flatten().transforms:
        transforms.append(describe(transform, inside.at(type(transform).__name__)))
    if not options:
        return transforms
    return {"class": name_of(Compose, position), "transforms": transforms, **options}


@_describe.register
def _describe_mapping(value: Mapping, position: Position) -> Description:
    inside = position.within(value)
    keys = list(map(partial(_key_of, position=inside), value))
    if len(set(keys)) < len(keys):  # 1 and "1"
        keys = list(map(typed_key, value))
    items: dict[str, Description] = {}
    for key, item in zip(keys, value.values(), strict=True):
        items[key] = describe(item, inside.at(key))
    if isinstance(value, OrderedDict) and len(items) > 1:  # applied in their order
        return list(map(list, items.items()))
    description = dict(sorted(items.items(), key=itemgetter(0)))
    return _with_class(value, description, position)


@_describe.register(list)
@_describe.register(tuple)
def _describe_sequence(value: Sequence[object], position: Position) -> Description:
    inside = position.within(value)
    items: list[Description] = []
    for number, item in enumerate(value):
        items.append(describe(item, inside.at(str(number))))
    return _with_class(value, items, position)


@_describe.register(set)
@_describe.register(frozenset)
def _describe_set(value: set[object], position: Position) -> Description:
    inside = position.within(value)
    items = sorted(map(partial(describe, position=inside), value), key=str)
    return _with_class(value, items, position)


def _with_class(value: object, items: Description, position: Position) -> Description:
    """Return `items`, the description of a container, with class and attributes of `value`.

    Class and attributes are added if `value` is of a class derived from list, dict or set, for
    example; for a plain container, `items` is returned unchanged.
    """
    kind = type(value)
    if kind in _PLAIN_CONTAINERS or not isinstance(value, _PLAIN_CONTAINERS):
        return items
    description: dict[str, Description] = {CONTAINER: name_of(kind, position), ITEMS: items}
    attributes = dict(getattr(value, "__dict__", {}))
    if isinstance(value, defaultdict):
        attributes["default_factory"] = value.default_factory
    return description | _describe_named(attributes, position.within(value))


def _describe_named(
    values: Mapping[str, object], inside: Position, left_out: Collection[str] = ()
) -> dict[str, Description]:
    """Return the descriptions of attribute `values` by name, in alphabetical order.

    Equal settings so give equal descriptions. Names in `left_out` are skipped.
    """
    description: dict[str, Description] = {}
    for name in sorted(values.keys() - set(left_out)):
        description[name] = describe(values[name], inside.at(name))
    return description


@_describe.register
def _describe_class(value: type, position: Position) -> Description:
    return name_of(value, position)


@_describe.register
def _describe_module(value: ModuleType, position: Position) -> Description:
    del position
    return f"module: {value.__name__}"


@_describe.register
def _describe_logger(value: logging.Logger, position: Position) -> Description:
    del position
    return f"logger: {value.name}"


@_describe.register
def _describe_partial(value: partial, position: Position) -> Description:
    inside = position.within(value)
    return {
        **_describe_named(value.__dict__, inside),
        "class": name_of(type(value), position),
        "func": describe(value.func, inside.at("func")),
        "args": describe(value.args, inside.at("args")),
        "keywords": describe(value.keywords, inside.at("keywords")),
    }


@_describe.register
def _describe_torch_module(value: torch.nn.Module, position: Position) -> Description:
    description = _describe_attributes(value, position)
    if isinstance(description, dict) and len(value._modules) > 1:
        description["order"] = list(value._modules)
    return description


def _describe_generator(value: object, position: Position) -> Description:
    position.refuse(
        f"a {type(value).__name__} draws random numbers and has no description. Inherit from "
        "monai.transforms.Randomizable and draw with its R."
    )


for _generator in _GENERATORS:
    _describe.register(_generator, _describe_generator)


def _describe_routine(value: object, position: Position) -> Description:
    """Return the description of a function: its qualified name.

    A bound method is described by name and by its object.
    """
    name = name_of(value, position)
    owner = getattr(value, "__self__", None)
    if owner is None or isinstance(owner, ModuleType):
        return name
    if inspect.isclass(owner):
        defining = name.rpartition(".")[0]
        inheriting = name_of(owner, position)
        is_inherited = isinstance(value, MethodType) and defining != inheriting
        if is_inherited:
            return {METHOD: name, OWNER: inheriting}
        return name
    return {METHOD: name, OWNER: describe(owner, position.within(value).at(name))}


def _describe_image(value: object, position: Position) -> Description:
    """Return the description of a nibabel image: class, voxels and affine.

    Other attributes are left out, because they contain file names.
    """
    return {
        "class": name_of(type(value), position),
        "voxels": describe(np.asarray(value.dataobj), position),  # type: ignore[attr-defined]
        AFFINE: describe(value.affine, position),  # type: ignore[attr-defined]
    }


def _describe_pickled(value: object, position: Position) -> Description:
    """Return the description of an object whose class defines pickling.

    The description consists of the arguments and the state that pickle would store. A class that
    cannot be pickled is refused.
    """
    kind = type(value)
    try:
        recipe = value.__reduce_ex__(4)
    except Exception:  # the class's own code, which may raise anything
        position.refuse(no_description(kind))
    if isinstance(recipe, str):
        return _describe_global(value, recipe, position)
    inside = position.within(value)
    maker, arguments, state, items, pairs = (*recipe, None, None, None)[:5]
    if maker is __newobj__:
        arguments = arguments[1:]
    contents = {
        "arguments": arguments,
        "state": state,
        "items": items and list(items),
        "pairs": pairs and list(pairs),
    }
    description: dict[str, Description] = {"class": name_of(kind, position)}
    if not is_usual_maker(maker, kind):
        description[MAKER] = describe(maker, inside)
    for name, content in contents.items():
        if content is not None:
            description[name] = describe(content, inside)
    return description


def _describe_global(value: object, name: str, position: Position) -> Description:
    """Return the description of an object that pickle stores as `name` in a module.

    The description is the module and the name, "module.name", if the name leads to the object in
    its module or in the module of its class. If it does not, the description is the object's class
    with the description of the object in ``__wrapped__``, as for a decorated function; without
    ``__wrapped__``, a DataError refuses the object.
    """
    kind = type(value)
    for module in (getattr(value, "__module__", None), kind.__module__):
        if object_of(module, name) is value:
            return f"{module}.{name}"
    wrapped = getattr(value, "__wrapped__", None)
    if wrapped is None:
        position.refuse(no_description(kind))
    inside = position.within(value).at(WRAPPED)
    return {"class": name_of(kind, position), WRAPPED: describe(wrapped, inside)}


def _describe_attributes(value: object, position: Position) -> Description:
    """Return the description of an object by class and attributes.

    Attributes that each call of a transform or reader changes are left out, and attributes that the
    class's own ``__getstate__`` leaves out.
    """
    kind = type(value)
    attributes = attributes_of(value)
    if attributes is None:
        position.refuse(no_description(kind))
    inside = position.within(value)
    left_out = {*state_names(kind), WRITTEN_KEYS}
    if kind.__getstate__ is not object.__getstate__:
        state = state_by_class(value, attributes, position)
        left_out |= attributes.keys() - state.keys()
        attributes = {**state, **attributes}
    description: dict[str, Description] = {"class": name_of(kind, position)}
    if not position.names:
        inside = inside.at(kind.__name__)
    return description | _describe_named(attributes, inside, left_out)


def _key_of(key: object, position: Position) -> str:
    """Return a mapping's `key` as text, which JSON needs, for the mapping's description."""
    if isinstance(key, str):
        return name_of_text(key)
    says_all = not isinstance(key, tuple) or all(map(is_plain, key))
    if says_all and isinstance(key, NoneType | bool | int | float | tuple | Enum):
        return str(key)
    return json.dumps(describe(key, position), sort_keys=True)
