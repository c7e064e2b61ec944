"""Name classes and functions in descriptions of transforms; refuse any that no name identifies."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
from scipy import special

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.attributes import name_of_text

ROUTINES = (
    types.BuiltinFunctionType,
    types.ClassMethodDescriptorType,
    types.FunctionType,
    types.MethodDescriptorType,
    types.MethodType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
)
_MODULES_OF_PICKLE = ("copyreg", "_codecs")


@dataclass(frozen=True)
class Position:
    """Path of a value inside the object that is being described, such as ``transforms.0.prob``.

    The objects that enclose the value are kept too, to find cycles.
    """

    names: tuple[str, ...] = ()
    around: tuple[int, ...] = ()

    def within(self, value: object) -> Position:
        """Return a new position, for values inside `value`, an object that is being described.

        `value` is added to the objects that enclose the position. The path of names stays the same;
        the method `at` extends the path.
        """
        return replace(self, around=(*self.around, id(value)))

    def at(self, name: str) -> Position:
        """Return a new position, whose path is extended by `name` of an attribute or item."""
        return replace(self, names=(*self.names, name))

    def refuse(self, problem: str) -> NoReturn:
        """Raise a DataError with `problem`, after the path that leads to the refused value.

        The path is within the described object, such as ``transforms.0.prob``.
        """
        path = ".".join(self.names)
        if path:
            problem = f"{path}: {problem}"
        raise DataError(problem)


def typed_key(key: object) -> str:
    """Return a mapping's `key` as text together with its type, to tell keys 1 and "1" apart."""
    return f"{type(key).__name__}: {key!r}"


def object_of(module: str | None, name: str) -> object:
    """Return the object of dotted `name` in an imported `module`; None if there is none."""
    value: object = sys.modules.get(module or "")
    for attribute in name.split("."):
        value = getattr(value, attribute, None)
    return value


def state_by_class(
    value: object, attributes: Mapping[str, object], position: Position
) -> Mapping[str, object]:
    """Return the attributes of object `value` that its ``__getstate__`` returns: name → value.

    If ``__getstate__`` returns no mapping, `attributes`, all attributes of the object by name, are
    returned in its place. If ``__getstate__`` fails, a DataError names the path in `position`.
    """
    try:
        state = value.__getstate__()
    except Exception:  # the class's own code, which may raise anything
        position.refuse(no_description(type(value)))
    if isinstance(state, Mapping):
        return dict(zip(map(str, state), state.values(), strict=True))
    return attributes


def no_description(kind: type) -> str:
    """Return the error message for an object of class `kind`, which has no description.

    A description is JSON that tells an object's class and settings, by which a cache tells objects
    apart.
    """
    return (
        f"a {kind.__name__} has no description, so that a cache could not tell it from another. "
        "Keep numbers, text, arrays or objects of a module's class in its place."
    )


def is_plain(value: object) -> bool:
    """Tell whether ``str`` describes `value` fully: a number, None, or a text without a path."""
    if isinstance(value, str):
        return name_of_text(value) == value
    return value is None or isinstance(value, bool | int | float)


def name_of_ufunc(value: np.ufunc, position: Position) -> str:
    """Return the name of a ufunc of numpy or scipy for a description; refuse a user's own ufunc."""
    of_numpy = getattr(np, value.__name__, None)
    of_scipy = getattr(special, value.__name__, None)
    if value is not of_numpy and value is not of_scipy:
        position.refuse(
            f"'{value.__name__}' is a ufunc of neither numpy nor scipy, so that its results, which "
            "are kept on the disk, could not be told from another's. Call it in a function of a "
            "module."
        )
    return f"numpy.{value.__name__}"


def name_of(value: object, position: Position) -> str:
    """Return the qualified name of a class or function, with its module, for a description.

    A DataError refuses lambdas, local functions and closures.
    """
    qualified = getattr(value, "__qualname__", type(value).__name__)
    name = f"{getattr(value, '__module__', '')}.{qualified}"
    if "<" in name or _hides_values(value):
        position.refuse(
            f"'{name}' has no name of its own, so that its results, which are kept on the disk, "
            "could not be told from another's. Make it a function or a class of a module, and give "
            "its settings with functools.partial or as attributes."
        )
    return name


def _hides_values(value: object) -> bool:
    """Tell whether `value` is a closure, a function with captured values that no name describes."""
    if not isinstance(value, types.FunctionType) or value.__closure__ is None:
        return False
    return object_of(value.__module__, value.__qualname__) is not value


def is_usual_maker(maker: object, kind: type) -> bool:
    """Tell whether pickle makes an object of class `kind` in a usual way, by calling `maker`.

    `maker` is usual if it is `kind` itself, or a function of ``copyreg`` or ``_codecs``, the
    modules whose functions pickle calls for many classes.
    """
    return maker is kind or getattr(maker, "__module__", None) in _MODULES_OF_PICKLE
