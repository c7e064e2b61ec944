"""Read the files of a folder or of an archive, which is unpacked to a temporary folder."""

import lzma
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from neurocontrast.data.layouts.tree import joined_path, read_tree
from neurocontrast.data.problems import shown
from neurocontrast.exceptions import DataError
from neurocontrast.files import digest_of, digest_of_file

ARCHIVE_ENDINGS = tuple(
    ending for _, endings, _ in shutil.get_unpack_formats() for ending in endings
)
ARCHIVE_FAULTS = (
    *(tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError),
)
"""Errors that Python raises on reading a damaged or encrypted archive."""

_NOISE = ("__macosx", "thumbs.db", "desktop.ini")


@dataclass(frozen=True)
class FileSet:
    """Names of the files below a folder, with "/" between folders; `source` may be an archive.

    `folder` holds the files: it is `source`, or the folder to which the archive was unpacked.
    """

    source: Path
    folder: Path
    names: list[str]

    def read(self, name: str) -> bytes:
        """Return the content of the file `name`, one of `names`, as bytes."""
        return (self.folder / name).read_bytes()

    def called(self, last: str) -> str | None:
        """Return the path, one of `names`, of the file called `last`; None if absent.

        Two such files are refused with a `DataError`.
        """
        names = [name for name in self.names if name.rpartition("/")[2] == last]
        if len(names) > 1:
            raise DataError(
                f"{self.source.name}: '{last}' is there more than once; name the folder of one of "
                "them."
            )
        return next(iter(names), None)

    def digest(self) -> str:
        """Return the SHA-256 of an archive, or a digest of names and sizes of a folder's files."""
        if self.source.is_file():
            return digest_of_file(self.source)
        return digest_of(
            *(f"{name}\x1f{(self.folder / name).stat().st_size}" for name in self.names)
        )


@contextmanager
def open_files(source: Path, *, scratch: Path | None = None) -> Iterator[FileSet]:
    """Yield the files of a folder or archive, `source`, as a `FileSet`, until the context ends.

    An archive is unpacked to a new temporary folder, which is made in the folder `scratch` and
    removed when the context ends; `scratch` itself is kept.
    """
    if source.is_dir():
        yield FileSet(source, source, _names_below(source))
        return
    if not source.is_file():
        raise DataError(f"source: there is no file or folder {shown(source, 200)}.")
    if not source.name.lower().endswith(ARCHIVE_ENDINGS):
        raise DataError(
            f"source: {shown(source, 200)} is neither a folder nor an archive "
            f"({', '.join(ARCHIVE_ENDINGS)})."
        )
    with tempfile.TemporaryDirectory(prefix=".tmp-", dir=scratch) as unpacked:
        try:
            # Python's filter for archives of strangers; its reader of zip files leaves out what
            # leads elsewhere.
            if source.name.lower().endswith(".zip"):
                shutil.unpack_archive(source, unpacked)
            else:
                shutil.unpack_archive(source, unpacked, filter="data")
        except ARCHIVE_FAULTS as error:
            raise DataError(
                f"{source.name}: cannot be read as an archive ({error or type(error).__name__}); "
                "it is cut, damaged or something else. Copy it again."
            ) from None
        yield FileSet(source, Path(unpacked), _names_below(Path(unpacked)))


def _names_below(folder: Path) -> list[str]:
    """Return the sorted names of all files below a folder, relative to the folder.

    Links to files are listed. Files that operating systems leave, such as Thumbs.db, are left out.
    """
    below = []
    for path, names in read_tree(folder).folders.items():
        for name in names:
            file = joined_path(path, name)
            if not _is_noise(file) and (folder / file).is_file():
                below.append(file)
    return sorted(below)


def _is_noise(file: str) -> bool:
    """Tell whether a file, or a folder above, is one that operating systems leave (Thumbs.db).

    `file` is the path, with "/" between names.
    """
    return any(name.lower() in _NOISE for name in file.split("/"))
