"""``qc.json``, which `qc` writes: counts, and the bounds by which scans or people are flagged."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document
from neurocontrast.documents.environment import Environment


class RuleRecord(Document):
    """Bounds of a measure of image quality."""

    low: float | None = None
    high: float | None = None
    worse: str = ""
    """Side, ``low`` or ``high``, on which a scan is also compared with its site."""


class QualityRecord(Document):
    """Keys of both kinds of ``qc.json``."""

    n: int
    """Number of scans, or of people with regional measures."""
    n_flagged: int
    n_deviations: float
    """Robust standard deviations from the median of a site within which a scan is usual."""
    n_site: int
    """Sites of fewer people have no bounds of their own."""
    environment: Environment | None = None


class ScanQualityRecord(QualityRecord):
    """Content of ``qc.json`` where scans were judged."""

    n_unreadable: int = 0
    rules: dict[str, RuleRecord] = Field(default_factory=dict)


class MeasureQualityRecord(QualityRecord):
    """Content of ``qc.json`` where regional measures of people were judged."""

    kind: str
    """``measures``."""
    n_measures: int
    compared_with: str
    """The people whom all are compared with, in words."""
    share_outside: float
    problems: list[str] = Field(default_factory=list)
    """Problems of whole tables."""
