"""Compare descriptions of transforms: JSON that tells a transform's class and settings.

The descriptions of one transform before and after a call are compared with each other, and a
description in a file, maybe of an earlier version, with that of a transform in memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from neurocontrast.transforms.attributes import (
    LAST_FILES_OF_READERS,
    PATH_WITHIN,
    describe_text,
    name_of_text,
)
from neurocontrast.transforms.describing import (
    AFFINE,
    CONTAINER,
    ITEMS,
    MAKER,
    METHOD,
    OWNER,
    WRAPPED,
    WRITTEN_KEYS,
    Description,
)

_PATH_AS_TEXT = re.compile(r"\A\w*Path: \w*Path\((['\"])(.+)\1\)\Z", re.DOTALL)


def is_same(stored: Description, current: Description) -> bool | None:
    """Tell whether `stored`, a transform's description in a file, equals the `current` description.

    The result is None if too little was stored to tell.

    Versions before 2026-11-28 wrote absolute paths, and for MONAI's image readers the names of the
    files that a reader had read last; they described partial functions and bound methods by class
    or name alone, and left out options of `Compose`, classes of containers, and the functions by
    which pickle makes an object. Versions before 2026-11-29 recorded which fields of a pydantic
    model were set explicitly, so that writing out a default changed the description.
    """
    stored = _renewed(stored)
    if stored == current:
        return True
    if stored == _of_earlier_version(current):
        return None
    return False


def _renewed(stored: Description) -> Description:
    """Return a description `stored` by an earlier version in the form of this version.

    Absolute paths become digests. Removed are the names of the files that a MONAI image reader had
    read last, and the list of fields that were set explicitly in a pydantic model.
    """
    if isinstance(stored, list):
        return list(map(_renewed, stored))
    if isinstance(stored, dict):
        is_reader = str(stored.get("class")).startswith("monai.data.image_reader.")
        names = map(name_of_text, stored)
        renewed = dict(zip(names, map(_renewed, stored.values()), strict=True))
        renewed.pop(WRITTEN_KEYS, None)
        for name in LAST_FILES_OF_READERS:
            if is_reader:
                renewed.pop(name, None)
        return renewed
    if isinstance(stored, str):
        return describe_text(_PATH_AS_TEXT.sub(r"\2", stored))
    return stored


def _of_earlier_version(description: Description) -> Description:
    """Return a transform's description in the less detailed form that earlier versions stored."""
    if isinstance(description, list):
        return list(map(_of_earlier_version, description))
    if not isinstance(description, dict):
        return description
    if CONTAINER in description or description.keys() == {"class", WRAPPED}:
        return _of_earlier_version(description.get(ITEMS, description.get(WRAPPED)))
    if description.keys() == {METHOD, OWNER}:
        return description[METHOD]
    if description.get("class") == "functools.partial":
        return {"class": "functools.partial"}
    if description.get("class") == "monai.transforms.compose.Compose":
        return _of_earlier_version(description["transforms"])
    if description.keys() == {"array", AFFINE}:
        return {"array": description["array"]}
    weaker = dict(zip(description, map(_of_earlier_version, description.values()), strict=True))
    weaker.pop(MAKER, None)
    return weaker


def differences_of(before: Description, after: Description, path: str = "") -> Iterator[str]:
    """Yield the dotted names of attributes that differ between descriptions `before` and `after`.

    Both describe one object, such as a transform before and after a call. `path` is the dotted name
    of the object in which the attributes are.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys([*before, *after]):
            below = f"{path}.{name}".removeprefix(".")
            if name in before and name in after:
                yield from differences_of(before[name], after[name], below)
            else:
                yield below
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences_of(old, new, f"{path}[{number}]")
    elif before != after:
        yield path


def texts_of(description: Description) -> Iterator[str]:
    """Yield every text within a transform's description: keys of mappings, and text values."""
    if isinstance(description, dict):
        for name, item in description.items():
            yield name
            yield from texts_of(item)
    elif isinstance(description, list):
        for item in description:
            yield from texts_of(item)
    elif isinstance(description, str):
        yield description


def paths_within(description: Description) -> Iterator[Description]:
    """Yield the digest of each file path that a transform's description has inside a longer text.

    A digest is ``{"file": …}`` of the content of the file at the path, or ``{"path": …}`` of the
    path if there is no file.
    """
    items: Iterable[Description] = ()
    if isinstance(description, dict):
        if PATH_WITHIN in description:
            yield description[PATH_WITHIN]
        items = description.values()
    elif isinstance(description, list):
        items = description
    for item in items:
        yield from paths_within(item)
