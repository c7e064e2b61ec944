"""``explain.json``, which `explain` writes beside a map of the brain or a ranking of measures."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document
from neurocontrast.documents.environment import Environment

EXPLANATION_FILE = "explain.json"


class TopRegion(Document):
    """Peak of a map, or measure of a ranking, with its share of the differences in score."""

    region: str | None = None
    """Nearest region; None where scans are not in MNI152, or no region is near."""
    value: float | None = None
    x: float | None = None
    """MNI coordinates of a peak in mm; None of a measure."""
    y: float | None = None
    z: float | None = None
    low: float | None = None
    """Ends of the 95 % interval of a measure; None of a peak."""
    high: float | None = None


class BlockShare(Document):
    """Share of a block of an encoder's features in the differences in score."""

    name: str
    share: float
    map: str | None = None
    """File of the block's map; a ranking of measures has a column of the block's name."""


class ExplainedProbe(Document):
    """Section ``probe``: the fitted model whose score is explained."""

    name: str
    strength: float | None = None
    n_scans: int | None = None


class ExplanationMethod(Document):
    """Method of an explanation, and the map or ranking that was made; keys differ by method."""

    method: str | None = None
    """``occlusion`` of scans, or ``replacement by the mean`` of measures."""
    patch_mm: float | None = None
    fill: str | None = None
    smooth_mm: float | None = None
    spacing_mm: float | list[float] | None = None
    shape: list[int] | None = None
    affine: list[list[float]] = Field(default_factory=list)
    template: str | None = None
    """Space of the map; None where headers do not say MNI152."""
    atlas: str | None = None
    software: str | None = None
    n_measures: int | None = None
    resampled: str | None = None
    """Unit of the resamples: ``site`` or ``subject``."""
    n_units: int | None = None
    n_resamples: int | None = None
    seed: int | None = None
    map: str = "saliency.nii.gz"
    top_regions: list[TopRegion] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    blocks: list[BlockShare] = Field(default_factory=list)
    """Blocks of features; explanations of earlier versions have none."""
    n_members: int | None = None
    """Members of a run whose scores were averaged; None of one encoder."""


class ExplanationRecord(ExplanationMethod):
    """Content of ``explain.json``: subjects, score and method of an explanation."""

    format: int
    n_subjects: int | None = None
    n_of_class: dict[str, int] | None = None
    """Subjects by class; None of a continuous target."""
    target: str | None = None
    positive: str | None = None
    score: str | None = None
    simulated: bool = False
    encoder: str | None = None
    """SHA-256 of the encoder's weights."""
    probe: ExplainedProbe | None = None
    quantity: str = ""
    """Unit of the map's values, in words; earlier versions averaged maps over subjects."""
    environment: Environment | None = None
