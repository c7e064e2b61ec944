"""Scans outside the distribution that the model learned from: where its number is not to be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from scipy.stats import binom

from neurocontrast.evaluation.schema import Outlyingness
from neurocontrast.evaluation.schema.sections import SiteOutside
from neurocontrast.reporting.page import (
    Block,
    Facts,
    Input,
    Paragraph,
    Section,
    SectionBuilder,
    Table,
    note,
)
from neurocontrast.reporting.read import EvaluationFiles
from neurocontrast.reporting.sections.errors import name_scans
from neurocontrast.reporting.tables import Column, make_table
from neurocontrast.reporting.wording import join_words, number_text

__all__ = ["OUTLYINGNESS", "furthest_outside", "outlyingness_blocks", "stand_out"]

_TITLE = "Scans unlike those it learned from"
_MARK, _SURPRISING = "▲", 0.01
_REFERENCES = {
    "training folds": "the scans of the training folds",
    "probe": "the scans that the probe was fitted on",
    "pretraining": "the scans of pretraining",
}
_METHODS = """
## Scans outside.
{% set block = s.outlyingness %}
{% if block %}
{% set known = {"training folds": "the scans of the training folds",
"probe": "the scans that the probe was fitted on"} %}
How far each scan lies from {{ known.get(block.reference, block.reference) or "a reference that is not recorded" }} was
measured by its Mahalanobis distance, to the nearest of their sites in the covariance within sites
{{ cite("Lee K, Lee K, Lee H, Shin J. A simple unified framework for detecting out-of-distribution samples and "
"adversarial attacks. NeurIPS 2018:7167–7177.", "Ledoit O, Wolf M. A well-conditioned estimator for large-dimensional "
"covariance matrices. J Multivar Anal 2004;88:365–411.") }},
as a percentile among those of the reference, each measured without its own subject
{% if block.threshold_percentile %}
; beyond percentile {{ block.threshold_percentile|value }} it is called outside
{% endif %}.
{% if block.unseen_by_site %}
Where sites were left out, each scan was also measured from the scans of the other sites alone.
{% endif %}
{% endif %}
"""


def _build(files: EvaluationFiles) -> Section | None:
    lead = (
        "Far from everything that it was fitted on, a model still gives a number, and nothing in the number tells. "
        "This is the check that tells, scan by scan; `neurocontrast predict` makes it of every scan that comes."
    )
    blocks = outlyingness_blocks(files)
    return Section("outlyingness", _TITLE, blocks, lead=lead) if blocks else None


def outlyingness_blocks(files: EvaluationFiles, *, title: str = "") -> list[Block]:
    """Return counts, the table of sites, and the scans furthest outside."""
    block = files.summary.outlyingness
    if block is None:
        return []
    blocks: list[Block] = [Facts(_facts(block), title=title)]
    blocks += [Paragraph(_say_check(block), role="quote")] if block.unseen_by_site else []
    blocks += [note(block.note)] if block.note else []
    blocks += [_table_sites(block)] if block.by_site else []
    return [*blocks, _table_furthest(files)]


def _facts(block: Outlyingness) -> list[tuple[str, str]]:
    n, n_outside, beyond = block.n or 0, block.n_outside or 0, block.threshold_percentile
    share = f" ({n_outside / n:.1%})" if n else ""
    facts = [("Outside", f"{n_outside:,} of {n:,} scans{share}")]
    facts.append(("Compared with", _REFERENCES.get(str(block.reference), block.reference or "not recorded")))
    if beyond is not None:
        facts.append(("Called outside beyond", f"percentile {beyond:g} of the Mahalanobis distance"))
        facts.append(("By chance it would be", f"about {number_text(n * (1 - beyond / 100), digits=1)} scans"))
    return facts


def stand_out(block: Outlyingness, sites: Sequence[SiteOutside]) -> list[SiteOutside]:
    """Return the sites where more scans are outside than chance would rarely give, the largest share first."""
    found = [site for site in sites if site.n and site.n_outside]
    if block.threshold_percentile is not None:
        share = 1 - block.threshold_percentile / 100
        rare = _SURPRISING / max(len(sites), 1)
        found = [site for site in found if binom.sf((site.n_outside or 0) - 1, site.n or 0, share) < rare]
    return sorted(found, key=lambda site: (-_share(site), site.site))


def _share(site: SiteOutside) -> float:
    return (site.n_outside or 0) / site.n if site.n else 0.0


def _say_check(block: Outlyingness) -> str:
    """Say what the check would have said of each site, had it been new."""
    sites = block.unseen_by_site
    n, n_outside = sum(site.n or 0 for site in sites), sum(site.n_outside or 0 for site in sites)
    flagged = [str(site.site) for site in stand_out(block, sites)]
    where = f"{len(flagged)} of {len(sites)} sites" + (f" ({join_words(flagged)})" if 0 < len(flagged) <= 8 else "")
    return (
        f"While their site was left out, {n_outside:,} of {n:,} scans lay outside the distribution of the other sites; "
        f"the check would have warned at {where}. Being inside is no promise that the number is right."
    )


def _table_sites(block: Outlyingness) -> Table:
    parts = {"": block.by_site, "_unseen": block.unseen_by_site}
    rows: dict[str | None, dict[str, Any]] = {site.site: {"site": site.site, "n": site.n} for site in block.by_site}
    for part, sites in parts.items():
        conspicuous = stand_out(block, sites)
        for site in sites:
            mark = f" {_MARK}" if site in conspicuous else ""
            counts: dict[str, Any] = {f"outside{part}_detail": f"{site.n_outside or 0:,} of {site.n or 0:,}"}
            counts |= {f"outside{part}": f"{_share(site):.0%}{mark}", f"median{part}": site.median_percentile}
            rows.setdefault(site.site, {"site": site.site}).update(counts)
    columns = [Column("Site", "site", "heading"), Column("Scans", "n", "count")]
    for part, sites in parts.items():
        if sites:
            columns.append(Column(f"Outside{', site left out' if part else ''}", f"outside{part}", "text"))
            columns.append(Column(f"Median percentile{', site left out' if part else ''}", f"median{part}", digits=0))
    about = f"{_MARK}: more than chance would rarely give."
    return make_table("Scans outside, by site.", rows.values(), columns, folded=len(rows) > 25, note=about)


def furthest_outside(files: EvaluationFiles, *, n: int = 10) -> pd.DataFrame:
    """Return the scans furthest outside, under pseudonyms unless identifiers may appear; none where none is outside."""
    table = pd.DataFrame({"outside": pd.Series(dtype=bool)}) if files.outlyingness is None else files.outlyingness
    by = [name for name in ("mahalanobis_percentile", "mahalanobis") if name in table]
    rows = table[table["outside"]]
    rows = rows.sort_values(by, ascending=False, kind="stable").head(n) if by else rows.head(n)
    return rows.assign(scan=name_scans(files, rows))


def _table_furthest(files: EvaluationFiles) -> Block:
    rows = furthest_outside(files)
    if rows.empty:
        return note("No scan is outside.")
    columns = (
        Column("Scan", "scan", "heading"),
        Column("Site", "site", "text", reason="not stated"),
        Column("Mahalanobis distance", "mahalanobis", digits=1),
        Column("Percentile", "mahalanobis_percentile", digits=1),
    )
    hidden = "Scans stand under the pseudonyms of Worst errors; with the evaluation folder, `--show-ids` names them."
    about = "Scans stand under their identifiers." if files.show_ids else hidden
    caption = f"The {len(rows)} scans furthest outside. Look at them: a failed registration ends up here too."
    return make_table(caption, rows, columns, note=about)


_WHICH = "which scans lie outside the distribution that the model learned from"
OUTLYINGNESS = SectionBuilder(
    "outlyingness",
    _TITLE,
    order=30,
    build=_build,
    inputs=(Input("outlyingness.tsv", _WHICH, "outlyingness", needed=True),),
    methods=_METHODS,
    of=("scans",),
)
