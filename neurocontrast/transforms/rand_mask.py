"""Random brain extractions: a rim that is cut off, or left; MONAI has none."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from neurocontrast.transforms import augment
from neurocontrast.transforms.rand_intensity import Array, blur, random_polynomial, smooth_field
from neurocontrast.transforms.signal import Random, RandSignald

_DEEPEST = 1.5  # deviations of the Gaussian beyond which a mask under it tells too little of the depth
_SOFT = 0.1  # range of signal over which a voxel passes from cut to kept
_ORDER = 5  # degree of the polynomial by which the depth of a rim varies: over some centimetres


class RandTightMaskd(RandSignald):
    """Cut off what is as dark as fluid near the brain's surface, as a brain extraction that follows the folds.

    Ranges are the fields of `neurocontrast.transforms.augment.TightMask`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandTightMaskd
    >>> RandTightMaskd("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    Settings = augment.TightMask

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the mean depth of the cut, the signal below which is cut, and the variation of the depth."""
        ranges = self.settings
        drawn = {"depth_voxels": random.uniform(*ranges.depth_voxels), "below": random.uniform(*ranges.below)}
        return drawn | {"coefficients": ranges.variation_voxels * random_polynomial(_ORDER, random)}

    def change_brain(self, s_CDHW: Tensor, brain_CDHW: Tensor, **drawn: Any) -> tuple[Tensor, Tensor]:
        """Return signal and brain without the rim."""
        return cut_rim(s_CDHW * brain_CDHW, brain_CDHW, **drawn)


class RandMaskEdged(RandSignald):
    """Cut a rim of uneven depth off the brain, or leave a dark one around the brain.

    Ranges are the fields of `neurocontrast.transforms.augment.MaskEdge`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandMaskEdged
    >>> RandMaskEdged("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    Settings = augment.MaskEdge

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the mean depth, the signal of a rim that is left, and the variation of the depth."""
        ranges = self.settings
        drawn = {"depth_voxels": random.uniform(*ranges.depth_voxels), "rim": random.uniform(*ranges.rim)}
        return drawn | {"coefficients": ranges.variation_voxels * random_polynomial(_ORDER, random)}

    def change_brain(
        self, s_CDHW: Tensor, brain_CDHW: Tensor, *, depth_voxels: float, coefficients: Array, rim: float
    ) -> tuple[Tensor, Tensor]:
        """Return signal and brain with the other edge; a depth below 0 is that of a rim that is left."""
        inside = s_CDHW * brain_CDHW
        if depth_voxels >= 0.0:
            return cut_rim(inside, brain_CDHW, depth_voxels=depth_voxels, coefficients=coefficients)
        return leave_rim(inside, brain_CDHW, depth_voxels=-depth_voxels, coefficients=coefficients, rim=rim)


def cut_rim(
    s_CDHW: Tensor, brain_CDHW: Tensor, *, depth_voxels: float, coefficients: Array, below: float = math.inf
) -> tuple[Tensor, Tensor]:
    """Cut the voxels darker than `below` from a rim of uneven depth; return signal and brain."""
    kept, _ = _depth_kept(brain_CDHW, depth_voxels=depth_voxels, coefficients=coefficients)
    if below != math.inf:
        kept = kept.maximum((s_CDHW - below).div_(_SOFT).add_(0.5).clamp_(0.0, 1.0))
    return s_CDHW * kept, brain_CDHW & (kept > 0.0)


def leave_rim(
    s_CDHW: Tensor, brain_CDHW: Tensor, *, depth_voxels: float, coefficients: Array, rim: float
) -> tuple[Tensor, Tensor]:
    """Leave a rim of uneven depth around the brain, `rim` times as bright as its edge; return signal and brain."""
    kept, inside = _depth_kept(brain_CDHW, depth_voxels=-depth_voxels, coefficients=coefficients)
    nearby = blur(s_CDHW, sigma_voxels=_mask_width(depth_voxels)).div_(inside.clamp_(min=1e-3))
    return s_CDHW.where(brain_CDHW, nearby.mul_(kept).mul_(rim)), brain_CDHW | (kept > 0.0)


def _depth_kept(brain_CDHW: Tensor, *, depth_voxels: float, coefficients: Array) -> tuple[Tensor, Tensor]:
    """Return the part of each voxel that lies deeper than a depth below the brain's surface, and the blurred mask.

    The mask under a Gaussian grows with the depth, at a flat surface as the normal distribution does. The Gaussian is
    as wide as the depth, and at least a voxel; depths end at one and a half of that. A mean depth below 0 is outside
    the brain. A `smooth_field` of the `coefficients` is added to the mean depth, which keeps its sign.
    """
    width = _mask_width(depth_voxels)
    inside = blur(brain_CDHW.float(), sigma_voxels=width)
    depth = smooth_field(coefficients, brain_CDHW.shape[1:], device=brain_CDHW.device)
    depth = depth.add_(depth_voxels).div_(width).clamp_(-_DEEPEST, _DEEPEST)
    depth = depth.clamp_(min=0.0) if depth_voxels >= 0.0 else depth.clamp_(max=0.0)
    slope = depth.square().mul_(0.5).exp_().mul_(width * math.sqrt(2.0 * math.pi))
    mask_there = depth.mul_(math.sqrt(0.5)).erf().add_(1.0).mul_(0.5)
    return (inside - mask_there).mul_(slope).add_(0.5).clamp_(0.0, 1.0), inside


def _mask_width(depth_voxels: float) -> float:
    return max(1.0, abs(depth_voxels))
