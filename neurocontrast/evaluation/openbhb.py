"""The OpenBHB score: age of people at unseen sites, against how much of the site is left (Dufumier et al., 2022)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.confounds import ConfoundProbes, Reading, frequent_levels, median_error
from neurocontrast.evaluation.splits import Split, leave_site_out
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import pooled_metrics

__all__ = ["SITE_EXPONENT", "openbhb_score", "site_folds"]

Rows = npt.NDArray[np.intp]

SITE_EXPONENT = 0.3
"""Of the balanced accuracy, as in the challenge."""
MAX_SITE_FOLDS = 10


def openbhb_score(probes: ConfoundProbes, rows: Rows) -> dict[str, Any] | str:
    """Return the score with its parts and intervals, or why there is none. Lower is better.

    Mean absolute error of age, by ridge regression tested on sites that it was not trained on, times
    the balanced accuracy of the site, by logistic regression in stratified folds, to the power 0.3.
    """
    table = probes.table.iloc[rows]
    known = rows[(table["site"].notna() & table["age"].notna()).to_numpy()]
    kept = known[frequent_levels(probes.table["site"].iloc[known], probes.subjects[known])]
    sites = probes.table["site"].iloc[kept].to_numpy(dtype=object)
    if len(set(sites)) < 2:
        return "fewer than two sites with five subjects of known age"
    ages = probes.table["age"].iloc[kept].to_numpy(dtype=float)
    if np.ptp(ages) == 0:
        return "age does not vary"
    site = probes.read("site", kept)
    if isinstance(site, str):
        return f"site: {site}"
    target, splits = Target("age", "continuous", ages), site_folds(sites, probes.subjects[kept])
    if any(len(split.train) < 2 for split in splits):
        return "the same people at all sites: none of them is unseen"
    age = Reading(target, kept, probes.fit(target, kept, splits), splits)
    return _score(probes, site, age) | {"n_site_folds": len(splits)}


def site_folds(sites: npt.NDArray[np.object_], subjects: npt.NDArray[np.object_]) -> list[Split]:
    """Return folds that hold out every site once: one a site, or ten groups of sites of about equal size.

    A subject who was scanned at several sites is not trained on while one of them is tested.
    """
    sizes = pd.Series(sites).value_counts(sort=False).sort_index().sort_values(ascending=False, kind="stable")
    filled = np.zeros(min(MAX_SITE_FOLDS, len(sizes)))
    fold_of = {}
    for site, size in sizes.items():
        fold_of[site] = int(filled.argmin())
        filled[fold_of[site]] += size
    return leave_site_out([str(fold_of[site]) for site in sites], subjects, names=list(subjects))


def _score(probes: ConfoundProbes, site: Reading, age: Reading) -> dict[str, Any]:
    accuracy = float(pooled_metrics(site.target, site.model, names=["balanced_accuracy"])["balanced_accuracy"][0])
    error = float(pooled_metrics(age.target, age.model, names=["mae"])["mae"][0])
    interval = None
    if probes.settings.n_bootstraps:
        # The same scans and seed, and subjects in both, so the two are resampled together.
        errors = probes.resample(age, "mae", by_subject=True)
        accuracies = probes.resample(site, "balanced_accuracy")
        scores = errors.combine(accuracies, lambda mae, accuracy: mae * accuracy**SITE_EXPONENT)
        interval = scores.interval(level=probes.settings.confidence_level)
    levels, guessed = len(site.target.classes), median_error(age.target, age.splits)
    return {
        "score": error * accuracy**SITE_EXPONENT,
        "interval": None if interval is None else list(interval),
        "lower_is_better": True,
        "chance": guessed * (1 / levels) ** SITE_EXPONENT,
        "age_mae": error,
        "age_mae_chance": guessed,
        "site_balanced_accuracy": accuracy,
        "site_chance": 1 / levels,
        "exponent": SITE_EXPONENT,
        "n": {"scans": len(age.rows), "subjects": len(set(probes.subjects[age.rows])), "sites": levels},
    }
