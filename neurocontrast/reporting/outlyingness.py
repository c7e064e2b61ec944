"""Which scans lie outside the distribution that the model learned from: counts, sites, and the furthest."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from scipy.stats import binom

from neurocontrast.reporting.errors import pseudonym
from neurocontrast.reporting.folder import EvaluationFiles

__all__ = ["SCORES", "Outside", "SiteOutside", "count_outside", "furthest_outside", "percentile_columns"]

SCORES = {
    "mahalanobis_percentile": "Mahalanobis distance",
    "knn_percentile": "distance to nearest neighbours",
}
"""Columns of outlyingness.tsv that hold percentiles, and what they are of."""

_SURPRISING = 0.01


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
        Scans, and those outside.
    threshold : float or None
        Percentile from which a scan is called outside.
    reference : str
        What the scans were compared with.
    sites : list of SiteOutside
        By site.
    note : str
        What the evaluation adds.
    """

    n: int
    n_outside: int
    threshold: float | None
    reference: str
    sites: list[SiteOutside]
    note: str

    @property
    def expected(self) -> float | None:
        """Scans that one score would call outside though nothing is wrong with them."""
        return None if self.threshold is None else self.n * (1 - self.threshold / 100)

    @property
    def more_than_chance(self) -> bool:
        """Whether so many scans are outside as chance would hardly give, over all sites or at one of them."""
        return self.exceeds_chance(self.n, self.n_outside) or bool(self.conspicuous)

    @property
    def conspicuous(self) -> list[SiteOutside]:
        """Sites with more scans outside than chance would hardly give, those with the largest share first."""
        found = [site for site in self.sites if self.exceeds_chance(site.n, site.n_outside, looks=len(self.sites))]
        return sorted(found, key=lambda site: (-site.n_outside / site.n, site.site))

    def exceeds_chance(self, n: int, n_outside: int, *, looks: int = 1) -> bool:
        """Whether chance would rarely call so many of n scans outside, were both scores independent."""
        if self.threshold is None:
            return n_outside > 0
        share = 1 - (self.threshold / 100) ** len(SCORES)
        return bool(n_outside > 0 and binom.sf(n_outside - 1, n, share) < _SURPRISING / looks)


def percentile_columns(table: pd.DataFrame) -> list[str]:
    """Return the columns of percentiles that hold a value."""
    return [name for name in SCORES if name in table and table[name].notna().any()]


def count_outside(files: EvaluationFiles) -> Outside | None:
    """Return how many scans lie outside; from evaluation.json, else counted in the table; None without either."""
    block, table = files.summary.get("outlyingness") or {}, files.outlyingness
    if not block and table is None:
        return None
    sites = [
        SiteOutside(
            str(each["site"]), int(each.get("n") or 0), int(each.get("n_outside") or 0), each.get("median_percentile")
        )
        for each in block.get("by_site") or []
    ]
    sites = sites or _count_sites(table)
    n, n_outside = block.get("n"), block.get("n_outside")
    named = block.get("reference") or (
        None if table is None or "reference" not in table else table["reference"].iloc[0]
    )
    return Outside(
        n=sum(site.n for site in sites) if n is None else int(n),
        n_outside=sum(site.n_outside for site in sites) if n_outside is None else int(n_outside),
        threshold=block.get("threshold_percentile"),
        reference=str(named or "a reference that is not recorded"),
        sites=[site for site in sites if site.n],
        note=str(block.get("note") or ""),
    )


def _count_sites(table: pd.DataFrame | None) -> list[SiteOutside]:
    if table is None:
        return []
    columns = percentile_columns(table)
    found = []
    for name, rows in table.assign(site=table["site"].fillna("not stated")).groupby("site", sort=True):
        median = float(rows[columns[0]].median()) if columns and rows[columns[0]].notna().any() else None
        found.append(SiteOutside(str(name), len(rows), int(rows["outside"].sum()), median))
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
    by = [name for name in ("mahalanobis", "knn_distance") if name in rows and rows[name].notna().any()]
    rows = rows.sort_values(by, ascending=False, kind="stable").head(n) if by else rows.head(n)
    names = rows.get("participant_id", pd.Series(rows.index.astype(str), index=rows.index)).fillna("")
    session = rows.get("session", pd.Series("", index=rows.index)).fillna("")
    key = files.key
    scans = [
        f"{name} {visit}".strip() if show_ids else pseudonym(f"{name}\t{visit}", key=key)
        for name, visit in zip(names, session, strict=True)
    ]
    return rows.assign(scan=scans).reindex(columns=columns).reset_index(drop=True)
