"""Random operations on volumes: settings that pydantic checks, what is drawn, and the change. Loads no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field
from pydantic_core import CoreSchema, core_schema

from neurocontrast.settings import Settings

if TYPE_CHECKING:
    from torch import Tensor

OPERATIONS = {
    "synthesise": ".rand_tissue:Synthesise",
    "flip": ".rand_space:Flip",
    "tissue_shift": ".rand_tissue:TissueShift",
    "blur": ".rand_detail:Blur",
    "noise": ".rand_intensity:Noise",
    "cutout": ".rand_space:Cutout",
    "crop": ".rand_space:ResizedCrop",
    "affine": ".rand_space:BrainAffine",
    "contrast": ".rand_intensity:BrainContrast",
    "bias_field": ".rand_intensity:BrainBiasField",
    "sharpness": ".rand_detail:BrainSharpness",
    "rician": ".rand_intensity:BrainRician",
    "tight_mask": ".rand_mask:TightMask",
    "mask_edge": ".rand_mask:MaskEdge",
}
"""Key of ``augment:`` → module and class of the operation. Within a stage, operations are applied in this order."""

Pair = tuple[float, float]
Random = np.random.RandomState


class Span:
    """Annotation of a range [lowest, highest] to draw from, within limits: pydantic's `ge`, `gt`, `le`, `lt`."""

    def __init__(self, meaning: str = "", **limits: float) -> None:
        self.meaning, self.limits = meaning, limits

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        del source, handler
        number = core_schema.float_schema(allow_inf_nan=False, **self.limits)  # type: ignore[arg-type]
        return core_schema.no_info_after_validator_function(_ordered, core_schema.tuple_schema([number, number]))


def _ordered(limits: Pair) -> Pair:
    low, high = limits
    if low > high:
        raise ValueError(f"a range is [lowest, highest]. Got [{low:g}, {high:g}]; swap the two numbers.")
    return limits


def _distinct(axes: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(axes)) != len(axes):
        raise ValueError(f"axes must be distinct. Got {list(axes)}.")
    return axes


Probability = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Axes = Annotated[
    tuple[Literal[0, 1, 2], ...],
    Field(min_length=1, description="Axes to choose among: 0 left to right, 1 back to front, 2 bottom to top."),
    AfterValidator(_distinct),
]


class Operation(Settings):
    """Base of random operations: a subclass has a field for each setting, `draw`, and `change` or `change_brain`.

    A line in `OPERATIONS` makes an operation a key of ``augment:``; `neurocontrast.transforms.as_transform` makes the
    MONAI transform. The module of an operation imports PyTorch within functions alone, so that a configuration can be
    read without PyTorch.

    Parameters
    ----------
    probability : float
        How often the operation is applied.

    Examples
    --------
    >>> from neurocontrast.transforms import as_transform
    >>> class Brighter(Operation):
    ...     gain: float = 2.0
    ...
    ...     def change(self, x_CDHW):
    ...         return x_CDHW * self.gain
    >>> as_transform(Brighter)("image", prob=1.0, gain=3.0).settings
    Brighter(probability=1.0, gain=3.0)
    """

    stage: ClassVar[Literal["first", "scanner", "last"]] = "last"
    """When a view applies the operation; ``scanner`` for those that change the brain's signal (`ToSignald`)."""

    probability: Probability = 0.5

    def draw(self, random: Random) -> dict[str, Any]:
        """Return the random arguments of `change`; by default none."""
        del random
        return {}

    def change(self, x_CDHW: Tensor, /, *_: Any, **drawn: Any) -> Tensor:
        """Return a changed volume, as a new tensor."""
        raise NotImplementedError

    def change_brain(self, s_CDHW: Tensor, brain_CDHW: Tensor, /, *_: Any, **drawn: Any) -> tuple[Tensor, Tensor]:
        """Return signal and brain; by default `change` is applied to the signal, and the brain stays where it is."""
        return self.change(s_CDHW, **drawn), brain_CDHW

    def moved(self, shape: Sequence[int], /, *_: Any, **drawn: Any) -> NDArray[np.float64]:
        """Return the map (4, 4) from voxels of the changed volume to those of the volume, where these differ."""
        raise NotImplementedError

    def transforms(self, key: str) -> list[Any]:
        """Return the MONAI transforms that apply the operation to one item of a dictionary."""
        from neurocontrast.transforms import as_transform

        ranges = {name: value for name, value in self if name != "probability"}
        return [as_transform(type(self))(key, self.probability, **ranges)]


def operation_called(name: str) -> type[Operation]:
    """Return the class of an operation of `OPERATIONS`."""
    module, _, of_class = OPERATIONS[name].partition(":")
    found: type[Operation] = getattr(import_module(module, __package__), of_class)
    return found
