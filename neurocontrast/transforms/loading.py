"""Read NIfTI, FreeSurfer and NumPy scans; an unusable file raises an error with the file's name."""

from __future__ import annotations

import gzip
import io
import math
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import numpy.typing as npt
from monai.config import KeysCollection
from nibabel.affines import voxel_sizes

from neurocontrast.exceptions import ConfigError, DataError, said
from neurocontrast.files import files_of
from neurocontrast.reading import check_content, read_array
from neurocontrast.transforms.contents import digest_of_voxels, note_content
from neurocontrast.transforms.geometry import ScanHeader, check_kind, check_shape, geometry_of
from neurocontrast.transforms.images import EachImage, centred, corners_apart, times, to_image
from neurocontrast.transforms.preprocessing import SPACING_LIMITS_MM

try:
    from isal import igzip, isal_zlib

    _DAMAGED: tuple[Any, ...] = (zlib.error, gzip.BadGzipFile, isal_zlib.error)
except ModuleNotFoundError:  # not for every platform; reading is then slower
    import gzip as igzip

    _DAMAGED = (zlib.error, gzip.BadGzipFile)

_ENDINGS = (".nii", ".nii.gz", ".mgz", ".mgh")
_N_HEADER_BYTES = 540
_N_IMAGE_BYTES = 2**31
"""Largest decompressed image that is read, in bytes."""
_N_BYTES_BEHIND = 2**20
"""Number of bytes that may follow the voxels in a file, such as FreeSurfer's command log or
padding."""
_GRIDS_APART = 0.1
"""Largest distance between the corners of two channels of a scan, as a share of a voxel."""
_NIFTI = {
    size.to_bytes(4, order): of_version
    for order in ("little", "big")
    for size, of_version in ((348, nib.Nifti1Image), (540, nib.Nifti2Image))
}
_AGAIN = "Copy or convert it again."


class LoadScand(EachImage):
    """Load scans from files, and refuse unusable files with a message that names the file.

    A DataError names a file that is absent, unreadable, truncated, not three-dimensional, constant,
    or on another grid than the first channel. The same holds for voxels that are not finite real
    numbers, and for an impossible voxel size.

    A ``.nii``, ``.nii.gz``, ``.mgz`` or ``.npy`` file becomes a `monai.data.MetaTensor` of shape
    (1, D, H, W), float32, with its axes as they are stored and the affine of its header. Axes of
    length 1 before or behind the volume are dropped. A list of files on one grid, such as tissue
    maps, becomes an image with a channel for each file. `monai.transforms.LoadImaged` makes no such
    checks.

    Parameters
    ----------
    keys, allow_missing_keys : see `monai.transforms.MapTransform`
        Items that are paths, or lists of paths.
    spacing_mm : float
        Voxel size of a ``.npy`` array, which has no header; its axes are taken to be in RAS order,
        and its centre to be the origin.
    n_channels : int or None
        Files that each scan must have; None for any number.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from neurocontrast.transforms import LoadScand
    >>> path = Path(tempfile.mkdtemp()) / "scan.npy"
    >>> np.save(path, np.random.default_rng(0).normal(size=(10, 12, 8)))
    >>> LoadScand("image", spacing_mm=2.0)({"image": path})["image"].shape
    torch.Size([1, 10, 12, 8])
    """

    def __init__(
        self,
        keys: KeysCollection,
        *,
        spacing_mm: float = 1.0,
        n_channels: int | None = None,
        allow_missing_keys: bool = False,
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        low, high = SPACING_LIMITS_MM
        if not low <= spacing_mm <= high:
            raise ConfigError(
                f"LoadScand: spacing_mm must be between {low:g} and {high:g}, got {spacing_mm!r}."
            )
        self.spacing_mm = spacing_mm
        self.n_channels = n_channels

    def made_of(self, image: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Any:
        """Return the image loaded from one file, or from several files, one for each channel.

        `image` is a path, or a list of paths.
        """
        files = files_of(image)
        if self.n_channels not in (None, len(files)):
            raise DataError(
                f"{', '.join(files)}: a scan here has {self.n_channels} channels (data.channels), "
                f"and this one has {len(files)} files."
            )
        scan = read_scan(files[0])
        affine = scan.affine
        if affine is None:
            affine = centred(scan.voxels.shape, (self.spacing_mm,) * 3)
        voxels = scan.voxels[np.newaxis]
        if len(files) > 1:
            channels = [scan.voxels]
            for path in files[1:]:
                channels.append(self._channel(path, files[0], scan))
            voxels = np.stack(channels)
        return to_image(voxels, affine, name=", ".join(files))

    def _channel(self, path: str, first: str, of_first: Scan) -> npt.NDArray[np.float32]:
        """Return the voxels of the file at `path`, a second or later channel of a scan.

        A DataError refuses another grid than that of the first channel, `of_first`.
        """
        scan = read_scan(path)
        if scan.voxels.shape != of_first.voxels.shape:
            raise DataError(
                f"{path}: the image is {times(scan.voxels.shape)} voxels and {first} is "
                f"{times(of_first.voxels.shape)}; the channels of a scan must lie on one grid."
            )
        if scan.affine is not None and of_first.affine is not None:
            apart = corners_apart(scan.voxels.shape, scan.affine, of_first.affine)
            if apart > _GRIDS_APART * float(voxel_sizes(scan.affine).min()):
                raise DataError(
                    f"{path}: its header puts it {apart:.1f} mm from {first}; the channels of a "
                    "scan must lie on one grid."
                )
        return scan.voxels


@dataclass(frozen=True, eq=False)
class Scan:
    """Scan as stored: float32 voxels, and the header's affine, None for a ``.npy`` array."""

    voxels: npt.NDArray[np.float32]
    affine: npt.NDArray[np.float64] | None


def read_scan(path: str | os.PathLike[str]) -> Scan:
    """Return the voxels and the affine in a NIfTI, FreeSurfer or ``.npy`` file as a `Scan`.

    A DataError names an unusable file.
    """
    name = os.fspath(path)
    with _naming(name):
        if _is_array(name):
            array = read_array(name)
            check_kind(name, array.dtype)
            shape = check_shape(name, array.shape)
            scan = Scan(np.asarray(array, dtype=np.float32).reshape(shape), None)
        else:
            image = _image(name)
            geometry_of(name, image.header)
            with np.errstate(over="ignore"):  # values beyond float32 are refused as infinite
                voxels = np.asarray(image.dataobj).astype(np.float32, order="F", copy=False)
            scan = Scan(voxels.reshape(check_shape(name, voxels.shape), order="F"), image.affine)
        _check_voxels(name, scan.voxels)
    note_content(name, scan.voxels, scan.affine)
    return scan


def content_of_scan(path: str | os.PathLike[str]) -> str:
    """Return the digest of the voxels in a scan's file, or "" for an unusable file."""
    try:
        scan = read_scan(path)
    except DataError:
        return ""
    return digest_of_voxels(scan.voxels, scan.affine)


def read_scan_header(path: str | os.PathLike[str]) -> ScanHeader:
    """Read a scan's header without loading voxels; a DataError names an unusable file."""
    name = os.fspath(path)
    with _naming(name):
        if _is_array(name):
            array = np.load(name, mmap_mode="r", allow_pickle=False)
            check_kind(name, array.dtype)
            return ScanHeader(check_shape(name, array.shape))
        if _is_freesurfer(name):
            return geometry_of(name, _image(name).header)
        with _content(name) as (stream, is_packed):
            _, header, _ = _start(name, stream)
        geometry = geometry_of(name, header)
        if not is_packed:
            _check_length(name, _n_bytes(name, header), Path(name).stat().st_size)
        return geometry


def without_ending(name: str) -> str:
    """Return the name of a scan's file without the ending: ``pat.001`` for ``pat.001.nii.gz``."""
    for ending in _ENDINGS:
        if name.lower().endswith(ending):
            return name[: -len(ending)]
    return name


def is_scan(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file name ends like a NIfTI or FreeSurfer volume."""
    return os.fspath(path).lower().endswith(_ENDINGS)


def scans_below(folder: str | os.PathLike[str]) -> list[Path]:
    """List the paths of NIfTI and FreeSurfer files in `folder` and all subfolders, sorted.

    Hidden files and folders are skipped. A DataError refuses a folder without scans.
    """
    root = Path(folder)
    scans = []
    for path in sorted(root.rglob("*")):
        is_hidden = any(name.startswith(".") for name in path.relative_to(root).parts)
        if is_scan(path) and not is_hidden:
            scans.append(path)
    if not scans:
        raise DataError(
            f"{folder}: there is no scan in this folder: no file that ends in "
            f"{', '.join(_ENDINGS)}."
        )
    return scans


def _is_array(name: str) -> bool:
    """Tell whether a file name ends like a NumPy array's."""
    return name.lower().endswith(".npy")


def _is_freesurfer(name: str) -> bool:
    """Tell whether a file name ends like a FreeSurfer volume's."""
    return name.lower().endswith((".mgz", ".mgh"))


def _kind_of(name: str) -> str:
    """Return the format of file `name` by its ending, in words for messages."""
    if _is_array(name):
        return "array"
    if _is_freesurfer(name):
        return "FreeSurfer image"
    return "NIfTI image"


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Turn any error within the context into a DataError that names file `name` and the cause."""
    try:
        check_content(name)
        yield
    except DataError:
        raise
    except EOFError as error:
        raise DataError(
            f"{name}: the image is truncated: its compressed data end too early. {_AGAIN}"
        ) from error
    except _DAMAGED as error:
        raise DataError(
            f"{name}: the image is damaged: it cannot be decompressed ({said(error)}). {_AGAIN}"
        ) from error
    except Exception as error:  # nibabel meets damaged bytes with almost any exception
        raise DataError(
            f"{name}: this is not a readable {_kind_of(name)} ({type(error).__name__}: "
            f"{said(error)})."
        ) from error


@contextmanager
def _content(name: str) -> Iterator[tuple[Any, bool]]:
    """Yield the content of file `name` as an open stream, with gzip decompressed.

    A boolean is yielded too, True if the file is compressed.
    """
    with open(name, "rb") as stream:
        is_packed = stream.read(2) == b"\x1f\x8b"
        stream.seek(0)
        content: Any = stream
        if is_packed:
            content = igzip.GzipFile(fileobj=stream)
        yield content, is_packed


def _start(name: str, stream: Any) -> tuple[Any, Any, bytes]:
    """Read the header from `stream`, the content of image file `name`.

    Returned are nibabel's image class for the format, the header, and the bytes that were read: the
    first `_N_HEADER_BYTES` bytes of the content.
    """
    start: bytes = stream.read(_N_HEADER_BYTES)
    if not start:
        raise DataError(f"{name}: the file is empty (0 bytes).")
    if not _is_freesurfer(name) and start[:4] not in _NIFTI:
        raise DataError(f"{name}: this is not a NIfTI image, though its name says so.")
    _check_length(name, _N_HEADER_BYTES, len(start))
    image_type: Any = _NIFTI.get(start[:4])
    if _is_freesurfer(name):
        image_type = nib.MGHImage
    return image_type, image_type.header_class.from_fileobj(io.BytesIO(start)), start


def _image(name: str) -> Any:
    """Read file `name` as a nibabel image, whose voxels are in memory but not yet scaled."""
    with _content(name) as (stream, _):
        image_type, header, start = _start(name, stream)
        n_bytes = _n_bytes(name, header)
        limit = n_bytes + _N_BYTES_BEHIND
        # To the end of the file, where the checksum is verified.
        content = start + stream.read(limit + 1 - len(start))
    if len(content) > limit:
        raise DataError(
            f"{name}: the file holds more than the {n_bytes:,} bytes that its header announces. "
            f"{_AGAIN}"
        )
    _check_length(name, n_bytes, len(content))
    image = image_type.from_bytes(content)
    if image_type is nib.MGHImage:
        return nib.Nifti1Image.from_image(image)
    return image


def _n_bytes(name: str, header: Any) -> int:
    """Return the size in bytes, decompressed, that the `header` of file `name` announces.

    A DataError refuses an impossible size.
    """
    n_voxels = math.prod(map(int, header.get_data_shape()))
    n_bytes = n_voxels * header.get_data_dtype().itemsize + int(header.get_data_offset())
    if not 0 <= n_bytes <= _N_IMAGE_BYTES:
        raise DataError(
            f"{name}: its header announces {n_bytes:,} bytes ({times(header.get_data_shape())} "
            f"voxels); at most {_N_IMAGE_BYTES:,} are read. Is the header damaged?"
        )
    return n_bytes


def _check_length(name: str, n_expected: int, n_found: int) -> None:
    """Raise a DataError for a truncated file `name`, with fewer bytes than its header announces."""
    if n_found < n_expected:
        raise DataError(
            f"{name}: the image is truncated: {n_expected} bytes are expected and {n_found} are "
            f"there. {_AGAIN}"
        )


def _check_voxels(name: str, voxels: npt.NDArray[np.float32]) -> None:
    """Raise a DataError if `voxels` of file `name` are not finite, or all have one value."""
    low = float(voxels.min())
    high = float(voxels.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        n = int(voxels.size - np.isfinite(voxels).sum())
        raise DataError(f"{name}: {n} of {voxels.size} voxels are not finite (NaN or infinity).")
    if low == high:
        raise DataError(f"{name}: every voxel is {low:g}; the image is empty.")
