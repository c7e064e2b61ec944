"""``answer.json``: features that weights give for a sample, to check an installation with."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document

Ranges = dict[str, dict[str, list[float]]]
"""Channel → quantity → lowest and highest value over training scans."""


class KnownAnswer(Document):
    """Content of ``answer.json``: features and predictions that weights must give for a sample."""

    sample: list[str] | None = None
    """Files of the sample, below the folder of the answer; None for the phantom."""
    features: list[float]
    predictions: dict[str, float] = Field(default_factory=dict)
    """Folder of a probe → number that the probe predicts."""
    learned_from: Ranges = Field(default_factory=dict)
    """Ranges of the training scans, outside of which a new scan is unlike them; may be empty."""
