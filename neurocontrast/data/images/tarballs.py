"""A tar archive as a stream: decompressed once, bounded, its end verified."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from neurocontrast.exceptions import DataError

__all__ = ["ARCHIVE_FAULTS", "opened", "tar_members"]

ARCHIVE_FAULTS = (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError)
"""What reading a damaged archive can raise."""

_MAGIC: dict[bytes, Callable[[Path], Any]] = {
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x1f\x8b": gzip.GzipFile,
    b"BZh": bz2.BZ2File,
}
_BLOCK = 2**20


class _Bounded:
    """A stream that ends with an error beyond so many bytes."""

    def __init__(self, stream: IO[bytes], path: Path, max_bytes: int) -> None:
        self._stream, self._path, self._left = stream, path, max_bytes

    def read(self, n: int) -> bytes:
        content = self._stream.read(n)
        self._left -= len(content)
        if self._left < 0:
            raise DataError(
                f"{self._path.name}: it unpacks to far more than an honest archive of its size "
                "(a decompression bomb), and is not read."
            )
        return content


def opened(path: Path) -> IO[bytes]:
    """Open a file for reading, decompressed where its first bytes say that it is compressed."""
    with open(path, "rb") as stream:
        start = stream.read(8)
    for magic, open_compressed in _MAGIC.items():
        if start.startswith(magic):
            stream_of: IO[bytes] = open_compressed(path)
            return stream_of
    return open(path, "rb")


def tar_members(path: Path, *, max_bytes: int) -> Iterator[tuple[tarfile.TarInfo, Callable[[], bytes]]]:
    """Give the members of a tar archive in their order, each with a function that reads it there and then.

    Parameters
    ----------
    path : Path
        The archive: plain, or compressed by gzip, xz or bzip2.
    max_bytes : int
        How many bytes it may unpack to, its own bookkeeping (512 bytes a member) included.

    Raises
    ------
    DataError
        Where it is no tar archive, damaged, cut, or larger than that.
    """
    with _named(path):
        with opened(path) as stream:
            bounded = _Bounded(stream, path, max_bytes)
            with tarfile.open(fileobj=bounded, mode="r|", bufsize=_BLOCK) as archive:  # type: ignore[call-overload]
                for member in archive:
                    if member.size < 0:
                        raise tarfile.ReadError("a member of negative size")
                    yield member, partial(_content, archive, member, path)
                    # tarfile remembers every member it met; a stream never goes back to them.
                    archive.members = []
            while bounded.read(_BLOCK):  # to the checksum behind the last member
                pass
        _check_end(path)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except ARCHIVE_FAULTS as error:
        raise DataError(
            f"{path.name}: cannot be read as a tar archive ({error or type(error).__name__}); it is cut, damaged or "
            "something else. Copy it again."
        ) from None


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> bytes:
    with _named(path):
        stream = archive.extractfile(member)
        assert stream is not None  # asked for regular files alone
        return stream.read()


def _check_end(path: Path) -> None:
    # A compressed stream has an end of its own; a plain archive ends in zeros, and is cut where it does not.
    with open(path, "rb") as stream:
        if stream.read(8).startswith(tuple(_MAGIC)):
            return
        stream.seek(-512, 2)
        if any(stream.read(512)):
            raise EOFError("it ends within a member")
