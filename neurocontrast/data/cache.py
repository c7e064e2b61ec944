"""Preprocessed volumes on disk: made once, never served stale."""

from __future__ import annotations

import contextlib
import errno
import hmac
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from isal import isal_zlib
from safetensors.numpy import save

from neurocontrast.data.cache_key import cache_key
from neurocontrast.data.parallel import N_SCANS_A_WORKER, map_files
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import DataError
from neurocontrast.files import ScanFiles, as_scan, atomic_path, digest_of, files_of, write_json
from neurocontrast.progress import SILENT, Progress
from neurocontrast.resources import as_size
from neurocontrast.transforms.described import DescribedTransforms
from neurocontrast.transforms.images import affine_of, apply, voxels_of
from neurocontrast.transforms.preprocessing import Preprocessing

_N_TRIES = 3
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NOT_KEPT = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ESTALE)
"""A folder that may not be written, or that another process or host has just removed."""
_HEADER_BYTES = 65_536
_OVERHEAD = 512
"""Bytes of an entry beside its volume, about."""
_BLOCK = 4096
_DTYPES = {"F16": np.dtype(np.float16), "F32": np.dtype(np.float32), "F64": np.dtype(np.float64)}
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
    those it was made from. Entries appear whole or not at all, so processes, hosts and users can share a folder, and an
    interrupted preparation continues. Where the folder may not be written, a scan without an entry is preprocessed in
    memory each time it is read.

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
    shared : bool
        Whether entries that were written with another user's key are used too, once their checksum is right. Only for
        a folder in which you trust all who may write. Otherwise such entries are made again.
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
        root = Path(folder).expanduser().absolute() if folder is not None else default_cache_folder()
        self.folder = root / f"{transforms.digest()[:16]}-{dtype}"
        self.shared = shared
        self._key, self._doubt = cache_key()

    @property
    def n_bytes(self) -> int:
        """Size of one volume."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    @property
    def _n_bytes_on_disk(self) -> int:
        return -(-(self.n_bytes + _OVERHEAD) // _BLOCK) * _BLOCK

    def prepare(self, scans: Sequence[ScanFiles | Path], *, n_workers: int, progress: Progress = SILENT) -> int:
        """Preprocess every scan that has no valid entry yet, in `n_workers` processes, and return how many are kept."""
        if self._doubt:
            progress.warning(self._doubt)
        missing = self.missing(scans)
        if not missing:
            return 0
        if not self._open_folder(n_missing=len(missing)):
            self._warn(len(missing), progress)
            return 0
        problems, n_kept = Problems("scans"), 0
        with progress.task("Preprocessing scans", len(missing), "scan") as task:
            given = [(scan,) for scan in missing]
            for found in map_files(self._make_or_say_why, given, n_workers=n_workers, n_per_worker=N_SCANS_A_WORKER):
                if isinstance(found, str):
                    problems.add(found)
                else:
                    n_kept += found
                task.advance()
        problems.raise_if_any()
        if n_kept < len(missing):
            self._warn(len(missing) - n_kept, progress)
        return n_kept

    def _warn(self, n: int, progress: Progress) -> None:
        progress.warning(
            f"the cache folder {self.folder} cannot be written: {n:,} scans ({as_size(n * self._n_bytes_on_disk)}) "
            "have no entry in it and are preprocessed anew whenever they are read. Set data.cache_dir to another."
        )

    def missing(self, scans: Sequence[ScanFiles | Path]) -> list[ScanFiles]:
        """Return the scans that have no valid entry yet, each once."""
        real = _realpath_of_many()
        known = dict.fromkeys(map(as_scan, scans))
        return [scan for scan in known if self._read_entry(scan, "affine", real=real) is None]

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
        np.copyto(out, self._parts(as_scan(scan), "volume")[0], casting="no")

    def affine_of(self, scan: ScanFiles | Path) -> npt.NDArray[np.float64]:
        """Return the affine (4, 4) of a scan's volume; a scan without an entry is transformed now."""
        return self._parts(as_scan(scan), "affine")[0]

    def read_with_affine(self, scan: ScanFiles | Path) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
        """Return what `read` and `affine_of` return; a scan without an entry is transformed once."""
        volume, affine = self._parts(as_scan(scan), "volume", "affine")
        return volume, affine

    def _parts(self, scan: ScanFiles, *parts: str) -> list[npt.NDArray[Any]]:
        found = self._read_entry(scan, *parts)
        if found is None:
            made = self._make(scan)
            if self._open_folder(n_missing=1):
                self._keep(scan, *made)
            found = [made[0][part] for part in parts]
        return found

    def _read_entry(
        self, scan: ScanFiles, *parts: str, real: Callable[[str], str] = os.path.realpath
    ) -> list[npt.NDArray[Any]] | None:
        expected = {"volume": (self.shape, self.dtype), "affine": ((4, 4), np.dtype(np.float64))}
        try:
            return read_entry(
                self._entry_path(scan, real),
                signature_of(files_of(scan)),
                {part: expected[part] for part in parts},
                key=None if self.shared else self._key,
            )
        except OSError:  # also where another host has just removed or replaced the file (ESTALE)
            return None

    def _entry_path(self, scan: ScanFiles, real: Callable[[str], str] = os.path.realpath) -> Path:
        key = digest_of("volume", *map(real, files_of(scan)))
        return Path(f"{self.folder}/{key[:2]}/{key}.safetensors")

    def _make_or_say_why(self, scan: ScanFiles) -> str | bool:
        """Make an entry, and return whether it could be kept, or why it could not be made."""
        try:
            return self._keep(scan, *self._make(scan))
        except CacheFullError:
            raise
        except DataError as error:
            return str(error)

    def _make(self, scan: ScanFiles) -> tuple[dict[str, npt.NDArray[Any]], Signature]:
        """Return the volume and the affine of a scan, and the signature of the files that they were made from."""
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
                return {"volume": volume, "affine": affine_of(image)}, before
        raise DataError(f"{name}: the image keeps changing while it is read.")

    def _keep(self, scan: ScanFiles, parts: Mapping[str, npt.NDArray[Any]], source: Signature) -> bool:
        """Write an entry, and return whether the folder could be written."""
        try:
            write_entry(self._entry_path(scan), parts, source, key=self._key)
        except OSError as error:
            if error.errno in _NOT_KEPT:
                return False
            raise self._refusal(error) from error
        return True

    def _refusal(self, error: OSError) -> DataError:
        if error.errno in _FULL:
            return CacheFullError(
                f"the disk of the cache folder {self.folder} is full; what is finished is kept. Free some, or set "
                "data.cache_dir."
            )
        return DataError(
            f"the cache folder {self.folder} cannot be used ({error.strerror}); set data.cache_dir to another."
        )

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

    def _open_folder(self, *, n_missing: int) -> bool:
        """Make the folder, and return whether it may be written; refuse one without room for `n_missing` volumes."""
        described, root = self.folder / "contract.json", self.folder.parent
        try:
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            make_folder(self.folder, root)
            if not described.is_file():
                write_json(described, {"preprocessing": self.transforms.contract(), "dtype": str(self.dtype)})
            with tempfile.TemporaryFile(dir=self.folder):
                n_free = shutil.disk_usage(self.folder).free
        except OSError as error:
            if error.errno in _NOT_KEPT:
                return False
            raise self._refusal(error) from error
        needed = n_missing * self._n_bytes_on_disk
        if needed > n_free:
            raise CacheFullError(
                f"the cache folder {self.folder} needs {as_size(needed)} for {n_missing} scans and its disk has "
                f"{as_size(n_free)} free; set data.cache_dir to a larger one."
            )
        return True


class Signature(NamedTuple):
    """Size of the files of a scan together, and their latest times; no program can forge the ctime."""

    size: int
    mtime_ns: int
    ctime_ns: int


def _realpath_of_many() -> Callable[[str], str]:
    """Return `os.path.realpath` for one call: links of folders are followed once each, not for each scan."""
    folders = cache(os.path.realpath)

    def real(path: str) -> str:
        folder, name = os.path.split(path)
        known = os.path.join(folders(folder), name)  # noqa: PTH118
        return os.path.realpath(known) if os.path.islink(known) else known  # noqa: PTH114

    return real


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


def make_folder(path: Path, root: Path) -> int:
    """Make a folder of the cache with the permissions of its root, never writable by all; return those of files."""
    mode = stat.S_IMODE(root.stat().st_mode) & ~stat.S_IWOTH | stat.S_IRWXU
    if not path.is_dir():
        path.mkdir(exist_ok=True)
        with contextlib.suppress(OSError):  # another user has just made it, or the disk has no permissions
            path.chmod(mode)
    return mode & 0o666


def write_entry(path: Path, parts: Mapping[str, npt.NDArray[Any]], source: Signature, *, key: bytes) -> None:
    """Write a volume and the affine (4, 4) of its axes as a safetensors file, atomically; `key` signs each part."""
    kept = {part: np.ascontiguousarray(values) for part, values in parts.items()}
    sums = {part: _checksum(values) for part, values in kept.items()}
    signed = {f"{part}.hmac": _signed(key, path, source, part, values) for part, values in kept.items()}
    make_folder(path.parents[1], path.parents[2])
    mode = make_folder(path.parent, path.parents[2])
    with atomic_path(path) as temporary:
        temporary.write_bytes(save(kept, metadata={"source": json.dumps(source), **sums, **signed}))
        with contextlib.suppress(OSError):
            temporary.chmod(mode)


def read_entry(
    path: Path,
    source: Signature,
    expected: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]],
    *,
    key: bytes | None,
) -> list[npt.NDArray[Any]] | None:
    """Return parts of an entry, "volume" or "affine"; None where the entry must be made again.

    The entry must have been made from this very source, be whole, and hold the parts in the shape and type that are
    expected. Each part must be signed with `key`; without a key its checksum alone must be right. The file is not
    mapped into memory: where another host replaces it, a network file system would end the process (SIGBUS).
    """
    try:
        if not path.is_file():  # a pipe would be waited for
            return None
        with open(path, "rb") as stream:
            status = os.fstat(stream.fileno())
            n_header = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(n_header)) if n_header < _HEADER_BYTES else {}
            written = header.pop("__metadata__", {})
            start = 8 + n_header
            is_whole = status.st_size == start + max((each["data_offsets"][1] for each in header.values()), default=0)
            if not is_whole or written.get("source") != json.dumps(source):
                return None
            found = []
            for part, (shape, dtype) in expected.items():
                if (tuple(header[part]["shape"]), _DTYPES[header[part]["dtype"]]) != (shape, dtype):
                    return None
                values = np.empty(shape, dtype)
                stream.seek(start + header[part]["data_offsets"][0])
                is_read = stream.readinto(values.data.cast("B")) == values.nbytes
                name, right = (
                    (part, _checksum(values)) if key is None
                    else (f"{part}.hmac", _signed(key, path, source, part, values))
                )  # fmt: skip
                if not is_read or not hmac.compare_digest(written[name], right):
                    return None
                found.append(values)
    # Gone, replaced, or no such file of ours.
    except (OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return None
    return found


def _checksum(values: npt.NDArray[Any]) -> str:
    return str(isal_zlib.crc32(values.data.cast("B")))


def _signed(key: bytes, path: Path, source: Signature, part: str, values: npt.NDArray[Any]) -> str:
    """Return the keyed digest of a part; it holds for this entry, source, shape and type alone."""
    about = [path.parents[1].name, path.stem, *source, part, values.dtype.str, *values.shape]
    state = hmac.new(key, json.dumps(about).encode(), "sha256")
    state.update(values.data.cast("B"))
    return state.hexdigest()
