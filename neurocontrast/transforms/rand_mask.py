"""Another brain extraction: a rim that is cut off, or left; MONAI has none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from neurocontrast.transforms.rand_blur import blur, widest_sigma
from neurocontrast.transforms.rand_field import random_polynomial, smooth_field
from neurocontrast.transforms.rand_volume import RandBrainTransform
from neurocontrast.transforms.site_settings import MaskEdgeSettings, TightMaskSettings

__all__ = ["RandMaskEdged", "RandTightMaskd", "cut_rim", "depth_kept", "leave_rim"]


Array = NDArray[np.float64]

_DEEPEST = 1.5
"""Deviations of the Gaussian beyond which a mask under it tells too little of the depth."""

_SOFT = 0.1
"""Range of signal over which a voxel passes from cut to kept."""

_ORDER = 5
"""Degree of the polynomial by which the depth of a rim varies: it changes over some centimetres."""


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
    return min(max(1.0, abs(depth_voxels)), widest_sigma(brain_CDHW))


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


class RandTightMaskd(RandBrainTransform):
    """Cut off what is as dark as fluid near the brain's surface, as a brain extraction that follows the folds.

    Parameters
    ----------
    keys, prob, allow_missing_keys, depth_voxels, variation_voxels, below
        As in MONAI's random transforms (`prob` is 0.5 by default), and as `TightMaskSettings` says.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandTightMaskd
    >>> transform = RandTightMaskd("image", prob=1.0, depth_voxels=(0.5, 1.0))
    >>> transform({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    operation = TightMaskSettings

    def draw(self) -> dict[str, Any]:
        """Draw mean depth, variation of the depth, and how bright what is cut may be."""
        chosen = self.settings
        drawn = {"depth_voxels": self.between(chosen.depth_voxels), "below": self.between(chosen.below)}
        return drawn | {"coefficients": chosen.variation_voxels * random_polynomial(_ORDER, self.R)}

    def change_brain(
        self, s_CDHW: Tensor, brain_CDHW: Tensor, *, depth_voxels: float, coefficients: Array, below: float
    ) -> tuple[Tensor, Tensor]:
        """Return signal and brain without the rim."""
        inside = s_CDHW * brain_CDHW
        return cut_rim(inside, brain_CDHW, depth_voxels=depth_voxels, coefficients=coefficients, below=below)


class RandMaskEdged(RandBrainTransform):
    """Cut a rim of uneven depth off the brain, or leave a dark one around the brain.

    Parameters
    ----------
    keys, prob, allow_missing_keys, depth_voxels, variation_voxels, rim
        As in MONAI's random transforms (`prob` is 0.5 by default), and as `MaskEdgeSettings` says.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandMaskEdged
    >>> transform = RandMaskEdged("image", prob=1.0, depth_voxels=(-1.0, 1.0))
    >>> transform({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    operation = MaskEdgeSettings

    def draw(self) -> dict[str, Any]:
        """Draw mean depth, below 0 of a rim that is left; variation of the depth; and the intensity of a rim left."""
        chosen = self.settings
        drawn = {"depth_voxels": self.between(chosen.depth_voxels), "rim": self.between(chosen.rim)}
        return drawn | {"coefficients": chosen.variation_voxels * random_polynomial(_ORDER, self.R)}

    def change_brain(
        self, s_CDHW: Tensor, brain_CDHW: Tensor, *, depth_voxels: float, coefficients: Array, rim: float
    ) -> tuple[Tensor, Tensor]:
        """Return signal and brain with the other edge."""
        inside = s_CDHW * brain_CDHW
        if depth_voxels >= 0.0:
            return cut_rim(inside, brain_CDHW, depth_voxels=depth_voxels, coefficients=coefficients)
        return leave_rim(inside, brain_CDHW, depth_voxels=-depth_voxels, coefficients=coefficients, rim=rim)
