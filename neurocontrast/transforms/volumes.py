"""Batches of volumes in a chain of operations, and transforms of one volume or a batch."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from monai.data import MetaTensor
from torch import Tensor

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.images import EachImage

Array = npt.NDArray[np.float64]
Numbers = dict[str, npt.NDArray[Any]]
"""Arguments of an operation's `change` by name; the first axis is that of the samples."""
Seeds = Sequence[int] | npt.NDArray[np.int64]


@dataclass(frozen=True)
class Scale:
    """Lead from signals back to volumes.

    Each tensor is (b, channels, 1, 1, 1), or (b, 1, 1, 1, 1) where channels go together.
    """

    background: Tensor
    floor: Tensor
    """The volume's value where the signal is 0."""
    span: Tensor
    """Difference in value between signal 1 and signal 0."""
    brightest: Tensor
    """The largest signal."""
    is_standard_box: Tensor
    """Whether the voxels of the box had mean 0 and deviation 1."""
    is_standard_brain: Tensor
    """Whether the voxels of the brain alone had, and the background was 0."""


@dataclass
class Volumes:
    """Hold float32 volumes (b, channels, D, H, W) or, with a scale, signals and brains' masks."""

    x_BCDHW: Tensor
    brain_BCDHW: Tensor | None = None
    """1 in the brain, 0 outside, in float32: a product is faster than a choice by a bool."""
    scale: Scale | None = None


@dataclass(frozen=True)
class Drawn:
    """Hold the random numbers of one operation for each sample of a batch."""

    is_changed: npt.NDArray[np.bool_]
    numbers: Numbers

    def of(self, samples: slice | npt.NDArray[np.intp]) -> Self:
        """Return the numbers of some of the samples."""
        numbers = {name: values[samples] for name, values in self.numbers.items()}
        return type(self)(self.is_changed[samples], numbers)


class VolumeTransformd(EachImage):
    """Change each volume of a dictionary as a batch of one; a subclass has `apply`.

    A `Compose` of such transforms alone makes the views of whole batches (`TwoViews`).
    """

    def apply(self, volumes: Volumes, drawn: Drawn | None) -> None:
        """Change a batch, whose tensors may be overwritten."""
        raise NotImplementedError

    def drawn_for(self, n_channels: int) -> Drawn | None:  # noqa: ARG002
        """Return the numbers that change a volume of a dictionary."""
        return None

    def change_item(self, item: dict[Hashable, Any], key: Hashable) -> None:
        """Put the changed volume, or its signal, in the place of the volume."""
        volume = plain_volume(item[key], key)
        drawn = self.drawn_for(len(volume))
        if drawn is not None and not drawn.is_changed.any():
            return
        volumes = Volumes(volume[None].clone(), scale=item.pop(_scale_key(key), None))
        if volumes.scale is not None:
            brain_CDHW = plain_volume(item.pop(brain_key(key)), key)
            volumes.brain_BCDHW = brain_CDHW[None].clone().ne_(0.0)
        self.apply(volumes, drawn)
        item[key] = like(volumes.x_BCDHW[0], item[key])
        if volumes.brain_BCDHW is not None:
            item[brain_key(key)] = volumes.brain_BCDHW[0]
            item[_scale_key(key)] = volumes.scale


def brain_key(key: Hashable) -> str:
    """Return the key of the brain's mask, next to a signal."""
    return f"{key}_brain"


def _scale_key(key: Hashable) -> str:
    return f"{key}_scale"


def plain_volume(x: Any, key: Hashable) -> Tensor:
    """Return a volume as a plain float32 tensor, perhaps itself: MetaTensors are slow."""
    tensor = torch.as_tensor(x)
    if isinstance(x, MetaTensor):
        tensor = x.as_tensor()
    if tensor.ndim != 4:
        shape = tuple(tensor.shape)
        raise DataError(
            f"'{key}' must be a volume of shape (channels, D, H, W). Got shape {shape}."
        )
    return tensor.to(torch.float32)


def like(changed: Tensor, x: Any) -> Tensor:
    """Return `changed` with the metadata of `x`, where `x` is a MetaTensor."""
    if not isinstance(x, MetaTensor):
        return changed
    return MetaTensor(changed).copy_meta_from(x)


def per_sample(values: npt.NDArray[Any], x: Tensor) -> Tensor:
    """Return numbers (b, ...) as float32 on the device of `x`, with five axes."""
    tensor = torch.from_numpy(values.astype(np.float32)).to(x.device)
    return tensor.reshape(tensor.shape + (1,) * (5 - tensor.ndim))


def index_of(rows: npt.NDArray[np.intp], x: Tensor) -> Tensor | None:
    """Return rows as an index on the device of `x`; None for all, so that nothing is copied."""
    if len(rows) == len(x):
        return None
    return torch.from_numpy(rows).to(x.device)


def chosen(x: Tensor, index: Tensor | None) -> Tensor:
    """Return a copy of the samples of an index, or all samples themselves for None."""
    if index is None:
        return x
    return x.index_select(0, index)


def replaced(x: Tensor, index: Tensor | None, changed: Tensor) -> Tensor:
    """Return all samples, after `changed` samples replaced the samples of an index."""
    if index is None:
        return changed
    return x.index_copy_(0, index, changed)
