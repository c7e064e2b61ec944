"""Random views of natural images, of a whole batch at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neurocontrast.exceptions import DataError
from neurocontrast.lazy import require
from neurocontrast.transforms.natural.settings import (
    COLOUR_STEPS,
    NEUTRAL_FACTORS,
    ImageAugmentSettings,
    ImageViewParameters,
    draw_image_views,
)
from neurocontrast.transforms.views import RandBatchTransform

_VALUES_AT_ONCE = {"cpu": 2**19}  # what its cache holds
_VALUES_AT_ONCE_ELSEWHERE = 2**27


class RandImageViewd(RandBatchTransform):
    """Make a random view of a natural image by the operations of the settings, in their order.

    `TwoViews` calls `batch`, which makes the views of many images at once: the same, bit for bit, as one by one on one
    kind of device. All parameters are drawn on the CPU, so that views of a GPU differ in the last digits alone.

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
    >>> from neurocontrast.transforms import ImageAugmentSettings, RandImageViewd, TwoViews
    >>> images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    >>> views = TwoViews(RandImageViewd("image", ImageAugmentSettings.supcon()), seed=0)
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
        _check(images, len(seeds))
        drawn = draw_image_views(self.settings, seeds, size=(images.shape[2], images.shape[3]))
        at_once = _VALUES_AT_ONCE.get(images.device.type, _VALUES_AT_ONCE_ELSEWHERE)
        n_parts = max(1, -(-images.numel() // at_once))
        step = max(1, -(-len(seeds) // n_parts))
        views = torch.empty(images.shape, dtype=torch.float32, device=images.device)
        for start in range(0, len(seeds), step):
            part = slice(start, start + step)
            x_BCHW = images[part].to(torch.float32, copy=True)
            views[part] = self._made(x_BCHW.div_(255.0) if images.dtype == torch.uint8 else x_BCHW, drawn.of(part))
        return views

    def _made(self, x_BCHW: Tensor, drawn: ImageViewParameters) -> Tensor:
        """Return views of images that are this method's to change."""
        from neurocontrast.transforms.natural.operations import blur, to_gray, warp

        settings = self.settings
        x_BCHW = _where(
            drawn.turned | drawn.cropped,
            x_BCHW,
            lambda part, which: warp(part, drawn=drawn.of(which)),
        )
        x_BCHW = _where(drawn.flipped, x_BCHW, lambda part, _: part.flip(3))
        x_BCHW = _jittered(x_BCHW, drawn)
        x_BCHW = _where(drawn.gray, x_BCHW, lambda part, _: to_gray(part))
        if blurred := settings.blur:
            kernel: dict[str, Any] = {"radius_pixels": blurred.radius_pixels, "largest": blurred.sigma_pixels[1]}
            x_BCHW = _where(
                drawn.blurred,
                x_BCHW,
                lambda part, which: blur(part, sigma_pixels=drawn.sigma_pixels[which], **kernel),
            )
        # Interpolation and blur may leave the range by rounding.
        return x_BCHW.clamp_(0.0, 1.0)


def _jittered(x_BCHW: Tensor, drawn: ImageViewParameters) -> Tensor:
    """Change colours, each image's in its own order: at every turn, all images that take the same step together."""
    from neurocontrast.transforms.natural import operations

    for turn in range(len(COLOUR_STEPS)):
        for number, step in enumerate(COLOUR_STEPS):
            factors = drawn.factors[:, number].astype(np.float32)
            applied = drawn.jittered & (drawn.order[:, turn] == number)
            applied &= drawn.factors[:, number] != NEUTRAL_FACTORS[number]
            change = operations.COLOUR_OPERATIONS[step]
            x_BCHW = _where(
                applied,
                x_BCHW,
                lambda part, which, change=change, factors=factors: change(  # type: ignore[misc]
                    part, torch.from_numpy(factors[which]).to(part.device)
                ),
            )
    return x_BCHW


def _where(applied: np.ndarray, x_BCHW: Tensor, change: Callable[[Tensor, np.ndarray], Tensor]) -> Tensor:
    """Change the images that `applied` says, given them and their places in the batch; in place unless it is all.

    Which they are is known on the CPU, so that nothing waits for the device.
    """
    which = np.flatnonzero(applied)
    if len(which) == 0:
        return x_BCHW
    if len(which) == len(x_BCHW):
        return change(x_BCHW, which)
    rows = torch.from_numpy(which).to(x_BCHW.device)
    return x_BCHW.index_copy_(0, rows, change(x_BCHW.index_select(0, rows), which))


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
        low, high = (float(end) for end in torch.aminmax(images))
        if not (low >= 0.0 and high <= 1.0):
            raise DataError(
                f"Floating-point images must lie between 0 and 1. Got values from {low:g} to {high:g}. "
                "Divide them by 255 if they came from 8-bit images, and standardise after making views."
            )
