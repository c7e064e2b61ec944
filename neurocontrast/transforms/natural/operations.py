"""Operations on images ``x_BCHW`` (float32 in [0, 1], RGB), given a parameter for each; nothing random.

Interpolation, luma, brightness and saturation are Kornia's. Three operations are not, so that a view is the same, bit
for bit, in any batch (``benchmarks/image_views.py``): Kornia's contrast takes a mean whose last bit changes with the
batch and the number of threads; its blur is a convolution on a GPU, whose algorithm is chosen by the size of the
batch; its hue goes through HSV and back, at several times the cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from kornia.color import rgb_to_grayscale
from kornia.enhance import adjust_brightness_accumulative as adjust_brightness
from kornia.enhance import adjust_saturation_with_gray_subtraction as adjust_saturation
from kornia.geometry.transform import remap
from torch import Tensor
from torch.nn import functional

from neurocontrast.transforms.natural.settings import ImageViewParameters

_TRUNCATE = 4.0
_FIXED_POINT = 2.0**24


def warp(x_BCHW: Tensor, *, drawn: ImageViewParameters) -> Tensor:
    """Return the images turned, shifted and zoomed, then cropped, in one bilinear interpolation."""
    size, device = (x_BCHW.shape[2], x_BCHW.shape[3]), x_BCHW.device
    rows, columns = (
        torch.from_numpy(_resized_places(drawn.corners[:, axis], drawn.sizes[:, axis], size[axis])).to(device)
        for axis in (0, 1)
    )
    y, x = rows[:, :, None].expand(-1, -1, size[1]), columns[:, None, :].expand(-1, size[0], -1)
    if drawn.turned.any():
        to_y, to_x = torch.from_numpy(_inverse_affine(drawn, size)).to(device)[..., None, None].unbind(1)
        y, x = (to[:, 0] * y + to[:, 1] * x + to[:, 2] for to in (to_y, to_x))
    warped: Tensor = remap(x_BCHW, x, y, mode="bilinear", padding_mode="border", align_corners=True)
    return warped


def _resized_places(corner: np.ndarray, length: np.ndarray, side: int) -> np.ndarray:
    """Return the place (b, side) in the image of each pixel of a resized box along one axis; the first pixel is 0."""
    inside = (np.arange(side) + 0.5) * (length / side)[:, None] - 0.5
    places = corner[:, None] + np.clip(inside, 0.0, length[:, None] - 1.0)
    return places.astype(np.float32)


def _inverse_affine(drawn: ImageViewParameters, size: tuple[int, int]) -> np.ndarray:
    """Return (b, 2, 3) matrices from a view's (row, column, 1) to the image's (row, column)."""
    sine, cosine = np.sin(drawn.radians), np.cos(drawn.radians)
    # Rows grow downwards, so a turn that one sees as counterclockwise takes (row, column) to
    # (cos·row − sin·column, sin·row + cos·column).
    rows = np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)
    linear = np.stack(rows, axis=1) / drawn.zoom[:, None, None]
    centre = (np.array(size) - 1.0) / 2.0
    offset = centre - np.einsum("nij,nj->ni", linear, centre + drawn.translation)
    return np.concatenate([linear, offset[:, :, None]], axis=2).astype(np.float32)


def to_gray(x_BCHW: Tensor) -> Tensor:
    """Return the luma, 0.299 R + 0.587 G + 0.114 B, in all three channels."""
    luma: Tensor = rgb_to_grayscale(x_BCHW)
    return luma.expand_as(x_BCHW).contiguous()


def adjust_contrast(x_BCHW: Tensor, factor: Tensor) -> Tensor:
    """Return images and their mean luma, mixed with weights `factor` and 1 − `factor`; as ``ImageEnhance.Contrast``."""
    luma = rgb_to_grayscale(x_BCHW)
    # A sum of whole numbers is the same in any order: on any device, by any number of threads, in any batch.
    total = luma.mul_(_FIXED_POINT).round_().long().sum((1, 2, 3))
    mean = total.to(x_BCHW.dtype) / (_FIXED_POINT * luma[0].numel())
    away = (mean * (1.0 - factor))[:, None, None, None]
    return (x_BCHW * factor[:, None, None, None]).add_(away).clamp_(0.0, 1.0)


def shift_hue(x_BCHW: Tensor, turns: Tensor) -> Tensor:
    """Return the images with every colour's hue moved by `turns` (b,) around the circle; as torchvision's.

    In HSV with hue h in sixths of a turn, chroma c and value v, a channel is v − c·max(0, min(k, 4 − k, 1)) with
    k = (n + h) mod 6 and n = 5, 3, 1 for red, green, blue; so that saturation is never needed.
    """
    value, low = x_BCHW.amax(1, keepdim=True), x_BCHW.amin(1, keepdim=True)
    red, green, blue = x_BCHW.split(1, dim=1)
    # Ones and zeros as numbers: a third of the time of choosing with torch.where on a CPU.
    is_red = red.clone().eq_(value)
    is_green = green.clone().eq_(value).mul_(1.0 - is_red)
    is_blue = (1.0 - is_red).sub_(is_green)
    chroma = value - low
    divisor = chroma + chroma.clone().eq_(0.0)
    hue = (green - blue).mul_(is_red)
    hue += (2.0 * divisor).add_(blue - red).mul_(is_green)
    hue += (4.0 * divisor).add_(red - green).mul_(is_blue)
    hue.div_(divisor)
    place = torch.tensor([5.0, 3.0, 1.0], device=x_BCHW.device)[:, None, None] + 6.0 * turns[:, None, None, None]
    k = hue + place
    k.sub_((k / 6.0).floor_().mul_(6.0))
    k = torch.minimum(k, 4.0 - k).clamp_(0.0, 1.0)
    return (value - k.mul_(chroma)).clamp_(0.0, 1.0)


def blur(x_BCHW: Tensor, *, sigma_pixels: np.ndarray, radius_pixels: int | None, largest: float) -> Tensor:
    """Return the images under Gaussians cut at `radius_pixels`, or at four σ; beyond the border they are reflected.

    At four σ as ``scipy.ndimage.gaussian_filter(mode="mirror")``. No σ may be above `largest`.
    """
    radius = math.floor(_TRUNCATE * largest + 0.5) if radius_pixels is None else radius_pixels
    radius = min(radius, min(x_BCHW.shape[2:]) - 1)
    if radius == 0:
        return x_BCHW
    offsets = np.arange(-radius, radius + 1)
    reach = np.floor(_TRUNCATE * sigma_pixels + 0.5)[:, None] if radius_pixels is None else radius_pixels
    weights = np.exp(-0.5 * (offsets / sigma_pixels[:, None]) ** 2) * (np.abs(offsets) <= reach)
    weights /= weights.sum(axis=1, keepdims=True)
    weight = torch.from_numpy(weights.astype(np.float32)).to(x_BCHW.device)[:, :, None, None, None]
    for axis, sides in ((2, [0, 0, radius, radius]), (3, [radius, radius, 0, 0])):
        side = x_BCHW.shape[axis]
        padded = functional.pad(x_BCHW, sides, mode="reflect")
        x_BCHW = padded.narrow(axis, 0, side) * weight[:, 0]
        for tap in range(1, 2 * radius + 1):
            x_BCHW.addcmul_(padded.narrow(axis, tap, side), weight[:, tap])
    return x_BCHW


COLOUR_OPERATIONS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "brightness": adjust_brightness,
    "contrast": adjust_contrast,
    "saturation": adjust_saturation,
    "hue": shift_hue,
}
