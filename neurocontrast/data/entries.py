"""One file of the cache: a ``.npy`` with the signature of the scan that it was made from."""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from neurocontrast.files import atomic_path

__all__ = [
    "Signature",
    "holds_entry",
    "read_affine",
    "read_entry",
    "settled_signature",
    "signature_of",
    "write_entry",
]

_MAGIC = b"NCVOL\x00\x02\x00"
# size, mtime, ctime of the scan; modification time of the entry; CRC-32 of the array's bytes.
_TRAILER = struct.Struct("<8sqqqqI4x")
# The affine (4, 4) of the array, between the array and the trailer.
_AFFINE = struct.Struct("<16d")
_SETTLED_SECONDS = 0.1


class Signature(NamedTuple):
    """What tells that the files of a scan are those an entry was made from: their size together, and the latest times.

    A file that is written again changes its ctime even where size and modification time are
    forged to stay, since no program can set it.
    """

    size: int
    mtime_ns: int
    ctime_ns: int


def signature_of(statuses: Sequence[os.stat_result]) -> Signature:
    """Return the signature of a scan by the status of each of its files."""
    return Signature(
        sum(status.st_size for status in statuses),
        max(status.st_mtime_ns for status in statuses),
        max(status.st_ctime_ns for status in statuses),
    )


def settled_signature(files: Sequence[str]) -> Signature:
    """Return the signature of a scan once the times of its files can no longer hide a second change.

    File systems stamp changes to a few milliseconds. A file changed just now could be changed
    again within the same stamp, so this waits until that is past.
    """
    signature = signature_of([Path(path).stat() for path in files])
    age = time.time() - signature.ctime_ns / 1e9
    if 0 <= age < _SETTLED_SECONDS:
        time.sleep(_SETTLED_SECONDS - age)
        signature = signature_of([Path(path).stat() for path in files])
    return signature


def write_entry(path: Path, array: npt.NDArray[Any], source: Signature, *, affine: npt.NDArray[np.float64]) -> None:
    """Write an entry, an array and the affine of its axes, atomically."""
    array, stamp = np.ascontiguousarray(array), time.time_ns()
    with atomic_path(path) as temporary:
        with open(temporary, "wb") as stream:
            np.lib.format.write_array(stream, array, allow_pickle=False)
            stream.write(_AFFINE.pack(*affine.ravel()))
            stream.write(_TRAILER.pack(_MAGIC, *source, stamp, isal_zlib.crc32(array.data.cast("B"))))
        os.utime(temporary, ns=(stamp, stamp))


def read_entry(path: Path, source: Signature, out: npt.NDArray[Any]) -> bool:
    """Fill a contiguous array from an entry; False where the entry must be made again.

    The entry must have been made from this very source, be whole, and be as it was written: where
    the file's modification time is not the recorded one the checksum decides.
    """
    return _visit(path, source, n_bytes=out.nbytes, buffer=out.data.cast("B"))


def holds_entry(path: Path, source: Signature, *, n_bytes: int) -> bool:
    """Tell whether `read_entry` would fill an array; voxels are read only where the checksum must decide."""
    return _visit(path, source, n_bytes=n_bytes, buffer=None)


def read_affine(path: Path) -> npt.NDArray[np.float64] | None:
    """Return the affine (4, 4) of an entry; None where there is none."""
    try:
        with open(path, "rb") as stream:
            stream.seek(-_TRAILER.size - _AFFINE.size, os.SEEK_END)
            content = stream.read()
    except OSError:
        return None
    if not content.startswith(_MAGIC, _AFFINE.size):
        return None
    return np.array(_AFFINE.unpack_from(content)).reshape(4, 4)


def _visit(path: Path, source: Signature, *, n_bytes: int, buffer: memoryview | None) -> bool:
    try:
        with open(path, "rb", buffering=0) as stream:
            status = os.fstat(stream.fileno())
            trailer = os.pread(stream.fileno(), _TRAILER.size, max(status.st_size - _TRAILER.size, 0))
            if len(trailer) != _TRAILER.size:
                return False
            magic, *signature, stamp, checksum = _TRAILER.unpack(trailer)
            start = status.st_size - _TRAILER.size - _AFFINE.size - n_bytes
            if start < 0 or magic != _MAGIC or Signature(*signature) != source:
                return False
            is_touched = status.st_mtime_ns != stamp
            if is_touched and buffer is None:
                buffer = memoryview(bytearray(n_bytes))
            if buffer is None:
                return True
            # Plain reads into memory that is there already: a map of the file costs a fault a page, and a copy.
            stream.seek(start)
            n_filled = 0
            while n_filled < n_bytes:
                n_read = stream.readinto(buffer[n_filled:])
                if not n_read:
                    return False
                n_filled += n_read
            if is_touched:
                if isal_zlib.crc32(buffer) != checksum:
                    return False
                # Copied, for instance to a faster disk: remember that it was found intact, where that is allowed.
                with contextlib.suppress(OSError):
                    os.utime(path, ns=(stamp, stamp))
            return True
    except OSError:
        return False
