"""How sure the predictions of images were, against how often they were right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from neurocontrast.reporting.answers import given_answers
from neurocontrast.reporting.blocks import Columns, Facts, Pictures, Section
from neurocontrast.reporting.figures.calibration import draw_reliability
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.section import SectionBuilder

__all__ = ["CONFIDENCE", "N_BINS", "Reliability", "measure_reliability"]

N_BINS = 15
"""Bins of equal width for the calibration error, as in Guo et al. (2017)."""
_METHODS = """
## Confidence.
The expected calibration error is the mean distance between confidence and accuracy in 15 bins of equal width
{{ cite("Guo C, Pleiss G, Sun Y, Weinberger KQ. On calibration of modern neural networks. ICML 2017.") }}.
"""


@dataclass(frozen=True)
class Reliability:
    """How sure the predictions were, against how often they were right.

    Attributes
    ----------
    bins : DataFrame
        ``low``, ``high``, ``n``, ``confidence`` and ``accuracy`` of each bin that holds an image.
    error : float
        Expected calibration error: mean |accuracy − confidence| over the bins, weighted by their images.
    confidence, accuracy : float
        Their means over all images.
    """

    bins: pd.DataFrame
    error: float
    confidence: float
    accuracy: float


def _build(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build confidence against accuracy."""
    del options
    measured = measure_reliability(given_answers(files))
    if measured is None:
        return None
    lead = "Whether the probability of the given class can be read as one: of images given 0.8, are 8 of 10 right?"
    gap = measured.confidence - measured.accuracy
    facts = [
        ("Expected calibration error", f"{measured.error:.3f}"),
        ("Mean confidence", f"{measured.confidence:.1%}"),
        ("Share that is right", f"{measured.accuracy:.1%}"),
        ("On the whole", f"{'too sure' if gap > 0 else 'not sure enough'} by {abs(gap) * 100:.1f} points"),
    ]
    blocks = [
        Columns([Pictures([draw_reliability(measured.bins, error=measured.error)])], [Facts(facts, title="In numbers")])
    ]
    return Section("confidence", "Confidence", blocks, lead=lead)


def measure_reliability(answers: pd.DataFrame, *, n_bins: int = N_BINS) -> Reliability | None:
    """Return confidence against accuracy in bins of equal width; None where no probabilities are recorded.

    References
    ----------
    Guo C, Pleiss G, Sun Y, Weinberger KQ. On calibration of modern neural networks. ICML 2017, eq. 3.
    """
    known = answers[answers["confidence"].notna()]
    if known.empty:
        return None
    # Bins are closed on the right, so that a probability of 1 falls into the last.
    number = np.clip(np.ceil(known["confidence"] * n_bins).astype(int) - 1, 0, n_bins - 1)
    right = known.assign(right=~known["wrong"].astype(bool)).groupby(number.rename("bin"))
    bins = right.agg(n=("right", "size"), confidence=("confidence", "mean"), accuracy=("right", "mean")).reset_index()
    bins = bins.assign(low=bins["bin"] / n_bins, high=(bins["bin"] + 1) / n_bins)
    error = float(np.average((bins["accuracy"] - bins["confidence"]).abs(), weights=bins["n"]))
    bins = bins[["low", "high", "n", "confidence", "accuracy"]]
    return Reliability(bins, error, float(known["confidence"].mean()), float((~known["wrong"].astype(bool)).mean()))


CONFIDENCE = SectionBuilder(
    "confidence",
    "Confidence",
    order=105,
    build=_build,
    methods=_METHODS,
    kinds=("binary", "multiclass"),
    of=("images",),
)
