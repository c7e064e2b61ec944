"""Random views of natural images, of a whole batch at once: every number is keyed by the image's seed."""

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
    ResizedCropSettings,
)
from neurocontrast.seeds import derive_uniforms
from neurocontrast.transforms.views import RandBatchTransform

_ORDERS = np.array(list(itertools.permutations(range(4))))
_N_TRIES = 10


class RandImageViewd(RandBatchTransform):
    """Make a random view of a natural image by the operations of the settings, in their order.

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
        """Return a view of each image (b, 3, H, W), drawn from its seed, as a new float32 tensor in [0, 1]."""
        from neurocontrast.natural import operations

        _check(images, len(seeds))
        settings = self.settings
        size = (images.shape[2], images.shape[3])
        x_BCHW = images.to(torch.float32, copy=True)
        if images.dtype == torch.uint8:
            x_BCHW = x_BCHW.div_(255.0)

        def chosen(applied: np.ndarray, changed: Tensor) -> Tensor:
            return changed.where(
                torch.from_numpy(applied).to(changed.device)[:, None, None, None], x_BCHW
            )

        if settings.affine or settings.crop:
            back = draw_affine(settings.affine, seeds, size)
            x_BCHW = operations.warp(x_BCHW, *draw_boxes(settings.crop, seeds, size), back)
        if settings.flip:
            x_BCHW = chosen(
                _drawn("flip", seeds, 1)[:, 0] < settings.flip.probability, x_BCHW.flip(3)
            )
        if settings.colour_jitter:
            x_BCHW = _jittered(x_BCHW, *draw_jitter(settings.colour_jitter, seeds))
        if settings.grayscale:
            applied = _drawn("grayscale", seeds, 1)[:, 0] < settings.grayscale.probability
            x_BCHW = chosen(applied, operations.to_gray(x_BCHW))
        if settings.blur:
            u = _drawn("blur", seeds, 2)
            blur = settings.blur
            sigma = _between(blur.sigma_pixels, u[:, 1])
            largest = blur.sigma_pixels[1]
            kernel: dict[str, Any] = {"radius_pixels": blur.radius_pixels, "largest": largest}
            x_BCHW = chosen(
                u[:, 0] < blur.probability, operations.blur(x_BCHW, sigma_pixels=sigma, **kernel)
            )
        # Interpolation and blur may leave the range by rounding.
        return x_BCHW.clamp_(0.0, 1.0)


def _drawn(operation: str, seeds: Sequence[int] | np.ndarray, n_numbers: int) -> np.ndarray:
    """Draw numbers (n_seeds, n_numbers) from 0 to 1: an operation's own, so that another's leave them as they are."""
    return derive_uniforms("image view", operation, samples=seeds, n_numbers=n_numbers)


def _between(limits: Any, position: np.ndarray) -> Any:
    low, high = limits
    return low + (high - low) * position


def draw_boxes(
    settings: ResizedCropSettings | None, seeds: Sequence[int] | np.ndarray, size: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Draw corners and sizes (n, 2) of boxes; the whole image where an image of `size` is not cropped.

    As torchvision's: of ten boxes, the first that fits; else the largest in the middle that the
    ratio allows.
    """
    whole = np.zeros((len(seeds), 2), dtype=np.int64), np.tile(np.array(size), (len(seeds), 1))
    if settings is None:
        return whole
    u = _drawn("crop", seeds, 3 + 2 * _N_TRIES)
    tries = u[:, 3:].reshape(-1, _N_TRIES, 2)
    area = _between(settings.scale, tries[..., 0]) * (size[0] * size[1])
    ratio = np.exp(_between(np.log(settings.ratio), tries[..., 1]))
    boxes = np.rint(np.sqrt(np.stack([area / ratio, area * ratio], axis=-1))).astype(np.int64)
    fits = ((boxes >= 1) & (boxes <= size)).all(axis=-1)
    sizes = boxes[np.arange(len(boxes)), np.argmax(fits, axis=1)]
    sizes[~fits.any(axis=1)] = _largest_box(settings.ratio, size)
    corners = np.floor(u[:, 1:3] * (np.array(size) - sizes + 1)).astype(np.int64)
    corners[~fits.any(axis=1)] = (np.array(size) - _largest_box(settings.ratio, size)) // 2
    applied = u[:, :1] < settings.probability
    return np.where(applied, corners, whole[0]), np.where(applied, sizes, whole[1])


def _largest_box(ratio: tuple[float, float], size: tuple[int, int]) -> tuple[int, int]:
    height, width = size
    return min(height, max(1, round(width / ratio[0]))), min(
        width, max(1, round(height * ratio[1]))
    )


def draw_affine(
    settings: ImageAffineSettings | None, seeds: Sequence[int] | np.ndarray, size: tuple[int, int]
) -> np.ndarray:
    """Draw matrices (n, 2, 3) from a view's (row, column, 1) to the (row, column) of an image of `size`."""
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
    linear = (
        np.stack([np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)], axis=1)
        / zoom[:, None, None]
    )
    centre = (np.array(size) - 1.0) / 2.0
    offset = centre - np.einsum("nij,nj->ni", linear, centre + translation)
    moved = np.concatenate([linear, offset[:, :, None]], axis=2)
    return np.where((u[:, 0] < settings.probability)[:, None, None], moved, still)


def draw_jitter(
    settings: ColourJitterSettings, seeds: Sequence[int] | np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw whether colours change (n,), the factor of each step and the turn of the hue (n, 4), and their order."""
    u = _drawn("colour_jitter", seeds, 6)
    strengths = np.array([settings.brightness, settings.contrast, settings.saturation])
    factors = _between((np.maximum(0.0, 1.0 - strengths), 1.0 + strengths), u[:, 1:4])
    turns = _between((-settings.hue, settings.hue), u[:, 4:5])
    order = _ORDERS[(u[:, 5] * len(_ORDERS)).astype(np.int64)]
    return u[:, 0] < settings.probability, np.concatenate([factors, turns], axis=1), order


def _jittered(
    x_BCHW: Tensor, applied: np.ndarray, factors: np.ndarray, order: np.ndarray
) -> Tensor:
    """Change colours, each image's in its own order: at every turn, all images that take the same step together."""
    from neurocontrast.natural.operations import COLOUR_OPERATIONS

    for turn, (step, change) in itertools.product(range(4), enumerate(COLOUR_OPERATIONS)):
        which = np.flatnonzero(applied & (order[:, turn] == step))
        if len(which):
            rows = torch.from_numpy(which).to(x_BCHW.device)
            factor = torch.from_numpy(factors[which, step].astype(np.float32)).to(x_BCHW.device)
            x_BCHW.index_copy_(0, rows, change(x_BCHW.index_select(0, rows), factor))
    return x_BCHW


def _check(images: Tensor, n_seeds: int) -> None:
    if images.ndim != 4 or images.shape[1] != 3 or n_seeds != images.shape[0]:
        raise DataError(
            "Views of images need images of shape (batch, 3, height, width) and one seed for each image. "
            f"Got images of shape {tuple(images.shape)} and {n_seeds} seeds."
        )
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise DataError(
            f"Views of images need uint8 images (0 to 255) or floating-point ones (0 to 1). Got {images.dtype}. "
            "Convert them, for instance with images.to(torch.uint8)."
        )
    if images.is_floating_point() and images.numel():
        low, high = map(float, torch.aminmax(images))
        if not (low >= 0.0 and high <= 1.0):
            raise DataError(
                f"Floating-point images must lie between 0 and 1. Got values from {low:g} to {high:g}. "
                "Divide them by 255 if they came from 8-bit images, and standardise after making views."
            )
