"""The files of a folder or an archive, by name."""

from __future__ import annotations

import lzma
import os
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from neurocontrast.data.problems import shown
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.files import digest_of, digest_of_file

ARCHIVE_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".zip")
ARCHIVE_FAULTS = (
    *(tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError),
)
"""What reading a damaged or encrypted archive can raise."""

_MAX_RATIO, _MAX_FREE = 200, 2**30
_NOISE = ("__macosx", "thumbs.db", "desktop.ini")


@dataclass(frozen=True)
class FileSet:
    """Sizes of files below a folder by name, with ``/`` between its parts; `source` may be the archive they came in."""

    source: Path
    folder: Path
    sizes: dict[str, int]

    @property
    def names(self) -> list[str]:
        """Names in their order."""
        return sorted(self.sizes)

    def read(self, name: str) -> bytes:
        """Return the content of one file."""
        return (self.folder / name).read_bytes()

    def only(self, wanted: Callable[[str], bool]) -> FileSet:
        """Return the files whose name is wanted."""
        return replace(self, sizes={name: size for name, size in self.sizes.items() if wanted(name)})

    def digest(self) -> str:
        """Return the digest of the archive, or of the names and sizes of a folder's files."""
        if self.source.is_file():
            return digest_of_file(self.source)
        return digest_of(*(f"{name}\x1f{self.sizes[name]}" for name in self.names))

    def find(self, files: Sequence[str], *, dataset: str, hint: str = "") -> dict[str, str]:
        """Return the full name of each of `files`, in whichever folder; all absent ones are refused."""
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
def open_files(source: Path, *, scratch: Path | None = None) -> Iterator[FileSet]:
    """Open the files of a folder, or of an archive, which is unpacked into a temporary folder in `scratch`."""
    if source.is_dir():
        yield FileSet(source, source, _sizes_below(source))
        return
    if not source.is_file():
        raise DataError(f"source: there is no file or folder {shown(source, 200)}.")
    if not source.name.lower().endswith(ARCHIVE_ENDINGS):
        raise DataError(
            f"source: {shown(source, 200)} is neither a folder nor an archive ({', '.join(ARCHIVE_ENDINGS)})."
        )
    with tempfile.TemporaryDirectory(prefix=".tmp-", dir=scratch) as unpacked:
        try:
            _unpack(source, Path(unpacked))
        except ARCHIVE_FAULTS as error:
            raise DataError(
                f"{source.name}: cannot be read as an archive ({error or type(error).__name__}); it is cut, damaged or "
                "something else. Copy it again."
            ) from None
        yield FileSet(source, Path(unpacked), _sizes_below(Path(unpacked)))


def _unpack(source: Path, folder: Path) -> None:
    limit = max(_MAX_FREE, _MAX_RATIO * source.stat().st_size)
    total = 0
    if source.name.lower().endswith(".zip"):
        with zipfile.ZipFile(source) as archive:
            _check_total(source, sum(member.file_size for member in archive.infolist()), limit)
            archive.extractall(folder)
        return
    with tarfile.open(source, "r:*") as archive_of_tar:
        for member in archive_of_tar:
            total += member.size
            _check_total(source, total, limit)
            archive_of_tar.extract(member, folder, filter="data")  # Python's, for archives of strangers
        stream = archive_of_tar.fileobj
        while stream is not None and (block := stream.read(2**20)):  # to the checksum behind the last member
            total += len(block)
            _check_total(source, total, limit)


def _check_total(source: Path, total: int, limit: int) -> None:
    if total > limit:
        raise DataError(
            f"{source.name}: it holds {total:,} bytes or more, over {_MAX_RATIO} times the archive: it looks made to "
            "fill the disk (a decompression bomb), and is not read."
        )


def _sizes_below(folder: Path) -> dict[str, int]:
    """Return the files of a folder, without those that operating systems leave behind; links are followed."""
    sizes: dict[str, int] = {}
    visited: set[str] = set()
    for place, below, files in os.walk(folder, followlinks=True):
        below[:] = [name for name in below if not _is_noise(name)]
        if os.path.realpath(place) in visited:  # a link to a folder above
            below.clear()
            continue
        visited.add(os.path.realpath(place))
        for path in (Path(place, file) for file in files if not _is_noise(file)):
            if path.is_file():
                sizes[path.relative_to(folder).as_posix()] = path.stat().st_size
    return sizes


def _is_noise(name: str) -> bool:
    return name.startswith(".") or name.lower() in _NOISE
