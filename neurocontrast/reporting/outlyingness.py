"""Which scans lie outside the distribution that the model learned from: counts, sites, and the furthest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from scipy.stats import binom

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
    """One percentile of outlyingness.tsv.

    Attributes
    ----------
    column : str
        Its column.
    flag : str
        The column that says whether a scan is outside by it.
    name : str
        What it is a percentile of.
    title : str
        What was held back, for the figure.
    """

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
    """One site: its scans, those outside, and the median percentile.

    Attributes
    ----------
    site : str
        Its name.
    n, n_outside : int
        Scans, and those outside.
    median : float or None
        Median percentile.
    """

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

    @property
    def more_than_chance(self) -> bool:
        """Whether so many scans are outside as chance would rarely give, over all sites or at one of them."""
        return self._exceeds(self.n, self.n_outside) or bool(self.conspicuous)

    @property
    def conspicuous(self) -> list[SiteOutside]:
        """Sites with more scans outside than chance would rarely give, those with the largest share first."""
        return self.stand_out(self.sites)

    def stand_out(self, sites: Sequence[SiteOutside]) -> list[SiteOutside]:
        """Return those of the sites that have more scans outside than chance would rarely give."""
        found = [site for site in sites if self._exceeds(site.n, site.n_outside, looks=len(sites))]
        return sorted(found, key=lambda site: (-site.n_outside / site.n, site.site))

    def _exceeds(self, n: int, n_outside: int, *, looks: int = 1) -> bool:
        if self.threshold is None:
            return n_outside > 0
        return bool(n_outside > 0 and binom.sf(n_outside - 1, n, 1 - self.threshold / 100) < _SURPRISING / looks)


def scores_to_draw(table: pd.DataFrame) -> list[Score]:
    """Return two scores to draw: as used, and with the site left out; nearest neighbours where there is no second."""
    there = [score for score in SCORES if score.column in table and table[score.column].notna().any()]
    return [score for score in there if score.flag in table][:2]


def count_outside(files: EvaluationFiles) -> Outside | None:
    """Return how many scans lie outside; from evaluation.json, else counted in the table; None without either."""
    block, table = files.summary.get("outlyingness") or {}, files.outlyingness
    if not block and table is None:
        return None
    sites = _read_sites(block.get("by_site")) or _count_sites(table, SCORES[0])
    n, n_outside = block.get("n"), block.get("n_outside")
    named = block.get("reference")
    if named is None and table is not None and "reference" in table:
        named = table["reference"].dropna().iloc[0] if table["reference"].notna().any() else None
    return Outside(
        n=sum(site.n for site in sites) if n is None else int(n),
        n_outside=sum(site.n_outside for site in sites) if n_outside is None else int(n_outside),
        threshold=block.get("threshold_percentile"),
        reference=_REFERENCES.get(str(named), str(named or "a reference that is not recorded")),
        sites=sites,
        unseen=_read_sites(block.get("unseen_by_site")) or _count_sites(table, SCORES[1]),
        note=str(block.get("note") or ""),
    )


def _read_sites(by_site: Sequence[dict[str, Any]] | None) -> list[SiteOutside]:
    found = [
        SiteOutside(
            "not stated" if each["site"] is None else str(each["site"]),
            int(each.get("n") or 0),
            int(each.get("n_outside") or 0),
            each.get("median_percentile"),
        )
        for each in by_site or []
    ]
    return [site for site in found if site.n]


def _count_sites(table: pd.DataFrame | None, score: Score) -> list[SiteOutside]:
    if table is None or score.flag not in table:
        return []
    known = score.column in table
    rows = table[table[score.column].notna()] if known else table
    found = []
    for name, part in rows.assign(site=rows["site"].fillna("not stated")).groupby("site", sort=True):
        median = float(part[score.column].median()) if known else None
        found.append(SiteOutside(str(name), len(part), int(part[score.flag].sum()), median))
    return found


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
    rows = table[table["outside"].astype(bool)].reset_index(drop=True)
    by = [name for name in ("mahalanobis_percentile", "mahalanobis", "knn_distance") if name in rows]
    rows = rows.sort_values(by, ascending=False, kind="stable").head(n) if by else rows.head(n)
    scans = name_scans(files, rows, show_ids=show_ids)
    return rows.assign(scan=scans).reindex(columns=columns).reset_index(drop=True)
