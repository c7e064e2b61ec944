"""What share of the scans with about the same predicted probability are of the class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import norm

from neurocontrast.evaluation.crossval import OutOfFold
from neurocontrast.evaluation.target import Target

__all__ = ["calibration_table", "wilson_interval"]

Floats = npt.NDArray[np.float64]

MAX_BINS = 10
SCANS_PER_BIN = 20
"""With fewer scans than `MAX_BINS` times this there are fewer bins, but two at least."""


def calibration_table(
    target: Target, models: Mapping[str, OutOfFold], subjects: npt.NDArray[np.object_], *, level: float
) -> pd.DataFrame:
    """Return, for each model and bin of predicted probability, the mean prediction and the observed share.

    Bins hold about equally many scans; equal predictions are never parted. A scan's
    prediction is its mean over repeats. The interval is Wilson's, for as many draws as the bin has
    subjects. Several classes: each against the rest. Empty for a continuous target.
    """
    rows = []
    for model, predictions in models.items():
        for name, code, scores in _class_scores(target, predictions):
            tested = predictions.tested
            hits = target.values[tested] == code
            for number, members in enumerate(_equal_count_bins(scores[tested])):
                observed = float(hits[members].mean())
                n_subjects = len(set(subjects[tested[members]]))
                low, high = wilson_interval(observed, n_subjects, level=level)
                row: dict[str, Any] = {"model": model, "bin": number, "n": len(members)}
                row |= {"class": name} if target.kind == "multiclass" else {}
                mean = float(scores[tested][members].mean())
                row |= {"mean_predicted": mean, "observed": observed, "observed_low": low, "observed_high": high}
                rows.append(row)
    return pd.DataFrame(rows)


def wilson_interval(share: float, n: int, *, level: float) -> tuple[float, float]:
    """Return the score interval of a share of `n` independent draws (Wilson, 1927).

    Examples
    --------
    >>> [round(end, 3) for end in wilson_interval(0.0, 10, level=0.95)]
    [0.0, 0.278]
    """
    z = float(norm.ppf((1 + level) / 2))
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    reach = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, float(middle - reach)), min(1.0, float(middle + reach))


def _class_scores(target: Target, predictions: OutOfFold) -> Iterator[tuple[str, int, Floats]]:
    if target.kind == "continuous":
        return
    known = predictions.folds >= 0
    for code, name in enumerate(target.classes):
        if target.kind == "binary" and code == 0:
            continue
        scores = predictions.scores if target.kind == "binary" else predictions.scores[..., code]
        totals = np.where(known, scores, 0.0).sum(axis=0)
        yield name, code, totals / np.maximum(known.sum(axis=0), 1)


def _equal_count_bins(scores: Floats) -> list[npt.NDArray[np.intp]]:
    n_bins = int(np.clip(len(scores) // SCANS_PER_BIN, 2, MAX_BINS))
    edges = np.unique(np.quantile(scores, np.arange(1, n_bins) / n_bins, method="inverted_cdf"))
    codes = np.searchsorted(edges, scores, side="left")
    return [np.flatnonzero(codes == code) for code in np.unique(codes)]
