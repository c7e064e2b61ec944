"""Scans outside the distribution that the model learned from: where its number is not to be trusted."""

from __future__ import annotations

from typing import Any

import pandas as pd
from scipy.stats import binom

from neurocontrast.findings.errors import name_scans
from neurocontrast.findings.folder import EvaluationFolder
from neurocontrast.findings.outside.measure import Outlyingness, SiteOutside
from neurocontrast.page.blocks import Block, Column, Facts, Section, Table, make_table, note
from neurocontrast.page.wording import number_text

__all__ = ["furthest_outside", "outlyingness_blocks", "show_outside", "stand_out"]

_TITLE = "Scans unlike those it learned from"
_MARK, _SURPRISING = "▲", 0.01
_REFERENCES = {
    "training folds": "the scans of the training folds",
    "probe": "the scans that the probe was fitted on",
    "pretraining": "the scans of pretraining",
}


def show_outside(files: EvaluationFolder) -> Section | None:
    """Return the scans outside, by site and one by one; None if they were not looked for."""
    lead = (
        "Far from everything that it was fitted on, a model still gives a number, and nothing in the number tells. "
        "This is the check that tells, scan by scan; “neurocontrast predict” makes it of every scan that comes."
    )
    blocks = outlyingness_blocks(files)
    return Section("outlyingness", _TITLE, blocks, lead=lead) if blocks else None


def outlyingness_blocks(files: EvaluationFolder, *, title: str = "") -> list[Block]:
    """Return counts, the table of sites, and the scans furthest outside."""
    block = files.summary.part(Outlyingness)
    if block is None:
        return []
    blocks: list[Block] = [Facts(_facts(block), title=title)]
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


def stand_out(block: Outlyingness) -> list[SiteOutside]:
    """Return the sites where more scans are outside than chance explains."""
    found = [site for site in block.by_site if site.n and site.n_outside]
    if block.threshold_percentile is None:
        return found
    share, rare = 1 - block.threshold_percentile / 100, _SURPRISING / max(len(block.by_site), 1)
    return [site for site in found if binom.sf((site.n_outside or 0) - 1, site.n or 0, share) < rare]


def _table_sites(block: Outlyingness) -> Table:
    conspicuous, rows = stand_out(block), []
    for site in block.by_site:
        n, n_outside = site.n or 0, site.n_outside or 0
        share = f"{n_outside / n if n else 0.0:.0%}" + (f" {_MARK}" if site in conspicuous else "")
        about: dict[str, Any] = {"site": site.site, "n": site.n, "median": site.median_percentile}
        rows.append(about | {"outside": share, "outside_detail": f"{n_outside:,} of {n:,}"})
    columns = [Column("Site", "site", "heading"), Column("Scans", "n", "count")]
    columns += [Column("Outside", "outside", "text"), Column("Median percentile", "median", digits=0)]
    note_of_mark = f"{_MARK}: more scans outside than chance explains." if conspicuous else ""
    return make_table("Scans outside, by site.", rows, columns, folded=len(rows) > 25, note=note_of_mark)


def furthest_outside(files: EvaluationFolder, *, n: int = 10) -> pd.DataFrame:
    """Return the scans furthest outside, under pseudonyms unless identifiers may appear; none where none is outside."""
    table = pd.DataFrame({"outside": pd.Series(dtype=bool)}) if files.outlyingness is None else files.outlyingness
    by = [name for name in ("mahalanobis_percentile", "mahalanobis") if name in table]
    rows = table[table["outside"]]
    rows = rows.sort_values(by, ascending=False, kind="stable").head(n) if by else rows.head(n)
    return rows.assign(scan=name_scans(files, rows))


def _table_furthest(files: EvaluationFolder) -> Block:
    rows = furthest_outside(files)
    if rows.empty:
        return note("No scan is outside.")
    columns = (
        Column("Scan", "scan", "heading"),
        Column("Site", "site", "text", reason="not stated"),
        Column("Mahalanobis distance", "mahalanobis", digits=1),
        Column("Percentile", "mahalanobis_percentile", digits=1),
    )
    hidden = "Scans have the pseudonyms of Worst errors; with the evaluation folder, --show-ids names them."
    about = "Scans have their identifiers." if files.show_ids else hidden
    caption = (
        f"The {len(rows)} scans furthest outside. Look at them: a failed registration or segmentation ends up here too."
    )
    return make_table(caption, rows, columns, note=about)
