"""Preprocessed volumes on disk: made once, never served stale."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from isal import isal_zlib
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from neurocontrast.data.parallel import N_SCANS_A_WORKER, map_files
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import DataError
from neurocontrast.files import ScanFiles, as_scan, atomic_path, digest_of, files_of, write_json
from neurocontrast.progress import SILENT, Progress
from neurocontrast.transforms.described import DescribedTransforms
from neurocontrast.transforms.images import affine_of, apply, voxels_of
from neurocontrast.transforms.preprocessing import Preprocessing

_N_TRIES = 3
_FULL = (errno.ENOSPC, errno.EDQUOT)
_SETTLED_SECONDS = 0.1

VolumeTransforms: TypeAlias = Preprocessing | DescribedTransforms
"""What is done to each scan before it is kept."""


class CacheFullError(DataError):
    """There is no room for more volumes; nothing else can be prepared either."""

    exit_code = 1


def default_cache_folder() -> Path:
    """Return the folder used where ``data.cache_dir`` is null: ``$XDG_CACHE_HOME/neurocontrast`` or ``~/.cache/…``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return root / "neurocontrast"


class VolumeCache:
    """Volumes that the same transforms make, each in a file of its own.

    An entry belongs to the resolved path of its scan (or to those of its channels), to the digest of the transforms
    (with their version) and to `dtype`. It is used only while the scan's size, modification time and change time are
    those it was made from. Entries appear whole or not at all, so several processes can share a folder, and an
    interrupted preparation continues.

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

    @property
    def n_bytes(self) -> int:
        """Size of one volume."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def prepare(self, scans: Sequence[ScanFiles | Path], *, n_workers: int, progress: Progress = SILENT) -> int:
        """Preprocess every scan that has no valid entry yet, in `n_workers` processes, and return their number."""
        missing = self.missing(scans)
        if not missing:
            return 0
        self._open_folder(n_missing=len(missing))
        problems = Problems("scans")
        with progress.task("Preprocessing scans", len(missing), "scan") as task:
            given = [(scan,) for scan in missing]
            for failure in map_files(self._make_or_say_why, given, n_workers=n_workers, n_per_worker=N_SCANS_A_WORKER):
                if failure:
                    problems.add(failure)
                task.advance()
        problems.raise_if_any()
        return len(missing)

    def missing(self, scans: Sequence[ScanFiles | Path]) -> list[ScanFiles]:
        """Return the scans that have no valid entry yet, each once."""
        folders = cache(os.path.realpath)  # of this call: links of folders are followed once each, not for each scan

        def real(path: str) -> str:
            folder, name = os.path.split(path)
            known = os.path.join(folders(folder), name)  # noqa: PTH118
            return os.path.realpath(known) if os.path.islink(known) else known  # noqa: PTH114

        return [scan for scan in dict.fromkeys(map(as_scan, scans)) if self._read_entry(scan, real=real) is None]

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
        np.copyto(out, self._made_if_missing(as_scan(scan), "volume"), casting="no")

    def affine_of(self, scan: ScanFiles | Path) -> npt.NDArray[np.float64]:
        """Return the affine (4, 4) of a scan's volume; a scan without an entry is transformed now."""
        return self._made_if_missing(as_scan(scan), "affine")

    def _made_if_missing(self, scan: ScanFiles, part: str) -> npt.NDArray[Any]:
        found = self._read_entry(scan, part)
        if found is None:
            self._open_folder(n_missing=1)
            self._make(scan)
            found = self._read_entry(scan, part)
        if found is None:
            name = ", ".join(files_of(scan))
            raise DataError(f"{name}: the scan or its entry in {self.folder} keeps changing while it is read.")
        return found

    def _read_entry(
        self, scan: ScanFiles, part: str = "affine", *, real: Callable[[str], str] = os.path.realpath
    ) -> npt.NDArray[Any] | None:
        try:
            return read_entry(self._entry_path(scan, real), signature_of(files_of(scan)), part)
        except OSError:
            return None

    def _entry_path(self, scan: ScanFiles, real: Callable[[str], str] = os.path.realpath) -> Path:
        key = digest_of("volume", *map(real, files_of(scan)))
        return Path(f"{self.folder}/{key[:2]}/{key}.safetensors")

    def _make_or_say_why(self, scan: ScanFiles) -> str | None:
        try:
            self._make(scan)
        except CacheFullError:
            raise
        except DataError as error:
            return str(error)
        return None

    def _make(self, scan: ScanFiles) -> None:
        files = files_of(scan)
        name = ", ".join(files)
        for _ in range(_N_TRIES):
            try:
                before = settled_signature(files)
            except OSError as error:
                raise DataError(f"{name}: the image cannot be read ({error.strerror}).") from error
            image = apply(self.transforms.compose(), {"image": scan})["image"]
            volume = self._narrowed(name, voxels_of(image))
            if signature_of(files) == before:
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


class Signature(NamedTuple):
    """Size of the files of a scan together, and their latest times; no program can forge the ctime."""

    size: int
    mtime_ns: int
    ctime_ns: int


def signature_of(files: Sequence[str]) -> Signature:
    """Return the signature by which a change of a scan's files is seen."""
    statuses = [os.stat(path) for path in files]  # noqa: PTH116
    return Signature(
        sum(status.st_size for status in statuses),
        max(status.st_mtime_ns for status in statuses),
        max(status.st_ctime_ns for status in statuses),
    )


def settled_signature(files: Sequence[str]) -> Signature:
    """Return the signature once the times of the files can no longer hide a second change.

    File systems stamp changes to a few milliseconds: a file changed just now could change again within one stamp.
    """
    signature = signature_of(files)
    age = time.time() - signature.ctime_ns / 1e9
    if 0 <= age < _SETTLED_SECONDS:
        time.sleep(_SETTLED_SECONDS - age)
        signature = signature_of(files)
    return signature


def write_entry(path: Path, array: npt.NDArray[Any], source: Signature, *, affine: npt.NDArray[np.float64]) -> None:
    """Write an array and the affine (4, 4) of its axes as a safetensors file, atomically."""
    parts = {"volume": np.ascontiguousarray(array), "affine": np.ascontiguousarray(affine)}
    sums = {part: str(_checksum(values)) for part, values in parts.items()}
    with atomic_path(path) as temporary:
        temporary.write_bytes(save(parts, metadata={"source": json.dumps(source), **sums}))


def read_entry(path: Path, source: Signature, part: str) -> npt.NDArray[Any] | None:
    """Return the volume or the affine of an entry; None where the entry must be made again.

    The entry must have been made from this very source, be whole, and have the checksum that was written.
    """
    try:
        with safe_open(path, framework="numpy") as entry:
            written = entry.metadata() or {}
            if written.get("source") != json.dumps(source):
                return None
            values: npt.NDArray[Any] = entry.get_tensor(part)
    except (OSError, SafetensorError):
        return None
    return values if written.get(part) == str(_checksum(values)) else None


def _checksum(values: npt.NDArray[Any]) -> int:
    return isal_zlib.crc32(values.data.cast("B"))
