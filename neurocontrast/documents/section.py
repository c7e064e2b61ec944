"""Base class of sections of ``evaluation.json``, which are checked when read and when written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, ValidationInfo, model_validator

from neurocontrast.exceptions import one_of


class ResultSection(BaseModel):
    """Section of ``evaluation.json``; null counts as absent, unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, content: object, info: ValidationInfo) -> object:
        if not isinstance(content, Mapping):
            return content
        unknown = [name for name in content if name not in cls.model_fields]
        if unknown and info.context == "writing" and cls.model_config.get("extra") != "allow":
            raise ValueError(f"{cls.__name__} has no field {one_of(unknown)}")
        stated = {}
        for name, value in content.items():
            if value is not None or not cls._has_default(name):
                stated[name] = value
        return stated

    @classmethod
    def _has_default(cls, name: str) -> bool:
        """Tell whether the field `name` has a default other than None.

        The caller drops a null of the file for such a field, so that the default is taken.
        """
        field = cls.model_fields.get(name)
        return field is not None and field.default is not None and not field.is_required()


class Part(ResultSection):
    """Base class of sections of ``evaluation.json`` that hold one further analysis (finding) each.

    An example is the learning curve. `key` is the section's key in the file.
    """

    key: ClassVar[str]
