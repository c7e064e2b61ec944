"""Scans outside the distribution that the model learned from: where its number is not to be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from neurocontrast.evaluation.schema import Outlyingness
from neurocontrast.evaluation.schema.sections import SiteOutside
from neurocontrast.reporting.blocks import Block, Facts, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.figures.outlyingness import draw_outlyingness
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import number_text
from neurocontrast.reporting.naming import join_words
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.outlyingness import (
    expected_outside,
    furthest_outside,
    reference_text,
    scores_to_draw,
    stand_out,
)
from neurocontrast.reporting.section import Input, SectionBuilder
from neurocontrast.reporting.style import Picture
from neurocontrast.reporting.tables import Column, make_table

__all__ = ["OUTLYINGNESS", "outlyingness_blocks"]

_TITLE = "Scans unlike those it learned from"
_MARK = "▲"
_METHODS = """
## Scans outside.
{% set block = s.outlyingness %}
{% if block %}
{% set references = {"training folds": "the scans of the training folds", "pretraining": "the scans of pretraining",
"probe": "the scans that the probe was fitted on"} %}
{% set reference = references.get(block.reference, block.reference or "a reference that is not recorded") %}
How far each scan lies from {{ reference }} was measured by its Mahalanobis distance
{% if "Ledoit" in (block.covariance or "") %}to the nearest of their sites{% endif %}
{{ cite("Lee K, Lee K, Lee H, Shin J. A simple unified framework for detecting out-of-distribution samples and "
"adversarial attacks. NeurIPS 2018:7167–7177.") }}
{% if "Ledoit" in (block.covariance or "") %}
, with the covariance pooled within sites, along principal axes, and shrunk by the rule of Ledoit and Wolf
{{ cite("Ledoit O, Wolf M. A well-conditioned estimator for large-dimensional covariance matrices. J Multivar Anal "
"2004;88:365–411.") }}
{% endif %}
.
Distances are given as percentiles among those of the reference, each measured without its own subject, as conformal
p-values are {{ cite("Bates S, Candès E, Lei L, Romano Y, Sesia M. Testing for outliers with conformal p-values. Ann "
"Stat 2023;51:149–178.") }}.
{% if block.threshold_percentile %}
Beyond percentile {{ block.threshold_percentile|value }} of the Mahalanobis distance a scan is called outside.
{% endif %}
{% if block.unseen_by_site %}
Where sites were left out, each scan was also measured from the scans of the other sites alone.
{% endif %}
{% endif %}
"""


def _build(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build counts, the percentiles of every site, and the list of the scans furthest outside."""
    lead = (
        "Far from everything that it was fitted on, a model still gives a number, and nothing in the number tells. "
        "This is the check that tells, scan by scan; `neurocontrast predict` makes it of every scan that comes."
    )
    blocks = outlyingness_blocks(files, options)
    return Section("outlyingness", _TITLE, blocks, lead=lead) if blocks else None


def outlyingness_blocks(files: EvaluationFiles, options: ReportOptions, *, title: str = "") -> list[Block]:
    """Return counts, the percentiles of each site, the table of sites, and the scans furthest outside."""
    block = files.summary.outlyingness
    if block is None:
        return []
    blocks: list[Block] = [Facts(_facts(block), title=title)]
    pictures = _pictures(files)
    blocks += [Pictures(pictures)] if pictures else []
    if block.unseen_by_site:
        blocks.append(Paragraph(_say_check(block), role="quote"))
    if block.note:
        blocks.append(Paragraph(block.note, role="note"))
    if block.by_site:
        blocks.append(_table_sites(block))
    return [*blocks, _table_furthest(furthest_outside(files, show_ids=options.show_ids), options)]


def _pictures(files: EvaluationFiles) -> list[Picture]:
    scores = [] if files.outlyingness is None else scores_to_draw(files.outlyingness)
    return [picture for picture in (draw_outlyingness(files, score) for score in scores) if picture is not None]


def _facts(block: Outlyingness) -> list[tuple[str, str]]:
    n, n_outside, expected = block.n or 0, block.n_outside or 0, expected_outside(block)
    share = f" ({n_outside / n:.1%})" if n else ""
    facts = [("Outside", f"{n_outside:,} of {n:,} scans{share}"), ("Compared with", reference_text(block))]
    if expected is not None:
        facts.append(
            ("Called outside beyond", f"percentile {block.threshold_percentile:g} of the Mahalanobis distance")
        )
        facts.append(("By chance it would be", f"about {number_text(expected, digits=1)} scans"))
    return facts


def _say_check(block: Outlyingness) -> str:
    """Say what the check would have said of each site, had it been new."""
    sites = block.unseen_by_site
    n, n_outside = sum(site.n or 0 for site in sites), sum(site.n_outside or 0 for site in sites)
    text = (
        f"While their site was left out, {n_outside:,} of {n:,} scans lay outside the distribution of the other sites"
    )
    flagged = sorted(stand_out(block, sites), key=lambda site: (-_share(site), site.site))
    quiet = [str(site.site) for site in sites if site not in flagged]
    if flagged:
        named = _first_eight([f"{site.site} ({site.n_outside:,} of {site.n:,})" for site in flagged])
        text += f": {named}. There the check would have warned a new site"
    if quiet:
        where = f"at {_first_eight(quiet)}" if flagged else "anywhere"
        text += f". It would have said nothing {where}: being inside is no promise that the number is right"
    return f"{text}."


def _share(site: SiteOutside) -> float:
    return (site.n_outside or 0) / site.n if site.n else 0.0


def _first_eight(names: Sequence[str]) -> str:
    more = [f"{len(names) - 8} more sites"] if len(names) > 8 else []
    return join_words([*names[:8], *more])


def _table_sites(block: Outlyingness) -> Table:
    rows, unseen = [], {site.site: site for site in block.unseen_by_site}
    conspicuous = {"known": stand_out(block, block.by_site), "unseen": stand_out(block, block.unseen_by_site)}
    for site in sorted(block.by_site, key=lambda site: (-_share(site), -(site.n or 0), site.site)):
        row: dict[str, Any] = {"site": site.site, "n": site.n}
        for part, found in (("known", site), ("unseen", unseen.get(site.site))):
            if found is not None:
                mark = f" {_MARK}" if found in conspicuous[part] else ""
                row |= {part: f"{_share(found):.0%}{mark}", f"{part}_median": found.median_percentile}
                row[f"{part}_detail"] = f"{found.n_outside or 0:,} of {found.n or 0:,}"
        rows.append(row)
    columns = [Column("Site", "site", "heading"), Column("Scans", "n", "count"), Column("Outside", "known", "text")]
    columns.append(Column("Median percentile", "known_median", digits=0))
    if unseen:
        columns.append(Column("Outside, site left out", "unseen", "text", reason="not left out"))
        columns.append(Column("Median percentile, site left out", "unseen_median", digits=0, reason="not left out"))
    note = f"{_MARK}: more than chance would rarely give."
    return make_table("Scans outside, by site.", rows, columns, folded=len(rows) > 25, note=note)


def _table_furthest(table: pd.DataFrame, options: ReportOptions) -> Block:
    if table.empty:
        return Paragraph("No scan is outside.", role="note")
    columns = (
        Column("Scan", "scan", "heading"),
        Column("Site", "site", "text", reason="not stated"),
        Column("Mahalanobis distance", "mahalanobis", digits=1),
        Column("Percentile", "mahalanobis_percentile", digits=1),
    )
    ids = (
        "Scans stand under their identifiers."
        if options.show_ids
        else "Scans stand under the pseudonyms of Worst errors; with the evaluation folder, `--show-ids` names them."
    )
    caption = f"The {len(table)} scans furthest outside. Look at them: a failed registration ends up here too."
    return make_table(caption, table, columns, note=ids)


OUTLYINGNESS = SectionBuilder(
    "outlyingness",
    _TITLE,
    order=30,
    build=_build,
    inputs=(
        Input(
            "outlyingness.tsv",
            "which scans lie outside the distribution that the model learned from",
            "outlyingness",
            needed=True,
        ),
    ),
    methods=_METHODS,
    covers="scans outside",
    of=("scans",),
)
