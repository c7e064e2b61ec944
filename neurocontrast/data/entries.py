"""One file of the cache: a ``.npy`` that knows which scan it was made from."""

from __future__ import annotations

import contextlib
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from neurocontrast.files import atomic_path

__all__ = [
    "Signature",
    "holds_entry",
    "read_affine",
    "read_entry",
    "settled_signature_of",
    "signature_of",
    "write_entry",
]

_MAGIC = b"NCVOL\x00\x02\x00"
_MAGIC_WITHOUT_AFFINE = b"NCVOL\x00\x01\x00"
# size, mtime, ctime of the scan; modification time of the entry; CRC-32 of the array's bytes.
_TRAILER = struct.Struct("<8sqqqqI4x")
# The affine (4, 4) of the array, between the array and the trailer.
_AFFINE = struct.Struct("<16d")
_SETTLED_SECONDS = 0.1


@dataclass(frozen=True)
class Signature:
    """What tells that a scan's file is the one an entry was made from.

    A file that is written again changes its ctime even where size and modification time are
    forged to stay, since no program can set it.
    """

    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of_status(cls, status: os.stat_result) -> Signature:
        """Return the signature of a file whose status is known."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def signature_of(path: str | os.PathLike[str]) -> Signature:
    """Return the signature of the file a path leads to.

    Raises
    ------
    OSError
        Where there is no such file.
    """
    return Signature.of_status(Path(path).stat())


def settled_signature_of(path: str | os.PathLike[str]) -> Signature:
    """Return the signature once the file's times can no longer hide a second change.

    File systems stamp changes to a few milliseconds. A file changed just now could be changed
    again within the same stamp, so this waits until that is past.
    """
    signature = signature_of(path)
    age = time.time() - signature.ctime_ns / 1e9
    if 0 <= age < _SETTLED_SECONDS:
        time.sleep(_SETTLED_SECONDS - age)
        signature = signature_of(path)
    return signature


def write_entry(path: Path, array: npt.NDArray[Any], source: Signature, *, affine: npt.NDArray[np.float64]) -> None:
    """Write an entry, an array and the affine of its axes, atomically."""
    array = np.ascontiguousarray(array)
    stamp = time.time_ns()
    with atomic_path(path) as temporary:
        with open(temporary, "wb") as stream:
            np.lib.format.write_array(stream, array, allow_pickle=False)
            stream.write(_AFFINE.pack(*affine.ravel()))
            stream.write(_trailer(source, stamp, isal_zlib.crc32(array.data.cast("B"))))
        os.utime(temporary, ns=(stamp, stamp))


def read_entry(path: Path, source: Signature, out: npt.NDArray[Any]) -> bool:
    """Fill an array from an entry; False where the entry must be made again.

    It must have been made from this very source, be whole, and be as it was written: where
    the file's modification time is not the recorded one its checksum decides.

    Parameters
    ----------
    path : Path
        The entry.
    source : Signature
        Of the scan as it is now.
    out : ndarray
        Contiguous, of the shape and type that was written. It may hold anything where False is returned.
    """
    return _visit(path, source, n_bytes=out.nbytes, buffer=out.data.cast("B"))


def read_affine(path: Path) -> npt.NDArray[np.float64] | None:
    """Return the affine (4, 4) of an entry; None where there is no entry, or one of a version that kept none."""
    try:
        with open(path, "rb") as stream:
            stream.seek(-_TRAILER.size - _AFFINE.size, os.SEEK_END)
            content = stream.read()
    except OSError:
        return None
    if content[_AFFINE.size :][: len(_MAGIC)] != _MAGIC:
        return None
    return np.array(_AFFINE.unpack_from(content)).reshape(4, 4)


def holds_entry(path: Path, source: Signature, *, n_bytes: int) -> bool:
    """Tell whether `read_entry` would fill an array; voxels are read only where the checksum must decide."""
    return _visit(path, source, n_bytes=n_bytes, buffer=None)


def _visit(path: Path, source: Signature, *, n_bytes: int, buffer: memoryview | None) -> bool:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        status = os.fstat(file)
        trailer = os.pread(file, _TRAILER.size, max(status.st_size - _TRAILER.size, 0))
        if len(trailer) != _TRAILER.size:
            return False
        magic, size, mtime_ns, ctime_ns, stamp, checksum = _TRAILER.unpack(trailer)
        n_behind = _TRAILER.size + (0 if magic == _MAGIC_WITHOUT_AFFINE else _AFFINE.size)
        start = status.st_size - n_behind - n_bytes
        if start < 0 or magic not in (_MAGIC, _MAGIC_WITHOUT_AFFINE) or Signature(size, mtime_ns, ctime_ns) != source:
            return False
        is_touched = status.st_mtime_ns != stamp
        if is_touched and buffer is None:
            buffer = memoryview(bytearray(n_bytes))
        if buffer is not None and not _fill(buffer, file, start):
            return False
        if is_touched and buffer is not None:
            if isal_zlib.crc32(buffer) != checksum:
                return False
            # Copied, for instance to a faster disk: remember that it was found intact, where that is allowed.
            with contextlib.suppress(OSError):
                os.utime(path, ns=(stamp, stamp))
        return True
    except OSError:
        return False
    finally:
        os.close(file)


def _fill(buffer: memoryview, file: int, start: int) -> bool:
    # One plain read into memory that is there already: a map of the file costs a fault a page, and a copy.
    n_filled = 0
    while n_filled < len(buffer):
        n_read = os.preadv(file, [buffer[n_filled:]], start + n_filled)
        if n_read == 0:
            return False
        n_filled += n_read
    return True


def _trailer(source: Signature, stamp: int, checksum: int) -> bytes:
    return _TRAILER.pack(_MAGIC, source.size, source.mtime_ns, source.ctime_ns, stamp, checksum)
