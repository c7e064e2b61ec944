"""Random changes of volumes, and where the brain is in a preprocessed volume, its intensities as a signal.

However a volume was normalised, its background is one constant, which at least half of the eight
corners have. Voxels that differ from the background are the brain; in a scan with its skull, the
head and the air around the head.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from monai.data import MetaTensor
from monai.transforms import MapTransform, RandomizableTransform
from torch import Tensor

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.augment import Operation
from neurocontrast.transforms.images import EachImage

Random = np.random.RandomState


class RandVolumed(RandomizableTransform, EachImage):
    """Apply a random operation to volumes (channels, D, H, W): a subclass has `Settings`, `change` and perhaps `draw`.

    `prob` says how often, `ranges` are the other fields of `Settings`. All volumes of a dictionary
    are changed alike and become float32; none is changed in place. After a call, `drawn` holds the
    arguments that `change` was given.
    """

    Settings: ClassVar[type[Operation]]
    n_seeds: ClassVar[int] = 0
    """Seeds to draw one from, where `change` draws numbers of its own from a ``seed``."""

    def __init__(
        self,
        keys: str | Sequence[str],
        prob: float | None = None,
        *,
        allow_missing_keys: bool = False,
        **ranges: Any,
    ) -> None:
        MapTransform.__init__(self, keys, allow_missing_keys)
        self.settings: Any = self.Settings(
            **({} if prob is None else {"probability": prob}), **ranges
        )
        RandomizableTransform.__init__(self, self.settings.probability)
        self.drawn: dict[str, Any] = {}

    def draw(self, random: Random) -> dict[str, Any]:
        """Return the random arguments of `change`: a uniform number of each range of the settings, and a seed."""
        drawn = {
            name: random.uniform(*limits)
            for name, limits in self.settings
            if isinstance(limits, tuple)
        }
        return drawn | (
            {"seed": int(random.randint(self.n_seeds, dtype=np.int64))} if self.n_seeds else {}
        )

    def change(self, x_CDHW: Tensor, /, *_: Any, **drawn: Any) -> Any:
        """Return a changed volume, as a new tensor."""
        raise NotImplementedError

    def randomize(self, data: Any = None) -> None:
        """Draw whether the operation is applied, and how."""
        super().randomize(data)
        self.drawn = self.draw(self.R) if self._do_transform else {}

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the dictionary with changed volumes."""
        self.randomize()
        return super().__call__(data) if self._do_transform else dict(data)

    def change_item(self, item: dict[Hashable, Any], key: Hashable) -> None:
        """Put the changed volume in the place of the volume."""
        item[key] = like(self.change(plain_volume(item[key], key), **self.drawn), item[key])


def plain_volume(x: Any, key: Hashable, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return a volume as a plain tensor, perhaps itself; operations on small MetaTensors are slow."""
    tensor = x.as_tensor() if isinstance(x, MetaTensor) else torch.as_tensor(x)
    if tensor.ndim != 4:
        raise DataError(
            f"'{key}' must be a volume of shape (channels, D, H, W). Got shape {tuple(tensor.shape)}."
        )
    return tensor.to(dtype)


def like(made: Tensor, x: Any) -> Tensor:
    """Return `made` with the metadata of `x`, where `x` is a MetaTensor."""
    return MetaTensor(made).copy_meta_from(x) if isinstance(x, MetaTensor) else made


_BRIGHT = 0.99
_N_SORTED = 4096
_STANDARDISED = 1e-2
"""A mean this near 0 and a deviation this near 1 are those of a z-scored volume, stored in half precision."""


@dataclass(frozen=True)
class Scale:
    """What leads from a signal back to the volume; each tensor is (channels, 1, 1, 1)."""

    background: Tensor
    floor: Tensor  # the volume's value where the signal is 0
    span: Tensor  # the difference in value between signal 1 and signal 0
    brightest: Tensor  # the largest signal
    standardised: Literal["box", "brain"] | None  # the voxels that had mean 0 and deviation 1


class Signal(NamedTuple):
    """A volume with its darkest voxel just above 0 and its 99th percentile at 1; meaningless outside the brain."""

    signal_CDHW: Tensor
    brain_CDHW: Tensor
    scale: Scale


def to_signal(x_CDHW: Tensor) -> Signal:
    """Return a float32 volume as signal; where nothing is brighter than the background, no voxel is brain."""
    background = corner_median(x_CDHW)
    brain_CDHW = x_CDHW != background
    low = x_CDHW.amin((1, 2, 3), keepdim=True)
    bright = _bright(x_CDHW, brain_CDHW)
    brain_CDHW &= bright > low
    # A thousandth below the darkest voxel where that is not the background: they stay apart.
    floor = torch.where(low == background, low, low - 1e-3 * (bright - low))
    span = (bright - floor).clamp_(min=1e-9)
    brightest = (x_CDHW.amax((1, 2, 3), keepdim=True) - floor) / span
    scale = Scale(background, floor, span, brightest, _standardised(x_CDHW, brain_CDHW, background))
    return Signal((x_CDHW - floor).div_(span).mul_(brain_CDHW), brain_CDHW, scale)


def from_signal(signal: Signal) -> Tensor:
    """Return the volume, normalised as a scan with this signal would be.

    A volume that was z-scored is z-scored again. In any other the brain's 99th percentile is put
    back to where it was, and nothing becomes brighter than the volume's brightest voxel was.
    """
    s_CDHW, brain_CDHW, scale = signal
    if scale.standardised is None:
        s_CDHW = (s_CDHW / _bright(s_CDHW, brain_CDHW).clamp_(min=1e-3)).minimum(scale.brightest)
    x_CDHW = torch.where(brain_CDHW, s_CDHW * scale.span + scale.floor, scale.background)
    if scale.standardised is None:
        return x_CDHW
    mean, deviation = _moments(x_CDHW, brain_CDHW if scale.standardised == "brain" else None)
    x_CDHW = x_CDHW.sub_(mean).div_(deviation.clamp_(min=1e-6))
    return x_CDHW.mul_(brain_CDHW) if scale.standardised == "brain" else x_CDHW


class ToSignald(EachImage):
    """Replace volumes by their signal, for transforms that work on a scanner's intensities or move brain and image.

    The transforms of this package that need the signal find it by themselves. Between `ToSignald`
    and `FromSignald` they share one; transforms of MONAI can be among them, on ``image`` and, where
    they move voxels, on its mask ``image_brain`` too (with ``mode="nearest"``).

    Parameters
    ----------
    keys, allow_missing_keys : see `monai.transforms.MapTransform`
        The volumes (channels, D, H, W).

    Examples
    --------
    >>> import torch
    >>> from monai.transforms import Compose, RandAdjustContrastd, RandAffined
    >>> from neurocontrast.transforms import FromSignald, ToSignald
    >>> moved = RandAffined(["image", "image_brain"], prob=1.0, translate_range=1.0, mode=("bilinear", "nearest"))
    >>> views = Compose([ToSignald("image"), moved, RandAdjustContrastd("image"), FromSignald("image")])
    >>> sorted(views({"image": torch.rand(1, 16, 16, 16)}))
    ['image']
    """

    def change_item(self, item: dict[Hashable, Any], key: Hashable) -> None:
        """Put the signal in the volume's place, and add its mask and scale."""
        signal = to_signal(plain_volume(item[key], key))
        item[key] = like(signal.signal_CDHW, item[key])
        item[brain_key(key)] = signal.brain_CDHW
        item[_scale_key(key)] = signal.scale


class FromSignald(EachImage):
    """Return from the signals that `ToSignald` made to volumes, normalised as scans with these signals would be.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import FromSignald, ToSignald
    >>> volume = torch.rand(1, 16, 16, 16)
    >>> there_and_back = FromSignald("image")(ToSignald("image")({"image": volume}))
    >>> torch.allclose(there_and_back["image"], volume, atol=1e-3)
    True
    """

    def change_item(self, item: dict[Hashable, Any], key: Hashable) -> None:
        """Put the volume in the signal's place, and remove its mask and scale."""
        if _scale_key(key) not in item:
            raise DataError(
                f"FromSignald needs the signal that ToSignald made of '{key}', and there is none: put ToSignald "
                "before it."
            )
        brain_CDHW = plain_volume(item.pop(brain_key(key)), key, dtype=torch.bool)
        signal = Signal(plain_volume(item[key], key), brain_CDHW, item.pop(_scale_key(key)))
        item[key] = like(from_signal(signal), item[key])


class RandSignald(RandVolumed):
    """Apply a random operation to the brain's signal; see `RandVolumed`.

    `change` is given the signal, and `change_brain` the brain's mask too. Outside of `ToSignald`
    and `FromSignald` the transform does what these do.
    """

    def change_brain(
        self, s_CDHW: Tensor, brain_CDHW: Tensor, /, *_: Any, **drawn: Any
    ) -> tuple[Tensor, Tensor]:
        """Return signal and brain; by default `change` is applied to the signal, and the brain stays where it is."""
        return self.change(s_CDHW, **drawn), brain_CDHW

    def change_item(self, item: dict[Hashable, Any], key: Hashable) -> None:
        """Put the changed signal in the place of the signal, or the changed volume in that of the volume."""
        is_alone = _scale_key(key) not in item
        if is_alone:
            ToSignald(key).change_item(item, key)
        brain_CDHW = plain_volume(item[brain_key(key)], key, dtype=torch.bool)
        s_CDHW, item[brain_key(key)] = self.change_brain(
            plain_volume(item[key], key), brain_CDHW, **self.drawn
        )
        item[key] = like(s_CDHW, item[key])
        if is_alone:
            FromSignald(key).change_item(item, key)


def brain_key(key: Hashable) -> str:
    """Return where the mask of the brain is, next to a signal."""
    return f"{key}_brain"


def _scale_key(key: Hashable) -> str:
    return f"{key}_scale"


def corner_median(x_CDHW: Tensor) -> Tensor:
    """Return the median of a volume's corners, its background, as (channels, 1, 1, 1)."""
    steps = [max(1, side - 1) for side in x_CDHW.shape[1:]]
    corners = x_CDHW[:, :: steps[0], :: steps[1], :: steps[2]].flatten(1)
    return corners.median(1).values[
        :, None, None, None
    ]  # of two in the middle the lower: a value that occurs


def _bright(x_CDHW: Tensor, brain_CDHW: Tensor) -> Tensor:
    """Return the brain's 99th percentile, by a few thousand voxels evenly taken."""
    step = (
        max(1, x_CDHW[0].numel() // _N_SORTED) | 1
    )  # odd: not every other one of a row of even length
    taken = x_CDHW.flatten(1)[:, ::step]
    of_brain = brain_CDHW.flatten(1)[:, ::step]
    ordered = taken.masked_fill(~of_brain, -torch.inf).sort(1).values
    n_brain = of_brain.sum(1, keepdim=True)
    place = ordered.shape[1] - 1 - ((1.0 - _BRIGHT) * n_brain).long()
    return ordered.gather(1, place)[..., None, None]


def _standardised(
    x_CDHW: Tensor, brain_CDHW: Tensor, background: Tensor
) -> Literal["box", "brain"] | None:
    if _is_standard(*_moments(x_CDHW)):
        return "box"
    if bool((background == 0).all()) and _is_standard(*_moments(x_CDHW, brain_CDHW)):
        return "brain"
    return None


def _is_standard(mean: Tensor, deviation: Tensor) -> bool:
    return bool(((mean.abs() < _STANDARDISED) & ((deviation - 1.0).abs() < _STANDARDISED)).all())


def _moments(x_CDHW: Tensor, brain_CDHW: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation, of the box or of the brain, each (channels, 1, 1, 1)."""
    # Sums and norms: a tenth of the time of torch.var_mean on a CPU.
    if brain_CDHW is None:
        n: Tensor | int = x_CDHW[0].numel()
        mean = x_CDHW.mean((1, 2, 3), keepdim=True)
        away = x_CDHW - mean
    else:
        n = brain_CDHW.sum((1, 2, 3), keepdim=True).clamp_(min=1)
        mean = (x_CDHW * brain_CDHW).sum((1, 2, 3), keepdim=True) / n
        away = (x_CDHW - mean).mul_(brain_CDHW)
    return mean, torch.linalg.vector_norm(away, dim=(1, 2, 3), keepdim=True) / n**0.5
