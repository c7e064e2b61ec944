"""Two random views of a batch of volumes, each keyed by what it is for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from neurocontrast.augment import operations
from neurocontrast.augment.settings import AugmentSettings
from neurocontrast.augment.sites import SiteParameters, draw_site, seen_at_site
from neurocontrast.exceptions import DataError
from neurocontrast.seeds import derive_generator

__all__ = ["Box", "TwoViews", "ViewParameters", "draw_view"]


@dataclass(frozen=True)
class Box:
    """A box of voxels inside a volume."""

    corner: tuple[int, int, int]
    size: tuple[int, int, int]


@dataclass(frozen=True)
class ViewParameters:
    """What was drawn for one view; an operation that is None is not applied."""

    flip_axis: int | None
    blur_sigma_voxels: float | None
    noise_sigma: float | None
    noise_seed: int
    cutout: Box | None
    crop: Box | None


def draw_view(
    settings: AugmentSettings, shape: Sequence[int], *, seed: int, epoch: int, sample: int, view: int
) -> ViewParameters:
    """Draw the parameters of one view of a volume of `shape`; they depend on these arguments alone.

    Every number is drawn whether or not its operation is on, so that switching one off
    leaves the others as they were.
    """
    generator = derive_generator("views", seed, epoch, sample, view)
    applied = generator.random(5)
    strength = generator.random(5)
    cutout_place, crop_place = generator.random(3), generator.random(3)
    noise_seed = int(generator.integers(2**63 - 1))
    flip, blur, noise, cutout, crop = settings.flip, settings.blur, settings.noise, settings.cutout, settings.crop
    return ViewParameters(
        flip_axis=flip.axes[int(strength[0] * len(flip.axes))] if flip and applied[0] < flip.probability else None,
        blur_sigma_voxels=_between(blur.sigma_voxels, strength[1]) if blur and applied[1] < blur.probability else None,
        noise_sigma=_between(noise.sigma, strength[2]) if noise and applied[2] < noise.probability else None,
        noise_seed=noise_seed,
        cutout=_place(shape, _between(cutout.fraction, strength[3]), cutout_place)
        if cutout and applied[3] < cutout.probability
        else None,
        crop=_place(shape, _between(crop.fraction, strength[4]), crop_place)
        if crop and applied[4] < crop.probability
        else None,
    )


class TwoViews:
    """Makes two views of each volume of a batch, on the batch's device, in float32.

    A view depends on the volume, `seed`, the epoch, the sample's number and the view's (0 or 1);
    not on the rest of the batch, on workers, or on what was drawn before. So a resumed run sees
    the views of an uninterrupted one. Parameters are drawn on the CPU. Noise is drawn on the
    volumes' device by a generator of its own per view: on one kind of device it is the same
    every time; a CPU and a GPU draw different, equally distributed noise.

    Parameters
    ----------
    settings : AugmentSettings
        The operations.
    seed : int
        Names the run's randomness.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.augment import AugmentSettings, TwoViews
    >>> volumes = torch.randn(2, 1, 16, 18, 16)
    >>> view1, view2 = TwoViews(AugmentSettings.reference(), seed=0)(volumes, [5, 9], epoch=3)
    >>> view1.shape
    torch.Size([2, 1, 16, 18, 16])
    """

    def __init__(self, settings: AugmentSettings, *, seed: int) -> None:
        self.settings = settings
        self.seed = seed

    def __call__(self, volumes: Tensor, samples: Tensor | Sequence[int], *, epoch: int) -> tuple[Tensor, Tensor]:
        """Return two views of `volumes` (b, channels, D, H, W), whose samples' numbers are `samples`."""
        numbers = _numbers(samples)
        return self.view(volumes, numbers, epoch=epoch, view=0), self.view(volumes, numbers, epoch=epoch, view=1)

    def view(self, volumes: Tensor, samples: Tensor | Sequence[int], *, epoch: int, view: int) -> Tensor:
        """Return view number `view` of each volume, as a new float32 tensor."""
        numbers = _numbers(samples)
        if volumes.ndim != 5 or len(numbers) != volumes.shape[0]:
            raise DataError(
                "Views need volumes of shape (batch, channels, D, H, W) and one sample number for each volume. "
                f"Got volumes of shape {tuple(volumes.shape)} and {len(numbers)} sample numbers."
            )
        views = torch.empty(volumes.shape, dtype=torch.float32, device=volumes.device)
        # One volume after the other: operations differ between volumes, and a view cannot then depend on its batch.
        for made, x_CDHW, sample in zip(views, volumes, numbers, strict=True):
            shape, keys = x_CDHW.shape[1:], {"seed": self.seed, "epoch": epoch, "sample": sample, "view": view}
            drawn, site = draw_view(self.settings, shape, **keys), draw_site(self.settings, **keys)
            _fill(made, x_CDHW, drawn, site, self.settings)
        return views


def _fill(made: Tensor, x_CDHW: Tensor, drawn: ViewParameters, site: SiteParameters, settings: AugmentSettings) -> None:
    """Make a view in its place in the batch; only some operations need memory of their own for a while."""
    made.copy_(x_CDHW if drawn.flip_axis is None else operations.flip(x_CDHW, axis=drawn.flip_axis))
    if not site.nothing:
        made.copy_(seen_at_site(made, site))
    if drawn.blur_sigma_voxels is not None:
        made.copy_(operations.blur(made, sigma_voxels=drawn.blur_sigma_voxels))
    if drawn.noise_sigma is not None:
        generator = torch.Generator(device=made.device).manual_seed(drawn.noise_seed)
        operations.add_noise_(made, sigma=drawn.noise_sigma, generator=generator)
    if drawn.cutout is not None and settings.cutout is not None:
        box, value = drawn.cutout, settings.cutout.value
        operations.cut_out_(made, corner=box.corner, size=box.size, value=value)
    if drawn.crop is not None:
        made.copy_(operations.crop_resize(made, corner=drawn.crop.corner, size=drawn.crop.size))


def _numbers(samples: Tensor | Sequence[int]) -> list[int]:
    numbers: list[int] = samples.tolist() if isinstance(samples, Tensor) else [int(sample) for sample in samples]
    return numbers


def _between(limits: tuple[float, float], position: float) -> float:
    return float(limits[0] + (limits[1] - limits[0]) * position)


def _place(shape: Sequence[int], fraction: float, position: np.ndarray) -> Box:
    # The small number takes back what rounding may have added: 0.75 of 4 is 3 voxels, never 4.
    size = [min(side, math.ceil(fraction * side - 1e-9)) for side in shape]
    corner = [int(p * (side - length + 1)) for p, side, length in zip(position, shape, size, strict=True)]
    return Box((corner[0], corner[1], corner[2]), (size[0], size[1], size[2]))
