"""Operations on images ``x_BCHW`` (float32 in [0, 1], RGB), with a parameter for each image.

Interpolation, luma, brightness and saturation are Kornia's. Three operations are not, so that a
view is the same, bit for bit, in any batch (``benchmarks/image_views.py``): Kornia's contrast takes
a mean whose last bit changes with the batch and the number of threads; its blur is a convolution on
a GPU, whose algorithm is chosen by the size of the batch; its hue goes through HSV and back, at
several times the cost.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from kornia.color import rgb_to_grayscale
from kornia.enhance import adjust_brightness_accumulative as adjust_brightness
from kornia.enhance import adjust_saturation_with_gray_subtraction as adjust_saturation
from kornia.geometry.transform import remap
from torch import Tensor
from torch.nn import functional

_TRUNCATE = 4.0
_FIXED_POINT = 2.0**24


def warp(x_BCHW: Tensor, corners: np.ndarray, sizes: np.ndarray, back: np.ndarray) -> Tensor:
    """Rotate, shift and zoom images, and resize a box of each moved image to the size of the image.

    Returned are images of the shape of `x_BCHW`, made in one bilinear interpolation. The box to
    resize is given in pixels of the moved image, in rows and columns: its first corner is in
    `corners` (b, 2), its height and width in `sizes` (b, 2). Matrices `back` (b, 2, 3) lead from
    (row, column, 1) of the moved image to (row, column) of the image in `x_BCHW`. Beyond its
    border, the nearest pixel is repeated.
    """
    size = np.array(x_BCHW.shape[2:])
    # Positions of a resized box's pixels along each axis of the moved image; the first is 0.
    in_moved = []
    for axis, side in enumerate(size):
        extent = sizes[:, axis, None]
        in_box = (np.arange(side) + 0.5) * (extent / side) - 0.5
        in_moved.append(corners[:, axis, None] + np.clip(in_box, 0.0, extent - 1.0))
    rows, columns = in_moved
    in_image = []
    for axis in (0, 1):
        position = (
            back[:, axis, 0, None, None] * rows[:, :, None]
            + back[:, axis, 1, None, None] * columns[:, None, :]
            + back[:, axis, 2, None, None]
        )
        in_image.append(torch.from_numpy(position.astype(np.float32)).to(x_BCHW.device))
    y, x = in_image
    warped: Tensor = remap(x_BCHW, x, y, mode="bilinear", padding_mode="border", align_corners=True)
    return warped


def to_gray(x_BCHW: Tensor) -> Tensor:
    """Replace the colours of images by their luma, 0.299 R + 0.587 G + 0.114 B, in all channels."""
    luma: Tensor = rgb_to_grayscale(x_BCHW)
    return luma.expand_as(x_BCHW).contiguous()


def adjust_contrast(x_BCHW: Tensor, factor: Tensor) -> Tensor:
    """Change contrast: mix images with their mean luma by weights `factor` and 1 − `factor`.

    Pillow's ``ImageEnhance.Contrast`` does the same.
    """
    luma = rgb_to_grayscale(x_BCHW)
    # A sum of whole numbers is the same in any order: on any device, by any number of threads, in
    # any batch.
    total = luma.mul_(_FIXED_POINT).round_().long().sum((1, 2, 3))
    mean = total.to(x_BCHW.dtype) / (_FIXED_POINT * luma[0].numel())
    away = (mean * (1.0 - factor))[:, None, None, None]
    return (x_BCHW * factor[:, None, None, None]).add_(away).clamp_(0.0, 1.0)


def shift_hue(x_BCHW: Tensor, turns: Tensor) -> Tensor:
    """Shift the hue of every colour by `turns` (b,) around the circle, as torchvision does.

    In HSV with hue h in sixths of a turn, chroma c and value v, a channel is
    v − c·max(0, min(k, 4 − k, 1)) with k = (n + h) mod 6 and n = 5, 3, 1 for red, green, blue; so
    that saturation is never needed.
    """
    value = x_BCHW.amax(1, keepdim=True)
    low = x_BCHW.amin(1, keepdim=True)
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
    n = torch.tensor([5.0, 3.0, 1.0], device=x_BCHW.device)[:, None, None]
    k = hue + (n + 6.0 * turns[:, None, None, None])
    k.sub_((k / 6.0).floor_().mul_(6.0))
    k = torch.minimum(k, 4.0 - k).clamp_(0.0, 1.0)
    return (value - k.mul_(chroma)).clamp_(0.0, 1.0)


def blur(
    x_BCHW: Tensor, *, sigma_pixels: np.ndarray, radius_pixels: int | None, largest: float
) -> Tensor:
    """Blur images by Gaussians with the cut at `radius_pixels`, or if None at four σ of each image.

    Images are reflected at the border. The cut at four σ is the one of
    ``scipy.ndimage.gaussian_filter(mode="mirror")``. No σ in `sigma_pixels`, one for each image,
    may be above `largest`.
    """
    reach: int | np.ndarray
    if radius_pixels is None:
        radius = math.floor(_TRUNCATE * largest + 0.5)
        reach = np.floor(_TRUNCATE * sigma_pixels + 0.5)[:, None]
    else:
        radius = radius_pixels
        reach = radius_pixels
    radius = min(radius, min(x_BCHW.shape[2:]) - 1)
    if radius == 0:
        return x_BCHW
    offsets = np.arange(-radius, radius + 1)
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


COLOUR_OPERATIONS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    adjust_brightness,
    adjust_contrast,
    adjust_saturation,
    shift_hue,
)
