"""Random changes of parts of a volume: rims of the brain that are cut off or left, and boxes."""

import math
from collections.abc import Sequence
from typing import Any

from monai.transforms import Resize, SpatialCrop
from torch import Tensor

from neurocontrast.transforms import augment
from neurocontrast.transforms.rand_intensity import Array, blur, random_polynomial, smooth_field
from neurocontrast.transforms.signal import Random, RandSignald, RandVolumed

_DEEPEST = (
    1.5  # deviations of the Gaussian beyond which a mask under it tells too little of the depth
)
_SOFT = 0.1  # range of signal over which a voxel passes from cut to kept
_ORDER = 5  # degree of the polynomial by which the depth of a rim varies: over some centimetres


class _RandRimd(RandSignald):
    """Base of the operations on a rim whose depth varies over the box."""

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the mean depth and the other ranges, then the variation of the depth."""
        drawn = super().draw(random)
        return drawn | {
            "coefficients": self.settings.variation_voxels * random_polynomial(_ORDER, random)
        }


class RandTightMaskd(_RandRimd):
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

    def change_brain(
        self, s_CDHW: Tensor, brain_CDHW: Tensor, **drawn: Any
    ) -> tuple[Tensor, Tensor]:
        """Return signal and brain without the rim."""
        return cut_rim(s_CDHW * brain_CDHW, brain_CDHW, **drawn)


class RandMaskEdged(_RandRimd):
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

    def change_brain(
        self,
        s_CDHW: Tensor,
        brain_CDHW: Tensor,
        *,
        depth_voxels: float,
        coefficients: Array,
        rim: float,
    ) -> tuple[Tensor, Tensor]:
        """Return signal and brain with the other edge; a depth below 0 is that of a rim that is left."""
        inside = s_CDHW * brain_CDHW
        if depth_voxels >= 0.0:
            return cut_rim(inside, brain_CDHW, depth_voxels=depth_voxels, coefficients=coefficients)
        return leave_rim(
            inside, brain_CDHW, depth_voxels=-depth_voxels, coefficients=coefficients, rim=rim
        )


def cut_rim(
    s_CDHW: Tensor,
    brain_CDHW: Tensor,
    *,
    depth_voxels: float,
    coefficients: Array,
    below: float = math.inf,
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


def _depth_kept(
    brain_CDHW: Tensor, *, depth_voxels: float, coefficients: Array
) -> tuple[Tensor, Tensor]:
    """Return the part of each voxel that lies deeper than a depth below the brain's surface, and the blurred mask.

    The mask under a Gaussian grows with the depth, at a flat surface as the normal distribution
    does. The Gaussian is as wide as the depth, and at least a voxel; depths end at one and a half
    of that. A mean depth below 0 is outside the brain. A `smooth_field` of the `coefficients` is
    added to the mean depth, which keeps its sign.
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


class _RandBoxd(RandVolumed):
    """Base of the operations on a box whose sides are one share of the volume's sides."""

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw size and place of the box."""
        return super().draw(random) | {"place": random.random_sample(3)}


class RandCutoutd(_RandBoxd):
    """Set one box, wholly inside the volume, to a constant.

    MONAI's `RandCoarseDropoutd` takes sizes in voxels, not as a share of the volume. Ranges are the
    fields of `neurocontrast.transforms.augment.Cutout`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandCutoutd
    >>> made = RandCutoutd("image", prob=1.0, fraction=(0.5, 0.5))({"image": torch.ones(1, 8, 8, 8)})["image"]
    >>> int((made == 0).sum())
    64
    """

    Settings = augment.Cutout

    def change(self, x_CDHW: Tensor, *, fraction: float, place: Sequence[float]) -> Tensor:
        """Return the volume without the box."""
        cut = x_CDHW.clone()
        cut[:, *box_of(x_CDHW.shape[1:], fraction=fraction, place=place)] = self.settings.value
        return cut


class RandResizedCropd(_RandBoxd):
    """Crop a box and resize it to the volume's shape, by trilinear interpolation.

    Ranges are the fields of `neurocontrast.transforms.augment.Crop`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandResizedCropd
    >>> RandResizedCropd("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    Settings = augment.Crop

    def change(self, x_CDHW: Tensor, *, fraction: float, place: Sequence[float]) -> Tensor:
        """Return the box in the volume's shape."""
        shape = x_CDHW.shape[1:]
        box = SpatialCrop(roi_slices=box_of(shape, fraction=fraction, place=place))(x_CDHW)
        resized: Tensor = Resize(shape, mode="trilinear")(box)
        return resized

    def change_item(self, item: dict[Any, Any], key: Any) -> None:
        """Put the crop in the place of the volume, with the affine of the crop."""
        item[key] = self.change(item[key], **self.drawn)


def box_of(shape: Sequence[int], *, fraction: float, place: Sequence[float]) -> tuple[slice, ...]:
    """Return a box whose sides are `fraction` of `shape`, rounded up; `place` goes from 0 to 1 along each axis."""
    # The small number takes back what rounding may have added: 0.75 of 4 is 3 voxels, never 4.
    sizes = [min(side, math.ceil(fraction * side - 1e-9)) for side in shape]
    corners = [
        int(p * (side - size + 1)) for p, side, size in zip(place, shape, sizes, strict=True)
    ]
    return tuple(slice(corner, corner + size) for corner, size in zip(corners, sizes, strict=True))
