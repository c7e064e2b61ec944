"""One file of the cache: a memory-mappable ``.npy`` that knows which scan it was made from."""

from __future__ import annotations

import os
import struct
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neurocontrast.files import atomic_path

__all__ = ["Signature", "open_entry", "settled_signature_of", "signature_of", "write_entry"]

_MAGIC = b"NCVOL\x00\x01\x00"
# size, mtime, ctime of the scan; modification time of the entry; CRC-32 of the array's bytes.
_TRAILER = struct.Struct("<8sqqqqI4x")
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


def signature_of(path: str | os.PathLike[str]) -> Signature:
    """Return the signature of the file a path leads to.

    Raises
    ------
    OSError
        Where there is no such file.
    """
    status = Path(path).stat()
    return Signature(status.st_size, status.st_mtime_ns, status.st_ctime_ns)


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


def write_entry(path: Path, array: npt.NDArray[Any], source: Signature) -> None:
    """Write an entry atomically."""
    array = np.ascontiguousarray(array)
    stamp = time.time_ns()
    with atomic_path(path) as temporary:
        with open(temporary, "wb") as stream:
            np.lib.format.write_array(stream, array, allow_pickle=False)
            stream.write(_trailer(source, stamp, zlib.crc32(array.data.cast("B"))))
        os.utime(temporary, ns=(stamp, stamp))


def open_entry(
    path: Path, source: Signature, *, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> npt.NDArray[Any] | None:
    """Return the entry's array as a private memory map, or None where it must be made again.

    It must have been made from this very source, be whole, and be as it was written: where
    the file's modification time is not the recorded one its checksum decides.
    """
    try:
        with open(path, "rb") as stream:
            status = os.fstat(stream.fileno())
            start = status.st_size - _TRAILER.size
            n_bytes = int(np.prod(shape)) * dtype.itemsize
            trailer = os.pread(stream.fileno(), _TRAILER.size, max(start, 0))
            if len(trailer) != _TRAILER.size or start < n_bytes:
                return None
            magic, size, mtime_ns, ctime_ns, stamp, checksum = _TRAILER.unpack(trailer)
            if magic != _MAGIC or Signature(size, mtime_ns, ctime_ns) != source:
                return None
            array = np.memmap(stream, dtype=dtype, mode="c", offset=start - n_bytes, shape=shape)
    except OSError:
        return None
    if status.st_mtime_ns != stamp:
        if zlib.crc32(array.data.cast("B")) != checksum:
            return None
        # Copied, for instance to a faster disk: remember that it was found intact.
        os.utime(path, ns=(stamp, stamp))
    return array


def _trailer(source: Signature, stamp: int, checksum: int) -> bytes:
    return _TRAILER.pack(_MAGIC, source.size, source.mtime_ns, source.ctime_ns, stamp, checksum)
