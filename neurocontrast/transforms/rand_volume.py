"""What random transforms of volumes share: settings that pydantic checks, a seed, parameters, and then the change."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from monai.transforms import MapTransform, RandomizableTransform
from monai.utils import MAX_SEED
from torch import Tensor

from neurocontrast.transforms.signal import close_signal, is_open, like, open_signal, plain_volume, put_signal

__all__ = ["RandBrainTransform", "RandVolumeTransform"]


class RandVolumeTransform(RandomizableTransform, MapTransform):
    """Base of random transforms of volumes (channels, D, H, W): a subclass says what is drawn, and what it does.

    After a call, `drawn` holds what the change was given; nothing where the transform was not applied. All volumes
    of one dictionary are changed alike. Volumes come back in float32, and none is changed in place.

    Parameters
    ----------
    keys : str or sequence of str
        The volumes.
    prob : float, optional
        How often; by default as often as the settings of the operation say.
    allow_missing_keys : bool
        Whether a key that the dictionary lacks is passed over.
    **ranges
        The fields of the operation's settings, by their names.

    Raises
    ------
    pydantic.ValidationError
        For a range that the settings refuse.
    """

    operation: ClassVar[Any]
    """The settings of the operation, with a field `probability`."""

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
        """Seed the transform, to the same stream as MONAI's own method and in a fiftieth of the time."""
        if seed is None or "R" not in vars(self):
            super().set_random_state(seed, state)
        else:
            self.R.seed(seed % MAX_SEED)
        return self

    def randomize(self, data: Any = None) -> None:
        """Draw whether the transform is applied, and how."""
        super().randomize(data)
        self.drawn = self.draw() if self._do_transform else {}

    def draw(self) -> dict[str, Any]:
        """Draw from ``self.R`` what `change` is given."""
        raise NotImplementedError

    def change(self, x_CDHW: Tensor, /, *_: Any, **drawn: Any) -> Tensor:
        """Return a changed volume, as a new tensor."""
        raise NotImplementedError

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the dictionary with changed volumes."""
        d = dict(data)
        self.randomize()
        for key in self.key_iterator(d):
            if self._do_transform:
                self.change_at(d, key)
        return d

    def change_at(self, d: dict[Hashable, Any], key: Hashable) -> None:
        """Replace one volume of the dictionary."""
        d[key] = like(self.change(plain_volume(d[key], key), **self.drawn), d[key])

    def between(self, limits: Sequence[float]) -> float:
        """Draw a number from a range."""
        return float(self.R.uniform(*limits))

    def one_of(self, axes: Sequence[int]) -> int:
        """Draw one of some axes."""
        return axes[int(self.R.random_sample() * len(axes))]


class RandBrainTransform(RandVolumeTransform):
    """Base of random transforms of the brain's signal; see `ToSignald`.

    Alone, such a transform finds brain and signal, and leads back to a volume normalised as before, its background
    one constant. Between `ToSignald` and `FromSignald` that is done once for all. A volume in which nothing stands
    out of the background is left as it is.
    """

    def change_at(self, d: dict[Hashable, Any], key: Hashable) -> None:
        """Replace one signal of the dictionary."""
        shared = is_open(d, key)
        signal = open_signal(d, key)
        if signal is not None:
            s_CDHW, brain_CDHW = self.change_brain(signal.signal_CDHW, signal.brain_CDHW, **self.drawn)
            put_signal(d, key, signal._replace(signal_CDHW=s_CDHW, brain_CDHW=brain_CDHW))
        if not shared:
            close_signal(d, key)

    def change_brain(self, s_CDHW: Tensor, brain_CDHW: Tensor, /, *_: Any, **drawn: Any) -> tuple[Tensor, Tensor]:
        """Return signal and brain; by default `change` does it to the signal, and the brain stays where it is."""
        return self.change(s_CDHW, **drawn), brain_CDHW
