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

__all__ = ["DEEP_PART", "HALF_COVERED", "deep_part", "erode", "fill_largest", "pack", "unpack"]

HALF_COVERED = 0.499
"""A voxel of a new grid is brain when at least half of it is; a little less, since sums of weights are rounded."""

DEEP_PART = 0.2
"""Deep is what is further from the edge than this part of the radius of a ball of the brain's volume."""

_ROUNDING = 1e-6

Mask = npt.NDArray[np.bool_]


def fill_largest(mask: Mask) -> Mask:
    """Return the largest piece of a mask (by faces), its holes filled."""
    filled = np.zeros_like(mask)
    within = _bounds(mask)
    if within is None:
        return filled
    # A rim of one voxel: what lies around the piece is then one component, and its first.
    piece = np.pad(mask[within], 1)
    labels, n_pieces = scipy.ndimage.label(piece)
    if n_pieces > 1:
        piece = labels == np.bincount(labels.ravel())[1:].argmax() + 1
    around, _ = scipy.ndimage.label(~piece)
    filled[within] = (around != around[0, 0, 0])[1:-1, 1:-1, 1:-1]
    return filled


def erode(mask: Mask, radius_mm: float, spacing_mm: Sequence[float]) -> Mask:
    """Return the voxels of a mask that are further than `radius_mm` from every voxel outside it.

    Distances are between centres of voxels. The end of the box is not an edge: what it cuts goes on
    behind it.

    Notes
    -----
    As thresholding `scipy.ndimage.distance_transform_edt`, at a fraction of its time
    (``benchmarks/data.py``): columns of the outside grown along one axis are put together to a ball.
    """
    reach = [int(radius_mm / step * (1 + _ROUNDING)) for step in spacing_mm]
    within = _bounds(mask)
    if within is None or not any(reach):
        return mask.copy()
    own = mask[within]
    # Beyond the brain's bounds the box goes on, outside the brain; beyond the box there is no edge.
    widths = [
        (min(part.start, n), min(length - part.stop, n))
        for part, n, length in zip(within, reach, mask.shape, strict=True)
    ]
    outside = np.pad(~own, widths, constant_values=True)
    outside = np.pad(outside, [(n - low, n - high) for (low, high), n in zip(widths, reach, strict=True)])
    eroded = np.zeros_like(mask)
    eroded[within] = own & ~_grown(outside, radius_mm * (1 + _ROUNDING), spacing_mm, reach, own.shape)
    return eroded


def deep_part(inside: Mask, spacing_mm: Sequence[float]) -> Mask:
    """Return the voxels whose surrounding cube, of half-width `DEEP_PART` of the brain's radius, is all brain."""
    deep = np.zeros_like(inside)
    within = _bounds(inside)
    if within is None:
        return deep
    n_mm3 = np.count_nonzero(inside) * float(np.prod(spacing_mm))
    depth_mm = DEEP_PART * (3 * n_mm3 / (4 * np.pi)) ** (1 / 3)
    outside = (~inside[within]).view(np.uint8)
    for axis, step in enumerate(spacing_mm):
        n = max(1, round(depth_mm / step))
        outside = scipy.ndimage.maximum_filter1d(outside, 2 * n + 1, axis=axis, mode="constant", cval=1)
    deep[within] = outside == 0
    return deep


def _grown(
    outside: Mask, radius_mm: float, spacing_mm: Sequence[float], reach: Sequence[int], shape: tuple[int, ...]
) -> Mask:
    """Grow a mask, which is `reach` wider on each side than `shape`, by a ball, and return its middle."""
    columns = [outside]
    for n in range(1, reach[2] + 1):
        longer = columns[-1].copy()
        longer[..., n:] |= outside[..., :-n]
        longer[..., :-n] |= outside[..., n:]
        columns.append(longer)
    grown = np.zeros(shape, dtype=bool)
    for i in range(-reach[0], reach[0] + 1):
        for j in range(-reach[1], reach[1] + 1):
            left = radius_mm**2 - (i * spacing_mm[0]) ** 2 - (j * spacing_mm[1]) ** 2
            if left < 0:
                continue
            column = columns[min(int(np.sqrt(left) / spacing_mm[2]), reach[2])]
            starts = (reach[0] + i, reach[1] + j, reach[2])
            grown |= column[tuple(slice(start, start + n) for start, n in zip(starts, shape, strict=True))]
    return grown


def pack(mask: Mask) -> str:
    """Return a mask as text: its bits, compressed."""
    return base64.b64encode(zlib.compress(np.packbits(mask).tobytes(), 9)).decode("ascii")


@functools.lru_cache(maxsize=4)
def unpack(text: str, shape: tuple[int, int, int]) -> Mask:
    """Return the mask that `pack` made a text of; not to be written to.

    Raises
    ------
    ValueError
        Where the text is damaged, or is of another shape.
    """
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


def _bounds(mask: Mask) -> tuple[slice, ...] | None:
    """Return the smallest box around a mask; None where it is empty."""
    found = []
    for axis in range(mask.ndim):
        places = np.flatnonzero(mask.any(axis=tuple(other for other in range(mask.ndim) if other != axis)))
        if not len(places):
            return None
        found.append(slice(int(places[0]), int(places[-1]) + 1))
    return tuple(found)
