"""Base class of transforms of MRI volumes; data classes of batches, scales and random numbers."""

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
"""Random numbers of an operation by argument name; the first axis of each array is the sample."""
Seeds = Sequence[int] | npt.NDArray[np.int64]


@dataclass(frozen=True)
class Scale:
    """Numbers that convert signals back to the volumes from which `to_signal` made them.

    A signal is a volume rescaled to 0 outside the brain and 1 at the brain's 99th percentile. Each
    tensor has the shape (b, channels, 1, 1, 1), or (b, 1, 1, 1, 1) if channels share a number.
    """

    background: Tensor
    floor: Tensor
    """Intensity of the volume at signal 0."""
    span: Tensor
    """Difference of the volume's intensities at signal 1 and at signal 0."""
    brightest: Tensor
    """Largest signal of the volume."""
    is_standard_box: Tensor
    """Whether the volume had mean 0 and standard deviation 1 over all voxels."""
    is_standard_brain: Tensor
    """Whether the volume had mean 0 and standard deviation 1 over the brain, and a background of
    0."""


@dataclass
class Volumes:
    """Batch of float32 volumes (b, channels, D, H, W), or of signals with masks and scales.

    Signals are volumes that `to_signal` has rescaled: 0 outside the brain, 1 at the brain's 99th
    percentile. With signals, `brain_BCDHW` is the brain mask, and `scale` has the numbers by which
    they are converted back to volumes; without, both are None.
    """

    x_BCDHW: Tensor
    brain_BCDHW: Tensor | None = None
    """Brain mask: 1 in the brain, 0 outside. The mask is float32, because multiplying is faster
    than selecting by booleans."""
    scale: Scale | None = None


@dataclass(frozen=True)
class Drawn:
    """Random numbers of one operation for each sample of a batch, and which samples are changed.

    `RandVolumed.drawn` makes an instance.
    """

    is_changed: npt.NDArray[np.bool_]
    numbers: Numbers

    def of(self, samples: slice | npt.NDArray[np.intp]) -> Self:
        """Return the random numbers of `samples`, a slice of the batch or batch positions."""
        numbers = {name: values[samples] for name, values in self.numbers.items()}
        return type(self)(self.is_changed[samples], numbers)


class VolumeTransformd(EachImage):
    """Base class of dictionary transforms of volumes; a subclass defines `apply` for a batch.

    A single volume is changed as a batch of one. `TwoViews` makes views of whole batches with such
    a transform, or with a `Compose` of nothing but such transforms.
    """

    def apply(self, volumes: Volumes, drawn: Drawn | None) -> None:
        """Change a batch of `volumes` in place, by the random numbers `drawn`; return nothing.

        The tensors of `volumes` are overwritten, or replaced by new ones. `drawn` is None for a
        transform without randomness. A subclass defines the change.
        """
        raise NotImplementedError

    def drawn_for(self, n_channels: int) -> Drawn | None:  # noqa: ARG002
        """Return the random numbers for one volume; None, as here, for a transform without any."""
        return None

    def change_item(self, item: dict[Hashable, Any], key: Hashable) -> None:
        """Replace the volume under `key` in dictionary `item`, in place, by the transformed volume.

        A volume is a signal if `ToSignald` has rescaled it to 0 outside the brain and 1 at the
        brain's 99th percentile. The dictionary then holds the volume's brain mask, and its scale,
        by which it is converted back; mask and scale are replaced, too.
        """
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
    """Return the dictionary key of the brain mask that belongs to the volume under `key`.

    `ToSignald` adds the mask when it rescales the volume.
    """
    return f"{key}_brain"


def _scale_key(key: Hashable) -> str:
    return f"{key}_scale"


def plain_volume(x: Any, key: Hashable) -> Tensor:
    """Return volume `x` (channels, D, H, W) as a plain float32 tensor, which is faster to change.

    The result may share memory with the volume. A DataError names `key` if the shape is another.
    """
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
    """Return `changed` as a MetaTensor with the metadata of `x`; unchanged if `x` has no metadata.

    Only a MetaTensor has metadata.
    """
    if not isinstance(x, MetaTensor):
        return changed
    return MetaTensor(changed).copy_meta_from(x)


def per_sample(values: npt.NDArray[Any], x: Tensor) -> Tensor:
    """Return `values`, a number for each sample, as a tensor that can multiply volumes.

    The tensor has five axes, lies on the device of `x`, and is float32.
    """
    tensor = torch.from_numpy(values.astype(np.float32)).to(x.device)
    return tensor.reshape(tensor.shape + (1,) * (5 - tensor.ndim))


def index_of(rows: npt.NDArray[np.intp], x: Tensor) -> Tensor | None:
    """Return `rows`, positions in batch `x`, as a tensor on its device; None if all are selected.

    With None, samples need not be copied.
    """
    if len(rows) == len(x):
        return None
    return torch.from_numpy(rows).to(x.device)


def chosen(x: Tensor, index: Tensor | None) -> Tensor:
    """Return a copy of the samples at positions `index` of batch `x`; `x` itself for None (all)."""
    if index is None:
        return x
    return x.index_select(0, index)


def replaced(x: Tensor, index: Tensor | None, changed: Tensor) -> Tensor:
    """Return batch `x` with the samples at positions `index` replaced by `changed`.

    `x` may be overwritten; with `index` None (all), `changed` is returned.
    """
    if index is None:
        return changed
    return x.index_copy_(0, index, changed)
