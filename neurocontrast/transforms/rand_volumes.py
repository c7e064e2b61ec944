"""Bases of the random operations on volumes, whose numbers are drawn for a whole batch."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from monai.transforms import MapTransform, RandomizableTransform
from torch import Tensor

from neurocontrast.seeds import derive_many_uniforms
from neurocontrast.transforms.augment import Operation, Pair
from neurocontrast.transforms.signal import from_signal, to_signal
from neurocontrast.transforms.volumes import (
    Array,
    Drawn,
    Numbers,
    Seeds,
    Volumes,
    VolumeTransformd,
    chosen,
    index_of,
    replaced,
)

ChangeOfBrains = Callable[..., tuple[Tensor, Tensor]]
"""Change signals and brains (b, ...) by numbers of each."""


class RandVolumed(RandomizableTransform, VolumeTransformd):
    """Apply a random operation to volumes; a subclass has a constructor, `operation` and `change`.

    All volumes of a dictionary are changed alike and become float32; none is changed in place. A
    volume in any batch, or alone, becomes the same, bit for bit, by the same seed.
    """

    settings: Operation
    operation: ClassVar[str]
    """Names the operation's random numbers: those of another operation leave them as they are."""

    def __init__(
        self,
        keys: str | Sequence[str],
        settings: Operation,
        *,
        allow_missing_keys: bool = False,
    ) -> None:
        MapTransform.__init__(self, keys, allow_missing_keys)
        self.settings = settings
        RandomizableTransform.__init__(self, settings.probability)
        self.seed = 0

    def limits(self) -> Mapping[str, Pair]:
        """Return ranges to draw a uniform number from, by the name of an argument of `change`."""
        return {name: limits for name, limits in self.settings if isinstance(limits, tuple)}

    def n_further(self, n_channels: int) -> int:  # noqa: ARG002
        """Count the uniform numbers in [0, 1) that `further` takes."""
        return 0

    def further(self, uniforms: Array, n_channels: int) -> Numbers:  # noqa: ARG002
        """Return further arguments of `change`, from uniform numbers (b, `n_further`)."""
        return {}

    def change(self, x_BCDHW: Tensor, /, *_: Any, **numbers: Any) -> Tensor:
        """Return changed volumes, by numbers of each (b, ...); `x_BCDHW` may be overwritten."""
        raise NotImplementedError

    def change_mask(
        self,
        brain_BCDHW: Tensor,
        /,
        *_: Any,
        **numbers: Any,  # noqa: ARG002
    ) -> Tensor:
        """Return masks between `ToSignald` and `FromSignald`; by default they stay as they are."""
        return brain_BCDHW

    def n_numbers(self, n_channels: int) -> int:
        """Count the numbers of a volume: whether to change, of the ranges, and further ones."""
        return 1 + len(self.limits()) + self.n_further(n_channels)

    def drawn(self, uniforms: Array, n_channels: int) -> Drawn:
        """Return how volumes are changed, by uniform numbers (b, `n_numbers`) in [0, 1)."""
        limits = self.limits()
        numbers = self.further(uniforms[:, 1 + len(limits) :], n_channels)
        for number, (name, (low, high)) in enumerate(limits.items()):
            numbers[name] = low + (high - low) * uniforms[:, 1 + number]
        return Drawn(uniforms[:, 0] < self.settings.probability, numbers)

    def apply(self, volumes: Volumes, drawn: Drawn | None) -> None:
        """Change the volumes for which this was drawn."""
        assert drawn is not None
        rows = np.flatnonzero(drawn.is_changed)
        if len(rows):
            self.change_rows(volumes, index_of(rows, volumes.x_BCDHW), drawn.of(rows).numbers)

    def change_rows(self, volumes: Volumes, index: Tensor | None, numbers: Numbers) -> None:
        """Change the volumes of an index."""
        changed = self.change(chosen(volumes.x_BCDHW, index), **numbers)
        volumes.x_BCDHW = replaced(volumes.x_BCDHW, index, changed)
        if volumes.brain_BCDHW is not None:
            moved = self.change_mask(chosen(volumes.brain_BCDHW, index), **numbers)
            volumes.brain_BCDHW = replaced(volumes.brain_BCDHW, index, moved)

    def randomize(self, data: Any = None) -> None:  # noqa: ARG002 (MONAI calls it with the data)
        """Draw the seed of the next volume."""
        self.seed = int(self.R.randint(2**63 - 1, dtype=np.int64))

    def drawn_for(self, n_channels: int) -> Drawn:
        """Return the numbers that change a volume of a dictionary."""
        (drawn,) = draw_all([self], [self.seed], n_channels=n_channels)
        return drawn

    def __call__(self, data: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the dictionary with changed volumes."""
        self.randomize()
        return VolumeTransformd.__call__(self, data)


class RandSignald(RandVolumed):
    """Apply a random operation to brains' signals; see `RandVolumed`.

    `change` is given the signals; where the operation `moves_brain`, `change_brain` is given the
    brains' masks too. Outside of `ToSignald` and `FromSignald` the transform does what these do.
    """

    moves_brain: ClassVar[bool] = False

    def change_brain(
        self, s_BCDHW: Tensor, brain_BCDHW: Tensor, /, *_: Any, **numbers: Any
    ) -> tuple[Tensor, Tensor]:
        """Return signals and brains, which may be overwritten; by default brains stay."""
        return self.change(s_BCDHW, **numbers), brain_BCDHW

    def change_rows(self, volumes: Volumes, index: Tensor | None, numbers: Numbers) -> None:
        """Change the signals of an index, or the volumes by way of their signals."""
        if volumes.scale is None:
            signals = to_signal(chosen(volumes.x_BCDHW, index))
            assert signals.brain_BCDHW is not None
            s_BCDHW, brain_BCDHW = self.change_brain(
                signals.x_BCDHW, signals.brain_BCDHW, **numbers
            )
            changed = from_signal(Volumes(s_BCDHW, brain_BCDHW, signals.scale))
            volumes.x_BCDHW = replaced(volumes.x_BCDHW, index, changed)
            return
        assert volumes.brain_BCDHW is not None
        if not self.moves_brain:
            changed = self.change(chosen(volumes.x_BCDHW, index), **numbers)
            volumes.x_BCDHW = replaced(volumes.x_BCDHW, index, changed)
            return
        volumes.x_BCDHW, volumes.brain_BCDHW = change_chosen(
            self.change_brain, volumes.x_BCDHW, volumes.brain_BCDHW, index, numbers
        )


def change_chosen(
    change: ChangeOfBrains,
    s_BCDHW: Tensor,
    brain_BCDHW: Tensor,
    index: Tensor | None,
    numbers: Numbers,
) -> tuple[Tensor, Tensor]:
    """Return all signals and brains after the ones at an index were changed."""
    changed, brains = change(chosen(s_BCDHW, index), chosen(brain_BCDHW, index), **numbers)
    return replaced(s_BCDHW, index, changed), replaced(brain_BCDHW, index, brains)


def draw_all(operations: Sequence[RandVolumed], seeds: Seeds, *, n_channels: int) -> list[Drawn]:
    """Draw the numbers of each operation for each seed; a second of a kind has other numbers."""
    if not operations:
        return []
    n_of_kind = Counter[str]()
    keys = []
    counts = []
    for operation in operations:
        keys.append(("brain view", operation.operation, n_of_kind[operation.operation]))
        n_of_kind[operation.operation] += 1
        counts.append(operation.n_numbers(n_channels))
    uniforms = derive_many_uniforms(keys, samples=seeds, n_numbers=counts)
    return [
        operation.drawn(numbers, n_channels)
        for operation, numbers in zip(operations, uniforms, strict=True)
    ]
