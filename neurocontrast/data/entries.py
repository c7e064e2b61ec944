"""Entries of the cache: preprocessed scans, with signatures and digests of their source files."""

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
"""Size below which the header of an entry is read."""
Parts: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""Arrays of an entry: ``volume`` (C, D, H, W) and ``affine`` (4, 4)."""


@dataclass(frozen=True, eq=False)
class Entry:
    """Preprocessed scan, with its source files."""

    parts: Parts
    """Volume and affine; empty where only the header of an entry was read."""
    source: tuple[int, ...]
    """Size and times of the source files."""
    content: str | None
    """Digests of the voxels of the files, separated by spaces.

    It is "" where a file cannot be read, and None in an entry of an earlier version.
    """


def header_of(stream: BufferedReader) -> tuple[dict[str, str], int]:
    """Return the metadata in the header of a safetensors file, and the size of the whole file."""
    n_header = int.from_bytes(stream.read(8), "little")
    header = {}
    if n_header < _HEADER_BYTES:
        header = json.loads(stream.read(n_header))
    metadata = header.pop("__metadata__", {})
    n_data = max((array["data_offsets"][1] for array in header.values()), default=0)
    return metadata, 8 + n_header + n_data


def signature_of(files: Sequence[str]) -> tuple[int, int, int]:
    """Return total size, latest mtime and latest ctime of files, by which changes are noticed."""
    statuses = [os.stat(path) for path in files]  # noqa: PTH116
    return (
        sum(status.st_size for status in statuses),
        max(status.st_mtime_ns for status in statuses),
        max(status.st_ctime_ns for status in statuses),
    )


def content_of(scan: ScanFiles, noted: Mapping[str, str]) -> str:
    """Return the digests of a scan's files, read unless `noted`; "" for an unreadable file."""
    digests = []
    for path in files_of(scan):
        digest = noted.get(path) or content_of_scan(path)
        if not digest:
            return ""
        digests.append(digest)
    return " ".join(digests)


def checksum(parts: Parts) -> str:
    """Return the checksum of an entry's arrays."""
    of_affine = isal_zlib.crc32(parts["affine"].tobytes())
    return str(isal_zlib.crc32(parts["volume"].tobytes(), of_affine))
