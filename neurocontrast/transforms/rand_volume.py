"""MONAI's random transforms of the operations on volumes, and the views that a configuration asks for."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
import torch
from monai.data import MetaTensor
from monai.transforms import Compose, MapTransform, RandomizableTransform
from monai.utils import MAX_SEED

from neurocontrast.transforms.augment import AugmentSettings
from neurocontrast.transforms.images import OntoGrid, affine_of, settled
from neurocontrast.transforms.operation import OPERATIONS, Operation, Span, operation_called
from neurocontrast.transforms.signal import (
    FromSignald,
    ToSignald,
    close_signal,
    is_open,
    like,
    open_signal,
    plain_volume,
    put_signal,
)

_PARAMETERS = """
All volumes of one dictionary are changed alike and come back in float32. An operation on the brain's signal finds the
signal by itself; between `ToSignald` and `FromSignald` it is found once for all.

Parameters
----------
keys, allow_missing_keys : see `monai.transforms.MapTransform`
    The volumes (channels, D, H, W).
prob : float, optional
    How often the operation is applied.
"""
_EXAMPLE = """
Examples
--------
>>> import torch
>>> from neurocontrast.transforms import {name}
>>> {name}("image", prob=1.0)({{"image": torch.rand(1, 9, 9, 9)}})["image"].shape
torch.Size([1, 9, 9, 9])
"""


class RandVolumeTransform(RandomizableTransform, MapTransform):
    """Apply a random operation to volumes (channels, D, H, W); `as_transform` makes a class for each operation.

    All volumes of one dictionary are changed alike, come back in float32, and none is changed in place. After a call,
    `drawn` holds what the change was given.
    """

    operation: ClassVar[type[Operation]]

    def __init__(
        self, keys: str | Sequence[str], prob: float | None = None, *, allow_missing_keys: bool = False, **ranges: Any
    ) -> None:
        MapTransform.__init__(self, keys, allow_missing_keys)
        self.settings = self.operation(**({} if prob is None else {"probability": prob}), **ranges)
        RandomizableTransform.__init__(self, self.settings.probability)
        self.drawn: dict[str, Any] = {}

    def set_random_state(
        self, seed: int | None = None, state: np.random.RandomState | None = None
    ) -> RandVolumeTransform:
        """Seed the transform to the same stream as MONAI's own method, in a fiftieth of the time."""
        if seed is None or "R" not in vars(self):
            super().set_random_state(seed, state)
        else:
            self.R.seed(seed % MAX_SEED)
        return self

    def randomize(self, data: Any = None) -> None:
        """Draw whether the operation is applied, and how."""
        super().randomize(data)
        self.drawn = self.settings.draw(self.R) if self._do_transform else {}

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the dictionary with changed volumes."""
        d = dict(data)
        self.randomize()
        for key in self.key_iterator(d):
            d[key] = settled(d[key])
            if self._do_transform and self.settings.stage == "scanner":
                self._change_signal(d, key)
            elif self._do_transform:
                d[key] = like(self.settings.change(plain_volume(d[key], key), **self.drawn), d[key])
        return d

    def _change_signal(self, d: dict[Hashable, Any], key: Hashable) -> None:
        shared = is_open(d, key)
        signal = open_signal(d, key)
        if signal is not None:
            s_CDHW, brain_CDHW = self.settings.change_brain(signal.signal_CDHW, signal.brain_CDHW, **self.drawn)
            put_signal(d, key, signal._replace(signal_CDHW=s_CDHW, brain_CDHW=brain_CDHW))
        if not shared:
            close_signal(d, key)


class RandMovingTransform(RandVolumeTransform, OntoGrid):
    """Apply a random operation that moves voxels: the affine stays true, and `inverse` leads back."""

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the dictionary with changed volumes."""
        before = {key: settled(data[key]) for key in self.key_iterator(dict(data))}
        d = super().__call__({**data, **before})
        for key, image in before.items():
            if not isinstance(image, MetaTensor):
                continue
            if d[key] is image:  # not changed, and not to be noted in what was given
                d[key] = MetaTensor(image.as_tensor()).copy_meta_from(image)
            elif self._do_transform:
                moved = self.settings.moved(image.shape[1:], **self.drawn)
                d[key].affine = torch.from_numpy(affine_of(image) @ moved)
            self.traced(d[key], image)
        return d


@cache
def as_transform(operation: type[Operation]) -> type[RandVolumeTransform]:
    """Return the MONAI transform of an operation: of `Blur` the class `RandBlurd`.

    Examples
    --------
    >>> from neurocontrast.transforms.rand_detail import Blur
    >>> as_transform(Blur)("image", prob=0.3).prob
    0.3
    """
    name = f"Rand{operation.__name__}d"
    documented = [inspect.cleandoc(operation.__doc__ or ""), _PARAMETERS.rstrip()]
    for field, about in operation.model_fields.items():
        if field != "probability":
            ranges = [f"Range to draw from. {each.meaning}" for each in about.metadata if isinstance(each, Span)]
            documented += [f"{field} : default={about.default!r}", f"    {about.description or ''.join(ranges)}"]
    documented.append(_EXAMPLE.format(name=name))
    content = {"operation": operation, "__module__": __package__, "__doc__": "\n".join(documented)}
    moves = operation.moved is not Operation.moved
    return type(name, (RandMovingTransform if moves else RandVolumeTransform,), content)


def __getattr__(name: str) -> Any:
    """Return the MONAI transform of an operation of `OPERATIONS` by its name."""
    if name.startswith("Rand"):
        for operation in map(operation_called, OPERATIONS):
            if f"Rand{operation.__name__}d" == name:
                return as_transform(operation)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def brain_views(settings: AugmentSettings | None = None, *, key: str = "image") -> Compose:
    """Return the random transforms of the section ``augment:``, in its order.

    Parameters
    ----------
    settings : AugmentSettings, optional
        The operations; by default those of a configuration that says nothing of them.
    key : str
        Where volumes (channels, D, H, W) are in a dictionary.

    Returns
    -------
    Compose
        An operation that is None is not in it. Without any, a view is the volume itself.

    Examples
    --------
    >>> from neurocontrast.transforms import AugmentSettings, brain_views
    >>> [type(transform).__name__ for transform in brain_views(AugmentSettings()).transforms]
    ['RandBlurd', 'RandNoised', 'RandCutoutd']
    """
    settings = settings or AugmentSettings()
    made: dict[str, list[Any]] = {"first": [], "scanner": [], "last": []}
    for operation in (getattr(settings, name) for name in OPERATIONS):
        if operation is not None:
            made[operation.stage] += operation.transforms(key)
    if made["scanner"]:
        made["scanner"] = [ToSignald(key, at_once=False), *made["scanner"], FromSignald(key)]
    return Compose([*made["first"], *made["scanner"], *made["last"]])
