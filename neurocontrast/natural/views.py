"""Random views of natural images, a whole batch at once, from a seed for each image."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neurocontrast.exceptions import DataError
from neurocontrast.lazy import require
from neurocontrast.natural.augment import (
    ColourJitterSettings,
    ImageAffineSettings,
    ImageAugmentSettings,
    ImageBlurSettings,
    ResizedCropSettings,
)
from neurocontrast.seeds import derive_uniforms
from neurocontrast.transforms.views import RandBatchTransform

_ORDERS = np.array(list(itertools.permutations(range(4))))
_N_TRIES = 10


class RandImageViewd(RandBatchTransform):
    """Make a random view of a natural image, by the operations of the settings in order.

    `TwoViews` calls `batch`, which makes the views of many images at once: the same, bit for bit,
    as one by one on one kind of device. All parameters are drawn on the CPU, so that views of a GPU
    differ in the last digits alone.

    Parameters
    ----------
    keys, allow_missing_keys : see `monai.transforms.MapTransform`
        Where images (3, H, W) are in a dictionary: RGB, uint8 or floating-point in [0, 1].
    settings : ImageAugmentSettings, optional
        The operations; by default SupCon's.

    Raises
    ------
    MissingDependencyError
        Where Kornia is not installed.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.natural import ImageAugmentSettings, RandImageViewd
    >>> from neurocontrast.transforms import TwoViews
    >>> images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    >>> views = TwoViews(RandImageViewd("image", ImageAugmentSettings()), seed=0)
    >>> view1, view2 = views(images, ["cat", "dog"], epoch=3)
    >>> view1.shape, view1.dtype
    (torch.Size([2, 3, 32, 32]), torch.float32)
    """

    def __init__(
        self,
        keys: str | Sequence[str],
        settings: ImageAugmentSettings | None = None,
        *,
        allow_missing_keys: bool = False,
    ) -> None:
        require("kornia", extra="images", purpose="making views of images")
        super().__init__(keys, allow_missing_keys=allow_missing_keys)
        self.settings = settings or ImageAugmentSettings()

    @torch.no_grad()
    def batch(self, images: Tensor, seeds: Sequence[int]) -> Tensor:
        """Return a view of each image (b, 3, H, W) by its seed, as new float32 in [0, 1]."""
        from neurocontrast.natural import operations

        _check(images, len(seeds))
        settings = self.settings
        size = (images.shape[2], images.shape[3])
        x_BCHW = images.to(torch.float32, copy=True)
        if images.dtype == torch.uint8:
            x_BCHW = x_BCHW.div_(255.0)

        if settings.affine or settings.crop:
            back = draw_affine(settings.affine, seeds, size)
            corners, sizes = draw_boxes(settings.crop, seeds, size)
            x_BCHW = operations.warp(x_BCHW, corners, sizes, back)
        if settings.flip:
            applied = _drawn("flip", seeds, 1)[:, 0] < settings.flip.probability
            x_BCHW = _where(applied, x_BCHW.flip(3), x_BCHW)
        if settings.colour_jitter:
            x_BCHW = _jittered(x_BCHW, *draw_jitter(settings.colour_jitter, seeds))
        if settings.grayscale:
            applied = _drawn("grayscale", seeds, 1)[:, 0] < settings.grayscale.probability
            x_BCHW = _where(applied, operations.to_gray(x_BCHW), x_BCHW)
        if settings.blur:
            x_BCHW = _blurred(x_BCHW, settings.blur, seeds)
        # Interpolation and blur may leave the range by rounding.
        return x_BCHW.clamp_(0.0, 1.0)


def _drawn(operation: str, seeds: Sequence[int] | np.ndarray, n_numbers: int) -> np.ndarray:
    """Draw numbers (n_seeds, n_numbers) in [0, 1) for an operation, from images' seeds alone."""
    return derive_uniforms("image view", operation, samples=seeds, n_numbers=n_numbers)


def _where(applied: np.ndarray, changed: Tensor, unchanged: Tensor) -> Tensor:
    """Return a batch with images of `changed` where `applied` is true, else of `unchanged`."""
    is_applied = torch.from_numpy(applied).to(changed.device)
    return changed.where(is_applied[:, None, None, None], unchanged)


def _blurred(x_BCHW: Tensor, settings: ImageBlurSettings, seeds: Sequence[int]) -> Tensor:
    """Return a batch of images of which some, chosen by the images' seeds, are blurred.

    An image is blurred with the probability in `settings`, by a Gaussian of a width drawn from its
    seed.
    """
    from neurocontrast.natural import operations

    u = _drawn("blur", seeds, 2)
    blurred = operations.blur(
        x_BCHW,
        sigma_pixels=_between(settings.sigma_pixels, u[:, 1]),
        radius_pixels=settings.radius_pixels,
        largest=settings.sigma_pixels[1],
    )
    return _where(u[:, 0] < settings.probability, blurred, x_BCHW)


def _between(limits: Any, position: np.ndarray) -> Any:
    """Return the numbers between two limits at each `position`, 0 (lower) to 1 (upper limit)."""
    low, high = limits
    return low + (high - low) * position


def draw_boxes(
    settings: ResizedCropSettings | None, seeds: Sequence[int] | np.ndarray, size: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Draw corners and sizes (n, 2) of boxes to crop, in rows and columns, one box for each seed.

    `size` is the images' height and width in pixels. The seed also decides, with the probability in
    `settings`, whether an image is cropped; if not, or without settings, the box is the whole
    image. As in torchvision, the first of ten random boxes that fits is taken, or the largest box
    in the middle whose width over height is allowed.
    """
    whole_corners = np.zeros((len(seeds), 2), dtype=np.int64)
    whole_sizes = np.tile(np.array(size), (len(seeds), 1))
    if settings is None:
        return whole_corners, whole_sizes
    u = _drawn("crop", seeds, 3 + 2 * _N_TRIES)
    tries = u[:, 3:].reshape(-1, _N_TRIES, 2)
    area = _between(settings.scale, tries[..., 0]) * (size[0] * size[1])
    ratio = np.exp(_between(np.log(settings.ratio), tries[..., 1]))
    boxes = np.rint(np.sqrt(np.stack([area / ratio, area * ratio], axis=-1))).astype(np.int64)
    fits = ((boxes >= 1) & (boxes <= size)).all(axis=-1)
    sizes = boxes[np.arange(len(boxes)), np.argmax(fits, axis=1)]
    none_fits = ~fits.any(axis=1)
    largest = _largest_box(settings.ratio, size)
    sizes[none_fits] = largest
    corners = np.floor(u[:, 1:3] * (np.array(size) - sizes + 1)).astype(np.int64)
    corners[none_fits] = (np.array(size) - largest) // 2
    applied = u[:, :1] < settings.probability
    return np.where(applied, corners, whole_corners), np.where(applied, sizes, whole_sizes)


def _largest_box(ratio: tuple[float, float], size: tuple[int, int]) -> tuple[int, int]:
    """Return height and width of the largest box with an allowed ratio that fits into an image.

    `ratio` has the smallest and the largest width over height, and `size` is the image's height and
    width in pixels.
    """
    height, width = size
    tallest = max(1, round(width / ratio[0]))
    widest = max(1, round(height * ratio[1]))
    return min(height, tallest), min(width, widest)


def draw_affine(
    settings: ImageAffineSettings | None, seeds: Sequence[int] | np.ndarray, size: tuple[int, int]
) -> np.ndarray:
    """Draw matrices (n, 2, 3) from (row, column, 1) of a view to (row, column) of its image.

    One matrix is drawn for each of `seeds`, by the ranges in `settings`; a view that is not moved
    has the identity. `size` is the images' height and width in pixels.
    """
    still = np.tile(np.eye(2, 3), (len(seeds), 1, 1))
    if settings is None:
        return still
    u = _drawn("affine", seeds, 6)
    angle = np.deg2rad(_between((-settings.degrees, settings.degrees), u[:, 1]))
    zoom = np.exp(_between(np.log(settings.scale), u[:, 3]))
    translation = _between((-settings.translate, settings.translate), u[:, 4:6]) * np.array(size)
    sine = np.sin(angle)
    cosine = np.cos(angle)
    # Rows grow downwards, so a turn that one sees as counterclockwise takes (row, column) to
    # (cos·row − sin·column, sin·row + cos·column).
    rotation = np.stack([np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)], axis=1)
    linear = rotation / zoom[:, None, None]
    centre = (np.array(size) - 1.0) / 2.0
    offset = centre - np.einsum("nij,nj->ni", linear, centre + translation)
    moved = np.concatenate([linear, offset[:, :, None]], axis=2)
    return np.where((u[:, 0] < settings.probability)[:, None, None], moved, still)


def draw_jitter(
    settings: ColourJitterSettings, seeds: Sequence[int] | np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw which images change colours (n,), and the four steps of each change.

    The second array (n, 4) has the factors of brightness, contrast and saturation, and the turn of
    the hue; the third array (n, 4) has the order of the steps.
    """
    u = _drawn("colour_jitter", seeds, 6)
    strengths = np.array([settings.brightness, settings.contrast, settings.saturation])
    factors = _between((np.maximum(0.0, 1.0 - strengths), 1.0 + strengths), u[:, 1:4])
    turns = _between((-settings.hue, settings.hue), u[:, 4:5])
    order = _ORDERS[(u[:, 5] * len(_ORDERS)).astype(np.int64)]
    return u[:, 0] < settings.probability, np.concatenate([factors, turns], axis=1), order


def _jittered(
    x_BCHW: Tensor, applied: np.ndarray, factors: np.ndarray, order: np.ndarray
) -> Tensor:
    """Change brightness, contrast, saturation and hue of images, each image in its own order.

    `applied`, `factors` and `order` are the result of `draw_jitter`. Each image takes four steps;
    images that take the same step at the same turn are one batch.
    """
    from neurocontrast.natural.operations import COLOUR_OPERATIONS

    for turn, (step, change) in itertools.product(range(4), enumerate(COLOUR_OPERATIONS)):
        which = np.flatnonzero(applied & (order[:, turn] == step))
        if len(which):
            rows = torch.from_numpy(which).to(x_BCHW.device)
            factor = torch.from_numpy(factors[which, step].astype(np.float32)).to(x_BCHW.device)
            x_BCHW.index_copy_(0, rows, change(x_BCHW.index_select(0, rows), factor))
    return x_BCHW


def _check(images: Tensor, n_seeds: int) -> None:
    """Refuse a batch of images with a wrong shape, type or range, or without a seed for each image.

    `n_seeds` is the number of seeds, which must equal the number of images. The DataError says
    which shape, type or range is needed.
    """
    if images.ndim != 4 or images.shape[1] != 3 or n_seeds != images.shape[0]:
        raise DataError(
            "Views of images need images of shape (batch, 3, height, width) and one seed for each "
            f"image. Got images of shape {tuple(images.shape)} and {n_seeds} seeds."
        )
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise DataError(
            "Views of images need uint8 images (0 to 255) or floating-point ones (0 to 1). Got "
            f"{images.dtype}. Convert them, for instance with images.to(torch.uint8)."
        )
    if images.is_floating_point() and images.numel():
        low, high = map(float, torch.aminmax(images))
        if not (low >= 0.0 and high <= 1.0):
            raise DataError(
                f"Floating-point images must lie between 0 and 1. Got values from {low:g} to "
                f"{high:g}. Divide them by 255 if they came from 8-bit images, and standardise "
                "after making views."
            )
