"""Take a new site's bias out of predictions, by a few scans of that site whose truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit, logit

from neurocontrast.evaluation.rows import Floats

MIN_SHOTS = 5
"""A site with fewer labelled subjects is left as it is: their mean error is mostly themselves."""
_FAR = 30.0  # no shift of log-odds is larger
_EPSILON = 1e-9


@dataclass(frozen=True)
class SiteShift:
    """What is added to the predictions of a site.

    Parameters
    ----------
    n_subjects : int
        Labelled subjects of the site.
    shift : float or None
        In the units of the target, or in log-odds; None where the labelled subjects cannot tell it.
    standard_error : float or None
        Of the shift; None for log-odds.
    """

    n_subjects: int
    shift: float | None
    standard_error: float | None = None


def fit_shifts(
    scores: Floats, truths: Floats, sites: pd.Series, subjects: pd.Series, kind: str
) -> dict[str, SiteShift]:
    """Return the shift of each site: an intercept alone, of scans with a known truth.

    Parameters
    ----------
    scores : ndarray (n,)
        Predicted numbers, or probabilities of the positive class.
    truths : ndarray (n,)
        The numbers, or 1 for the positive class and 0 for the other.
    sites, subjects : Series (n,)
        Of each scan; several scans of a subject count as one.
    kind : {"continuous", "binary"}
        Whether the shift is a mean error, or the intercept of a logistic regression whose offset is the log-odds.
    """
    labelled = pd.DataFrame(
        {"site": sites.to_numpy(), "subject": subjects.to_numpy(), "score": scores, "truth": truths}
    )
    shifts = {}
    for site, part in labelled.groupby("site"):
        people = part.groupby("subject")[["score", "truth"]].mean()
        n, score, truth = len(people), people["score"].to_numpy(), people["truth"].to_numpy()
        if n < MIN_SHOTS or (kind == "binary" and not 0 < truth.mean() < 1):
            shifts[str(site)] = SiteShift(n, None)
        elif kind == "continuous":
            error = truth - score
            shifts[str(site)] = SiteShift(n, float(error.mean()), float(error.std(ddof=1) / np.sqrt(n)))
        else:
            odds = logit(np.clip(score, _EPSILON, 1 - _EPSILON))
            found = brentq(lambda shift: expit(odds + shift).sum() - truth.sum(), -_FAR, _FAR)  # noqa: B023
            shifts[str(site)] = SiteShift(n, float(found))
    return shifts


def shift_scores(scores: Floats, sites: pd.Series, shifts: Mapping[str, SiteShift], kind: str) -> Floats:
    """Return the scores with the shift of each site added; sites without one keep theirs."""
    known = {site: found.shift for site, found in shifts.items() if found.shift is not None}
    added = np.array([known.get(site, 0.0) if isinstance(site, str) else 0.0 for site in sites])
    if kind == "continuous":
        return scores + added
    return np.where(added == 0, scores, expit(logit(np.clip(scores, _EPSILON, 1 - _EPSILON)) + added))
