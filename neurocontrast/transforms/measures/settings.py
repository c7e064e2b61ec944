"""How regional measures become the input of an encoder, and the section ``augment:`` of them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from neurocontrast.settings import Settings
from neurocontrast.transforms.description import Replaceable
from neurocontrast.transforms.measures.corruption import MeasureCorruption
from neurocontrast.transforms.measures.noise import MeasureNoise
from neurocontrast.transforms.measures.site_shift import MeasureSiteShift

__all__ = ["MeasureAugmentSettings", "MeasureSettings"]


class MeasureSettings(Settings):
    """Choose how regional measures become the input of an encoder.

    Parameters
    ----------
    log_volumes : bool
        Whether volumes enter as natural logarithms.
    head_size : {'keep', 'residual', 'proportion'}
        What is done with the size of the head in volumes. ``keep``: nothing. ``residual``: what volumes are beside
        their linear regression on the intracranial volume among the people learned from. ``proportion``: volumes over
        the intracranial volume.
    max_missing : float
        Part of the measures that a person may lack; they are replaced by medians of the people learned from.
    clip : float
        Limit to either side, in standard deviations.

    Examples
    --------
    >>> from neurocontrast.transforms import MeasureSettings
    >>> MeasureSettings(head_size="residual").clip
    6.0
    """

    log_volumes: bool = True
    head_size: Literal["keep", "residual", "proportion"] = "keep"
    max_missing: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.02
    clip: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = 6.0

    @model_validator(mode="after")
    def _check_head_size(self) -> Self:
        if self.head_size == "proportion" and not self.log_volumes:
            raise ValueError("head_size: 'proportion' is a difference of logarithms; set log_volumes to true")
        return self


class MeasureAugmentSettings(Replaceable):
    """What turns the measures of a person into a view: the operations below, in this order.

    Measures are standardised, so that 1 is a standard deviation among the people learned from. An operation that is
    null is off.

    Parameters
    ----------
    kind : {"measures"}
        Says that these are settings for measures; follows ``data.kind`` and need not be written.
    corruption, site_shift, noise : settings or None
        Each operation's range.
    transforms : list of mapping or None
        See `neurocontrast.transforms.AugmentSettings`; the image is a tensor (n_measures, 1).

    Examples
    --------
    >>> from neurocontrast.transforms import MeasureAugmentSettings
    >>> MeasureAugmentSettings(site_shift=None).noise
    MeasureNoise(sd=0.3)
    """

    section: ClassVar[str] = "augment"
    kind: Literal["measures"] = "measures"
    corruption: MeasureCorruption | None = MeasureCorruption()
    site_shift: MeasureSiteShift | None = None
    noise: MeasureNoise | None = MeasureNoise()
