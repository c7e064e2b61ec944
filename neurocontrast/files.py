"""Files that appear whole or not at all, digests of their content, and the files that make up a scan."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import re
import shutil
import tempfile
import unicodedata
import uuid
from collections.abc import Iterator, Sequence
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from filelock import FileLock, Timeout

from neurocontrast.exceptions import ConfigError

if TYPE_CHECKING:  # pandas is slow to import, and most of this file does without
    import pandas as pd

    from neurocontrast.progress import Progress

ScanFiles: TypeAlias = str | tuple[str, ...]
"""The file of a scan, or the files of its channels in their order, as `monai.transforms.LoadImaged` takes them."""


LOCK = ".lock"
"""Name of the file that `hold` locks."""
_PATIENCE = 5.0
"""Seconds: the processes of a call that was killed may take a moment to end."""
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


def as_scan(scan: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> ScanFiles:
    """Return the files of a scan as text: one path, or a tuple of one path a channel."""
    return (
        os.fspath(scan)
        if isinstance(scan, str | os.PathLike)
        else tuple(os.fspath(path) for path in scan)
    )


def files_of(scan: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return the files of a scan, one a channel."""
    known = as_scan(scan)
    return (known,) if isinstance(known, str) else known


def as_on_disk(path: str) -> str:
    """Return a path in its folders' form of Unicode; unchanged where none is spelled alike.

    macOS and some archives write letters with their accents apart (NFD), and tables write them as
    one character (NFC).
    """
    if path.isascii() or os.path.lexists(path):
        return path
    for form in ("NFC", "NFD"):
        spelled = unicodedata.normalize(form, path)
        if os.path.lexists(spelled):
            return spelled
    first, *names = Path(path).parts
    folder = Path(first)
    for name in names:
        entry = folder / name
        if not os.path.lexists(entry):
            wanted = composed(name)
            alike = [other for other in folder.glob("*") if composed(other.name) == wanted]
            if len(alike) != 1:
                return path
            entry = alike[0]
        folder = entry
    return str(folder)


def place_on_disk(path: Path) -> Path:
    """Return a path to read or write, in its folders' form of Unicode as far as they exist."""
    existing = Path(as_on_disk(str(path)))
    if os.path.lexists(existing) or path.parent == path:
        return existing
    return place_on_disk(path.parent) / path.name


def composed(text: str) -> str:
    """Return a text in NFC, letters and accents as one character, to compare names."""
    return unicodedata.normalize("NFC", text)


_UNSEEN = "\u200b\u200e\u200f\u2060\ufeff\u00ad"
"""Characters without width that web pages and spreadsheets leave around words."""


def trimmed(text: str) -> str:
    """Return a text without spaces, and characters that nobody sees, at its ends."""
    bare = text.strip()
    while bare and (bare[0] in _UNSEEN or bare[-1] in _UNSEEN):
        bare = bare.strip(_UNSEEN).strip()
    return bare


def files_near(place: Path, name: str) -> Iterator[Path]:
    """Yield the files of a name in the two folders above a place and in the working directory, and two levels below."""
    for folder in dict.fromkeys([*place.resolve().parents[:2], Path.cwd()]):
        for above in ("", "*/", "*/*/"):
            yield from sorted(folder.glob(f"{above}{escape(name)}"))


def relative_path(path: Path, start: Path) -> Path:
    """Return an absolute path relative to a folder; as given where ``..`` would leave a linked folder elsewhere."""
    relative = Path(os.path.relpath(path, start))
    return relative if os.path.realpath(start / relative) == os.path.realpath(path) else path


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path of the same ending to write to; rename it to `path` on success, remove it on any error."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".tmp-{uuid.uuid4().hex[:12]}-{target.name}")
    try:
        yield temporary
        with open(temporary, "rb") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise _named(error, temporary, target) from None
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str], *, parameter: str = "out") -> None:
    """Refuse, before any work is done, a file or folder that could not be written; `parameter` is for the message."""
    target = Path(path).absolute()
    there = (
        target
        if target.is_dir()
        else next(parent for parent in target.parents if os.access(parent, os.F_OK))
    )
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            target.lstat()  # tells of a name that is too long
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        why = f"'{there}' is no folder" if there.is_file() else f"{error.strerror} in '{there}'"
        raise ConfigError(
            f"{parameter}: '{path}' cannot be written ({why}). Give another path."
        ) from error


def check_output_file(path: Path, suffix: str, *, overwrite: bool, parameter: str = "out") -> None:
    """Refuse an output that is no file of this ending, that exists and may not be replaced, or cannot be written.

    What killed writers of the file, and of files with another ending, left is removed first.
    """
    pattern = re.compile(rf"(\.tmp-[0-9a-f]{{12}}-)+{re.escape(path.stem)}\..*")
    for left in path.parent.glob(".tmp-*"):
        if pattern.fullmatch(left.name) and left.is_file():
            left.unlink(missing_ok=True)
    if path.is_dir() or path.suffix != suffix:
        raise ConfigError(f"{parameter}: must be a file that ends in {suffix}, got '{path}'.")
    if path.exists() and not overwrite:
        raise ConfigError(
            f"{parameter}: '{path}' exists. Give another file, or replace it with overwrite=True."
        )
    check_writable(path, parameter=parameter)


def check_output_folder(folder: Path, *, overwrite: bool, marker: str, what: str) -> None:
    """Refuse a file, or a folder that is not empty, unless `overwrite` and a file `marker` says that it is `what`.

    What killed writers of the folder left is removed first.
    """
    sweep(folder)
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        what_it_is = f"a link to {folder.readlink()}" if folder.is_symlink() else "a file"
        raise ConfigError(
            f"out: '{folder}' is {what_it_is}, and must be a folder itself. Give another path."
        )
    check_writable(folder)
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not overwrite:
        raise ConfigError(
            f"out: the folder '{folder}' is not empty. Give another, or replace it with overwrite=True."
        )
    if not (folder / marker).is_file():
        raise ConfigError(
            f"out: the folder '{folder}' is not {what} (it holds no {marker}), so it is not replaced. "
            "Give another, or empty it yourself."
        )


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary folder to fill; on success it takes the place of `path`, on any error it is removed.

    A mount point, and the current directory, cannot be exchanged for another folder. There the
    temporary folder is inside, and its entries replace the earlier ones; a kill during that leaves
    an incomplete folder.
    """
    target = Path(path).absolute()
    sweep(target)
    stays = target.is_dir() and (
        os.path.ismount(target) or Path.cwd().is_relative_to(target.resolve())
    )
    place = target if stays else target.parent
    place.mkdir(parents=True, exist_ok=True)
    temporary = place / f".tmp-{target.name}-{uuid.uuid4().hex[:12]}"
    try:
        temporary.mkdir()
        yield temporary
        _exchange(temporary, target, stays=stays)
    except OSError as error:
        raise _named(error, temporary, target) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _exchange(temporary: Path, target: Path, *, stays: bool) -> None:
    aside = Path(f"{temporary}-replaced")
    if stays:
        earlier = [entry for entry in target.iterdir() if entry != temporary]
        aside.mkdir()
        for entry in earlier:
            entry.rename(aside / entry.name)
        for entry in list(temporary.iterdir()):
            entry.rename(target / entry.name)
    elif target.exists():
        # The old folder is renamed first: a complete folder is there at any time but between the
        # two renames.
        target.rename(aside)
        try:
            temporary.rename(target)
        except OSError:
            aside.rename(target)
            raise
    else:
        temporary.rename(target)
    shutil.rmtree(aside, ignore_errors=True)


def sweep(path: str | os.PathLike[str]) -> None:
    """Remove the temporary folders that killed writers of a folder left, and put back a folder they were replacing."""
    target = Path(path).absolute()
    pattern = re.compile(rf"\.tmp-{re.escape(target.name)}-[0-9a-f]{{12}}(-replaced)?")
    for place in (target, target.parent):
        names = (
            [entry.name for entry in place.iterdir()] if os.access(place, os.R_OK | os.X_OK) else []
        )
        for found in filter(None, map(pattern.fullmatch, names)):
            left = place / found[0]
            if found[1] and place == target:
                for entry in [
                    entry for entry in left.iterdir() if not (target / entry.name).exists()
                ]:
                    entry.rename(target / entry.name)
            elif found[1] and not target.exists():
                left.rename(target)
            shutil.rmtree(left, ignore_errors=True)


def _named(error: OSError, temporary: Path, target: Path) -> OSError:
    """Return an error that names the target instead of the temporary file."""
    if error.errno is not None and (
        error.filename is None or temporary.name in str(error.filename)
    ):
        error.filename = str(target)
        error.filename2 = None
    return error


@contextlib.contextmanager
def hold(folder: Path, progress: Progress, *, doing: str = "training") -> Iterator[None]:
    """Keep every other process from a folder; make it where it is missing, and remove it where nothing was written."""
    lock = FileLock(folder / LOCK)
    try:
        while not lock.is_locked:
            folder.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(
                FileNotFoundError
            ):  # a holder that ends has just removed the empty folder
                lock.acquire(timeout=_PATIENCE)
    except Timeout:
        raise ConfigError(
            f"out: another process is {doing} in '{folder}'. Wait for it, stop it, or give another folder."
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        progress.warning(
            f"{folder}: its file system has no locks ({error.strerror}); see to it yourself that no other process "
            f"is {doing} in this folder."
        )
    try:
        yield
    finally:
        (folder / LOCK).unlink(missing_ok=True)  # still locked: who waits for it begins a new one
        lock.release()
        with contextlib.suppress(OSError):
            folder.rmdir()  # where nothing was written


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically, in UTF-8."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write JSON atomically; NaN and infinity are refused, because they are not JSON."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_table(path: str | os.PathLike[str], table: pd.DataFrame) -> None:
    """Write a table atomically: tab-separated, without its index."""
    write_text(path, table.to_csv(sep="\t", index=False, lineterminator="\n"))


def write_table_with_json(path: Path, table: pd.DataFrame, about: Any) -> None:
    """Write a table and the ``.json`` of the same name; a kill leaves no table without its own ``.json``."""
    with atomic_path(path) as of_table, atomic_path(path.with_suffix(".json")) as of_json:
        write_table(of_table, table)
        write_json(of_json, about)
        path.unlink(missing_ok=True)


def digest_of(*parts: object) -> str:
    """Return a 32-digit hexadecimal digest of the parts' text, order kept."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = str(part).encode("utf-8")
        state.update(len(encoded).to_bytes(8, "little"))
        state.update(encoded)
    return state.hexdigest()


class DigestSink(io.RawIOBase):
    """A binary file to write to that keeps no bytes, only their SHA-256."""

    def __init__(self) -> None:
        super().__init__()
        self._sha256 = hashlib.sha256()
        self._n_bytes = 0

    def writable(self) -> bool:
        """Tell that bytes can be written."""
        return True

    def write(self, content: Any) -> int:
        """Take bytes into the digest, and return their number."""
        n_bytes = memoryview(content).nbytes
        self._sha256.update(content)
        self._n_bytes += n_bytes
        return n_bytes

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._n_bytes

    def hexdigest(self) -> str:
        """Return the SHA-256 of the bytes written, as 64 hexadecimal digits."""
        return self._sha256.hexdigest()


def digest_of_file(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's content."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
