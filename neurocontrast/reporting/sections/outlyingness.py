"""Scans outside the distribution that the model learned from: where its number is not to be trusted."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from neurocontrast.reporting.blocks import Block, Cell, Facts, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.figures.outlyingness import draw_outlyingness
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import DASH, number_text
from neurocontrast.reporting.naming import join_words
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.outlyingness import Outside, SiteOutside, count_outside, furthest_outside, scores_to_draw
from neurocontrast.reporting.section import Input, SectionBuilder
from neurocontrast.reporting.style import Picture
from neurocontrast.reporting.tables import cell, count_cell

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
{% if block.k %}
; beside it, by the mean distance to its {{ block.k }} nearest neighbours {{ cite("Sun Y, Ming Y, Zhu X, Li Y. "
"Out-of-distribution detection with deep nearest neighbors. ICML 2022.") }}
{% endif %}.
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
    counted = count_outside(files)
    if counted is None:
        return []
    blocks: list[Block] = [Facts(_facts(counted), title=title)]
    pictures = _pictures(files)
    blocks += [Pictures(pictures)] if pictures else []
    if counted.unseen:
        blocks.append(Paragraph(_say_check(counted), role="quote"))
    if counted.note:
        blocks.append(Paragraph(counted.note, role="note"))
    if counted.sites:
        blocks.append(_table_sites(counted))
    return [*blocks, _table_furthest(furthest_outside(files, show_ids=options.show_ids), options)]


def _pictures(files: EvaluationFiles) -> list[Picture]:
    scores = [] if files.outlyingness is None else scores_to_draw(files.outlyingness)
    return [picture for picture in (draw_outlyingness(files, score) for score in scores) if picture is not None]


def _facts(counted: Outside) -> list[tuple[str, str]]:
    share = f" ({counted.n_outside / counted.n:.1%})" if counted.n else ""
    facts = [("Outside", f"{counted.n_outside:,} of {counted.n:,} scans{share}"), ("Compared with", counted.reference)]
    if counted.expected is not None:
        facts.append(("Called outside beyond", f"percentile {counted.threshold:g} of the Mahalanobis distance"))
        facts.append(("By chance it would be", f"about {number_text(counted.expected, digits=1)} scans"))
    return facts


def _say_check(counted: Outside) -> str:
    """Say what the check would have said of each site, had it been new."""
    n, n_outside = (sum(getattr(site, name) for site in counted.unseen) for name in ("n", "n_outside"))
    text = (
        f"While their site was left out, {n_outside:,} of {n:,} scans lay outside the distribution of the other sites"
    )
    flagged = counted.stand_out(counted.unseen)
    quiet = [site.site for site in counted.unseen if site not in flagged]
    if flagged:
        named = _first_eight([f"{site.site} ({site.n_outside:,} of {site.n:,})" for site in flagged])
        text += f": {named}. There the check would have warned a new site"
    if quiet:
        where = f"at {_first_eight(quiet)}" if flagged else "anywhere"
        text += f". It would have said nothing {where}: being inside is no promise that the number is right"
    return f"{text}."


def _first_eight(names: Sequence[str]) -> str:
    more = [f"{len(names) - 8} more sites"] if len(names) > 8 else []
    return join_words([*names[:8], *more])


def _table_sites(counted: Outside) -> Table:
    unseen = {site.site: site for site in counted.unseen}
    conspicuous, when_unseen = counted.stand_out(counted.sites), counted.stand_out(counted.unseen)
    rows = []
    for site in sorted(counted.sites, key=lambda site: (-site.n_outside / site.n, -site.n, site.site)):
        cells = [Cell(site.site, heading=True), count_cell(site.n), *_outside_cells(site, conspicuous)]
        rows.append((*cells, *(_outside_cells(unseen.get(site.site), when_unseen) if unseen else ())))
    header = ["Site", "Scans", "Outside", "Median percentile"]
    header += ["Outside, site left out", "Median percentile, site left out"] if unseen else []
    note = f"{_MARK}: more than chance would rarely give."
    return Table("Scans outside, by site.", header, rows, folded=len(rows) > 25, note=note)


def _outside_cells(site: SiteOutside | None, conspicuous: Sequence[SiteOutside]) -> list[Cell]:
    if site is None:
        return [Cell(DASH, reason="not left out")] * 2
    mark = f" {_MARK}" if site in conspicuous else ""
    share = f"{site.n_outside / site.n:.0%}{mark}"
    return [Cell(share, detail=f"{site.n_outside:,} of {site.n:,}"), cell(site.median, digits=0)]


def _table_furthest(table: pd.DataFrame, options: ReportOptions) -> Block:
    if table.empty:
        return Paragraph("No scan is outside.", role="note")
    numbers = ("mahalanobis", "mahalanobis_percentile", "knn_distance", "knn_percentile")
    rows = [
        (
            Cell(str(row["scan"]), heading=True),
            Cell("not stated" if pd.isna(row["site"]) else str(row["site"])),
            *(cell(row[name], digits=1) for name in numbers),
        )
        for row in table.to_dict("records")
    ]
    ids = (
        "Scans stand under their identifiers."
        if options.show_ids
        else "Scans stand under the pseudonyms of Worst errors; with the evaluation folder, `--show-ids` names them."
    )
    header = ("Scan", "Site", "Mahalanobis distance", "Percentile", "To nearest neighbours", "Percentile")
    caption = f"The {len(rows)} scans furthest outside. Look at them: a failed registration ends up here too."
    return Table(caption, header, rows, text_columns=(0, 1), note=ids)


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
