"""Who was evaluated: scans by site and class, and who was left out."""

from __future__ import annotations

from neurocontrast.reporting.blocks import Block, Cell, Facts, Paragraph, Section, Table
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.tables import count_cell, table_cohort

__all__ = ["build_cohort"]


def build_cohort(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the cohort: sizes, the table by site, and the excluded with their reasons."""
    del options
    n = files.summary.get("n") or {}
    names = {"scans": "Scans evaluated", "subjects": "Subjects", "sites": "Sites"}
    facts = [(label, f"{n[key]:,}" if n.get(key) is not None else "not recorded") for key, label in names.items()]
    blocks: list[Block] = [Facts(facts), _exclusions(n)]
    table = table_cohort(files)
    blocks.append(table or Paragraph("cohort.tsv is absent: no counts by site can be shown.", role="note"))
    return Section("cohort", "Cohort", blocks)


def _exclusions(n: dict) -> Block:
    excluded = {reason: count for reason, count in (n.get("excluded") or {}).items() if count}
    if n.get("excluded") is None:
        return Paragraph("Whether scans were excluded is not recorded.", role="note")
    if not excluded:
        return Paragraph("No scan was excluded.", role="note")
    rows = [
        (Cell(str(reason).replace("_", " "), heading=True), count_cell(count)) for reason, count in excluded.items()
    ]
    if n.get("scans") is not None:
        came_in = n["scans"] + sum(excluded.values())
        rows = [(Cell("Scans in the embeddings", heading=True), count_cell(came_in)), *rows]
        rows.append((Cell("Scans evaluated", heading=True), count_cell(n["scans"])))
    return Table(
        "Scans excluded, and why.", ("Reason", "Scans"), rows, total_rows=1 if n.get("scans") is not None else 0
    )
