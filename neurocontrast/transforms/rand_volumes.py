"""Base classes of random operations on volumes, which draw random numbers for a whole batch."""

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
"""Function that changes signals and brain masks (b, ...), given random numbers for each sample."""


class RandVolumed(RandomizableTransform, VolumeTransformd):
    """Base class of random operations on volumes; a subclass defines `operation` and `change`.

    All volumes of a dictionary are changed with the same random numbers, and become new float32
    tensors. With the same seed, a volume changes in the same way, bit for bit, in any batch or
    alone.
    """

    settings: Operation
    operation: ClassVar[str]
    """Name from which the operation's random numbers are derived, so that adding another operation
    to the chain does not change these numbers."""

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
        """Return ranges of the settings from which numbers are drawn uniformly, by name.

        The names are arguments of `change`.
        """
        return {name: limits for name, limits in self.settings if isinstance(limits, tuple)}

    def n_further(self, n_channels: int) -> int:  # noqa: ARG002
        """Return the number of random numbers in [0, 1) that method `further` takes for a sample.

        The number may depend on the channels of a volume.
        """
        return 0

    def further(self, uniforms: Array, n_channels: int) -> Numbers:  # noqa: ARG002
        """Return the arguments of `change` that are not drawn uniformly from a range, by name.

        `change` is the method that changes volumes by random numbers, and `limits` has the ranges
        of its other arguments. Each returned argument is an array, with a row for each sample, made
        of `uniforms` (b, n_further), random numbers in [0, 1). By default there are none.
        """
        return {}

    def change(self, x_BCDHW: Tensor, /, *_: Any, **numbers: Any) -> Tensor:
        """Return the changed volumes, given `numbers` drawn for each sample; may overwrite volumes.

        A subclass defines the change.
        """
        raise NotImplementedError

    def change_mask(
        self,
        brain_BCDHW: Tensor,
        /,
        *_: Any,
        **numbers: Any,  # noqa: ARG002
    ) -> Tensor:
        """Return the changed brain masks, given `numbers` drawn for each sample.

        Masks are present only between `ToSignald` and `FromSignald`; by default they are unchanged.
        """
        return brain_BCDHW

    def n_numbers(self, n_channels: int) -> int:
        """Return the number of random numbers of one sample.

        One number decides on a change; others become arguments of `change`.
        """
        return 1 + len(self.limits()) + self.n_further(n_channels)

    def drawn(self, uniforms: Array, n_channels: int) -> Drawn:
        """Return the operation's random numbers, made of `uniforms` (b, `n_numbers`) in [0, 1).

        The result tells which samples are changed, and with which arguments of `change`.
        """
        limits = self.limits()
        numbers = self.further(uniforms[:, 1 + len(limits) :], n_channels)
        for number, (name, (low, high)) in enumerate(limits.items()):
            numbers[name] = low + (high - low) * uniforms[:, 1 + number]
        return Drawn(uniforms[:, 0] < self.settings.probability, numbers)

    def apply(self, volumes: Volumes, drawn: Drawn | None) -> None:
        """Change some `volumes` of a batch in place: the samples for which `drawn` says so.

        `drawn` are the random numbers of this operation for the batch.
        """
        assert drawn is not None
        rows = np.flatnonzero(drawn.is_changed)
        if len(rows):
            self.change_rows(volumes, index_of(rows, volumes.x_BCDHW), drawn.of(rows).numbers)

    def change_rows(self, volumes: Volumes, index: Tensor | None, numbers: Numbers) -> None:
        """Change the volumes, and brain masks if present, at batch positions `index`, in place.

        `numbers` are the arguments of `change` for these samples; `index` None means all samples.
        """
        changed = self.change(chosen(volumes.x_BCDHW, index), **numbers)
        volumes.x_BCDHW = replaced(volumes.x_BCDHW, index, changed)
        if volumes.brain_BCDHW is not None:
            moved = self.change_mask(chosen(volumes.brain_BCDHW, index), **numbers)
            volumes.brain_BCDHW = replaced(volumes.brain_BCDHW, index, moved)

    def randomize(self, data: Any = None) -> None:  # noqa: ARG002 (MONAI calls it with the data)
        """Draw a seed, from which `drawn_for` draws the random numbers of the next volume."""
        self.seed = int(self.R.randint(2**63 - 1, dtype=np.int64))

    def drawn_for(self, n_channels: int) -> Drawn:
        """Return the random numbers of one volume, drawn by the seed that `randomize` drew."""
        (drawn,) = draw_all([self], [self.seed], n_channels=n_channels)
        return drawn

    def __call__(self, data: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return a copy of dictionary `data` in which the volumes are changed at random."""
        self.randomize()
        return VolumeTransformd.__call__(self, data)


class RandSignald(RandVolumed):
    """Base class of random operations on the brain's signal, a volume rescaled by `ToSignald`.

    A signal is 0 outside the brain and 1 at the brain's 99th percentile. A subclass defines
    `change`, which receives signals. If `moves_brain` is True, the subclass defines `change_brain`,
    which receives brain masks too. Without `ToSignald` and `FromSignald` around, the transform
    converts volumes to signals and back by itself.
    """

    moves_brain: ClassVar[bool] = False

    def change_brain(
        self, s_BCDHW: Tensor, brain_BCDHW: Tensor, /, *_: Any, **numbers: Any
    ) -> tuple[Tensor, Tensor]:
        """Return changed signals and brain masks, given `numbers` drawn for each sample.

        A signal is a volume that `to_signal` has rescaled: 0 outside the brain, 1 at the brain's
        99th percentile. By default masks are unchanged. Both tensors may be overwritten.
        """
        return self.change(s_BCDHW, **numbers), brain_BCDHW

    def change_rows(self, volumes: Volumes, index: Tensor | None, numbers: Numbers) -> None:
        """Change signals at batch positions `index` in place, and brain masks if `moves_brain`.

        A signal is a volume that `to_signal` has rescaled: 0 outside the brain, 1 at the brain's
        99th percentile. Volumes that are no signals yet are converted to signals and back.
        `numbers` are the arguments of `change` for these samples; `index` None means all samples.
        """
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
    """Return the signals and brain masks of all samples, both changed at batch positions `index`.

    A signal is a volume that `to_signal` has rescaled: 0 outside the brain, 1 at the brain's 99th
    percentile. `change` returns changed signals and masks, given those of the chosen samples and
    `numbers`, their random numbers. The tensors given may be overwritten.
    """
    changed, brains = change(chosen(s_BCDHW, index), chosen(brain_BCDHW, index), **numbers)
    return replaced(s_BCDHW, index, changed), replaced(brain_BCDHW, index, brains)


def draw_all(operations: Sequence[RandVolumed], seeds: Seeds, *, n_channels: int) -> list[Drawn]:
    """Draw the random numbers of several operations for the samples of a batch, by their seeds.

    The result has an entry for each operation, in order. Two operations of one kind, such as two
    noises, draw different numbers.
    """
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
