"""The files of a folder or an archive; nothing is ever unpacked under a name that an archive gives."""

from __future__ import annotations

import io
import lzma
import os
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.files import digest_of, digest_of_file
from neurocontrast.progress import SILENT, Progress

__all__ = ["ARCHIVE_ENDINGS", "ARCHIVE_FAULTS", "FileSet", "open_files"]

ARCHIVE_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".zip")
ARCHIVE_FAULTS = (
    *(tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError),
    *(NotImplementedError, RuntimeError),
)
"""What reading a damaged or encrypted archive can raise."""

MAX_FILE_BYTES = 2**28
_MAX_RATIO, _MAX_FREE = 200, 2**30
_BLOCK = 2**20
_NOISE = ("__macosx", "thumbs.db", "desktop.ini")

_Read = Callable[[], bytes]
_Member = tuple[str, int, str, Callable[[], _Read]]
"""Name, size, what forbids reading ("" where nothing does), and a function that keeps the content for later."""


@dataclass(frozen=True)
class FileSet:
    """Files by their name relative to a folder or archive, with ``/`` between the parts of a name."""

    source: Path
    readers: dict[str, _Read]
    n_skipped: int
    digest: str

    @property
    def names(self) -> list[str]:
        """Names in alphabetical order."""
        return sorted(self.readers)

    def read(self, name: str) -> bytes:
        """Return the content of one file."""
        try:
            return self.readers[name]()
        except ARCHIVE_FAULTS as error:
            raise DataError(f"{self.source.name}: {shown(name)} is damaged ({error}).") from None

    def find(self, files: Sequence[str], *, dataset: str, hint: str = "") -> dict[str, str]:
        """Return the full name of each of `files`, in whichever folder of the source; all absent ones are refused."""
        found = {file: [name for name in self.names if name.rpartition("/")[2] == file] for file in files}
        lacking = [file for file, places in found.items() if not places]
        if lacking:
            raise DataError(f"{self.source.name}: {dataset} needs {one_of(lacking)}, which is not there.{hint}")
        twice = [file for file, places in found.items() if len(places) > 1]
        if twice:
            raise DataError(
                f"{self.source.name}: {one_of(twice)} is there more than once; name the folder of one of them."
            )
        return {file: places[0] for file, places in found.items()}


@contextmanager
def open_files(
    source: Path, wanted: Callable[[str], bool], *, spool: Path | None = None, progress: Progress = SILENT
) -> Iterator[FileSet]:
    """Open the files of a folder or archive whose name is wanted.

    A tar archive is read through once; wanted members are kept in one nameless temporary file, in the folder `spool`.

    Raises
    ------
    DataError
        Where the source is absent, damaged or hostile: names that lead out of the source, links, devices, encrypted or
        repeated members, more content than an honest archive of that size holds; all such members together.
    """
    with ExitStack() as stack:
        if source.is_dir():
            kind, members = "folder", _folder_members(source)
        elif not source.is_file():
            raise DataError(f"source: there is no file or folder {shown(source, 200)}.")
        elif not source.name.lower().endswith(ARCHIVE_ENDINGS):
            raise DataError(
                f"source: {shown(source, 200)} is neither a folder nor an archive ({', '.join(ARCHIVE_ENDINGS)})."
            )
        elif source.name.lower().endswith(".zip"):
            kind, members = "zip archive", _zip_members(source, stack)
        else:
            kind, members = "tar archive", _tar_members(source, stack.enter_context(tempfile.TemporaryFile(dir=spool)))
        try:
            with progress.task(f"reading {source.name}", None, "files") as task:
                files = _collected(source, members, wanted, task.advance)
        except ARCHIVE_FAULTS as error:
            raise DataError(
                f"{source.name}: cannot be read as a {kind} ({error or type(error).__name__}); it is cut, damaged or "
                "something else. Copy it again."
            ) from None
        yield files


def _collected(
    source: Path, members: Iterator[_Member], wanted: Callable[[str], bool], advance: Callable[[], None]
) -> FileSet:
    problems = Problems(source.name)
    readers: dict[str, _Read] = {}
    sizes: dict[str, int] = {}
    n_skipped, limit, total = 0, None if source.is_dir() else _limit(source), 0
    for name, size, fault, keep in members:
        total += size
        if limit is not None and total > limit:
            raise DataError(
                f"{source.name}: its members claim {total:,} bytes, more than {_MAX_RATIO} times the archive: "
                "it looks made to fill the memory or disk (a decompression bomb), and is not read."
            )
        fault = fault or _fault_of_name(name)
        if not fault and (_is_noise(name) or not wanted(name)):
            n_skipped += not _is_noise(name)
            continue
        if not fault and name in readers:
            fault = "this file is there twice"
        if not fault and size > MAX_FILE_BYTES:
            fault = f"{size:,} bytes are more than the {MAX_FILE_BYTES:,} that are read"
        if fault:
            problems.add(fault, name=shown(name))
            continue
        readers[name], sizes[name] = keep(), size
        advance()
    problems.raise_if_any()
    named = digest_of(*(f"{name}\x1f{sizes[name]}" for name in sorted(sizes)))
    return FileSet(source, readers, n_skipped, named if source.is_dir() else digest_of_file(source))


def _limit(source: Path) -> int:
    return max(_MAX_FREE, _MAX_RATIO * source.stat().st_size)


def _fault_of_name(name: str) -> str:
    if name.startswith("/") or "\\" in name or ".." in name.split("/") or (len(name) > 1 and name[1] == ":"):
        return "the name leads out of the archive"
    if not name.isprintable():  # control characters, and bytes that are not UTF-8
        return "the name holds control characters, or is not UTF-8"
    return ""


def _is_noise(name: str) -> bool:
    """Say whether a file is one that operating systems leave behind."""
    return any(part.startswith(".") or part.lower() in _NOISE for part in name.split("/"))


def _folder_members(root: Path) -> Iterator[_Member]:
    """Walk a folder; links are followed, as those of a user's own disk."""
    visited: set[str] = set()
    for folder, below, files in os.walk(root, followlinks=True):
        below[:] = [name for name in below if not _is_noise(name)]
        if os.path.realpath(folder) in visited:  # a link to a folder above
            below.clear()
            continue
        visited.add(os.path.realpath(folder))
        for file in files:
            path = Path(folder, file)
            if path.exists():  # no link to nothing
                fault = "" if path.is_file() else "this is neither a file nor a folder"
                yield path.relative_to(root).as_posix(), path.stat().st_size, fault, partial(partial, path.read_bytes)


def _zip_members(source: Path, stack: ExitStack) -> Iterator[_Member]:
    archive = stack.enter_context(zipfile.ZipFile(source))
    for member in archive.infolist():
        if member.is_dir():
            continue
        fault = "this file is encrypted" if member.flag_bits & 1 else ""
        if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
            fault = "this is a link or device"
        yield member.orig_filename, member.file_size, fault, partial(partial, archive.read, member)


def _tar_members(source: Path, spool: IO[bytes]) -> Iterator[_Member]:
    with tarfile.open(source, "r:*") as archive:
        while (member := archive.next()) is not None:
            if member.size < 0:
                raise tarfile.ReadError("a member of negative size")
            if not member.isdir():
                fault = "" if member.isreg() else "this is a link or device"
                yield member.name.removeprefix("./"), member.size, fault, partial(_spooled, archive, member, spool)
            archive.members = []  # type: ignore[attr-defined]  # tarfile remembers every member
        _read_to_the_end(archive, source)


def _spooled(archive: tarfile.TarFile, member: tarfile.TarInfo, spool: IO[bytes]) -> _Read:
    stream = archive.extractfile(member)
    assert stream is not None  # a regular file
    content, start = stream.read(), spool.seek(0, os.SEEK_END)
    if len(content) != member.size:
        raise EOFError("it ends within a member")
    spool.write(content)

    def read() -> bytes:
        spool.seek(start)
        return spool.read(member.size)

    return read


def _read_to_the_end(archive: tarfile.TarFile, source: Path) -> None:
    """Read what follows the last member: a compressed stream ends in a checksum, a plain archive in zeros."""
    stream = archive.fileobj
    assert stream is not None
    if isinstance(stream, io.BufferedReader):
        stream.seek(archive.offset)
        if stream.read(512) != bytes(512):
            raise EOFError("it ends within a member")
    left = _limit(source)
    while block := stream.read(_BLOCK):
        left -= len(block)
        if left < 0:
            raise DataError(
                f"{source.name}: it unpacks to far more than an honest archive of its size "
                "(a decompression bomb), and is not read."
            )
