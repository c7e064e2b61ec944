"""The files of a folder or an archive, read without trusting it: nothing is ever unpacked under a name it gives."""

from __future__ import annotations

import os
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Protocol

from neurocontrast.data.images.tarballs import ARCHIVE_FAULTS, tar_members
from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import DataError
from neurocontrast.files import digest_of, digest_of_file
from neurocontrast.progress import SILENT, Progress

__all__ = ["ARCHIVE_ENDINGS", "MAX_FILE_BYTES", "FileSet", "is_noise", "open_files", "problem_of_name"]

ARCHIVE_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".zip")
"""The archives that can be read, by the ending of the file's name."""

MAX_FILE_BYTES = 2**28
"""The largest file that is read, 256 MiB."""

_MAX_RATIO, _MAX_FREE = 200, 2**30


class FileSet(Protocol):
    """Files by their name relative to the folder or archive, with ``/`` between its parts."""

    names: list[str]
    n_skipped: int

    def read(self, name: str) -> bytes:
        """Return the content of one file."""

    def digest(self) -> str:
        """Return a digest of what the set was made from."""


@contextmanager
def open_files(
    source: Path, wanted: Callable[[str], bool], *, spool: Path | None = None, progress: Progress = SILENT
) -> Iterator[FileSet]:
    """Open the wanted files of a folder or archive; an archive of tar is read through once.

    Parameters
    ----------
    source : Path
        Folder, or archive with one of `ARCHIVE_ENDINGS`.
    wanted : callable
        Says of a file's name whether it will be read; others are counted.
    spool : Path, optional
        Folder on whose disk the wanted files of a tar archive are kept while it is open; by default the system's
        for temporary files.
    progress : Progress
        Told how far a tar archive is read.

    Raises
    ------
    DataError
        Where it is absent, damaged, cut or hostile: names that lead out of it, links, devices, encrypted or
        repeated members, more content than an honest archive of its size could hold; all such members together.
    """
    with ExitStack() as stack:
        if source.is_dir():
            yield _Folder(source, wanted)
        elif not source.is_file():
            raise DataError(f"source: there is no file or folder {shown(source, 200)}.")
        elif not source.name.lower().endswith(ARCHIVE_ENDINGS):
            raise DataError(
                f"source: {shown(source, 200)} is neither a folder nor an archive ({', '.join(ARCHIVE_ENDINGS)})."
            )
        elif source.name.lower().endswith(".zip"):
            yield _Zip(source, wanted, stack)
        else:
            file = stack.enter_context(tempfile.TemporaryFile(dir=spool))
            yield _Spool(source, wanted, file, progress)


def problem_of_name(name: str) -> str | None:
    """Return why the name of a member must not be used, or None."""
    parts = name.split("/")
    if name.startswith("/") or "\\" in name or ".." in parts or (len(name) > 1 and name[1] == ":"):
        return "the name leads out of the archive"
    if any(ord(character) < 32 or ord(character) == 127 for character in name):
        return "the name holds control characters"
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "the name is not UTF-8"
    return None


def is_noise(name: str) -> bool:
    """Say whether a file is one that operating systems leave behind: hidden, or of a known name."""
    parts = name.split("/")
    return any(part.startswith(".") or part == "__MACOSX" for part in parts) or parts[-1].lower() in (
        "thumbs.db",
        "desktop.ini",
    )


class _Names:
    """Collects the names of members, and what is wrong with them."""

    def __init__(self, source: Path, wanted: Callable[[str], bool]) -> None:
        self.problems = Problems(source.name)
        self.n_skipped = 0
        self._wanted = wanted
        self._seen: set[str] = set()

    def take(self, name: str, size: int) -> bool:
        """Say whether a regular file is to be read."""
        problem = problem_of_name(name)
        if problem is None and (is_noise(name) or not self._wanted(name)):
            self.n_skipped += not is_noise(name)
            return False
        if problem is None and name in self._seen:
            problem = "this file is there twice"
        if problem is None and size > MAX_FILE_BYTES:
            problem = f"{size:,} bytes are more than the {MAX_FILE_BYTES:,} that are read"
        self._seen.add(name)
        if problem is not None:
            self.problems.add(problem, name=shown(name))
        return problem is None


class _Folder:
    """Files of a folder; links are followed, as those of a user's own disk."""

    def __init__(self, source: Path, wanted: Callable[[str], bool]) -> None:
        self._root = source
        names = _Names(source, wanted)
        self._sizes: dict[str, int] = {}
        for name, entry in _walk(source):
            status = entry.stat()
            if not stat.S_ISREG(status.st_mode):
                names.problems.add("this is neither a file nor a folder", name=shown(name))
            elif names.take(name, status.st_size):
                self._sizes[name] = status.st_size
        names.problems.raise_if_any()
        self.names = sorted(self._sizes)
        self.n_skipped = names.n_skipped

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def digest(self) -> str:
        # Names and sizes: the content is told by the digest of the images made from it.
        return digest_of(*(f"{name}\x1f{self._sizes[name]}" for name in self.names))


def _walk(root: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    pending, visited = [(root, "")], set()
    while pending:
        folder, prefix = pending.pop()
        real = os.path.realpath(folder)
        if real in visited:  # a link to a folder above
            continue
        visited.add(real)
        with os.scandir(folder) as entries:
            for entry in entries:
                name = prefix + entry.name
                if entry.is_dir():
                    if not is_noise(name):
                        pending.append((Path(entry.path), name + "/"))
                elif os.path.exists(entry.path):  # noqa: PTH110  not a link to nothing
                    yield name, entry


class _Zip:
    """Members of a zip archive, read where they are."""

    def __init__(self, source: Path, wanted: Callable[[str], bool], stack: ExitStack) -> None:
        self._source = source
        try:
            self._zip = stack.enter_context(zipfile.ZipFile(source))
        except (zipfile.BadZipFile, OSError, EOFError) as error:
            raise DataError(f"{source.name}: cannot be read as a zip archive ({error}).") from None
        names = _Names(source, wanted)
        self._members: dict[str, zipfile.ZipInfo] = {}
        total = 0
        for member in self._zip.infolist():
            total += member.file_size
            name = member.orig_filename
            kind = stat.S_IFMT(member.external_attr >> 16)
            if member.is_dir():
                continue
            if kind not in (0, stat.S_IFREG):
                names.problems.add("this is a link or device", name=shown(name))
            elif member.flag_bits & 1:
                names.problems.add("this file is encrypted", name=shown(name))
            elif names.take(name, member.file_size):
                self._members[name] = member
        names.problems.raise_if_any()
        check_total(source, total)
        self.names = sorted(self._members)
        self.n_skipped = names.n_skipped

    def read(self, name: str) -> bytes:
        try:
            with self._zip.open(self._members[name]) as stream:
                return stream.read(MAX_FILE_BYTES)
        except (*ARCHIVE_FAULTS, NotImplementedError, RuntimeError) as error:
            raise DataError(f"{self._source.name}: {shown(name)} is damaged ({error}).") from None

    def digest(self) -> str:
        return digest_of_file(self._source)


class _Spool:
    """Members of a tar archive, copied to one nameless temporary file while the archive is read through once."""

    def __init__(self, source: Path, wanted: Callable[[str], bool], file: IO[bytes], progress: Progress) -> None:
        self._source, self._file = source, file
        names = _Names(source, wanted)
        self._places: dict[str, tuple[int, int]] = {}
        total = 0
        with progress.task(f"reading {source.name}", None, "files") as task:
            for member, read in tar_members(source, max_bytes=max_total(source)):
                total += member.size
                check_total(source, total)
                if member.isdir():
                    continue
                name = member.name.removeprefix("./")
                if not member.isreg():
                    names.problems.add("this is a link or device", name=shown(name))
                elif names.take(name, member.size):
                    self._places[name] = (self._file.tell(), member.size)
                    self._file.write(read())
                    task.advance()
        names.problems.raise_if_any()
        self.names = sorted(self._places)
        self.n_skipped = names.n_skipped

    def read(self, name: str) -> bytes:
        start, size = self._places[name]
        self._file.seek(start)
        return self._file.read(size)

    def digest(self) -> str:
        return digest_of_file(self._source)


def max_total(source: Path) -> int:
    """Return how many bytes an honest archive of this size could hold."""
    return max(_MAX_FREE, _MAX_RATIO * source.stat().st_size)


def check_total(source: Path, total: int) -> None:
    """Refuse an archive that claims more content than that.

    Raises
    ------
    DataError
        Where `total` bytes are more than `max_total`.
    """
    if total > max_total(source):
        raise DataError(
            f"{source.name}: its members claim {total:,} bytes, more than {_MAX_RATIO} times the archive: "
            "it looks made to fill the memory or disk (a decompression bomb), and is not read."
        )
