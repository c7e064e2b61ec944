"""Replace patch after patch, and note how the score changes (Zeiler & Fergus 2014)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import numpy.typing as npt
import torch

from neurocontrast.explanation.score import LinearScore

__all__ = ["occlude", "offset_of", "patches_of"]

Patch = tuple[slice, slice, slice]
_SHIFTS = (0.8191725133961645, 0.6710436067037893, 0.5497004779019703)
"""Powers of the inverse of 1.2207…, the root of x⁴ = x + 1: multiples of them fill a cube evenly."""


def offset_of(number: int, size: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return where a lattice of patches begins.

    Lattices lie differently, so that together they tell places apart within a patch.
    """
    first, second, third = (int(number * shift % 1 * n) for shift, n in zip(_SHIFTS, size, strict=True))
    return first, second, third


def patches_of(mask: npt.NDArray[np.bool_], size: tuple[int, int, int], offset: tuple[int, int, int]) -> list[Patch]:
    """Return the patches of a lattice that hold any voxel of the mask; each voxel is in one at most."""
    axes = [
        [slice(max(0, start), min(n, start + side)) for start in range(-first, n, side)]
        for n, side, first in zip(mask.shape, size, offset, strict=True)
    ]
    lattice: Iterator[Patch] = ((first, second, third) for first, second, third in product(*axes))
    return [patch for patch in lattice if mask[patch].any()]


@torch.no_grad()
def occlude(
    score: LinearScore,
    volume: torch.Tensor,
    patches: list[Patch],
    *,
    fill: float,
    batch_size: int,
    advance: Callable[[int], None],
) -> tuple[npt.NDArray[np.float32], float]:
    """Return how much of the score each patch carries, and the score.

    Parameters
    ----------
    score : LinearScore
        What is explained.
    volume : Tensor (1, D, H, W)
        One preprocessed scan, on the device of the score.
    patches : list
        Boxes of voxels that do not overlap.
    fill : float
        What their voxels are replaced by.
    batch_size : int
        Occlusions that pass the encoder together.
    advance : callable
        Told of each batch's number of patches.

    Returns
    -------
    map : ndarray (D, H, W)
        In each patch the score of the scan minus that without the patch: positive where what is
        there speaks for a higher score. 0 outside all patches.
    score : float
        Of the scan as it is.
    """
    whole = float(score(volume[None])[0])
    found = np.zeros(volume.shape[1:], dtype=np.float32)
    for start in range(0, len(patches), batch_size):
        some = patches[start : start + batch_size]
        occluded = volume.expand(len(some), *volume.shape).clone()
        for made, patch in zip(occluded, some, strict=True):
            made[0][patch] = fill
        for patch, without in zip(some, score(occluded).tolist(), strict=True):
            found[patch] = whole - without
        advance(len(some))
    return found, whole
