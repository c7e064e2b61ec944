"""Another brain extraction: a rim that is cut off, or left; MONAI has none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from neurocontrast.transforms.operation import Operation, Pair, Random, Span
from neurocontrast.transforms.rand_detail import blur, widest_sigma
from neurocontrast.transforms.rand_intensity import Array, random_polynomial, smooth_field

if TYPE_CHECKING:
    from torch import Tensor

_DEEPEST = 1.5  # deviations of the Gaussian beyond which a mask under it tells too little of the depth
_SOFT = 0.1  # range of signal over which a voxel passes from cut to kept
_ORDER = 5  # degree of the polynomial by which the depth of a rim varies: over some centimetres


class TightMask(Operation):
    """Cut off what is as dark as fluid near the brain's surface, as a brain extraction that follows the folds."""

    stage = "scanner"
    depth_voxels: Annotated[Pair, Span("Mean depth down to which is cut.", gt=0.0, le=3.0)] = (0.5, 1.5)
    variation_voxels: float = Field(
        0.5, ge=0.0, le=3.0, allow_inf_nan=False, description="Standard deviation of the depth over the box."
    )
    below: Annotated[Pair, Span("Signal below which is cut (99th percentile: 1).", ge=0.0, le=1.0)] = (0.2, 0.5)

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw mean depth, how bright what is cut may be, and the variation of the depth."""
        drawn = {"depth_voxels": random.uniform(*self.depth_voxels), "below": random.uniform(*self.below)}
        return drawn | {"coefficients": self.variation_voxels * random_polynomial(_ORDER, random)}

    def change_brain(self, s_CDHW: Tensor, brain_CDHW: Tensor, **drawn: Any) -> tuple[Tensor, Tensor]:
        """Return signal and brain without the rim."""
        return cut_rim(s_CDHW * brain_CDHW, brain_CDHW, **drawn)


class MaskEdge(Operation):
    """Cut a rim of uneven depth off the brain, or leave a dark one around the brain."""

    stage = "scanner"
    depth_voxels: Annotated[Pair, Span("Mean depth cut off; below 0, of the rim left.", ge=-3.0, le=3.0)] = (-0.5, 0.75)
    variation_voxels: float = Field(
        0.5, ge=0.0, le=3.0, allow_inf_nan=False, description="Standard deviation of the depth over the box."
    )
    rim: Annotated[Pair, Span("Signal of a rim left over that of the edge beside it.", ge=0.0, le=1.0)] = (0.2, 0.6)

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw mean depth, below 0 of a rim that is left; the intensity of a rim left; and the variation of depth."""
        drawn = {"depth_voxels": random.uniform(*self.depth_voxels), "rim": random.uniform(*self.rim)}
        return drawn | {"coefficients": self.variation_voxels * random_polynomial(_ORDER, random)}

    def change_brain(
        self, s_CDHW: Tensor, brain_CDHW: Tensor, *, depth_voxels: float, coefficients: Array, rim: float
    ) -> tuple[Tensor, Tensor]:
        """Return signal and brain with the other edge."""
        inside = s_CDHW * brain_CDHW
        if depth_voxels >= 0.0:
            return cut_rim(inside, brain_CDHW, depth_voxels=depth_voxels, coefficients=coefficients)
        return leave_rim(inside, brain_CDHW, depth_voxels=-depth_voxels, coefficients=coefficients, rim=rim)


def cut_rim(
    s_CDHW: Tensor, brain_CDHW: Tensor, *, depth_voxels: float, coefficients: Array, below: float = math.inf
) -> tuple[Tensor, Tensor]:
    """Return signal and brain without a rim of uneven depth, of which only what is darker than `below` is cut."""
    kept, _ = _depth_kept(brain_CDHW, depth_voxels=depth_voxels, coefficients=coefficients)
    if below != math.inf:
        kept = kept.maximum((s_CDHW - below).div_(_SOFT).add_(0.5).clamp_(0.0, 1.0))
    return s_CDHW * kept, brain_CDHW & (kept > 0.0)


def leave_rim(
    s_CDHW: Tensor, brain_CDHW: Tensor, *, depth_voxels: float, coefficients: Array, rim: float
) -> tuple[Tensor, Tensor]:
    """Return signal and brain with a rim of uneven depth around it, of `rim` times the mean signal beside it."""
    kept, inside = _depth_kept(brain_CDHW, depth_voxels=-depth_voxels, coefficients=coefficients)
    beside = blur(s_CDHW, sigma_voxels=_mask_width(brain_CDHW, depth_voxels)).div_(inside.clamp_(min=1e-3))
    return s_CDHW.where(brain_CDHW, beside.mul_(kept).mul_(rim)), brain_CDHW | (kept > 0.0)


def _depth_kept(brain_CDHW: Tensor, *, depth_voxels: float, coefficients: Array) -> tuple[Tensor, Tensor]:
    """Return the part of each voxel that lies deeper than a depth below the brain's surface, and the blurred mask.

    The mask under a Gaussian grows with the depth, at a flat surface as the normal distribution does. The Gaussian is
    as wide as the depth, and at least a voxel; depths end at one and a half of that. A mean depth below 0 is outside
    the brain. A `smooth_field` of the `coefficients` is added to the mean depth, which keeps its sign.
    """
    width = _mask_width(brain_CDHW, depth_voxels)
    inside = blur(brain_CDHW.float(), sigma_voxels=width)
    depth = smooth_field(coefficients, brain_CDHW.shape[1:], device=brain_CDHW.device)
    depth = depth.add_(depth_voxels).div_(width).clamp_(-_DEEPEST, _DEEPEST)
    depth = depth.clamp_(min=0.0) if depth_voxels >= 0.0 else depth.clamp_(max=0.0)
    slope = depth.square().mul_(0.5).exp_().mul_(width * math.sqrt(2.0 * math.pi))
    mask_there = depth.mul_(math.sqrt(0.5)).erf().add_(1.0).mul_(0.5)
    return (inside - mask_there).mul_(slope).add_(0.5).clamp_(0.0, 1.0), inside


def _mask_width(brain_CDHW: Tensor, depth_voxels: float) -> float:
    return min(max(1.0, abs(depth_voxels)), widest_sigma(brain_CDHW))
