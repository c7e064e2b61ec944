"""Preprocessed volumes on disk: made once, never served stale."""

import contextlib
import errno
import json
import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from isal import isal_zlib
from safetensors import SafetensorError
from safetensors.numpy import load, save

from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import DataError
from neurocontrast.files import ScanFiles, as_scan, atomic_path, digest_of, files_of, write_json
from neurocontrast.parallel.workers import N_SCANS_A_WORKER, map_files
from neurocontrast.progress import SILENT, Progress
from neurocontrast.reading import check_content
from neurocontrast.transforms.contents import noting_contents
from neurocontrast.transforms.described import DescribedTransforms
from neurocontrast.transforms.images import affine_of, apply, voxels_of
from neurocontrast.transforms.loading import content_of_scan
from neurocontrast.transforms.preprocessing import Preprocessing

_FULL = (errno.ENOSPC, errno.EDQUOT)
_NOT_KEPT = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ESTALE)
"""A folder that may not be written, or that another process or host has just removed."""
_HEADER_BYTES = 65_536
_CONTENT = "content"
"""Key of an entry's header with the digests of the voxels of its files."""

VolumeTransforms: TypeAlias = Preprocessing | DescribedTransforms
"""What is done to each scan before it is kept."""

Parts: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""The volume (C, D, H, W) and the affine (4, 4) of a scan."""


@dataclass(frozen=True, eq=False)
class _Entry:
    """A preprocessed scan and its source files."""

    parts: Parts
    """Empty where only the header of an entry was read."""
    source: tuple[int, ...]
    """Signature of the files."""
    content: str | None
    """Digests of the voxels of the files, separated by spaces; "" where one cannot be read, None in
    an entry of an earlier version."""


class CacheFullError(DataError):
    """The disk of the cache is full; no other scan can be kept either."""

    exit_code = 1


def default_cache_folder() -> Path:
    """Return the folder used where ``data.cache_dir`` is null: ``$XDG_CACHE_HOME/neurocontrast`` or ``~/.cache/…``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return root / "neurocontrast"


class VolumeCache:
    """Volumes that the same transforms make, each in a safetensors file of its own.

    An entry belongs to the resolved path of its scan (or to those of its channels), to the digest
    of the transforms (with their version) and to `dtype`. It is used only while the scan's size,
    modification time and change time are those it was made from, and only if its checksum is right.
    Entries appear whole or not at all, so processes, hosts and users can share a folder, and an
    interrupted preparation continues. Where the folder may not be written, a scan without an entry
    is preprocessed in memory each time it is read.

    Parameters
    ----------
    folder : path or None
        Where entries are kept; None for `default_cache_folder`. Entries hold the images
        themselves, so treat the folder as you treat the scans.
    transforms : VolumeTransforms
        What is done to each scan, for instance a `neurocontrast.transforms.Preprocessing`.
    dtype : {"float16", "float32"}
        How voxels are kept. float16 has 11 significant bits; z-scored voxels always fit its range
        (no voxel of n can be further than √n deviations from the mean), others are refused where
        they do not.
    shared : bool
        Whether entries are used too that others own or may write. Only for a folder in which you
        trust all who may write. Otherwise such entries are made again.
    """

    def __init__(
        self,
        folder: str | Path | None,
        transforms: VolumeTransforms,
        *,
        dtype: Literal["float16", "float32"] = "float16",
        shared: bool = False,
    ) -> None:
        if dtype not in ("float16", "float32"):
            raise DataError(f"dtype must be 'float16' or 'float32', found {dtype!r}.")
        self.transforms = transforms
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.shape = transforms.image_shape
        root = (
            Path(folder).expanduser().absolute() if folder is not None else default_cache_folder()
        )
        self.folder = root / f"{transforms.digest()[:16]}-{dtype}"
        self.shared = shared

    def prepare(
        self,
        scans: Sequence[ScanFiles | Path],
        *,
        n_workers: int,
        progress: Progress = SILENT,
        failures: dict[ScanFiles, str] | None = None,
    ) -> int:
        """Preprocess every scan that has no valid entry yet, in `n_workers` processes, and return how many are kept.

        Scans that cannot be preprocessed are one `DataError`, or become keys of `failures` where it
        is given, with the reason; the folder must then be writable.
        """
        missing = self.missing(scans)
        if not missing:
            return 0
        found: dict[ScanFiles, str | bool] = dict.fromkeys(missing, False)
        is_writable = self._is_writable(progress)
        if failures is not None and not is_writable:
            raise DataError(
                f"data.skip_unreadable: needs a cache, and {self.folder} cannot be written. Set "
                "data.cache_dir to another."
            )
        if is_writable:
            with progress.task("Preprocessing scans", len(missing), "scan") as task:
                given = [(scan,) for scan in missing]
                for scan, made in map_files(
                    self._make_or_say_why, given, n_workers=n_workers, n_per_worker=N_SCANS_A_WORKER
                ):
                    found[scan] = made
                    task.advance()
        reasons = {scan: made for scan, made in found.items() if isinstance(made, str)}
        problems = Problems("scans")
        for reason in reasons.values() if failures is None else ():
            problems.add(reason)
        problems.raise_if_any()
        if failures is not None:
            failures |= reasons
        n_kept = list(found.values()).count(True)
        if n_lacking := len(missing) - n_kept - len(reasons):
            progress.warning(
                f"the cache folder {self.folder} cannot be written: {n_lacking:,} scans have no entry in it "
                "and are preprocessed anew whenever they are read. Set data.cache_dir to another."
            )
        return n_kept

    def missing(self, scans: Sequence[ScanFiles | Path]) -> list[ScanFiles]:
        """Return the scans without a valid entry, each once; of entries only the header is read."""
        return [
            scan
            for scan in dict.fromkeys(map(as_scan, scans))
            if self._entry(scan, only_header=True) is None
        ]

    def contents(
        self,
        scans: Sequence[ScanFiles | Path],
        *,
        n_workers: int,
        progress: Progress = SILENT,
    ) -> list[str]:
        """Return the digests of the voxels of each scan's files, "" where they cannot be read.

        An entry holds those of its scan; a scan is read for them only where its entry is of an
        earlier version, which then receives them, or is missing.
        """
        listed = list(map(as_scan, scans))
        contents: dict[ScanFiles, str] = {}
        lacking: list[tuple[ScanFiles]] = []
        for scan in dict.fromkeys(listed):
            entry = self._entry(scan, only_header=True)
            if entry is not None and entry.content is not None:
                contents[scan] = entry.content
            else:
                lacking.append((scan,))
        if lacking:
            with progress.task("Comparing scans", len(lacking), "scan") as task:
                for scan, content in map_files(
                    self._add_content, lacking, n_workers=n_workers, n_per_worker=N_SCANS_A_WORKER
                ):
                    contents[scan] = content
                    task.advance()
        return list(map(contents.__getitem__, listed))

    def _add_content(self, scan: ScanFiles) -> tuple[ScanFiles, str]:
        """Return the digests of a scan's files, and keep them in its entry where there is one."""
        content = _content_of(scan, {})
        entry = self._entry(scan)
        if entry is not None:
            self._keep(scan, replace(entry, content=content))
        return scan, content

    def read(self, scan: ScanFiles | Path) -> npt.NDArray[Any]:
        """Return a scan's volume, (C, D, H, W), in the precision of the cache; one without an entry is made now."""
        return self.read_with_affine(scan)[0]

    def read_with_affine(
        self, scan: ScanFiles | Path
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
        """Return what `read` returns, and the affine (4, 4) of its voxels."""
        entry = self._entry(as_scan(scan))
        if entry is None:
            entry = self._make(as_scan(scan))
            self._keep(as_scan(scan), entry)
        return entry.parts["volume"], entry.parts["affine"]

    def _entry_path(self, scan: ScanFiles) -> Path:
        return (
            self.folder
            / f"{digest_of('volume', *map(os.path.realpath, files_of(scan)))}.safetensors"
        )

    def _about(self, path: Path, source: Sequence[int]) -> str:
        """Return what an entry says of itself, so that one under another name or in another folder is not used."""
        return json.dumps([self.folder.name, path.stem, *source])

    def _entry(self, scan: ScanFiles, *, only_header: bool = False) -> _Entry | None:
        """Return a valid entry (without its parts if `only_header`), or None to make a new one.

        The file is not mapped into memory: where another host replaces it, a network file system
        would end the process (SIGBUS).
        """
        try:
            path = self._entry_path(scan)
            if not path.is_file():  # a pipe would be waited for
                return None
            with open(path, "rb") as stream:
                status = os.fstat(stream.fileno())
                n_header = int.from_bytes(stream.read(8), "little")
                header = json.loads(stream.read(n_header)) if n_header < _HEADER_BYTES else {}
                written = header.pop("__metadata__", {})
                n_bytes = (
                    8
                    + n_header
                    + max((part["data_offsets"][1] for part in header.values()), default=0)
                )
                source = signature_of(files_of(scan))
                if (
                    not self._trusts(status)
                    or status.st_size != n_bytes
                    or written.get("about") != self._about(path, source)
                ):
                    return None
                content = written.get(_CONTENT)
                if only_header:
                    return _Entry({}, source, content)
                stream.seek(0)
                parts = load(stream.read())
            is_right = parts["volume"].shape == self.shape and parts["volume"].dtype == self.dtype
            is_right = is_right and written["crc32"] == _checksum(parts)
            return _Entry(parts, source, content) if is_right else None
        # Gone, replaced, or no such file of ours.
        except (
            OSError,
            ValueError,
            TypeError,
            AttributeError,
            LookupError,
            RecursionError,
            SafetensorError,
        ):
            return None

    def _trusts(self, status: os.stat_result) -> bool:
        """Say whether this user, or root, owns a file and nobody else may write it."""
        if self.shared or not hasattr(os, "geteuid"):
            return True
        return status.st_uid in (os.geteuid(), 0) and not status.st_mode & (
            stat.S_IWGRP | stat.S_IWOTH
        )

    def _make_or_say_why(self, scan: ScanFiles) -> tuple[ScanFiles, str | bool]:
        """Make an entry, and return whether it could be kept, or why it could not be made."""
        try:
            return scan, self._keep(scan, self._make(scan))
        except CacheFullError:
            raise
        except DataError as error:
            return scan, str(error)

    def _make(self, scan: ScanFiles) -> _Entry:
        """Preprocess a scan; refuse one that changes in the meantime."""
        files = files_of(scan)
        name = ", ".join(files)
        for file in files:
            check_content(file)
        try:
            before = signature_of(files)
        except OSError as error:
            raise DataError(f"{name}: the image cannot be read ({error.strerror}).") from error
        with noting_contents() as noted:
            image = apply(self.transforms.compose(), {"image": scan})["image"]
        content = _content_of(scan, noted)
        parts = {
            "volume": self._narrowed(name, voxels_of(image)),
            "affine": np.ascontiguousarray(affine_of(image)),
        }
        if signature_of(files) != before:
            raise DataError(
                f"{name}: the image changed while it was read. Try again once it is complete."
            )
        return _Entry(parts, before, content)

    def _narrowed(self, name: str, volume: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
        if volume.shape != self.shape:
            raise DataError(
                f"{name}: the transforms made an image {volume.shape}, and {self.shape} is kept."
            )
        limit = float(np.finfo(self.dtype).max)
        highest = float(np.abs(volume).max())
        if highest > limit:
            raise DataError(
                f"{name}: an intensity of {highest:g} does not fit {self.dtype} (at most {limit:g}); "
                "keep the cache in float32, or normalise with zscore."
            )
        return np.ascontiguousarray(volume, dtype=self.dtype)

    def _keep(self, scan: ScanFiles, entry: _Entry) -> bool:
        """Write an entry atomically, and return whether the folder could be written."""
        path = self._entry_path(scan)
        about = {"about": self._about(path, entry.source), "crc32": _checksum(entry.parts)}
        if entry.content is not None:
            about[_CONTENT] = entry.content
        try:
            mode = self._make_folder()
            with atomic_path(path) as temporary:
                temporary.touch(mode & 0o644)  # nobody else may open it to write, not even at first
                temporary.write_bytes(save(dict(entry.parts), metadata=about))
                with contextlib.suppress(OSError):  # a disk without permissions
                    temporary.chmod(mode & 0o644)
        except OSError as error:
            return self._is_not_kept(error)
        return True

    def _make_folder(self) -> int:
        """Make the folder with the permissions of its root, but never writable by all, and return these."""
        root = self.folder.parent
        described = self.folder / "contract.json"
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        mode = stat.S_IMODE(root.stat().st_mode) & ~stat.S_IWOTH | stat.S_IRWXU
        if not described.is_file():
            self.folder.mkdir(exist_ok=True)
            with contextlib.suppress(
                OSError
            ):  # another user has just made it, or the disk has no permissions
                self.folder.chmod(mode)
            write_json(
                described, {"preprocessing": self.transforms.contract(), "dtype": str(self.dtype)}
            )
        return mode

    def _is_writable(self, progress: Progress) -> bool:
        """Say whether the folder may be written, before any scan is preprocessed."""
        try:
            self._make_folder()
            with tempfile.TemporaryFile(dir=self.folder) as probe:
                if not self._trusts(os.fstat(probe.fileno())):
                    progress.warning(
                        f"the disk of {self.folder} does not say who owns a file, so no entry can be used again. Set "
                        "data.cache_dir to another, or data.cache_shared to true if you trust all who may write there."
                    )
        except OSError as error:
            return self._is_not_kept(error)
        return True

    def _is_not_kept(self, error: OSError) -> bool:
        """Return False for a folder that may not be written; any other error is raised as one for users."""
        if error.errno in _NOT_KEPT:
            return False
        if error.errno in _FULL:
            raise CacheFullError(
                f"the disk of the cache folder {self.folder} is full; what is finished is kept. Free some, or set "
                "data.cache_dir."
            ) from error
        raise DataError(
            f"the cache folder {self.folder} cannot be used ({error.strerror}); set data.cache_dir to another."
        ) from error


def signature_of(files: Sequence[str]) -> tuple[int, int, int]:
    """Return the size of the files of a scan together, and their latest mtime and ctime, by which a change is seen."""
    statuses = [os.stat(path) for path in files]  # noqa: PTH116
    return (
        sum(status.st_size for status in statuses),
        max(status.st_mtime_ns for status in statuses),
        max(status.st_ctime_ns for status in statuses),
    )


def _content_of(scan: ScanFiles, noted: Mapping[str, str]) -> str:
    """Return the digests of a scan's files, read where not `noted`; "" if one cannot be read."""
    digests = []
    for path in files_of(scan):
        digest = noted.get(path) or content_of_scan(path)
        if not digest:
            return ""
        digests.append(digest)
    return " ".join(digests)


def _checksum(parts: Parts) -> str:
    return str(
        isal_zlib.crc32(parts["volume"].tobytes(), isal_zlib.crc32(parts["affine"].tobytes()))
    )
