"""``answer.json``: features that weights must give for a test sample, to check an installation."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document

Ranges = dict[str, dict[str, list[float]]]
"""Channel of a scan → measure of the image → lowest and highest value over training scans."""


class KnownAnswer(Document):
    """Content of ``answer.json`` in a folder of weights: right results for a test sample.

    The results are features, and predictions of the probes in the folder. The sample is one scan,
    or a table of regional measures.
    """

    sample: list[str] | None = None
    """Files of the sample, relative to the folder of ``answer.json``; None for the built-in
    phantom.
    """
    features: list[float]
    predictions: dict[str, float] = Field(default_factory=dict)
    """Folder of a probe → number that the probe predicts for the sample."""
    learned_from: Ranges = Field(default_factory=dict)
    """Ranges of image measures over the training scans, with which a new scan is compared.
    May be empty.
    """
