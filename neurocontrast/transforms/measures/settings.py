"""The section ``augment:`` of regional measures."""

from __future__ import annotations

from typing import ClassVar, Literal

from neurocontrast.transforms.description import Replaceable
from neurocontrast.transforms.measures.corruption import MeasureCorruption
from neurocontrast.transforms.measures.noise import MeasureNoise
from neurocontrast.transforms.measures.site_shift import MeasureSiteShift

__all__ = ["MeasureAugmentSettings"]


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
        As of `neurocontrast.transforms.AugmentSettings`; the image is a tensor (n_measures, 1).

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
