"""Keep preprocessed volumes on disk: made once, and made again when a scan changes."""

import contextlib
import errno
import json
import os
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from neurocontrast.data.entries import Entry, checksum, content_of, header_of, signature_of
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import DataError
from neurocontrast.files import ScanFiles, as_scan, atomic_path, digest_of, files_of, write_json
from neurocontrast.parallel.workers import N_SCANS_A_WORKER, map_files
from neurocontrast.progress import SILENT, Progress
from neurocontrast.reading import check_content
from neurocontrast.transforms.contents import noting_contents
from neurocontrast.transforms.described import DescribedTransforms
from neurocontrast.transforms.images import affine_of, apply, voxels_of
from neurocontrast.transforms.preprocessing import Preprocessing

_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk."""
_NOT_KEPT = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ESTALE)
"""Error numbers of a folder that may not be written, or that another process or host has
removed.
"""
_CONTENT = "content"
"""Key in a cache file's header for the digests of the scan's voxels."""

VolumeTransforms: TypeAlias = Preprocessing | DescribedTransforms
"""Transforms applied to each scan before its volume is kept on disk."""


class CacheFullError(DataError):
    """The disk of the cache is full, so that no further scan can be kept."""

    exit_code = 1


def default_cache_folder() -> Path:
    """Return the folder of preprocessed volumes for the setting ``data.cache_dir: null``.

    The folder is ``$XDG_CACHE_HOME/neurocontrast``, or ``~/.cache/neurocontrast``.
    """
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not root.is_absolute():
        root = Path.home() / ".cache"
    return root / "neurocontrast"


class VolumeCache:
    """Cache of the volumes that fixed transforms make, one safetensors file for each scan.

    The file of a scan, an entry, belongs to the resolved path of the scan (or of its channels'
    files), to the digest of the transforms (with their version) and to `dtype`. An entry is used
    only while size, modification time and change time of the scan are unchanged, and only if its
    checksum is right. Entries appear whole or not at all, so processes, hosts and users can share
    a folder, and an interrupted preparation continues. Where the folder may not be written, a scan
    without an entry is preprocessed in memory each time it is read.

    Parameters
    ----------
    folder : path or None
        Folder of the entries; None for `default_cache_folder`. Entries hold the images themselves,
        so treat the folder as you treat the scans.
    transforms : VolumeTransforms
        Transforms of each scan, for instance a `neurocontrast.transforms.Preprocessing`.
    dtype : {"float16", "float32"}, default="float16"
        Precision of kept voxels. float16 has 11 significant bits; z-scored voxels always fit its
        range (no voxel of n can be further than √n deviations from the mean), other voxels are
        refused where they do not fit.
    shared : bool, default=False
        Whether to use entries that other users own or may write, too. Only for a folder in which
        you trust all who may write; by default such entries are made again.
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
        root = default_cache_folder()
        if folder is not None:
            root = Path(folder).expanduser().absolute()
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
        """Preprocess scans that have no valid file in the cache; return the number of new files.

        Scans that already had a valid file are not counted, nor are scans that failed.

        Parameters
        ----------
        scans : sequence of ScanFiles or path
            Scans; a scan of several channels is a tuple of files.
        n_workers : int
            Number of processes.
        progress : Progress
            Receives progress and warnings.
        failures : dict, optional
            Receives the scans that cannot be preprocessed, with the reasons; the folder must then
            be writable. By default one `DataError` names all of them.
        """
        missing = self.missing(scans)
        if not missing:
            return 0
        outcomes: dict[ScanFiles, str | bool] = dict.fromkeys(missing, False)
        is_writable = self._is_writable(progress)
        if failures is not None and not is_writable:
            raise DataError(
                f"data.skip_unreadable: needs a cache, and {self.folder} cannot be written. Set "
                "data.cache_dir to another."
            )
        if is_writable:
            arguments = [(scan,) for scan in missing]
            with progress.task("Preprocessing scans", len(missing), "scan") as task:
                for scan, outcome in map_files(
                    self._make_or_say_why,
                    arguments,
                    n_workers=n_workers,
                    n_per_worker=N_SCANS_A_WORKER,
                ):
                    outcomes[scan] = outcome
                    task.advance()
        reasons = {scan: reason for scan, reason in outcomes.items() if isinstance(reason, str)}
        if failures is None:
            problems = Problems("scans")
            for reason in reasons.values():
                problems.add(reason)
            problems.raise_if_any()
        else:
            failures |= reasons
        n_kept = list(outcomes.values()).count(True)
        n_lacking = len(missing) - n_kept - len(reasons)
        if n_lacking:
            progress.warning(
                f"the cache folder {self.folder} cannot be written: {n_lacking:,} scans have no "
                "entry in it and are preprocessed anew whenever they are read. Set data.cache_dir "
                "to another."
            )
        return n_kept

    def missing(self, scans: Sequence[ScanFiles | Path]) -> list[ScanFiles]:
        """Return a list of the distinct `scans` that have no valid file in the cache.

        Only the header of a cache file is read to tell whether the file is valid.
        """
        missing = []
        for scan in dict.fromkeys(map(as_scan, scans)):
            if self._entry(scan, only_header=True) is None:
                missing.append(scan)
        return missing

    def contents(
        self,
        scans: Sequence[ScanFiles | Path],
        *,
        n_workers: int,
        progress: Progress = SILENT,
    ) -> list[str]:
        """Return a list with one text for each scan: digests of the voxels of the scan's files.

        The text is "" if a file is unreadable. The cache's file of a scan holds the digests. A scan
        is read only if that file is missing, or was written by an earlier version; the digests are
        then added to the file.
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
        """Return a pair: `scan`, unchanged, and a text with digests of the voxels of its files.

        The text is "" if a file is unreadable. The digests are also written to the scan's file in
        the cache, if a valid one is there.
        """
        content = content_of(scan, {})
        entry = self._entry(scan)
        if entry is not None:
            self._keep(scan, replace(entry, content=content))
        return scan, content

    def read(self, scan: ScanFiles | Path) -> npt.NDArray[Any]:
        """Return a scan's volume (C, D, H, W) from the cache, made if needed."""
        return self.read_with_affine(scan)[0]

    def read_with_affine(
        self, scan: ScanFiles | Path
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
        """Return a scan's volume (C, D, H, W), and the affine (4, 4) of its voxels."""
        entry = self._entry(as_scan(scan))
        if entry is None:
            entry = self._make(as_scan(scan))
            self._keep(as_scan(scan), entry)
        return entry.parts["volume"], entry.parts["affine"]

    def _entry_path(self, scan: ScanFiles) -> Path:
        """Return the path of a scan's file in the cache."""
        paths = map(os.path.realpath, files_of(scan))
        return self.folder / f"{digest_of('volume', *paths)}.safetensors"

    def _identity(self, path: Path, source: Sequence[int]) -> str:
        """Return JSON for a cache file's header, by which a renamed or outdated file is noticed.

        `path` is the cache file, and `source` the signature of the scan's files (`signature_of`).
        """
        return json.dumps([self.folder.name, path.stem, *source])

    def _entry(self, scan: ScanFiles, *, only_header: bool = False) -> Entry | None:
        """Read a scan's file in the cache as an `Entry`; None if absent, outdated or damaged.

        None is also returned for a file that is not trusted (`_trusts`). With `only_header`, volume
        and affine are not read, and `parts` of the entry is empty. The file is not mapped into
        memory: if another host replaces the file, a network file system would end the process
        (SIGBUS).
        """
        try:
            path = self._entry_path(scan)
            if not path.is_file():  # a pipe would be waited for
                return None
            with open(path, "rb") as stream:
                status = os.fstat(stream.fileno())
                metadata, n_bytes = header_of(stream)
                source = signature_of(files_of(scan))
                is_own = metadata.get("about") == self._identity(path, source)
                if not (is_own and status.st_size == n_bytes and self._trusts(status)):
                    return None
                content = metadata.get(_CONTENT)
                if only_header:
                    return Entry({}, source, content)
                stream.seek(0)
                parts = load(stream.read())
            volume = parts["volume"]
            is_right = volume.shape == self.shape and volume.dtype == self.dtype
            if not is_right or metadata["crc32"] != checksum(parts):
                return None
            return Entry(parts, source, content)
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
        """Tell whether a cache file is owned by this user or root, and not writable by others.

        `status` is the file's status. Every file is trusted in a cache that is `shared`, and on
        systems without user ids.
        """
        if self.shared or not hasattr(os, "geteuid"):
            return True
        is_open = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return status.st_uid in (os.geteuid(), 0) and not is_open

    def _make_or_say_why(self, scan: ScanFiles) -> tuple[ScanFiles, str | bool]:
        """Preprocess a scan and write its cache file; return the pair of the scan and an outcome.

        The outcome is True for a written file, False for a read-only folder, and the text of the
        `DataError` for a scan that cannot be preprocessed.
        """
        try:
            return scan, self._keep(scan, self._make(scan))
        except CacheFullError:
            raise
        except DataError as error:
            return scan, str(error)

    def _make(self, scan: ScanFiles) -> Entry:
        """Preprocess a scan; return the volume and affine as an entry, not yet written to the disk.

        A scan whose files change in the meantime is refused.
        """
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
        content = content_of(scan, noted)
        parts = {
            "volume": self._narrowed(name, voxels_of(image)),
            "affine": np.ascontiguousarray(affine_of(image)),
        }
        if signature_of(files) != before:
            raise DataError(
                f"{name}: the image changed while it was read. Try again once it is complete."
            )
        return Entry(parts, before, content)

    def _narrowed(self, name: str, volume: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
        """Return `volume` converted to the cache's precision (float16 or float32).

        A `DataError` is raised for another shape than the cache's, and for an intensity too large
        for the precision. `name` names the scan in messages.
        """
        if volume.shape != self.shape:
            raise DataError(
                f"{name}: the transforms made an image {volume.shape}, and {self.shape} is kept."
            )
        limit = float(np.finfo(self.dtype).max)
        highest = float(np.abs(volume).max())
        if highest > limit:
            raise DataError(
                f"{name}: an intensity of {highest:g} does not fit {self.dtype} (at most "
                f"{limit:g}); keep the cache in float32, or normalise with zscore."
            )
        return np.ascontiguousarray(volume, dtype=self.dtype)

    def _keep(self, scan: ScanFiles, entry: Entry) -> bool:
        """Write `entry` as the cache file of `scan`, whole or not at all; return whether written.

        The result is False for a read-only or removed folder; any other fault of the disk is
        raised.
        """
        path = self._entry_path(scan)
        metadata = {"about": self._identity(path, entry.source), "crc32": checksum(entry.parts)}
        if entry.content is not None:
            metadata[_CONTENT] = entry.content
        try:
            mode = self._make_folder()
            with atomic_path(path) as temporary:
                temporary.touch(mode & 0o644)  # nobody else may open it to write, not even at first
                temporary.write_bytes(save(dict(entry.parts), metadata=metadata))
                with contextlib.suppress(OSError):  # a disk without permissions
                    temporary.chmod(mode & 0o644)
        except OSError as error:
            self._raise_if_unusable(error)
            return False
        return True

    def _make_folder(self) -> int:
        """Make the cache's folder, if absent; return the folder's permission bits as a number.

        The bits are the ones of the folder above, plus all rights for the owner and without the
        right of all users to write. A cache file gets only those bits that 0o644 has too (`_keep`).
        """
        root = self.folder.parent
        described = self.folder / "contract.json"
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        mode = stat.S_IMODE(root.stat().st_mode) & ~stat.S_IWOTH | stat.S_IRWXU
        if not described.is_file():
            self.folder.mkdir(exist_ok=True)
            with contextlib.suppress(OSError):  # just made by another user, or no permissions
                self.folder.chmod(mode)
            contract = {"preprocessing": self.transforms.contract(), "dtype": str(self.dtype)}
            write_json(described, contract)
        return mode

    def _is_writable(self, progress: Progress) -> bool:
        """Make the cache's folder, if absent, and tell whether the folder may be written.

        A warning goes to `progress`, and the result is still True, if the disk does not say who
        owns a file: volumes written there are not trusted (`_trusts`) when they are looked for.
        """
        try:
            self._make_folder()
            with tempfile.TemporaryFile(dir=self.folder) as probe:
                if not self._trusts(os.fstat(probe.fileno())):
                    progress.warning(
                        f"the disk of {self.folder} does not say who owns a file, so no entry can "
                        "be used again. Set data.cache_dir to another, or data.cache_shared to "
                        "true if you trust all who may write there."
                    )
        except OSError as error:
            self._raise_if_unusable(error)
            return False
        return True

    def _raise_if_unusable(self, error: OSError) -> None:
        """Raise a `CacheFullError` if `error` tells of a full disk, and a `DataError` for others.

        Nothing is raised for a cache folder that is read-only or was removed: volumes are then used
        without being kept.
        """
        if error.errno in _NOT_KEPT:
            return
        if error.errno in _FULL:
            raise CacheFullError(
                f"the disk of the cache folder {self.folder} is full; what is finished is kept. "
                "Free some, or set data.cache_dir."
            ) from error
        raise DataError(
            f"the cache folder {self.folder} cannot be used ({error.strerror}); set data.cache_dir "
            "to another."
        ) from error
