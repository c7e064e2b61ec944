"""Base of all documents: typed attributes over the keys of a JSON object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import methodcaller
from typing import Self, Unpack

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError, model_validator
from pydantic_core import ErrorDetails

from neurocontrast.reading import ErrorOptions, refuse

Json = dict[str, object]
"""Object of a JSON file: key → value."""
_NOUNS = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a section of keys",
    "model_type": "a section of keys",
}
"""Type of pydantic's error → noun for the value that a key must hold, for messages."""
_MOST_CHARACTERS = 80
"""Largest number of characters of a wrong value that a message shows."""
_SCALARS = frozenset((str, float, int, bool, type(None)))


class Document(BaseModel):
    """Content of a JSON object with typed keys; unknown keys are kept, and null counts as absent.

    Attributes hold the keys that the package reads. `content` gives all keys with their values, in
    the order in which they were read or given.
    """

    model_config = ConfigDict(
        frozen=True, strict=True, extra="ignore", protected_namespaces=(), defer_build=True
    )
    _content: Json = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _keep_content(cls, content: object, validate: Callable[[object], Self]) -> Self:
        if not isinstance(content, Mapping):
            return validate(content)
        plain = _plain_section(content)
        stated = dict(filter(_is_stated, plain.items()))
        document = validate(stated)
        document._content = plain
        return document

    @classmethod
    def of(cls, content: object, place: object, **on_error: Unpack[ErrorOptions]) -> Self:
        """Check the content of a JSON object, and return the document; one error names all faults.

        Parameters
        ----------
        content : mapping
            Keys and values of the JSON object.
        place : object
            Name of the file or section, as messages name it.
        **on_error
            Class of the error and remedy, as `neurocontrast.reading.refuse` takes them.

        Raises
        ------
        DataError
            Naming every key that is missing or has a wrong value; of another class if `on_error`
            says so.
        """
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            refuse(place, _problem_of(error), **on_error)

    def content(self) -> Json:
        """Return a copy of all keys and values of the JSON object, unknown keys included."""
        return _plain_section(self._content)

    def has(self, key: str) -> bool:
        """Tell whether the document's JSON object has a `key`, even if the value is null."""
        return key in self._content

    def with_keys(self, **values: object) -> Self:
        """Return a copy of the document with other values of some keys; new keys come last."""
        return type(self).model_validate({**self._content, **values})

    def without(self, *keys: str) -> Self:
        """Return a copy of the document without some keys."""
        kept = self.content()
        for key in keys:
            kept.pop(key, None)
        return type(self).model_validate(kept)


def content_of(document: Document | None) -> Json:
    """Return all keys and values of a document as written; an empty dict for None."""
    if document is None:
        return {}
    return document.content()


def shared_content(contents: Sequence[Mapping[str, object]]) -> Json:
    """Return the keys and values that are the same in all of several JSON objects.

    A key is left out where the value is null.
    """
    shared = {}
    for key, value in contents[0].items():
        values = list(map(methodcaller("get", key), contents))
        if value is not None and values.count(value) == len(values):
            shared[key] = value
    return shared


def _plain(value: object) -> object:
    """Return a copy of a value, ready for a JSON file.

    A `Document` becomes a dict of its keys and values, a tuple a list, also within dicts and lists.
    """
    if type(value) in _SCALARS:  # most values: digests of people, cells of known answers
        return value
    if isinstance(value, Document):
        return value.content()
    if isinstance(value, Mapping):
        return _plain_section(value)
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    return value


def _plain_section(content: Mapping[str, object]) -> Json:
    plain = {}
    for key, value in content.items():
        plain[str(key)] = _plain(value)
    return plain


def _is_stated(item: tuple[str, object]) -> bool:
    return item[1] is not None


def _problem_of(error: ValidationError) -> str:
    """List the missing keys and the wrong values of a JSON object, as a sentence for an error."""
    lacking = []
    wrong = []
    for problem in error.errors():
        key = ".".join(map(str, problem["loc"]))
        if problem["type"] == "missing":
            lacking.append(key)
        else:
            wrong.append(_sentence(key, problem))
    if lacking:
        wrong.insert(0, f"lacks {', '.join(lacking)}")
    return "; ".join(dict.fromkeys(wrong))


def _sentence(key: str, problem: ErrorDetails) -> str:
    """Return a sentence on a wrong value of a JSON object, for an error: the rule, and the value.

    `key` is the value's key; "" for the object itself. `problem` is pydantic's account of the
    error.
    """
    rule = problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    if problem["type"] in _NOUNS:
        rule = f"must be {_NOUNS[problem['type']]}"
    shown = repr(problem["input"])
    if len(shown) > _MOST_CHARACTERS:
        shown = shown[: _MOST_CHARACTERS - 1] + "…"
    sentence = f"{rule}, found {shown}"
    if not key:
        return sentence
    return f"'{key}' {sentence}"
