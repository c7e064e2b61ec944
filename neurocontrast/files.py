"""Write files whole or not at all, compute digests of content, and list the files of a scan."""

from __future__ import annotations

import contextlib
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
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from neurocontrast.exceptions import ConfigError

if TYPE_CHECKING:  # pandas is slow to import
    import pandas as pd

ScanFiles: TypeAlias = str | tuple[str, ...]
"""File of a scan, or a file for each channel, as `monai.transforms.LoadImaged` takes them."""


def as_scan(scan: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> ScanFiles:
    """Return the path or paths of a scan as `str`: one path, or a tuple with one path a channel."""
    if isinstance(scan, str | os.PathLike):
        return os.fspath(scan)
    return tuple(os.fspath(path) for path in scan)


def files_of(scan: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return the path or paths of a scan as a tuple of `str`, one path a channel."""
    files = as_scan(scan)
    if isinstance(files, str):
        return (files,)
    return files


def as_on_disk(path: str) -> str:
    """Return a path as the disk spells accented letters; unchanged if no file has such a name.

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
            alike = _entries_named(folder, composed(name))
            if len(alike) != 1:
                return path
            entry = alike[0]
        folder = entry
    return str(folder)


def _entries_named(folder: Path, name: str) -> list[Path]:
    """List the entries of `folder` whose names, in the Unicode form NFC, are `name`."""
    return [entry for entry in folder.glob("*") if composed(entry.name) == name]


def place_on_disk(path: Path) -> Path:
    """Return `path` with accented letters spelled as on the disk, as far as the path exists.

    Folders or a file at the end of the path that do not exist keep their spelling. Nothing is
    written.
    """
    existing = Path(as_on_disk(str(path)))
    if os.path.lexists(existing) or path.parent == path:
        return existing
    return place_on_disk(path.parent) / path.name


def composed(text: str) -> str:
    """Return a text in the Unicode form NFC, an accented letter one character, to compare names."""
    return unicodedata.normalize("NFC", text)


_UNSEEN = "\u200b\u200e\u200f\u2060\ufeff\u00ad"
"""Characters without width that web pages and spreadsheets leave around words."""


def trimmed(text: str) -> str:
    """Return a text without spaces and invisible characters at its ends."""
    bare = text.strip()
    while bare and (bare[0] in _UNSEEN or bare[-1] in _UNSEEN):
        bare = bare.strip(_UNSEEN).strip()
    return bare


def files_near(place: Path, name: str) -> Iterator[Path]:
    """Yield the files called `name` in folders around the path `place`.

    Searched are three folders: the parent of `place`, the parent's parent, and the working
    directory. In each, the folder itself is searched, then its subfolders, then the subfolders of
    subfolders.
    """
    for folder in dict.fromkeys([*place.resolve().parents[:2], Path.cwd()]):
        for above in ("", "*/", "*/*/"):
            yield from sorted(folder.glob(f"{above}{escape(name)}"))


def relative_path(path: Path, start: Path) -> Path:
    """Return the absolute `path` as a path relative to the folder `start`.

    The path is returned unchanged if the relative one would lead elsewhere, because ``..`` follows
    a link.
    """
    relative = Path(os.path.relpath(path, start))
    if os.path.realpath(start / relative) == os.path.realpath(path):
        return relative
    return path


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write to, renamed to `path` at the end, or removed on an error."""
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
    """Refuse an output file or folder that cannot be written, before any work is done.

    Parameters
    ----------
    path : path
        File or folder to write.
    parameter : str
        Name of the argument, with which the message begins.
    """
    target = Path(path).absolute()
    existing = _nearest_existing(target)
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            target.lstat()  # tells of a name that is too long
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        why = f"{error.strerror} in '{existing}'"
        if existing.is_file():
            why = f"'{existing}' is no folder"
        raise ConfigError(
            f"{parameter}: '{path}' cannot be written ({why}). Give another path."
        ) from error


def _nearest_existing(target: Path) -> Path:
    """Return `target` if a folder is there, or else the nearest path above that exists."""
    if target.is_dir():
        return target
    return next(parent for parent in target.parents if os.access(parent, os.F_OK))


def check_output_file(path: Path, suffix: str, *, overwrite: bool, parameter: str = "out") -> None:
    """Refuse an output file that has another ending, already exists, or cannot be written.

    Temporary files that killed processes left while writing the file are removed first.

    Parameters
    ----------
    path : Path
        File to write.
    suffix : str
        Ending that the file must have.
    overwrite : bool
        Whether an existing file may be replaced.
    parameter : str
        Name of the argument, with which the message begins.
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
    """Refuse an output folder that is a file or a link, or that must not be replaced.

    A folder that is not empty may be replaced only with `overwrite`, and only if the folder holds
    the file `marker`, by which this package's results of the same kind are recognised.

    Temporary folders that killed processes left while writing the folder are removed first.

    Parameters
    ----------
    folder : Path
        Folder to write.
    overwrite : bool
        Whether a folder with a file `marker` may be replaced.
    marker : str
        Name of a file that a folder of the same kind holds.
    what : str
        Words for the kind of folder, for the message.
    """
    sweep(folder)
    if folder.is_symlink():
        _refuse_folder(folder, f"a link to {folder.readlink()}")
    if folder.exists() and not folder.is_dir():
        _refuse_folder(folder, "a file")
    check_writable(folder)
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not overwrite:
        raise ConfigError(
            f"out: the folder '{folder}' is not empty. Give another, or replace it with "
            "overwrite=True."
        )
    if not (folder / marker).is_file():
        raise ConfigError(
            f"out: the folder '{folder}' is not {what} (it holds no {marker}), so it is not "
            "replaced. Give another, or empty it yourself."
        )


def _refuse_folder(folder: Path, kind: str) -> NoReturn:
    raise ConfigError(f"out: '{folder}' is {kind}, and must be a folder itself. Give another path.")


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary folder to fill, renamed to `path` at the end, or removed on an error.

    A mount point, and the current directory, cannot be exchanged for another folder. There the
    temporary folder is inside, and its entries replace the earlier ones; a kill during that leaves
    an incomplete folder.
    """
    target = Path(path).absolute()
    sweep(target)
    stays = target.is_dir() and (
        os.path.ismount(target) or Path.cwd().is_relative_to(target.resolve())
    )
    above = target.parent
    if stays:
        above = target
    above.mkdir(parents=True, exist_ok=True)
    temporary = above / f".tmp-{target.name}-{uuid.uuid4().hex[:12]}"
    try:
        temporary.mkdir()
        yield temporary
        _exchange(temporary, target, stays=stays)
    except OSError as error:
        raise _named(error, temporary, target) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _exchange(temporary: Path, target: Path, *, stays: bool) -> None:
    """Move the filled folder `temporary` to the path `target`; an earlier folder there is removed.

    A target that `stays`, such as a mount point, is not renamed: its entries are replaced.
    """
    aside = Path(f"{temporary}-replaced")
    if stays:
        earlier = set(target.iterdir()) - {temporary}
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
    """Remove temporary folders that killed processes left while writing the folder `path`.

    An earlier folder at `path` that was being replaced when the process was killed is put back.
    """
    target = Path(path).absolute()
    pattern = re.compile(rf"\.tmp-{re.escape(target.name)}-[0-9a-f]{{12}}(-replaced)?")
    for folder in (target, target.parent):
        if not os.access(folder, os.R_OK | os.X_OK):
            continue
        for entry in list(folder.iterdir()):
            match = pattern.fullmatch(entry.name)
            if match is None:
                continue
            if match[1] and folder == target:
                _put_back(entry, target)
            elif match[1] and not target.exists():
                entry.rename(target)
            shutil.rmtree(entry, ignore_errors=True)


def _put_back(left: Path, target: Path) -> None:
    """Move the entries of the folder `left` back into `target`; entries already there stay.

    `left` holds the earlier entries of `target`, set aside by a process that was killed.
    """
    for entry in list(left.iterdir()):
        if not (target / entry.name).exists():
            entry.rename(target / entry.name)


def _named(error: OSError, temporary: Path, target: Path) -> OSError:
    """Return a file system error that names the file `target` in place of the file `temporary`.

    An error that names another file is returned unchanged.
    """
    if error.errno is not None and (
        error.filename is None or temporary.name in str(error.filename)
    ):
        error.filename = str(target)
        error.filename2 = None
    return error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in UTF-8, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write a JSON file, whole or not at all; refuse NaN and infinity, which are not JSON."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_table(path: str | os.PathLike[str], table: pd.DataFrame) -> None:
    """Write a table, whole or not at all: tab-separated, without row names."""
    write_text(path, table.to_csv(sep="\t", index=False, lineterminator="\n"))


def write_table_with_json(path: Path, table: pd.DataFrame, about: Any) -> None:
    """Write `table` to `path`, and `about` to the ``.json`` file of the same name.

    If the process is killed, the folder never holds the new table with the old JSON file, or the
    reverse.
    """
    with atomic_path(path) as of_table, atomic_path(path.with_suffix(".json")) as of_json:
        write_table(of_table, table)
        write_json(of_json, about)
        path.unlink(missing_ok=True)


def digest_of(*parts: object) -> str:
    """Return the BLAKE2b digest of the texts of `parts`, in order, as 32 hexadecimal digits."""
    state = hashlib.blake2b(digest_size=16)
    for value in parts:
        encoded = str(value).encode("utf-8")
        state.update(len(encoded).to_bytes(8, "little"))
        state.update(encoded)
    return state.hexdigest()


class DigestSink(io.RawIOBase):
    """Binary file that keeps none of the bytes written, only the SHA-256 and the number of bytes.

    A table of embeddings is written to one, to learn the digest of the table's file.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sha256 = hashlib.sha256()
        self._n_bytes = 0

    def writable(self) -> bool:
        """Tell Python that bytes can be written."""
        return True

    def write(self, content: Any) -> int:
        """Add the bytes `content` to the digest, and return the number of bytes."""
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
