"""How regional measures become the input of an encoder, and the section ``augment:`` of them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from neurocontrast.settings import Settings
from neurocontrast.transforms.augment import Probability
from neurocontrast.transforms.description import Replaceable

__all__ = ["MeasureAugmentSettings", "MeasureSettings"]

_Sd = Annotated[float, Field(ge=0.0, le=10.0, allow_inf_nan=False)]


class MeasureSettings(Settings):
    """Choose how regional measures become the input of an encoder.

    Examples
    --------
    >>> from neurocontrast.transforms import MeasureSettings
    >>> MeasureSettings(head_size="residual").clip
    6.0
    """

    log_volumes: bool = True
    """Whether volumes enter as natural logarithms."""
    head_size: Literal["keep", "residual", "proportion"] = "keep"
    """What is done with the size of the head in volumes: nothing; volumes less their linear regression on the
    intracranial volume among the people learned from; or volumes over the intracranial volume."""
    max_missing: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.02
    """Part of the measures that a person may lack; they are replaced by medians of the people learned from."""
    clip: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = 6.0
    """Limit to either side, in standard deviations."""

    @model_validator(mode="after")
    def _check_head_size(self) -> Self:
        if self.head_size == "proportion" and not self.log_volumes:
            raise ValueError("head_size: 'proportion' is a difference of logarithms; set log_volumes to true")
        return self


class MeasureCorruption(Settings):
    """Replace some measures by those of people learned from, each measure by that of a person drawn for it.

    So every replaced value is one that the measure takes, while the measures of a person no longer belong together
    (SCARF, Bahri et al. 2022, section 3).
    """

    fraction: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.2
    """Part of the measures that is replaced, on average."""


class MeasureSiteShift(Settings):
    """Shift and scale every measure, each by numbers of its own, as scanners differ from one another."""

    probability: Probability = 0.5
    """How often a view is changed."""
    shift_sd: _Sd = 0.3
    """Standard deviation of the shifts, in standard deviations of the measure."""
    scale_sd: _Sd = 0.1
    """Standard deviation of the logarithms of the factors."""


class MeasureNoise(Settings):
    """Add normal noise to every measure."""

    sd: Annotated[float, Field(gt=0.0, le=10.0, allow_inf_nan=False)] = 0.3
    """Standard deviation of the noise, in standard deviations of the measure."""


class MeasureAugmentSettings(Replaceable):
    """Choose what turns the measures of a person into a view: the operations below, in this order.

    Measures are standardised, so that 1 is a standard deviation among the people learned from. An operation that is
    null is off.

    Examples
    --------
    >>> from neurocontrast.transforms import MeasureAugmentSettings
    >>> MeasureAugmentSettings(site_shift=None).noise
    MeasureNoise(sd=0.3)
    """

    section: ClassVar[str] = "augment"
    kind: Literal["measures"] = "measures"
    """Says that these are settings for measures; follows ``data.kind`` and need not be written."""
    corruption: MeasureCorruption | None = MeasureCorruption()
    site_shift: MeasureSiteShift | None = None
    noise: MeasureNoise | None = MeasureNoise()
