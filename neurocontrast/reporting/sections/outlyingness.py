"""Scans outside the distribution that the model learned from: where its number is not to be trusted."""

from __future__ import annotations

from collections.abc import Sequence

from neurocontrast.reporting.blocks import Block, Cell, Facts, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.figures.outlyingness import draw_outlyingness
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.inputs import missing_note
from neurocontrast.reporting.metrics import DASH, number_text
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.outlyingness import (
    Outside,
    SiteOutside,
    count_outside,
    furthest_outside,
    scores_to_draw,
)
from neurocontrast.reporting.outlyingness_sentences import say_check
from neurocontrast.reporting.style import Picture
from neurocontrast.reporting.tables import cell, count_cell

__all__ = ["build_outlyingness", "outlyingness_blocks", "outlyingness_pictures"]

_TITLE = "Scans unlike those it learned from"
_MARK = "▲"


def build_outlyingness(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build counts, the percentiles of every site, and the list of the scans furthest outside."""
    counted = count_outside(files)
    if counted is None:
        return Section("outlyingness", _TITLE, [Paragraph(missing_note("outlyingness"), role="note")])
    blocks = outlyingness_blocks(files, options, counted)
    pictures = outlyingness_pictures(files)
    if pictures:
        blocks.insert(1, Pictures(pictures))
    elif files.outlyingness is None:
        blocks.append(Paragraph(missing_note("outlyingness"), role="note"))
    lead = (
        "Far from everything that it was fitted on, a model still gives a number, and nothing in the number tells. "
        "This is the check that tells, scan by scan; `neurocontrast predict` makes it of every scan that comes."
    )
    return Section("outlyingness", _TITLE, blocks, lead=lead)


def outlyingness_pictures(files: EvaluationFiles) -> list[Picture]:
    """Return the percentiles of each score by site."""
    scores = [] if files.outlyingness is None else scores_to_draw(files.outlyingness)
    drawn = [draw_outlyingness(files, score) for score in scores]
    return [picture for picture in drawn if picture is not None]


def outlyingness_blocks(
    files: EvaluationFiles, options: ReportOptions, counted: Outside, *, title: str = ""
) -> list[Block]:
    """Return the counts, the table of sites, and the list of the scans furthest outside."""
    blocks: list[Block] = [Facts(_facts(counted), title=title)]
    said = say_check(counted)
    if said:
        blocks.append(Paragraph(said, role="quote"))
    if counted.note:
        blocks.append(Paragraph(counted.note, role="note"))
    if counted.sites:
        blocks.append(_table_sites(counted))
    blocks.append(_table_furthest(files, options))
    return blocks


def _facts(counted: Outside) -> list[tuple[str, str]]:
    share = f" ({counted.n_outside / counted.n:.1%})" if counted.n else ""
    facts = [("Outside", f"{counted.n_outside:,} of {counted.n:,} scans{share}"), ("Compared with", counted.reference)]
    if counted.threshold is not None and counted.expected is not None:
        facts.append(("Called outside beyond", f"percentile {counted.threshold:g} of the Mahalanobis distance"))
        facts.append(("By chance it would be", f"about {number_text(counted.expected, digits=1)} scans"))
    return facts


def _table_sites(counted: Outside) -> Table:
    unseen = {site.site: site for site in counted.unseen}
    ordered = sorted(counted.sites, key=lambda site: (-site.n_outside / site.n, -site.n, site.site))
    rows = []
    for site in ordered:
        cells = [Cell(site.site, heading=True), count_cell(site.n), *_outside_cells(site, counted.conspicuous)]
        if unseen:
            cells += _outside_cells(unseen.get(site.site), counted.stand_out(counted.unseen))
        rows.append(tuple(cells))
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


def _table_furthest(files: EvaluationFiles, options: ReportOptions) -> Block:
    table = furthest_outside(files, show_ids=options.show_ids)
    if table.empty:
        text = (
            "No scan is outside."
            if files.outlyingness is not None
            else "Which scans they are is not known: the table is absent."
        )
        return Paragraph(text, role="note")
    rows = [
        (
            Cell(str(row["scan"]), heading=True),
            Cell("not stated" if row["site"] is None or row["site"] != row["site"] else str(row["site"])),
            cell(row["mahalanobis"], digits=1),
            cell(row["mahalanobis_percentile"], digits=1),
            cell(row["knn_distance"], digits=1),
            cell(row["knn_percentile"], digits=1),
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
