"""Preprocessed volumes on disk: made once, never served stale."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from neurocontrast.data.entries import (
    Signature,
    holds_entry,
    read_affine,
    read_entry,
    settled_signature,
    signature_of,
    write_entry,
)
from neurocontrast.data.parallel import N_SCANS_A_WORKER, map_files
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import DataError
from neurocontrast.files import ScanFiles, as_scan, digest_of, files_of, write_json
from neurocontrast.progress import SILENT, Progress
from neurocontrast.transforms.compose import apply
from neurocontrast.transforms.described import DescribedTransforms
from neurocontrast.transforms.images import affine_of, voxels_of
from neurocontrast.transforms.preprocessing import Preprocessing

__all__ = ["Prepared", "VolumeCache", "VolumeTransforms", "default_cache_folder"]

_N_TRIES = 3
_FULL = (errno.ENOSPC, errno.EDQUOT)
_Found = TypeVar("_Found")


VolumeTransforms: TypeAlias = Preprocessing | DescribedTransforms
"""What is done to each scan before it is kept."""


class Prepared(NamedTuple):
    """Numbers of scans that were ready, and of scans that `VolumeCache.prepare` preprocessed."""

    n_reused: int
    n_made: int


def default_cache_folder() -> Path:
    """Return the folder used where ``data.cache_dir`` is null: ``$XDG_CACHE_HOME/neurocontrast`` or ``~/.cache/…``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return root / "neurocontrast"


class VolumeCache:
    """Volumes that the same transforms make, each in a file of its own.

    An entry belongs to the resolved path of its scan (or to those of its channels), to the digest of the transforms
    (with their version) and to `dtype`. It is used only while the scan's size, modification
    time and change time are those it was made from. Entries appear whole or not at all, so
    several processes can share a folder, and an interrupted preparation continues.

    Parameters
    ----------
    folder : path or None
        Where entries are kept; None for `default_cache_folder`. Entries hold the images
        themselves, so treat the folder as you treat the scans.
    transforms : VolumeTransforms
        What is done to each scan, for instance a `neurocontrast.transforms.Preprocessing`.
    dtype : {"float16", "float32"}
        How voxels are kept. float16 has 11 significant bits; z-scored voxels always fit its range
        (no voxel of n can be further than √n deviations from the mean), others are refused where they do not.
    """

    def __init__(
        self,
        folder: str | Path | None,
        transforms: VolumeTransforms,
        *,
        dtype: Literal["float16", "float32"] = "float16",
    ) -> None:
        if dtype not in ("float16", "float32"):
            raise DataError(f"dtype must be 'float16' or 'float32', found {dtype!r}.")
        self.transforms = transforms
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.shape = transforms.image_shape
        root = Path(folder).expanduser().absolute() if folder is not None else default_cache_folder()
        self.folder = root / f"{transforms.digest()[:16]}-{dtype}"
        self._entries: dict[tuple[Any, ...], Path] = {}

    @property
    def n_bytes(self) -> int:
        """Size of one volume."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def prepare(self, scans: Sequence[ScanFiles | Path], *, n_workers: int, progress: Progress = SILENT) -> Prepared:
        """Preprocess every scan that has no valid entry yet, in `n_workers` processes."""
        missing, n_unique = self.missing(scans), len({as_scan(scan) for scan in scans})
        if not missing:
            return Prepared(n_unique, 0)
        self._open_folder(n_missing=len(missing))
        problems = Problems("scans")
        with progress.task("Preprocessing scans", len(missing), "scan") as task:
            given = [(scan,) for scan in missing]
            for failure in map_files(self._make_or_say_why, given, n_workers=n_workers, n_per_worker=N_SCANS_A_WORKER):
                if failure:
                    problems.add(failure)
                task.advance()
        problems.raise_if_any()
        return Prepared(n_unique - len(missing), len(missing))

    def missing(self, scans: Sequence[ScanFiles | Path]) -> list[ScanFiles]:
        """Return the scans that have no valid entry yet, each once."""
        return [scan for scan in dict.fromkeys(map(as_scan, scans)) if not self._holds(scan)]

    def read(self, scan: ScanFiles | Path) -> npt.NDArray[Any]:
        """Return a scan's volume, (C, D, H, W), in the precision of the cache; one without an entry is made now."""
        volume = np.empty(self.shape, self.dtype)
        self.read_into(volume, scan)
        return volume

    def read_into(self, out: npt.NDArray[Any], scan: ScanFiles | Path) -> None:
        """Read a scan's volume as `read` does, into a contiguous array of the cache's shape and dtype."""
        if out.shape != self.shape or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise DataError(
                f"a volume of this cache is a contiguous array {self.shape} of {self.dtype}, "
                f"got {'one' if out.flags.c_contiguous else 'a strided one'} {out.shape} of {out.dtype}."
            )
        known = as_scan(scan)
        self._made_if_needed(known, lambda: self._read_entry(known, out) or None)

    def affine_of(self, scan: ScanFiles | Path) -> npt.NDArray[np.float64]:
        """Return the affine (4, 4) of a scan's volume; a scan without an entry is transformed now."""
        known = as_scan(scan)
        entry = self._entry_path(known)
        return self._made_if_needed(known, lambda: read_affine(entry))

    def _made_if_needed(self, scan: ScanFiles, read: Callable[[], _Found | None]) -> _Found:
        found = read()
        if found is None:
            self._open_folder(n_missing=1)
            self._make(scan)
            found = read()
        if found is None:
            raise DataError(f"{_named(scan)}: the scan or its entry in {self.folder} keeps changing while it is read.")
        return found

    def _read_entry(self, scan: ScanFiles, out: npt.NDArray[Any]) -> bool:
        found = self._locate(scan)
        return found is not None and read_entry(*found, out)

    def _holds(self, scan: ScanFiles) -> bool:
        found = self._locate(scan)
        return found is not None and holds_entry(*found, n_bytes=self.n_bytes)

    def _locate(self, scan: ScanFiles) -> tuple[Path, Signature] | None:
        """Return where a scan's entry belongs and the scan's signature, or None where there is no scan."""
        try:
            statuses = [Path(path).stat() for path in files_of(scan)]
        except OSError:
            return None
        # Resolving a path takes longer than anything here but the reading. The same file needs it once; a link
        # that leads elsewhere now leads to another inode.
        key = scan, *((status.st_dev, status.st_ino) for status in statuses)
        if key not in self._entries:
            self._entries[key] = self._entry_path(scan)
        return self._entries[key], signature_of(statuses)

    def _entry_path(self, scan: ScanFiles) -> Path:
        key = digest_of("volume", *map(os.path.realpath, files_of(scan)))
        return self.folder / key[:2] / f"{key}.npy"

    def _make_or_say_why(self, scan: ScanFiles) -> str | None:
        try:
            self._make(scan)
        except CacheFullError:
            raise
        except DataError as error:
            return str(error)
        return None

    def _make(self, scan: ScanFiles) -> None:
        name, files = _named(scan), files_of(scan)
        for _ in range(_N_TRIES):
            try:
                before = settled_signature(files)
            except OSError as error:
                raise DataError(f"{name}: the image cannot be read ({error.strerror}).") from error
            try:
                image = apply(self.transforms.compose(), {"image": scan})["image"]
            except RuntimeError as error:  # of transforms that are not the package's own
                raise DataError(f"{name}: {error} failed: {error.__cause__ or 'no reason given'}.") from error
            volume = self._narrowed(name, voxels_of(image))
            if signature_of([Path(path).stat() for path in files]) == before:
                break
        else:
            raise DataError(f"{name}: the image keeps changing while it is read.")
        try:
            write_entry(self._entry_path(scan), volume, before, affine=affine_of(image))
        except OSError as error:
            if error.errno in _FULL:
                raise CacheFullError(
                    f"the disk of the cache folder {self.folder} is full; what is finished is kept. Free some, or set "
                    "data.cache_dir."
                ) from error
            raise DataError(f"the cache folder {self.folder} cannot be written ({error.strerror}).") from error

    def _narrowed(self, name: str, volume: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
        if volume.shape != self.shape:
            raise DataError(f"{name}: the transforms made an image {volume.shape}, and {self.shape} is kept.")
        limit = float(np.finfo(self.dtype).max)
        highest = float(np.abs(volume).max())
        if highest > limit:
            raise DataError(
                f"{name}: an intensity of {highest:g} does not fit {self.dtype} (at most {limit:g}); "
                "keep the cache in float32, or normalise with zscore."
            )
        return volume.astype(self.dtype)

    def _open_folder(self, *, n_missing: int) -> None:
        described = self.folder / "contract.json"
        try:
            if not described.is_file():
                self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_json(described, {"preprocessing": self.transforms.contract(), "dtype": str(self.dtype)})
            n_free = shutil.disk_usage(self.folder).free
        except OSError as error:
            raise DataError(
                f"the cache folder {self.folder} cannot be used ({error.strerror}); set data.cache_dir to another."
            ) from error
        needed = n_missing * (self.n_bytes + 4096)
        if needed > n_free:
            raise CacheFullError(
                f"the cache folder {self.folder} needs {needed / 2**30:.1f} GiB for {n_missing} scans and its disk has "
                f"{n_free / 2**30:.1f} GiB free; set data.cache_dir to a larger one."
            )


def _named(scan: ScanFiles) -> str:
    return ", ".join(files_of(scan))


class CacheFullError(DataError):
    """There is no room for more volumes; nothing else can be prepared either."""

    exit_code = 1
