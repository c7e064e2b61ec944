"""``explain.json``, which `explain` writes next to a map of the brain or a ranking of measures."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document
from neurocontrast.documents.environment import Environment

EXPLANATION_FILE = "explain.json"


class TopRegion(Document):
    """Peak of a brain map (MNI coordinates, region), or a ranked regional measure, and its share.

    The share is in the differences between subjects of the score, which is the output of the
    explained probe for a subject.
    """

    region: str | None = None
    """Ranked regional measure, or brain region nearest to a peak of a map; None for a peak if scans
    are not in MNI152, or no region is near.
    """
    value: float | None = None
    """Share of the place, or of the measure, in the differences of the score between subjects."""
    x: float | None = None
    """MNI coordinate of a peak in mm, as `y` and `z`; None for a regional measure."""
    y: float | None = None
    z: float | None = None
    low: float | None = None
    """Lower end of the 95 % interval of a regional measure; None for a peak of a map."""
    high: float | None = None


class BlockShare(Document):
    """Share of one group of features (a block) in the score's differences between subjects.

    The score is the output of the explained probe for a subject.
    """

    name: str
    share: float
    map: str | None = None
    """File of the block's brain map; None for measures, whose ranking has a column for the
    block.
    """


class ExplainedProbe(Document):
    """Section ``probe`` of ``explain.json``: the fitted linear model whose score is explained."""

    name: str
    strength: float | None = None
    n_scans: int | None = None


class ExplanationMethod(Document):
    """Method of an explanation, and the brain map or ranking of measures made by the method."""

    method: str | None = None
    """Method: ``occlusion`` for scans, ``replacement by the mean`` for regional measures."""
    patch_mm: float | None = None
    fill: str | None = None
    smooth_mm: float | None = None
    spacing_mm: float | list[float] | None = None
    shape: list[int] | None = None
    affine: list[list[float]] = Field(default_factory=list)
    template: str | None = None
    """Template space of the map; None if the scans' headers do not say MNI152."""
    atlas: str | None = None
    software: str | None = None
    n_measures: int | None = None
    resampled: str | None = None
    """Unit that is resampled for intervals: ``site`` or ``subject``."""
    n_units: int | None = None
    n_resamples: int | None = None
    seed: int | None = None
    map: str = "saliency.nii.gz"
    top_regions: list[TopRegion] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    blocks: list[BlockShare] = Field(default_factory=list)
    """Shares of groups of feature columns (blocks); empty in explanations of earlier versions."""
    n_members: int | None = None
    """Number of encoders of the run, whose scores were averaged; None for one encoder."""


class ExplanationRecord(ExplanationMethod):
    """Content of ``explain.json``: subjects, score and method of an explanation."""

    format: int
    n_subjects: int | None = None
    n_of_class: dict[str, int] | None = None
    """Class → number of subjects; None for a continuous target."""
    target: str | None = None
    positive: str | None = None
    score: str | None = None
    simulated: bool = False
    encoder: str | None = None
    """SHA-256 of the weights of the encoder whose features the explained probe reads."""
    probe: ExplainedProbe | None = None
    quantity: str = ""
    """Meaning of the map's values, such as shares of the score's differences between subjects.
    Empty in files of earlier versions, whose maps hold averages over subjects.
    """
    environment: Environment | None = None
