"""Which scans lie outside the distribution that the model learned from: counts, sites, and the furthest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from scipy.stats import binom

from neurocontrast.evaluation.schema import sections as schema
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.predictions import name_scans

__all__ = ["SCORES", "Outside", "Score", "SiteOutside", "count_outside", "furthest_outside", "scores_to_draw"]

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
    Score("knn_percentile", "outside", "distance to nearest neighbours", "As the scan is used here"),
)
"""Columns of percentiles; whether a scan is outside is decided by the Mahalanobis distance."""


@dataclass(frozen=True)
class SiteOutside:
    """One site: its scans, those outside, and the median percentile."""

    site: str
    n: int
    n_outside: int
    median: float | None


@dataclass(frozen=True)
class Outside:
    """How many scans lie outside.

    Attributes
    ----------
    n, n_outside : int
        Scans that have a score, and those outside.
    threshold : float or None
        Percentile beyond which a scan is called outside.
    reference : str
        What the scans were compared with, for running text.
    sites, unseen : list of SiteOutside
        By site: as the scans are used, and while the site of each is left out; the second may be empty.
    note : str
        What the evaluation adds.
    """

    n: int
    n_outside: int
    threshold: float | None
    reference: str
    sites: list[SiteOutside]
    unseen: list[SiteOutside]
    note: str

    @property
    def expected(self) -> float | None:
        """Scans that would be called outside though nothing is different about them."""
        return None if self.threshold is None else self.n * (1 - self.threshold / 100)

    def stand_out(self, sites: Sequence[SiteOutside]) -> list[SiteOutside]:
        """Return the sites where more scans are outside than chance would rarely give, largest share first."""
        found = [site for site in sites if self._exceeds(site.n, site.n_outside, looks=len(sites))]
        return sorted(found, key=lambda site: (-site.n_outside / site.n, site.site))

    def _exceeds(self, n: int, n_outside: int, *, looks: int) -> bool:
        if self.threshold is None:
            return n_outside > 0
        return bool(n_outside > 0 and binom.sf(n_outside - 1, n, 1 - self.threshold / 100) < _SURPRISING / looks)


def scores_to_draw(table: pd.DataFrame) -> list[Score]:
    """Return two scores to draw: as used, and with the site left out; nearest neighbours where there is no second."""
    there = [score for score in SCORES if score.column in table and table[score.column].notna().any()]
    return [score for score in there if score.flag in table][:2]


def count_outside(files: EvaluationFiles) -> Outside | None:
    """Return how many scans lie outside, as evaluation.json says; None without."""
    block = files.summary.outlyingness
    if block is None:
        return None
    named = block.reference or "a reference that is not recorded"
    return Outside(
        n=block.n or 0,
        n_outside=block.n_outside or 0,
        threshold=block.threshold_percentile,
        reference=_REFERENCES.get(named, named),
        sites=_read_sites(block.by_site),
        unseen=_read_sites(block.unseen_by_site),
        note=block.note or "",
    )


def _read_sites(by_site: Sequence[schema.SiteOutside]) -> list[SiteOutside]:
    return [SiteOutside(each.site, each.n, each.n_outside or 0, each.median_percentile) for each in by_site if each.n]


def furthest_outside(files: EvaluationFiles, *, n: int = 10, show_ids: bool = False) -> pd.DataFrame:
    """Return the scans furthest outside, under pseudonyms unless asked otherwise; none where none is outside.

    Returns
    -------
    DataFrame
        ``scan``, ``site``, ``mahalanobis``, ``mahalanobis_percentile``, ``knn_distance``, ``knn_percentile``.
    """
    columns = ["scan", "site", "mahalanobis", "mahalanobis_percentile", "knn_distance", "knn_percentile"]
    table = files.outlyingness
    if table is None or not table["outside"].any():
        return pd.DataFrame(columns=columns)
    by = [name for name in ("mahalanobis_percentile", "mahalanobis", "knn_distance") if name in table]
    rows = table[table["outside"]].sort_values(by, ascending=False, kind="stable").head(n)
    scans = name_scans(files, rows, show_ids=show_ids)
    return rows.assign(scan=scans).reindex(columns=columns).reset_index(drop=True)
