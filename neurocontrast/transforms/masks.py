"""Which voxels are brain: a scan's own, a part that all scans share, and their edge taken away."""

from __future__ import annotations

import base64
import binascii
import functools
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.ndimage

__all__ = ["HALF_COVERED", "deep_part", "erode", "fill_largest", "pack", "unpack"]

HALF_COVERED = 0.499
"""A voxel of a new grid is brain when at least half of it is; a little less, since sums of weights are rounded."""

_DEEP_PART = 0.2
_ROUNDING = 1e-6

Mask = npt.NDArray[np.bool_]


def fill_largest(mask: Mask) -> Mask:
    """Return the largest piece of a mask (by faces), its holes filled."""
    filled = np.zeros_like(mask)
    for within in _bounds(mask):
        # A rim of one voxel: what lies around the piece is then one component, and its first.
        piece = np.pad(mask[within], 1)
        labels, n_pieces = scipy.ndimage.label(piece)
        if n_pieces > 1:
            piece = labels == np.bincount(labels.ravel())[1:].argmax() + 1
        around, _ = scipy.ndimage.label(~piece)
        filled[within] = (around != around[0, 0, 0])[1:-1, 1:-1, 1:-1]
    return filled


def erode(mask: Mask, radius_mm: float, spacing_mm: Sequence[float]) -> Mask:
    """Return the voxels of a mask further than `radius_mm` from all voxels outside it; the box has no edge."""
    eroded = mask.copy()
    for within in _bounds(mask):
        # A rim of one voxel where the box goes on beyond the mask: the nearest voxel outside is within it or nearer.
        wide = tuple(slice(max(0, part.start - 1), part.stop + 1) for part in within)
        if not mask[wide].all():
            distance = scipy.ndimage.distance_transform_edt(mask[wide], sampling=spacing_mm)
            eroded[wide] = mask[wide] & (distance > radius_mm * (1 + _ROUNDING))
    return eroded


def deep_part(inside: Mask, spacing_mm: Sequence[float]) -> Mask:
    """Return the voxels in the middle of a cube of brain, of half-width a fifth of the radius of a ball as large."""
    deep = np.zeros_like(inside)
    for within in _bounds(inside):
        n_mm3 = np.count_nonzero(inside) * float(np.prod(spacing_mm))
        depth_mm = _DEEP_PART * (3 * n_mm3 / (4 * np.pi)) ** (1 / 3)
        sides = [2 * max(1, round(depth_mm / step)) + 1 for step in spacing_mm]
        deep[within] = scipy.ndimage.minimum_filter(inside[within], sides, mode="constant", cval=0)
    return deep


def pack(mask: Mask) -> str:
    """Return a mask as text: its bits, compressed."""
    return base64.b64encode(zlib.compress(np.packbits(mask).tobytes(), 9)).decode("ascii")


@functools.lru_cache(maxsize=4)
def unpack(text: str, shape: tuple[int, int, int]) -> Mask:
    """Return the mask that `pack` wrote, read-only; a ValueError refuses damaged text and another shape."""
    n_voxels = int(np.prod(shape))
    try:
        bits = zlib.decompress(base64.b64decode(text, validate=True))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"must hold a mask of {n_voxels} voxels, and is damaged ({error})") from error
    if len(bits) != -(-n_voxels // 8):
        raise ValueError(f"must hold a mask of {n_voxels} voxels, and holds {len(bits)} bytes")
    mask = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=n_voxels).astype(bool).reshape(shape)
    mask.flags.writeable = False
    return mask


def _bounds(mask: Mask) -> list[tuple[slice, ...]]:
    """Return the smallest box around a mask, as a list; an empty one where the mask is."""
    return list(scipy.ndimage.find_objects(mask.view(np.uint8)))
