"""``qc.json``, which `qc` writes: counts, and the bounds outside of which scans are flagged."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document
from neurocontrast.documents.environment import Environment


class RuleRecord(Document):
    """Bounds of a measure of image quality, outside of which a scan is flagged."""

    low: float | None = None
    high: float | None = None
    worse: str = ""
    """Side on which a scan is also compared with the other scans of its site: ``low``, ``high``,
    ``both``, or "" for none.
    """


class QualityRecord(Document):
    """Base of both forms of ``qc.json``: the keys for scans as well as for regional measures."""

    n: int
    """Number of scans, or of people with regional measures."""
    n_flagged: int
    n_deviations: float
    """Distance from usual values, such as a site's median, beyond which a value is an outlier, in
    robust standard deviations.
    """
    n_site: int
    """Smallest number of people with which a site gets bounds of its own."""
    environment: Environment | None = None


class ScanQualityRecord(QualityRecord):
    """Content of ``qc.json`` for the image quality of scans."""

    n_unreadable: int = 0
    rules: dict[str, RuleRecord] = Field(default_factory=dict)


class MeasureQualityRecord(QualityRecord):
    """Content of ``qc.json`` for people's regional measures."""

    kind: str
    """Kind of the judged data: ``measures``."""
    n_measures: int
    compared_with: str
    """Words for the reference group that everyone's measures are compared with."""
    share_outside: float
    problems: list[str] = Field(default_factory=list)
    """Problems of a whole table of measures, not of single people."""
