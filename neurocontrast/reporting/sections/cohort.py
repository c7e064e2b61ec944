"""Who was evaluated: the flow of scans, and the cohort by site and class."""

from __future__ import annotations

from neurocontrast.reporting.blocks import Block, Cell, Facts, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.figures.flow import draw_flow, list_steps
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.tables import count_cell, table_cohort

__all__ = ["build_cohort"]


def build_cohort(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the cohort: sizes, the flow of scans with who was excluded and why, the table by site."""
    del options
    n = files.summary.get("n") or {}
    names = {"scans": "Scans evaluated", "subjects": "Subjects", "sites": "Sites"}
    facts = [(label, f"{n[key]:,}" if n.get(key) is not None else "not recorded") for key, label in names.items()]
    blocks: list[Block] = [Facts(facts), *_flow(files, n)]
    table = table_cohort(files)
    blocks.append(table or Paragraph("cohort.tsv is absent: no counts by site can be shown.", role="note"))
    return Section("cohort", "Cohort", blocks)


def _flow(files: EvaluationFiles, n: dict) -> list[Block]:
    blocks: list[Block] = []
    if n.get("excluded") is None and files.flow is None:
        blocks.append(Paragraph("Whether scans were excluded is not recorded.", role="note"))
    elif files.flow is None and not any((n.get("excluded") or {}).values()):
        blocks.append(Paragraph("No scan was excluded.", role="note"))
    picture = draw_flow(files)
    if picture is not None:
        blocks.append(Pictures([picture]))
        blocks.append(_table(files))
    if files.flow is None:
        text = "flow.tsv is absent: what happened before the embeddings were made is not known here."
        blocks.append(Paragraph(text, role="note"))
    return blocks


def _table(files: EvaluationFiles) -> Table:
    rows = [
        (
            Cell(("Left out: " if step.left_out else "") + step.name, heading=True),
            count_cell(step.n_scans),
            count_cell(step.n_subjects, reason="subjects not counted at this step"),
        )
        for step in list_steps(files)
    ]
    return Table("The flow of scans in numbers.", ("Step", "Scans", "Subjects"), rows, folded=True)
