"""Read bytes, text, JSON and arrays from files, with limits on size.

Every reader raises the class of error that the caller names; the message names the file, the
problem, and the caller's `remedy`.
"""

import errno
import io
import json
import os
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from neurocontrast.exceptions import DataError, NeurocontrastError, said

N_BYTES = 2**32
"""Largest file that is read whole, and largest unpacked content of an archive, in bytes (4 GiB)."""
N_JSON_BYTES = 2**28
"""Largest JSON file that is read, in bytes (256 MiB)."""
_NOUNS = {
    dict: "object",
    list: "list",
    str: "text",
    int: "number",
    float: "number",
    bool: "true or false",
}
_SPECIAL = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
DAMAGE: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Errors that libraries raise when they read damaged files, without MemoryError."""
_DAMAGE_OF_ARRAYS: tuple[type[Exception], ...] = (*DAMAGE, MemoryError)
"""Errors of reading a damaged array, with MemoryError: a damaged header can announce any size."""


class ErrorOptions(TypedDict, total=False):
    """Keyword arguments of readers: class of the error for an unusable file, and advice."""

    error: type[NeurocontrastError]
    """Class of the error; `DataError` by default."""
    remedy: str
    """Advice for the user at the end of the message; none by default."""


NO_FILE = "there is no such file"
_POINTER_OF_ANNEX = "is a pointer of git-annex, not the content (run 'datalad get' first)"
_POINTERS = {
    b"version https://git-lfs.github.com/spec/": (
        "is a pointer of git-lfs, not the content (run 'git lfs pull' first)"
    ),
    b"/annex/objects/": _POINTER_OF_ANNEX,
}
"""Beginning of a pointer file of git-lfs or git-annex → problem and remedy, for a message."""
_IN_ANNEX = ".git/annex/objects/"
_N_BYTES_OF_POINTER = 1024


def problem_of_place(path: str | os.PathLike[str]) -> str:
    """Return why a path cannot be read as a file; "" if the path can.

    Pipes and devices are refused too: reading them would never end.
    """
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        return _problem_of_link(path) or NO_FILE
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "is a link that leads back to itself"
        return f"cannot be read ({error.strerror})"
    except ValueError as error:  # a zero byte, or half of a surrogate pair
        return f"is no usable path ({error})"
    for is_special, kind in _SPECIAL:
        if is_special(mode):
            return f"is {kind}, not a file"
    return ""


def is_broken_link(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is a link without a target, as git-annex leaves for absent content."""
    try:
        Path(path).stat()
    except FileNotFoundError:
        return Path(path).is_symlink()
    except OSError:
        return False
    return False


def _problem_of_link(path: str | os.PathLike[str]) -> str:
    """Return why the content of a broken link is absent, as in git-annex; "" if `path` is no link.

    The caller has found no file at `path`: whether a link has a target is not checked again.
    """
    if not os.path.islink(path):  # noqa: PTH114  a plain call, as the table of a cohort has 100,000
        return ""
    target = os.readlink(path)  # noqa: PTH115
    if _IN_ANNEX in target.replace("\\", "/"):
        return "its content is not here (a link of git-annex or DataLad: run 'datalad get' first)"
    return f"is a link to '{target}', which is not there"


def problem_of_content(path: str | os.PathLike[str]) -> str:
    """Return why the content of the file `path` is absent, as words of a message; "" if present.

    There may be no file, or only a pointer that git-lfs or git-annex left in place of the content.
    """
    if problem := problem_of_place(path):
        return problem
    try:
        if os.stat(path).st_size > _N_BYTES_OF_POINTER:  # noqa: PTH116  called for every image
            return ""
        with open(path, "rb") as stream:
            return _problem_of_pointer(stream.read(_N_BYTES_OF_POINTER))
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _problem_of_pointer(content: bytes) -> str:
    """Return words on problem and remedy if a file is a git-lfs or git-annex pointer; "" if not.

    The words are part of an error message. `content` is the content of the file.
    """
    for start, problem in _POINTERS.items():
        if content.startswith(start):
            return problem
    # Where a disk knows no links, git writes the link's target as text.
    if _IN_ANNEX.encode() in content and b"\n" not in content.strip():
        return _POINTER_OF_ANNEX
    return ""


def check_content(path: str | os.PathLike[str], **on_error: Unpack[ErrorOptions]) -> None:
    """Refuse a path that is no regular file, or is a pointer that git-lfs or git-annex left.

    `on_error` has the class of the error to raise, and advice for the message (`ErrorOptions`).
    """
    if problem := problem_of_content(path):
        refuse(path, problem, **on_error)


def check_place(path: str | os.PathLike[str], **on_error: Unpack[ErrorOptions]) -> None:
    """Refuse a path that is no regular file, or a link whose target is absent.

    `on_error` has the class of the error to raise, and advice for the message (`ErrorOptions`).
    """
    if problem := problem_of_place(path):
        refuse(path, problem, **on_error)


def read_bytes(
    path: str | os.PathLike[str], *, limit: int = N_BYTES, **on_error: Unpack[ErrorOptions]
) -> bytes:
    """Return the content of a regular file of at most `limit` bytes.

    Any other file is refused. `on_error` has the class of the error to raise, and advice for the
    message (`ErrorOptions`).
    """
    check_place(path, **on_error)
    try:
        with open(path, "rb") as stream:
            # Python allocates all bytes that are asked for.
            content = stream.read(min(limit, os.fstat(stream.fileno()).st_size) + 1)
    except OSError as problem_of_disk:
        refuse(path, f"cannot be read ({problem_of_disk.strerror})", **on_error)
    if len(content) <= _N_BYTES_OF_POINTER and (problem := _problem_of_pointer(content)):
        refuse(path, problem, **on_error)
    if len(content) > limit:
        refuse(
            path, f"holds more than {limit:,} bytes, the most that such a file may hold", **on_error
        )
    return content


def read_text(
    path: str | os.PathLike[str], *, limit: int = N_BYTES, **on_error: Unpack[ErrorOptions]
) -> str:
    """Return the text of a UTF-8 file of at most `limit` bytes, without a leading byte order mark.

    Any other file is refused. `on_error` has the class of the error to raise, and advice for the
    message (`ErrorOptions`).
    """
    content = read_bytes(path, limit=limit, **on_error)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        byte = f"0x{content[problem.start]:02x}"
        refuse(path, f"line {line} holds a byte that is not UTF-8 ({byte})", **on_error)


def read_json(
    path: str | os.PathLike[str],
    *,
    of: type = dict,
    limit: int = N_JSON_BYTES,
    **on_error: Unpack[ErrorOptions],
) -> Any:
    """Read a JSON file, whose content must have the type `of`.

    Parameters
    ----------
    path : path
        File in UTF-8.
    of : type
        Type that the content must have: dict, list, or object for any.
    limit : int
        Largest number of bytes.
    **on_error
        ``error``, the class of the error to raise, and ``remedy``, advice for the message; see
        `ErrorOptions`.

    Raises
    ------
    DataError
        If the path is no regular file, or the content is too large, not UTF-8, not JSON (NaN is
        none), of another type, or has two values for one key. Of the class ``error`` if given.
    """
    content = read_bytes(path, **on_error, limit=limit)
    return parse_json(content, place=path, of=of, **on_error)


def parse_json(
    content: bytes | str, *, place: object, of: type = dict, **on_error: Unpack[ErrorOptions]
) -> Any:
    """Parse a JSON text by the rules of `read_json`; `place` names the text in messages.

    The content must have the type `of`. `on_error` has the class of the error to raise, and advice
    for the message (`ErrorOptions`).
    """
    try:
        if not isinstance(content, str):
            content = content.decode("utf-8-sig")
        value = json.loads(
            content, parse_constant=_no_constant, object_pairs_hook=_without_contradictions
        )
    except RecursionError:
        refuse(place, "not readable as JSON (nested too deep)", **on_error)
    except ValueError as problem:
        refuse(place, f"not readable as JSON ({said(problem)})", **on_error)
    if not isinstance(value, of):
        noun = _NOUNS.get(type(value), "null")
        refuse(place, f"must hold a JSON {_NOUNS[of]}, found {noun}", **on_error)
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _without_contradictions(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return the `pairs` of a JSON object as a dict; refuse a key that has two different values."""
    values = dict(pairs)
    for key, value in pairs:
        if value != values[key]:
            raise ValueError(f"two values for the key {key[:60]!r}")
    return values


def read_array(path: str | os.PathLike[str]) -> Any:
    """Return the array of a ``.npy`` file of at most 4 GiB; Python objects are refused."""
    content = read_bytes(path)
    try:
        return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except _DAMAGE_OF_ARRAYS as problem:
        refuse(path, f"not readable as an array ({said(problem)})")


def read_arrays(
    path: str | os.PathLike[str],
    *,
    shapes: dict[str, Sequence[int | None]] | None = None,
    **on_error: Unpack[ErrorOptions],
) -> dict[str, npt.NDArray[Any]]:
    """Read the arrays of a ``.npz`` archive, checking its checksums; Python objects are refused.

    Parameters
    ----------
    path : path
        The archive.
    shapes : dict, optional
        Array that the archive must have → its shape, with None for any length.
    **on_error
        ``error``, the class of the error to raise, and ``remedy``, advice for the message; see
        `ErrorOptions`.
    """
    content = read_bytes(path, **on_error)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(map(attrgetter("file_size"), archive.infolist())) > N_BYTES:
                raise ValueError(f"it would take more than {N_BYTES:,} bytes")
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            arrays = dict(stored)
        if bytes in map(type, arrays.values()):
            raise ValueError("a part is no array")
    except _DAMAGE_OF_ARRAYS as problem:
        refuse(path, f"not readable as an archive of arrays ({said(problem)})", **on_error)
    for name, shape in (shapes or {}).items():
        if name not in arrays:
            refuse(path, f"the array '{name}' is missing", **on_error)
        problem_of_shape = _problem_of_shape(arrays[name].shape, shape)
        if problem_of_shape:
            refuse(path, f"the array '{name}' {problem_of_shape}", **on_error)
    return arrays


def _problem_of_shape(shape: tuple[int, ...], expected: Sequence[int | None]) -> str:
    """Return how an array's `shape` differs from `expected` (None: any length); "" if right."""
    lengths = []
    for length in expected:
        lengths.append("any" if length is None else str(length))
    fits = len(shape) == len(expected)
    for n, length in zip(shape, expected, strict=False):
        fits = fits and length in (None, n)
    if fits:
        return ""
    return f"is of shape {shape}, and must be {' × '.join(lengths) or 'one number'}"


def refuse(
    place: object, problem: str, error: type[NeurocontrastError] = DataError, remedy: str = ""
) -> NoReturn:
    """Raise `error` for the file `place` that cannot be used, with `problem` and `remedy`."""
    raise error(f"{place}: {problem}. {remedy}".rstrip()) from None
