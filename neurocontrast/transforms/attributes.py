"""Read settings from attributes of transforms, and describe file paths by anonymous digests."""

from __future__ import annotations

import dis
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path, PureWindowsPath
from types import FunctionType
from urllib.parse import urlsplit
from urllib.request import url2pathname

from monai.data import ImageReader
from monai.transforms import Randomizable

from neurocontrast.files import digest_of, digest_of_file
from neurocontrast.reading import problem_of_place

_DRAWN_BY_MONAI = ("R", "_do_transform")
LAST_FILES_OF_READERS = ("filenames", "has_series")
_DRAWING_METHODS = ("randomize", "__call__")
_OF_A_HOME = re.compile(r"~\w*[/\\].")
_PATH_WITHIN = re.compile(
    r"(?<![\w.)\]])("
    r"(~\w*|[A-Za-z]:)?/+[^/\s]+/+[^/\s]"  # /data/sub-01, ~/data/sub-01, C:/data/sub-01
    r"|[A-Za-z]:\\+[^\\\s]+\\+[^\\\s]"  # C:\data\sub-01
    r"|\\\\\w+\\+\w"  # \\server\data
    r").*",
    re.DOTALL,
)
PATH_WITHIN = "path within"


def attributes_of(value: object) -> dict[str, object] | None:
    """Return the attributes of an object by name; None if an object of its class can have none.

    Attributes in ``__slots__`` are returned, too. None is for a `value` such as a number, which has
    neither ``__dict__`` nor ``__slots__``.
    """
    slots = [
        name
        for base in type(value).__mro__
        for name in _slots_of(base)
        if name not in ("__dict__", "__weakref__") and hasattr(value, name)
    ]
    has_slots = any("__slots__" in vars(base) for base in type(value).__mro__)
    if not hasattr(value, "__dict__") and not has_slots:
        return None
    return {name: getattr(value, name) for name in slots} | dict(getattr(value, "__dict__", {}))


def _slots_of(kind: type) -> Iterator[str]:
    slots = vars(kind).get("__slots__", ())
    if isinstance(slots, str):
        slots = (slots,)
    for name in slots:
        if name.startswith("__") and not name.endswith("__"):
            yield f"_{kind.__name__.lstrip('_')}{name}"
        else:
            yield name


def state_names(kind: type) -> frozenset[str]:
    """Return names of attributes that each call of a MONAI transform or reader overwrites.

    `kind` is the class of the transform or reader. Examples are the names of the files that an
    image reader read last, and the numbers that a random transform drew last.
    """
    names = {"_tracing"}  # whether a thread is traced
    if issubclass(kind, ImageReader):
        names.update(LAST_FILES_OF_READERS)
    if issubclass(kind, Randomizable):
        names.update(_DRAWN_BY_MONAI)
        names.update(_names_drawn(kind))
    return frozenset(names)


def _names_drawn(kind: type) -> Iterator[str]:
    """Yield names of attributes that methods of class `kind` assign when drawing random numbers.

    Parameters of the class's constructor are left out.
    """
    parameters = {
        name
        for base in kind.__mro__
        if isinstance(vars(base).get("__init__"), FunctionType)
        for name in inspect.signature(vars(base)["__init__"]).parameters
    }
    for base in kind.__mro__:
        for method in _DRAWING_METHODS:
            function = vars(base).get(method)
            if isinstance(function, FunctionType):
                for step in dis.get_instructions(inspect.unwrap(function)):
                    if step.opname == "STORE_ATTR" and step.argval not in parameters:
                        yield step.argval


def is_absolute(text: str) -> bool:
    """Tell whether `text` is an absolute path of Linux, macOS or Windows, except a root alone."""
    if text.startswith("/"):
        return text.strip("/") != ""
    path = PureWindowsPath(text)
    return path.is_absolute() and path.name != ""


def describe_text(text: str) -> str | Mapping[str, str | Mapping[str, str]]:
    """Return `text` unchanged, or digests in its place if the text is or contains a file path.

    For a text that is a path, the mapping of `describe_path` is returned, with the digest of the
    content of the file, or of the path if there is no file. For a text with a path inside, a
    mapping is returned that holds the digest of the whole text and the mapping of `describe_path`
    for the path. A path would make a description depend on one machine, and might name a person.
    """
    if is_absolute(text):
        return describe_path(text)
    url = urlsplit(text)
    if url.scheme == "file" and url.path.strip("/"):
        return describe_path(url2pathname(url.path))
    if _OF_A_HOME.match(text):
        return describe_path(_expand_home(text))
    path = _PATH_WITHIN.search(text)
    if path is None:
        return text
    return {"text": digest_of("text", text), PATH_WITHIN: describe_path(path[0])}


def name_of_text(text: str) -> str:
    """Return `text`, a mapping's key, unchanged, or JSON of digests if the key contains a path.

    The JSON replaces the whole key. Its digests are the result of `describe_text`: of the content
    of the file at the path, or of the path if there is no file.
    """
    description = describe_text(text)
    if description == text:
        return text
    return json.dumps(description)


def _expand_home(text: str) -> str:
    """Return a path with ``~`` replaced by the home folder, or unchanged for an unknown user."""
    try:
        return str(Path(text).expanduser())
    except RuntimeError:
        return text


def describe_path(text: str) -> dict[str, str]:
    """Return a mapping with one digest, of the file's content or, without a file, of the path.

    `text` is an absolute path. The key is ``file`` for the content, and ``path`` for the path. The
    path itself would name a person or a machine.
    """
    if not problem_of_place(text):
        status = Path(text).stat()
        return {"file": _digest_of_version(text, status.st_size, status.st_mtime_ns)}
    return {"path": digest_of("path", text)}


@lru_cache(maxsize=256)
def _digest_of_version(path: str, n_bytes: int, modified_ns: int) -> str:
    """Return the digest of the content of the file at `path`.

    The result is cached by path, size and modification time, so that an unchanged file is read
    once.
    """
    del n_bytes, modified_ns
    return digest_of_file(path)
