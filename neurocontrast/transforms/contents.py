"""Compute digests of voxels, which recognise the same scan under another file name or format."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import nibabel as nib
import numpy as np
import numpy.typing as npt

_noted: ContextVar[dict[str, str] | None] = ContextVar("contents", default=None)


def digest_of_voxels(
    voxels: npt.NDArray[np.float32], affine: npt.NDArray[np.float64] | None = None
) -> str:
    """Return a digest of a volume's voxels (D, H, W), which recognises the same scan.

    If an affine is given, axes are reordered to RAS first.
    """
    if affine is not None:
        voxels = nib.apply_orientation(voxels, nib.io_orientation(affine))
    values = np.ascontiguousarray(voxels, dtype=np.float32) + np.float32(0)  # -0.0 is 0.0
    state = hashlib.blake2b(f"voxels {values.shape}".encode(), digest_size=8)
    state.update(values.data)
    return state.hexdigest()


@contextmanager
def noting_contents() -> Iterator[dict[str, str]]:
    """Yield a dictionary that fills with voxel digests by file path until the context ends.

    Each file that `read_scan` reads within the context is added.
    """
    contents: dict[str, str] = {}
    token = _noted.set(contents)
    try:
        yield contents
    finally:
        _noted.reset(token)


def note_content(
    path: str, voxels: npt.NDArray[np.float32], affine: npt.NDArray[np.float64] | None
) -> None:
    """Add the digest of `voxels` by file `path` to the open `noting_contents` context, if any."""
    contents = _noted.get()
    if contents is not None:
        contents[path] = digest_of_voxels(voxels, affine)
