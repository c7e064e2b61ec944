"""Files of the cache: preprocessed scans, with size, times and digests of their source files."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from typing import Any, TypeAlias

import numpy.typing as npt
from isal import isal_zlib

from neurocontrast.files import ScanFiles, files_of
from neurocontrast.transforms.loading import content_of_scan

_HEADER_BYTES = 65_536
"""Largest header of a cache file that is read, in bytes."""
Parts: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""Arrays in a cache file: ``volume`` (C, D, H, W) and its ``affine`` (4, 4)."""


@dataclass(frozen=True, eq=False)
class Entry:
    """Preprocessed scan in the cache, with size and times of the source files to notice changes.

    `VolumeCache` makes an entry by preprocessing a scan, or by reading a cache file.
    """

    parts: Parts
    """Volume and affine; empty if only the header of the cache file was read."""
    source: tuple[int, ...]
    """Total size, latest modification and latest change time of the source files."""
    content: str | None
    """Digests of the voxels of the scan's source files, separated by spaces.

    Empty if a file cannot be read, and None in a cache file of an earlier version.
    """


def header_of(stream: BufferedReader) -> tuple[dict[str, str], int]:
    """Return the metadata of a safetensors file, and the size in bytes that a whole file has.

    The header tells metadata and size; a file of another size is damaged. `stream` is the file,
    open at its beginning. A header of `_HEADER_BYTES` or more is not read: the metadata are then
    empty, and the size counts no arrays.
    """
    n_header = int.from_bytes(stream.read(8), "little")
    header = {}
    if n_header < _HEADER_BYTES:
        header = json.loads(stream.read(n_header))
    metadata = header.pop("__metadata__", {})
    n_data = max((array["data_offsets"][1] for array in header.values()), default=0)
    return metadata, 8 + n_header + n_data


def signature_of(files: Sequence[str]) -> tuple[int, int, int]:
    """Return the signature of `files`: total size in bytes, latest mtime and latest ctime in ns.

    By the signature the cache notices that a file has changed, without reading its content.
    """
    statuses = [os.stat(path) for path in files]  # noqa: PTH116
    return (
        sum(status.st_size for status in statuses),
        max(status.st_mtime_ns for status in statuses),
        max(status.st_ctime_ns for status in statuses),
    )


def content_of(scan: ScanFiles, noted: Mapping[str, str]) -> str:
    """Return digests of the voxels of a scan's files, joined by spaces; "" if a file is unreadable.

    `noted` has digests that are known already, by path; such files are not read.
    """
    digests = []
    for path in files_of(scan):
        digest = noted.get(path) or content_of_scan(path)
        if not digest:
            return ""
        digests.append(digest)
    return " ".join(digests)


def checksum(parts: Parts) -> str:
    """Return the CRC-32 checksum, as text, of the volume and affine that a cache file holds."""
    of_affine = isal_zlib.crc32(parts["affine"].tobytes())
    return str(isal_zlib.crc32(parts["volume"].tobytes(), of_affine))
