"""Which scans lie outside the distribution that the model learned from: counts, sites, and the furthest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from scipy.stats import binom

from neurocontrast.evaluation.schema import Outlyingness
from neurocontrast.evaluation.schema.sections import SiteOutside
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.predictions import name_scans

_SURPRISING = 0.01
_REFERENCES = {
    "training folds": "the scans of the training folds",
    "probe": "the scans that the probe was fitted on",
    "pretraining": "the scans of pretraining",
}


@dataclass(frozen=True)
class Score:
    """A column of percentiles in outlyingness.tsv, the column that says which scans are outside, and two titles."""

    column: str
    flag: str
    name: str
    title: str


SCORES = (
    Score("mahalanobis_percentile", "outside", "Mahalanobis distance", "As the scan is used here"),
    Score("unseen_percentile", "unseen_outside", "Mahalanobis distance", "While the scan's site is left out"),
)


def expected_outside(block: Outlyingness) -> float | None:
    """Return how many scans would be called outside though nothing is different about them."""
    if block.threshold_percentile is None:
        return None
    return (block.n or 0) * (1 - block.threshold_percentile / 100)


def stand_out(block: Outlyingness, sites: Sequence[SiteOutside]) -> list[SiteOutside]:
    """Return the sites where more scans are outside than chance would rarely give."""
    found = [site for site in sites if site.n and site.n_outside]
    if block.threshold_percentile is None:
        return found
    share = 1 - block.threshold_percentile / 100
    p_values = [binom.sf((site.n_outside or 0) - 1, site.n or 0, share) for site in found]
    return [site for site, p_value in zip(found, p_values, strict=True) if p_value < _SURPRISING / len(sites)]


def reference_text(block: Outlyingness) -> str:
    """Name what the scans were compared with."""
    return _REFERENCES.get(str(block.reference), block.reference or "a reference that is not recorded")


def scores_to_draw(table: pd.DataFrame) -> list[Score]:
    """Return the scores that a table has: of the scan as it is used, and with its site left out."""
    there = [score for score in SCORES if score.column in table and table[score.column].notna().any()]
    return [score for score in there if score.flag in table]


def furthest_outside(files: EvaluationFiles, *, n: int = 10, show_ids: bool = False) -> pd.DataFrame:
    """Return the scans furthest outside, under pseudonyms unless asked otherwise; none where none is outside.

    Returns
    -------
    DataFrame
        ``scan``, ``site``, ``mahalanobis``, ``mahalanobis_percentile``.
    """
    columns = ["scan", "site", "mahalanobis", "mahalanobis_percentile"]
    table = files.outlyingness
    if table is None or not table["outside"].any():
        return pd.DataFrame(columns=columns)
    by = [name for name in ("mahalanobis_percentile", "mahalanobis") if name in table]
    rows = table[table["outside"]].sort_values(by, ascending=False, kind="stable").head(n)
    scans = name_scans(files, rows, show_ids=show_ids)
    return rows.assign(scan=scans).reindex(columns=columns).reset_index(drop=True)
