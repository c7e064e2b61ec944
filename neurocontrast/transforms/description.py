"""Descriptions of transforms in a configuration, and settings whose place they can take; needs no MONAI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self, TypeAlias

from pydantic import AfterValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from neurocontrast.settings import Settings

TARGET = "_target_"  # the key of a description that names the class of a transform
_EVALUATED = ("$", "@", "%")  # MONAI's parser runs a text that begins with $, and follows references of @ and %

Description: TypeAlias = Sequence[Mapping[str, Any]]
"""One mapping a transform: its class as ``_target_``, its arguments as the other keys."""


def each_part(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every part of a description with its place, from the outside inwards."""
    yield place, value
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from each_part(part, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from each_part(part, f"{place}[{number}]")


def problems_of(description: Description) -> list[str]:
    """Return what is wrong with the form of a description, each with its place; no name is looked up."""
    found = [problem for place, part in each_part(description) if (problem := _problem(part, place))]
    return found + [f"[{number}]: has no {TARGET}" for number, step in enumerate(description) if TARGET not in step]


def _problem(value: Any, place: str) -> str:
    if isinstance(value, Mapping):
        for key in value:
            if key != TARGET and not (isinstance(key, str) and key.isidentifier() and not key.startswith("_")):
                return f"{place}: the key {key!r} is not allowed; {TARGET} and the names of arguments are"
        if "allow_pickle" in value:
            return f"{place}.allow_pickle: pickled data are never read"
        if not isinstance(value.get(TARGET, ""), str):
            return f"{place}.{TARGET}: must be text, found {value[TARGET]!r}"
    elif isinstance(value, str):
        if value.strip().startswith(_EVALUATED):
            return f"{place}: {value!r} would be evaluated as an expression or a reference, which is not allowed"
    elif value is not None and not isinstance(value, bool | int | float | list | tuple):
        return f"{place}: must be plain data (a number, text, true, false, null, a list), found {type(value).__name__}"
    return ""


def _checked(steps: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    if problems := problems_of(steps):
        raise ValueError("; ".join(problems))
    return steps


TargetList = Annotated[tuple[dict[str, Any], ...], Field(min_length=1), AfterValidator(_checked)]
"""A description as a field of settings; its form is checked without importing MONAI."""

GIVEN = ({TARGET: "python"},)
"""What a resolved configuration says of transforms that were given as Python objects."""


class Replaceable(Settings):
    """Settings whose place the transforms of a user can take: a description, or `GIVEN` for Python objects."""

    section: ClassVar[str]
    transforms: TargetList | None = None

    @classmethod
    def replaced(cls) -> tuple[str, ...]:
        """Return the settings that have no effect where ``transforms`` is given."""
        return tuple(name for name in cls.model_fields if name not in ("kind", "transforms"))

    def with_given(self) -> Self:
        """Return the settings of transforms that were given from Python."""
        content = self.model_dump()
        kept = {name: value for name, value in content.items() if name not in self.replaced()}
        return type(self).model_validate(kept | {"transforms": GIVEN})

    @model_validator(mode="after")
    def _check_alone(self) -> Self:
        fields = type(self).model_fields
        others = [name for name in self.replaced() if getattr(self, name) not in (None, fields[name].default)]
        if self.transforms is not None and others:
            named = ", ".join(f"{self.section}.{name}" for name in others)
            raise ValueError(f"{self.section}.transforms takes the place of {named}; take the one or the others out")
        return self

    @model_serializer(mode="wrap")
    def _without_replaced(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what nothing reads."""
        content: dict[str, Any] = dump(self)
        unread = ("transforms",) if self.transforms is None else self.replaced()
        return {name: value for name, value in content.items() if name not in unread}
