"""Random changes of whole volumes in a dictionary: the part that all of them share."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from monai.data import MetaTensor
from monai.transforms import MapTransform, RandomizableTransform
from torch import Tensor

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.augment import Operation

Random = np.random.RandomState


class RandVolumed(RandomizableTransform, MapTransform):
    """Apply a random operation to volumes (channels, D, H, W): a subclass has `Settings`, `draw` and `change`.

    All volumes of a dictionary are changed alike and become float32; none is changed in place. After a call, `drawn`
    holds the arguments that `change` was given.

    Parameters
    ----------
    keys, allow_missing_keys : see `monai.transforms.MapTransform`
        The volumes.
    prob : float, optional
        How often the operation is applied.
    **ranges
        The other fields of `Settings`.
    """

    Settings: ClassVar[type[Operation]]

    def __init__(
        self, keys: str | Sequence[str], prob: float | None = None, *, allow_missing_keys: bool = False, **ranges: Any
    ) -> None:
        MapTransform.__init__(self, keys, allow_missing_keys)
        self.settings: Any = self.Settings(**({} if prob is None else {"probability": prob}), **ranges)
        RandomizableTransform.__init__(self, self.settings.probability)
        self.drawn: dict[str, Any] = {}

    def draw(self, random: Random) -> dict[str, Any]:
        """Return the random arguments of `change`."""
        raise NotImplementedError

    def change(self, x_CDHW: Tensor, /, *_: Any, **drawn: Any) -> Any:
        """Return a changed volume, as a new tensor."""
        raise NotImplementedError

    def randomize(self, data: Any = None) -> None:
        """Draw whether the operation is applied, and how."""
        super().randomize(data)
        self.drawn = self.draw(self.R) if self._do_transform else {}

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the dictionary with changed volumes."""
        d = dict(data)
        self.randomize()
        if self._do_transform:
            for key in self.key_iterator(d):
                self.change_item(d, key)
        return d

    def change_item(self, d: dict[Hashable, Any], key: Hashable) -> None:
        """Put the changed volume in the place of the volume."""
        d[key] = like(self.change(plain_volume(d[key], key), **self.drawn), d[key])


def plain_volume(x: Any, key: Hashable, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return a volume as a plain tensor, perhaps itself; operations on small MetaTensors are slow."""
    tensor = x.as_tensor() if isinstance(x, MetaTensor) else torch.as_tensor(x)
    if tensor.ndim != 4:
        raise DataError(f"'{key}' must be a volume of shape (channels, D, H, W). Got shape {tuple(tensor.shape)}.")
    return tensor.to(dtype)


def like(made: Tensor, x: Any) -> Tensor:
    """Return `made` with the metadata of `x`, where `x` is a MetaTensor."""
    return MetaTensor(made).copy_meta_from(x) if isinstance(x, MetaTensor) else made
