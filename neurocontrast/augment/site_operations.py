"""What a scanner, or the preparation of its scans, does to one volume of signal, given its parameters.

Volumes ``s_CDHW`` are those of `neurocontrast.augment.signal`: 0 outside the brain, 1 at its bright end. Each
operation returns a new volume; nothing is random but `rician_noise`'s generator.

MONAI's equivalents were measured first (``benchmarks/views.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from neurocontrast.augment.operations import blur

__all__ = [
    "adjust_gamma",
    "bias_field",
    "cut_rim",
    "depth_kept",
    "ghost",
    "leave_rim",
    "lower_resolution",
    "move",
    "remap_histogram",
    "rician_noise",
    "sharpen",
    "slice_matrix",
    "smooth_field",
]

Array = npt.NDArray[np.float64]

_DEEPEST = 1.5
"""Deviations of the Gaussian beyond which a mask under it tells too little of the depth."""

_SOFT = 0.1
"""Range of signal over which a voxel passes from cut to kept."""


def move(s_CDHW: Tensor, brain_CDHW: Tensor, *, matrix: Array, translation: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Return the volume at ``matrix · (voxel − centre) + centre + translation``, and the brain's mask there.

    `matrix` (3, 3) and `translation` (3) are in voxels and lead from the new volume's places to the old one's,
    as in ``scipy.ndimage.affine_transform``. Beyond the border there is nothing. A voxel is of the brain where at
    least half of what it is made of is, so that no dim rim makes the brain larger.
    """
    both = torch.cat([s_CDHW, brain_CDHW.to(s_CDHW.dtype)])[None]
    grid = _grid(s_CDHW.shape[1:], matrix, translation, device=s_CDHW.device)
    moved = functional.grid_sample(both, grid[None], mode="bilinear", padding_mode="zeros", align_corners=False)[0]
    n_channels = s_CDHW.shape[0]
    return moved[:n_channels], moved[n_channels:] >= 0.5


def _grid(shape: Sequence[int], matrix: Array, translation: Sequence[float], *, device: torch.device) -> Tensor:
    """Return where each voxel comes from, from −1 to 1 over the box, as PyTorch wants it: the axes backwards."""
    sides = np.array(shape, dtype=np.float64)
    columns = (matrix * (sides / sides[:, None]))[::-1]
    # Three lines, added: half the time of functional.affine_grid.
    grid = torch.from_numpy((2.0 * np.array(translation) / sides)[::-1].astype(np.float32)).to(device)
    for axis, side in enumerate(shape):
        places = (2.0 * np.arange(side) + 1.0) / side - 1.0
        line = torch.from_numpy(np.outer(places, columns[:, axis]).astype(np.float32))
        grid = grid + line.to(device).reshape([side if other == axis else 1 for other in range(3)] + [3])
    return grid


def adjust_gamma(s_CDHW: Tensor, *, gamma: float) -> Tensor:
    """Return the volume to a power; nothing is below 0."""
    return s_CDHW.clamp(min=0.0).pow_(gamma)


def remap_histogram(s_CDHW: Tensor, *, slopes: Sequence[float]) -> Tensor:
    """Return the volume under a piecewise linear map from 0 to 0 and 1 to 1, whose pieces are equally wide.

    Slopes count relative to one another; above 1 the last one goes on.
    """
    relative = [slope * len(slopes) / math.fsum(slopes) for slope in slopes]
    mapped = s_CDHW * relative[0]
    for i in range(1, len(relative)):
        mapped.add_(functional.relu(s_CDHW - i / len(relative)), alpha=relative[i] - relative[i - 1])
    return mapped


def smooth_field(coefficients: Array, shape: Sequence[int], *, device: torch.device | str = "cpu") -> Tensor:
    """Return a polynomial over a box (D, H, W): `coefficients` (n, n, n) of products of Legendre polynomials."""
    first, second, third = (_legendre(side, coefficients.shape[0]).to(device) for side in shape)
    of_third = torch.from_numpy(coefficients.astype(np.float32)).to(device) @ third.T
    of_second = second @ of_third
    return (first @ of_second.flatten(1)).reshape(tuple(shape))


@lru_cache(maxsize=64)
def _legendre(side: int, n: int) -> Tensor:
    places = (2.0 * np.arange(side) + 1.0) / side - 1.0
    return torch.from_numpy(np.polynomial.legendre.legvander(places, n - 1).astype(np.float32))


def bias_field(s_CDHW: Tensor, *, coefficients: Array) -> Tensor:
    """Return the volume times the exponential of a `smooth_field`."""
    return smooth_field(coefficients, s_CDHW.shape[1:], device=s_CDHW.device).exp_() * s_CDHW


def sharpen(s_CDHW: Tensor, *, amount: float, sigma_voxels: float) -> Tensor:
    """Return the volume plus `amount` times what a Gaussian takes from it.

    No voxel falls below a quarter of what it was: the dim edge of a brain stays of the brain.
    """
    smooth = blur(s_CDHW, sigma_voxels=min(sigma_voxels, _widest(s_CDHW)))
    return torch.lerp(s_CDHW, smooth, -amount).maximum(0.25 * s_CDHW)


def _widest(s_CDHW: Tensor) -> float:
    """Return the widest Gaussian whose four deviations a volume holds."""
    return (min(s_CDHW.shape[1:]) - 1) / 4.0


def slice_matrix(side: int, *, factor: float, phase: float) -> Array:
    """Return what acquiring slices, `factor` voxels thick, and interpolating back does to a line of `side` voxels.

    A slice is the mean of what it covers; the first begins at ``-phase · factor``, and `phase` is below 1.
    Between the slices' centres interpolation is linear; beyond the outermost their values go on.
    """
    starts = factor * (np.arange(math.ceil(side / factor + phase)) - phase)
    voxels = np.arange(side)
    covered = np.minimum(starts[:, None] + factor, voxels + 1.0) - np.maximum(starts[:, None], voxels)
    acquired = np.clip(covered, 0.0, None)
    acquired /= acquired.sum(1, keepdims=True)
    distance = np.abs(voxels[:, None] + 0.5 - (starts + factor / 2.0)) / factor
    interpolated = np.clip(1.0 - distance, 0.0, None)
    return interpolated / interpolated.sum(1, keepdims=True) @ acquired


def lower_resolution(s_CDHW: Tensor, *, axes: Sequence[int], factor: float, phase: float) -> Tensor:
    """Return the volume as slices along each of `axes` would show it; see `slice_matrix`."""
    for axis in axes:
        side = s_CDHW.shape[axis + 1]
        matrix = torch.from_numpy(slice_matrix(side, factor=factor, phase=phase).astype(np.float32)).to(s_CDHW.device)
        if axis == 0:
            s_CDHW = (matrix @ s_CDHW.flatten(2)).reshape(s_CDHW.shape)
        elif axis == 1:
            s_CDHW = matrix @ s_CDHW
        else:
            s_CDHW = s_CDHW @ matrix.T
    return s_CDHW


def ghost(s_CDHW: Tensor, *, axis: int, shift: int, intensity: float, phase: float) -> Tensor:
    """Return the magnitude when line k of k-space is scaled by ``1 + 2 · intensity · cos(2π k shift / side + phase)``.

    That makes a replica `shift` voxels to either side, of height `intensity`; beyond the border they come in again.
    """
    below, above = s_CDHW.roll(-shift, axis + 1), s_CDHW.roll(shift, axis + 1)
    real = torch.add(s_CDHW, below + above, alpha=intensity * math.cos(phase))
    return torch.hypot(real, below.sub_(above).mul_(intensity * math.sin(phase)))


def rician_noise(s_CDHW: Tensor, *, sigma: float, generator: torch.Generator) -> Tensor:
    """Return the magnitude of the volume with Gaussian noise in both parts of a complex signal."""
    noise = torch.randn((2, *s_CDHW.shape), generator=generator, device=s_CDHW.device, dtype=s_CDHW.dtype)
    noise.mul_(sigma)
    return torch.hypot(noise[0].add_(s_CDHW), noise[1])


def depth_kept(brain_CDHW: Tensor, *, depth_voxels: float, coefficients: Array) -> tuple[Tensor, Tensor]:
    """Return how much of each voxel lies deeper than a depth below the brain's surface, and the mask it is read from.

    The mask under a Gaussian grows with the depth, at a flat surface as the normal distribution does; where the
    surface is folded, the one at another depth is smoother. It fades over the width of a voxel. The Gaussian is as
    wide as the depth, and at least a voxel; depths end at one and a half of that.

    Parameters
    ----------
    brain_CDHW : Tensor
        Where the brain is.
    depth_voxels : float
        Mean depth; below 0 outside the brain.
    coefficients : ndarray
        Those of a `smooth_field` that is added to the depth, which keeps its sign.
    """
    width = _mask_width(brain_CDHW, depth_voxels)
    inside = blur(brain_CDHW.to(torch.float32), sigma_voxels=width)
    depth = smooth_field(coefficients, brain_CDHW.shape[1:], device=brain_CDHW.device)
    depth = depth.add_(depth_voxels).div_(width).clamp_(-_DEEPEST, _DEEPEST)
    depth = depth.clamp_(min=0.0) if depth_voxels >= 0.0 else depth.clamp_(max=0.0)
    slope = depth.square().mul_(0.5).exp_().mul_(width * math.sqrt(2.0 * math.pi))
    mask_there = torch.erf(depth.mul_(math.sqrt(0.5))).add_(1.0).mul_(0.5)
    return (inside - mask_there).mul_(slope).add_(0.5).clamp_(0.0, 1.0), inside


def _mask_width(brain_CDHW: Tensor, depth_voxels: float) -> float:
    return min(max(1.0, abs(depth_voxels)), _widest(brain_CDHW))


def cut_rim(
    s_CDHW: Tensor, brain_CDHW: Tensor, *, depth_voxels: float, coefficients: Array, below: float = math.inf
) -> tuple[Tensor, Tensor]:
    """Return the volume without a rim of uneven depth, and where its brain is; see `depth_kept`.

    Of the rim only what is darker than `below` is cut, over a tenth of the signal's range.
    """
    kept, _ = depth_kept(brain_CDHW, depth_voxels=depth_voxels, coefficients=coefficients)
    if below != math.inf:
        bright = (s_CDHW - below).div_(_SOFT).add_(0.5).clamp_(0.0, 1.0)
        kept = torch.maximum(kept, bright)
    return s_CDHW * kept, brain_CDHW & (kept > 0.0)


def leave_rim(
    s_CDHW: Tensor, brain_CDHW: Tensor, *, depth_voxels: float, coefficients: Array, rim: float
) -> tuple[Tensor, Tensor]:
    """Return the volume with a rim of uneven depth around the brain, and where brain and rim are; see `depth_kept`.

    The rim has `rim` times the mean signal of the brain beside it.
    """
    kept, inside = depth_kept(brain_CDHW, depth_voxels=-depth_voxels, coefficients=coefficients)
    beside = blur(s_CDHW, sigma_voxels=_mask_width(brain_CDHW, depth_voxels)).div_(inside.clamp_(min=1e-3))
    return torch.where(brain_CDHW, s_CDHW, beside.mul_(kept).mul_(rim)), brain_CDHW | (kept > 0.0)
