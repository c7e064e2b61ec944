"""Readers of files: bytes, text, JSON and arrays, with limits on size.

Every reader raises the error class that its caller gives; the message names the file, what was
found, and the caller's `remedy`.
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
from pathlib import Path
from typing import Any, NoReturn, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from neurocontrast.exceptions import DataError, NeurocontrastError, said

N_BYTES = 2**32
"""Largest file that is read whole, and largest content of an archive."""
N_JSON_BYTES = 2**28
_KINDS = {
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
    *(
        ArithmeticError,
        AssertionError,
        AttributeError,
        EOFError,
        LookupError,
        OSError,
        RuntimeError,
        SyntaxError,
    ),
    *(TypeError, ValueError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)
"""Errors that libraries raise for damaged bytes; MemoryError and KeyboardInterrupt are not among them."""
_DAMAGE_OF_ARRAYS: tuple[type[Exception], ...] = (*DAMAGE, MemoryError)
"""The damaged header of an array can announce any size."""


class ErrorOptions(TypedDict, total=False):
    """How a file that cannot be used is refused: the class of the error, and the last sentence of its message."""

    error: type[NeurocontrastError]
    remedy: str


NO_FILE = "there is no such file"
_POINTER_OF_ANNEX = "is a pointer of git-annex, not the content (run 'datalad get' first)"
_POINTERS = {
    b"version https://git-lfs.github.com/spec/": (
        "is a pointer of git-lfs, not the content (run 'git lfs pull' first)"
    ),
    b"/annex/objects/": _POINTER_OF_ANNEX,
}
"""Beginnings of pointers to content elsewhere, and the problem with its remedy."""
_IN_ANNEX = ".git/annex/objects/"
_N_BYTES_OF_POINTER = 1024


def problem_of_place(path: str | os.PathLike[str]) -> str:
    """Return why a path is no file that can be read, or ""; reading a pipe or a device would never end."""
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        return _problem_of_link(path) or NO_FILE
    except OSError as error:
        return (
            "is a link that leads back to itself"
            if error.errno == errno.ELOOP
            else f"cannot be read ({error.strerror})"
        )
    except ValueError as error:  # a zero byte, or half of a surrogate pair
        return f"is no usable path ({error})"
    return next((f"is {kind}, not a file" for test, kind in _SPECIAL if test(mode)), "")


def is_broken_link(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a link to no file, as git-annex leaves for content elsewhere."""
    try:
        Path(path).stat()
    except FileNotFoundError:
        return Path(path).is_symlink()
    except OSError:
        return False
    return False


def _problem_of_link(path: str | os.PathLike[str]) -> str:
    """Return why a link leads to no file, as git-annex leaves without content; "" for no link."""
    if not os.path.islink(path):  # noqa: PTH114  a plain call, as the table of a cohort has 100,000
        return ""
    target = os.readlink(path)  # noqa: PTH115
    if _IN_ANNEX in target.replace("\\", "/"):
        return "its content is not here (a link of git-annex or DataLad: run 'datalad get' first)"
    return f"is a link to '{target}', which is not there"


def problem_of_content(path: str | os.PathLike[str]) -> str:
    """Return why the content of a file is not there: no file, or a pointer to elsewhere; else ""."""
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
    """Return the program that keeps the content of a pointer, and the remedy; else ""."""
    for start, problem in _POINTERS.items():
        if content.startswith(start):
            return problem
    # Where a disk knows no links, git writes the link's target as text.
    if _IN_ANNEX.encode() in content and b"\n" not in content.strip():
        return _POINTER_OF_ANNEX
    return ""


def check_content(path: str | os.PathLike[str], **on_error: Unpack[ErrorOptions]) -> None:
    """Refuse a path that is no regular file, or a pointer to content elsewhere."""
    if problem := problem_of_content(path):
        refuse(path, problem, **on_error)


def check_place(path: str | os.PathLike[str], **on_error: Unpack[ErrorOptions]) -> None:
    """Refuse a path that is no regular file, or a link to none."""
    if problem := problem_of_place(path):
        refuse(path, problem, **on_error)


def read_bytes(
    path: str | os.PathLike[str], *, limit: int = N_BYTES, **on_error: Unpack[ErrorOptions]
) -> bytes:
    """Return the content of a regular file of at most `limit` bytes."""
    check_place(path, **on_error)
    try:
        with open(path, "rb") as stream:
            # Python takes the memory for all that is asked for.
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
    """Return the text of a UTF-8 file, without a byte order mark."""
    content = read_bytes(path, limit=limit, **on_error)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        found = f"line {line} holds a byte that is not UTF-8 (0x{content[problem.start]:02x})"
        refuse(path, found, **on_error)


def read_json(
    path: str | os.PathLike[str],
    *,
    of: type = dict,
    limit: int = N_JSON_BYTES,
    **on_error: Unpack[ErrorOptions],
) -> Any:
    """Read a JSON file that holds `of`: dict for an object, list, or object for any value.

    Refused is what is no regular file, of more than `limit` bytes, not UTF-8, not JSON (NaN is
    not), has two values for one key, or is of another kind than `of`.
    """
    content = read_bytes(path, **on_error, limit=limit)
    return parse_json(content, place=path, of=of, **on_error)


def parse_json(
    content: bytes | str, *, place: object, of: type = dict, **on_error: Unpack[ErrorOptions]
) -> Any:
    """Return the value of a JSON text, by the rules of `read_json`; `place` begins the message."""
    try:
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
        value = json.loads(
            text, parse_constant=_no_constant, object_pairs_hook=_without_contradictions
        )
    except RecursionError:
        refuse(place, "not readable as JSON (nested too deep)", **on_error)
    except ValueError as problem:
        refuse(place, f"not readable as JSON ({said(problem)})", **on_error)
    if not isinstance(value, of):
        found = _KINDS.get(type(value), "null")
        refuse(place, f"must hold a JSON {_KINDS[of]}, found {found}", **on_error)
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _without_contradictions(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    for key, value in pairs:
        if value != found[key]:
            raise ValueError(f"two values for the key {key[:60]!r}")
    return found


def read_array(path: str | os.PathLike[str]) -> Any:
    """Return the array of a ``.npy`` file of at most 4 GiB; Python objects in it are refused."""
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
    """Read a ``.npz`` archive without Python objects, whose checksums are verified.

    `shapes` are those of the arrays that must be there, with None for any length.
    """
    content = read_bytes(path, **on_error)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(part.file_size for part in archive.infolist()) > N_BYTES:
                raise ValueError(f"it would take more than {N_BYTES:,} bytes")
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            arrays = dict(stored)
        if any(isinstance(part, bytes) for part in arrays.values()):
            raise ValueError("a part is no array")
    except _DAMAGE_OF_ARRAYS as problem:
        refuse(path, f"not readable as an archive of arrays ({said(problem)})", **on_error)
    for name, shape in (shapes or {}).items():
        if name not in arrays:
            refuse(path, f"the array '{name}' is missing", **on_error)
        found = arrays[name].shape
        if len(found) != len(shape) or any(
            n not in (None, m) for n, m in zip(shape, found, strict=True)
        ):
            expected = " × ".join("any" if n is None else str(n) for n in shape) or "one number"
            refuse(
                path, f"the array '{name}' is of shape {found}, and must be {expected}", **on_error
            )
    return arrays


def refuse(
    place: object, problem: str, error: type[NeurocontrastError] = DataError, remedy: str = ""
) -> NoReturn:
    """Raise the error of a file that cannot be used."""
    raise error(f"{place}: {problem}. {remedy}".rstrip()) from None
