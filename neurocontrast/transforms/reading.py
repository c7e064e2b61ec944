"""Reading one scan file, and refusing what is no usable volume."""

from __future__ import annotations

import gzip
import io
import math
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import numpy.typing as npt
from isal import igzip, isal_zlib
from nibabel.affines import voxel_sizes

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.preprocessing import N_VOXELS_MIN, SPACING_LIMITS_MM

__all__ = ["GZIP", "Scan", "ScanHeader", "in_memory_order", "nifti_type", "read_scan", "read_scan_header"]

GZIP = b"\x1f\x8b"
"""What a compressed file begins with."""

_TILT_WARNED_DEGREES = 20.0
_MNI = 4
_N_HEADER_BYTES = 540
_N_START_BYTES = 4096
_NIFTI = {
    size.to_bytes(4, order): of_version
    for order in ("little", "big")
    for size, of_version in ((348, nib.Nifti1Image), (540, nib.Nifti2Image))
}


@dataclass(frozen=True, eq=False)
class Scan:
    """One scan as it is stored.

    Parameters
    ----------
    voxels : ndarray
        float32, three axes in the order of the file.
    affine : ndarray (4, 4) or None
        From voxel indices to millimetres, of the header; None for a ``.npy`` array, which has none.
    """

    voxels: npt.NDArray[np.float32]
    affine: npt.NDArray[np.float64] | None


@dataclass(frozen=True, eq=False)
class ScanHeader:
    """What a scan's header says of its axes, brought to RAS order.

    Parameters
    ----------
    shape : tuple of int
        Voxels along each axis.
    affine : ndarray (4, 4) or None
        From voxel indices to millimetres; None for a ``.npy`` array, which has no header.
    spacing_mm : tuple of float or None
        Voxel size along each axis; None for a ``.npy`` array.
    is_mni : bool
        Whether the header says that these are millimetres of MNI152.
    warnings : tuple of str
        Doubts about the header.
    """

    shape: tuple[int, ...]
    affine: npt.NDArray[np.float64] | None = None
    spacing_mm: tuple[float, float, float] | None = None
    is_mni: bool = False
    warnings: tuple[str, ...] = ()


def read_scan(path: str | os.PathLike[str]) -> Scan:
    """Read a ``.nii``, ``.nii.gz`` or ``.npy`` volume.

    Axes of length 1 before or behind the three of the volume are dropped.

    Raises
    ------
    DataError
        Naming the file, where it is absent, unreadable, truncated, not three-dimensional, not
        of real numbers, constant, with non-finite voxels or with an impossible voxel size.
    """
    name = os.fspath(path)
    try:
        scan = Scan(_read_array(name), None) if name.lower().endswith(".npy") else _read_nifti(name)
    except DataError:
        raise
    except Exception as error:  # nibabel and zlib meet damaged bytes with almost any exception
        raise DataError(f"{name}: {_reason(name, error)}") from error
    _check_voxels(name, scan.voxels)
    return scan


def in_memory_order(voxels: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Sequence[int], tuple[slice, ...]]:
    """Return a view with strides that fall and none negative, which NumPy goes through several times faster.

    Returns
    -------
    view : ndarray
        ``voxels[flips].transpose(axes)``.
    axes : sequence of int
        The axes of `voxels`, slowest first.
    flips : tuple of slice
        What turns the axes that are stored backwards.
    """
    axes = sorted(range(voxels.ndim), key=lambda axis: -abs(voxels.strides[axis]))
    flips = tuple(slice(None, None, -1 if stride < 0 else 1) for stride in voxels.strides)
    return voxels[flips].transpose(axes), axes, flips


def read_scan_header(path: str | os.PathLike[str]) -> ScanHeader:
    """Check a scan by its header alone, without reading its voxels.

    Raises
    ------
    DataError
        As `read_scan`, as far as a header tells.
    """
    name = os.fspath(path)
    try:
        if name.lower().endswith(".npy"):
            array = np.load(name, mmap_mode="r", allow_pickle=False)
            _check_kind(name, array.dtype)
            return ScanHeader(_check_shape(name, array.shape))
        with open(name, "rb") as stream:
            content = stream.read(_N_START_BYTES)
        is_compressed = content.startswith(GZIP)
        if is_compressed:
            content = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(content, _N_HEADER_BYTES)
        header = nifti_type(name, content).header_class.from_fileobj(io.BytesIO(content))
        geometry = _geometry(name, header)
        n_bytes = math.prod(header.get_data_shape()) * int(header["bitpix"]) // 8 + header.get_data_offset()
        if not is_compressed and Path(name).stat().st_size < n_bytes:
            raise DataError(f"{name}: the image is truncated: {n_bytes} bytes are expected. Copy or convert it again.")
        return geometry
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{name}: {_reason(name, error)}") from error


def _read_array(name: str) -> npt.NDArray[np.float32]:
    array = np.load(name, allow_pickle=False)
    _check_kind(name, array.dtype)
    return np.asarray(array, dtype=np.float32).reshape(_check_shape(name, array.shape))


def _read_nifti(name: str) -> Scan:
    content = Path(name).read_bytes()
    if content.startswith(GZIP):
        # Whole, not streamed: it is as fast, and the checksum at the end is verified.
        content = igzip.decompress(content)
    header = nifti_type(name, content).header_class.from_fileobj(io.BytesIO(content))
    _geometry(name, header)
    voxels = _voxels(name, content, header).reshape(_check_shape(name, header.get_data_shape()), order="F")
    return Scan(voxels, header.get_best_affine())


def _voxels(name: str, content: bytes, header: Any) -> npt.NDArray[np.float32]:
    """Return the voxels as nibabel scales them, in memory of their own."""
    shape, kind, start = header.get_data_shape(), header.get_data_dtype(), header.get_data_offset()
    n_expected = start + math.prod(shape) * kind.itemsize
    if len(content) < n_expected:
        raise DataError(
            f"{name}: the image is truncated: {n_expected} bytes are expected and {len(content)} are there. "
            "Copy or convert it again."
        )
    stored = np.ndarray(shape, kind, content, start, order="F")
    slope, intercept = header.get_slope_inter()
    if slope in (None, 1.0) and intercept in (None, 0.0):
        return stored.astype(np.float32, order="F")
    voxels = np.empty(shape, dtype=np.float32, order="F")
    with np.errstate(over="ignore"):  # what float32 does not hold is refused as infinite
        for scaled, part in zip(voxels.T, stored.T, strict=True):
            scaled[...] = part * np.float64(slope) + np.float64(intercept)
    return voxels


def nifti_type(name: str, content: bytes) -> Any:
    """Return nibabel's class for a file's decompressed content: NIfTI-1 or 2, by the size that its header states.

    Raises
    ------
    DataError
        Where the content is empty, cut within its header, or no NIfTI image.
    """
    if not content:
        raise DataError(f"{name}: the file is empty (0 bytes).")
    if content[:4] not in _NIFTI:
        raise DataError(f"{name}: this is not a NIfTI image, though its name says so.")
    if len(content) < _N_HEADER_BYTES:
        raise DataError(f"{name}: the image is truncated within its header. Copy or convert it again.")
    return _NIFTI[content[:4]]


def _geometry(name: str, header: Any) -> ScanHeader:
    """Return the geometry along the RAS axes with doubts about it, after checks."""
    _check_kind(name, header.get_data_dtype())
    shape = _check_shape(name, header.get_data_shape())
    affine = header.get_best_affine()
    sizes = voxel_sizes(affine)
    low, high = SPACING_LIMITS_MM
    if not np.isfinite(affine).all() or not ((sizes >= low) & (sizes <= high)).all():
        raise DataError(
            f"{name}: the voxel size is {' × '.join(f'{size:g}' for size in sizes)} mm; "
            f"it must be between {low:g} and {high:g} mm along each axis. Is the header damaged?"
        )
    orientation = nib.io_orientation(affine)
    if np.isnan(orientation).any():
        raise DataError(f"{name}: the affine does not tell the directions of the axes; is the header damaged?")
    first, second, third = np.argsort(orientation[:, 0])
    return ScanHeader(
        shape=(shape[first], shape[second], shape[third]),
        affine=affine @ nib.orientations.inv_ornt_aff(orientation, shape),
        spacing_mm=(float(sizes[first]), float(sizes[second]), float(sizes[third])),
        is_mni=(int(header["sform_code"]) or int(header["qform_code"])) == _MNI,
        warnings=_doubts(header, affine / [*sizes, 1]),
    )


def _doubts(header: Any, directions: npt.NDArray[Any]) -> tuple[str, ...]:
    warnings = []
    if header["sform_code"] == 0 and header["qform_code"] == 0:
        warnings.append("the header has no orientation (sform and qform codes are 0); left and right are a guess")
    elif header["sform_code"] > 0 and header["qform_code"] > 0:
        sform, qform = (nib.aff2axcodes(affine) for affine in (header.get_sform(), header.get_qform()))
        if sform != qform:
            warnings.append(f"sform says {''.join(sform)} and qform {''.join(qform)}; the sform is used")
    tilt = np.degrees(np.arccos(np.clip(np.abs(directions[:3, :3]).max(axis=0).min(), 0, 1)))
    if tilt > _TILT_WARNED_DEGREES:
        warnings.append(f"its axes are tilted by {tilt:.0f} degrees; they are not rotated")
    return tuple(warnings)


def _check_kind(name: str, dtype: Any) -> None:
    if np.dtype(dtype).kind not in "buif":
        raise DataError(f"{name}: its voxels are of type {dtype}; a scan has one real number a voxel.")


def _check_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the three lengths of a volume, without axes of length 1 before or behind them."""
    lengths = list(shape)
    while len(lengths) > 3 and lengths[-1] == 1:
        lengths.pop()
    while len(lengths) > 3 and lengths[0] == 1:
        lengths.pop(0)
    found = " × ".join(str(n) for n in shape) or "no axes"
    if len(lengths) > 3 and 0 not in lengths:
        raise DataError(f"{name}: the image is {len(lengths)}D ({found}); give one 3D volume.")
    if len(lengths) < 3 or min(lengths) < N_VOXELS_MIN:
        raise DataError(f"{name}: the image is {found}; a volume has three axes of at least {N_VOXELS_MIN} voxels.")
    return tuple(lengths)


def _check_voxels(name: str, voxels: npt.NDArray[np.float32]) -> None:
    stored, *_ = in_memory_order(voxels)
    low, high = float(stored.min()), float(stored.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        n = int(voxels.size - np.isfinite(voxels).sum())
        raise DataError(f"{name}: {n} of {voxels.size} voxels are not finite (NaN or infinity).")
    if low == high:
        raise DataError(f"{name}: every voxel is {low:g}; the image is empty.")


def _reason(name: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such image."
    if isinstance(error, PermissionError):
        return "the image may not be read (permission denied)."
    if isinstance(error, EOFError):
        return "the image is truncated: its compressed data end too early. Copy or convert it again."
    if isinstance(error, zlib.error | isal_zlib.error | gzip.BadGzipFile):
        return f"the image is damaged: it cannot be decompressed ({error}). Copy or convert it again."
    if isinstance(error, OSError | ValueError) and "bytes" in str(error):
        return f"the image is truncated: {str(error).rstrip('.')}. Copy or convert it again."
    kind = "array" if name.lower().endswith(".npy") else "NIfTI image"
    return f"this is not a readable {kind} ({type(error).__name__}: {str(error).strip()})."
