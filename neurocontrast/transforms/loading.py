"""Scans from files: one reader, which refuses by name what is no usable volume."""

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
from neurocontrast.transforms.headers import Disagreement, compare_affines, tilt_of
from neurocontrast.transforms.images import EachImage, centred, corners_apart, times, to_image
from neurocontrast.transforms.preprocessing import N_VOXELS_MIN, SPACING_LIMITS_MM

try:
    from isal import igzip, isal_zlib

    _DAMAGED: tuple[Any, ...] = (zlib.error, gzip.BadGzipFile, isal_zlib.error)
except ModuleNotFoundError:  # not for every platform; without it reading is slower
    import gzip as igzip

    _DAMAGED = (zlib.error, gzip.BadGzipFile)

_ENDINGS = (".nii", ".nii.gz", ".mgz", ".mgh")
_TILT_WARNED_DEGREES = 20.0
_MNI = 4
_N_HEADER_BYTES = 540
_N_IMAGE_BYTES = 2**31
"""Largest image that is read, decompressed."""
_N_BYTES_BEHIND = (
    2**20
)  # that may follow the voxels: FreeSurfer's record of commands, a writer's padding
_GRIDS_APART = 0.1  # of a voxel, by which the corners of two channels of a scan may differ
_NIFTI = {
    size.to_bytes(4, order): of_version
    for order in ("little", "big")
    for size, of_version in ((348, nib.Nifti1Image), (540, nib.Nifti2Image))
}
_AGAIN = "Copy or convert it again."


class LoadScand(EachImage):
    """Load scans, and refuse by name what is no usable volume.

    A DataError names a file that is absent, unreadable, truncated, not three-dimensional, not of
    real numbers, constant, with non-finite voxels, with an impossible voxel size, or on another
    grid than the first channel.

    A ``.nii``, ``.nii.gz``, ``.mgz`` or ``.npy`` file becomes a `monai.data.MetaTensor` of shape
    (1, D, H, W), float32, with its axes as they are stored and the affine of its header. Axes of
    length 1 before or behind the volume are dropped. A list of files on one grid, such as tissue
    maps, becomes an image of as many channels. `monai.transforms.LoadImaged` checks nothing of
    this.

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
        """Return the image of a path, or of one path a channel."""
        first, *others = files = files_of(image)
        if self.n_channels not in (None, len(files)):
            raise DataError(
                f"{', '.join(files)}: a scan here has {self.n_channels} channels (data.channels), and this one has "
                f"{len(files)} files."
            )
        scan = read_scan(first)
        channels = [scan.voxels, *(self._channel(path, first, scan) for path in others)]
        affine = (
            centred(scan.voxels.shape, (self.spacing_mm,) * 3)
            if scan.affine is None
            else scan.affine
        )
        voxels = np.stack(channels) if others else scan.voxels[np.newaxis]
        return to_image(voxels, affine, name=", ".join(files))

    def _channel(self, path: str, first: str, of_first: Scan) -> npt.NDArray[np.float32]:
        """Return the voxels of a further channel, which must lie where those of the first channel lie."""
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
                    f"{path}: its header puts it {apart:.1f} mm from {first}; the channels of a scan must lie on one "
                    "grid."
                )
        return scan.voxels


@dataclass(frozen=True, eq=False)
class Scan:
    """One scan as it is stored: float32 voxels, and the header's affine, None for a ``.npy`` array."""

    voxels: npt.NDArray[np.float32]
    affine: npt.NDArray[np.float64] | None


@dataclass(frozen=True, eq=False)
class ScanHeader:
    """What a scan's header says of its axes, brought to RAS order; a ``.npy`` array has its shape alone."""

    shape: tuple[int, ...]
    affine: npt.NDArray[np.float64] | None = None
    spacing_mm: tuple[float, float, float] | None = None
    is_mni: bool = False
    warnings: tuple[str, ...] = ()
    disagreement: str = ""
    """How sform and qform differ where that is beyond a voxel, 2 % or a degree, which `check` has
    as a problem; one of `warnings`."""
    is_guessed: bool = False
    """Whether the header has no orientation, so that left and right are a guess."""

    @property
    def other_warnings(self) -> tuple[str, ...]:
        """Warnings without a disagreement that is a problem."""
        return tuple(warning for warning in self.warnings if warning != self.disagreement)


def read_scan(path: str | os.PathLike[str]) -> Scan:
    """Read a NIfTI, FreeSurfer or ``.npy`` volume, or raise a `DataError` that names the file; see `LoadScand`."""
    name = os.fspath(path)
    with _naming(name):
        if _is_array(name):
            array = read_array(name)
            _check_kind(name, array.dtype)
            scan = Scan(
                np.asarray(array, dtype=np.float32).reshape(_check_shape(name, array.shape)), None
            )
        else:
            image = _image(name)
            _geometry(name, image.header)
            with np.errstate(over="ignore"):  # what float32 does not hold is refused as infinite
                voxels = np.asarray(image.dataobj).astype(np.float32, order="F", copy=False)
            scan = Scan(voxels.reshape(_check_shape(name, voxels.shape), order="F"), image.affine)
        _check_voxels(name, scan.voxels)
    note_content(name, scan.voxels, scan.affine)
    return scan


def content_of_scan(path: str | os.PathLike[str]) -> str:
    """Return the digest of a scan's voxels, or "" for a file that `read_scan` refuses."""
    try:
        scan = read_scan(path)
    except DataError:
        return ""
    return digest_of_voxels(scan.voxels, scan.affine)


def read_scan_header(path: str | os.PathLike[str]) -> ScanHeader:
    """Check a scan by its header alone, without reading its voxels; refuse what `read_scan` would by its header."""
    name = os.fspath(path)
    with _naming(name):
        if _is_array(name):
            array = np.load(name, mmap_mode="r", allow_pickle=False)
            _check_kind(name, array.dtype)
            return ScanHeader(_check_shape(name, array.shape))
        if _is_freesurfer(name):
            return _geometry(name, _image(name).header)
        with _content(name) as (stream, is_packed):
            _, header, _ = _start(name, stream)
        geometry = _geometry(name, header)
        if not is_packed:
            _check_length(name, _n_bytes(name, header), Path(name).stat().st_size)
        return geometry


def is_scan(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file has the name of a NIfTI or FreeSurfer volume."""
    return os.fspath(path).lower().endswith(_ENDINGS)


def scans_below(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the NIfTI and FreeSurfer files below a folder, sorted; what is hidden, by a name with a dot, is left."""
    root = Path(folder)
    found = [
        path
        for path in sorted(root.rglob("*"))
        if is_scan(path) and not any(part.startswith(".") for part in path.relative_to(root).parts)
    ]
    if not found:
        raise DataError(
            f"{folder}: there is no scan in this folder: no file that ends in {', '.join(_ENDINGS)}."
        )
    return found


def _is_array(name: str) -> bool:
    return name.lower().endswith(".npy")


def _is_freesurfer(name: str) -> bool:
    return name.lower().endswith((".mgz", ".mgh"))


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Raise whatever a file that cannot be read raises as a DataError with its name."""
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
        kind = (
            "array"
            if _is_array(name)
            else "FreeSurfer image"
            if _is_freesurfer(name)
            else "NIfTI image"
        )
        raise DataError(
            f"{name}: this is not a readable {kind} ({type(error).__name__}: {said(error)})."
        ) from error


@contextmanager
def _content(name: str) -> Iterator[tuple[Any, bool]]:
    """Open a file for reading, decompressed by what it holds and not by its name; tell whether it is compressed."""
    with open(name, "rb") as stream:
        is_packed = stream.read(2) == b"\x1f\x8b"
        stream.seek(0)
        yield (igzip.GzipFile(fileobj=stream) if is_packed else stream), is_packed


def _start(name: str, stream: Any) -> tuple[Any, Any, bytes]:
    """Return nibabel's class for an image, its header, and the bytes that were read."""
    start: bytes = stream.read(_N_HEADER_BYTES)
    if not start:
        raise DataError(f"{name}: the file is empty (0 bytes).")
    if not _is_freesurfer(name) and start[:4] not in _NIFTI:
        raise DataError(f"{name}: this is not a NIfTI image, though its name says so.")
    _check_length(name, _N_HEADER_BYTES, len(start))
    image_type = nib.MGHImage if _is_freesurfer(name) else _NIFTI[start[:4]]
    return image_type, image_type.header_class.from_fileobj(io.BytesIO(start)), start


def _image(name: str) -> Any:
    """Return the nibabel image of a file, whose voxels are read into memory, not scaled yet."""
    with _content(name) as (stream, _):
        image_type, header, start = _start(name, stream)
        n_bytes = _n_bytes(name, header)
        limit = n_bytes + _N_BYTES_BEHIND
        content = start + stream.read(
            limit + 1 - len(start)
        )  # to its end, where the checksum is verified
    if len(content) > limit:
        raise DataError(
            f"{name}: the file holds more than the {n_bytes:,} bytes that its header announces. {_AGAIN}"
        )
    _check_length(name, n_bytes, len(content))
    image = image_type.from_bytes(content)
    return nib.Nifti1Image.from_image(image) if image_type is nib.MGHImage else image


def _n_bytes(name: str, header: Any) -> int:
    """Return the size of an image by its header, decompressed; refuse one that would fill the memory."""
    n_voxels = math.prod(map(int, header.get_data_shape()))
    n_bytes = n_voxels * header.get_data_dtype().itemsize + int(header.get_data_offset())
    if not 0 <= n_bytes <= _N_IMAGE_BYTES:
        raise DataError(
            f"{name}: its header announces {n_bytes:,} bytes ({times(header.get_data_shape())} voxels); at most "
            f"{_N_IMAGE_BYTES:,} are read. Is the header damaged?"
        )
    return n_bytes


def _check_length(name: str, n_expected: int, n_found: int) -> None:
    if n_found < n_expected:
        raise DataError(
            f"{name}: the image is truncated: {n_expected} bytes are expected and {n_found} are there. {_AGAIN}"
        )


def _geometry(name: str, header: Any) -> ScanHeader:
    """Return the geometry along the RAS axes with doubts about it, after checks."""
    _check_kind(name, header.get_data_dtype())
    shape = _check_shape(name, header.get_data_shape())
    affine = header.get_best_affine()
    sizes = voxel_sizes(affine)
    low, high = SPACING_LIMITS_MM
    if not np.isfinite(affine).all() or not ((sizes >= low) & (sizes <= high)).all():
        raise DataError(
            f"{name}: the voxel size is {times(sizes)} mm; it must be between {low:g} and {high:g} mm along each axis. "
            "Is the header damaged?"
        )
    orientation = nib.io_orientation(affine)
    if np.isnan(orientation).any():
        raise DataError(
            f"{name}: the affine does not tell the directions of the axes; is the header damaged?"
        )
    first, second, third = np.argsort(orientation[:, 0])
    disagreement = compare_affines(header, shape)
    return ScanHeader(
        shape=(shape[first], shape[second], shape[third]),
        affine=affine @ nib.orientations.inv_ornt_aff(orientation, shape),
        spacing_mm=(float(sizes[first]), float(sizes[second]), float(sizes[third])),
        is_mni=(int(header["sform_code"]) or int(header["qform_code"])) == _MNI,
        warnings=_doubts(header, affine / [*sizes, 1], disagreement),
        disagreement=disagreement.problem,
        is_guessed=_has_no_orientation(header),
    )


def _has_no_orientation(header: Any) -> bool:
    """Return whether neither the sform nor the qform of a header is valid."""
    return int(header["sform_code"]) == 0 and int(header["qform_code"]) == 0


def _doubts(
    header: Any, directions: npt.NDArray[Any], disagreement: Disagreement
) -> tuple[str, ...]:
    """Warn of a header without orientation, of two that differ, and of tilted axes."""
    warnings = []
    if _has_no_orientation(header):
        warnings.append(
            "the header has no orientation (sform and qform codes are 0); left and right are a guess"
        )
    if disagreement.differences:
        warnings.append(str(disagreement))
    tilt = tilt_of(directions[:3, :3])
    if tilt > _TILT_WARNED_DEGREES:
        warnings.append(f"its axes are tilted by {tilt:.0f} degrees; they are not rotated")
    return tuple(warnings)


def _check_kind(name: str, dtype: Any) -> None:
    if np.dtype(dtype).kind not in "buif":
        raise DataError(
            f"{name}: its voxels are of type {dtype}; a scan has one real number a voxel."
        )


def _check_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the three lengths of a volume, without axes of length 1 before or behind them."""
    lengths = list(shape)
    while len(lengths) > 3 and lengths[-1] == 1:
        lengths.pop()
    while len(lengths) > 3 and lengths[0] == 1:
        lengths.pop(0)
    found = " × ".join(map(str, shape)) or "no axes"
    if len(lengths) > 3 and 0 not in lengths:
        raise DataError(f"{name}: the image is {len(lengths)}D ({found}); give one 3D volume.")
    if len(lengths) < 3 or min(lengths) < N_VOXELS_MIN:
        raise DataError(
            f"{name}: the image is {found}; a volume has three axes of at least {N_VOXELS_MIN} voxels."
        )
    return tuple(lengths)


def _check_voxels(name: str, voxels: npt.NDArray[np.float32]) -> None:
    low = float(voxels.min())
    high = float(voxels.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        n = int(voxels.size - np.isfinite(voxels).sum())
        raise DataError(f"{name}: {n} of {voxels.size} voxels are not finite (NaN or infinity).")
    if low == high:
        raise DataError(f"{name}: every voxel is {low:g}; the image is empty.")
