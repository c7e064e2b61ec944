"""The scans that the model got most wrong, for somebody to look at."""

from __future__ import annotations

from neurocontrast.reporting.blocks import Paragraph, Section
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.predictions import count_errors, worst_errors
from neurocontrast.reporting.section import SectionBuilder
from neurocontrast.reporting.tables import Column, make_table

__all__ = ["WORST"]


def _build(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the table of most confident mistakes, or of largest residuals."""
    errors = worst_errors(files, show_ids=options.show_ids)
    if errors.empty:
        return Section("worst", "Worst errors", [Paragraph("No scan was given to a wrong class.", role="note")])
    continuous = files.kind == "continuous"
    number = "number" if continuous else "text"
    columns = (
        Column("Scan", "scan", "heading"),
        Column("Age", "age", "number" if options.show_ids else "text", 1),
        Column("Sex", "sex", "text"),
        Column("Site", "site", "text"),
        Column("True", "y_true", number, 1 if options.show_ids else 0),
        Column("Predicted", "predicted", number, 1),
        Column("Predicted − true", "score", digits=1, signed=True)
        if continuous
        else Column("P(true class)", "score", digits=2),
    )
    ids = (
        "Scans stand under their identifiers."
        if options.show_ids
        else "Scans stand under pseudonyms and ages are rounded; with the evaluation folder, `--show-ids` names them."
    )
    table = make_table(_caption(files, len(errors)), errors, columns, note=ids)
    lead = (
        "Look at these scans first: a wrong label, a failed registration and a truly hard case look alike here. The "
        "list is no estimate of anything."
    )
    return Section("worst", "Worst errors", [table], lead=lead)


def _caption(files: EvaluationFiles, n: int) -> str:
    if files.kind == "continuous":
        return f"The {n} largest residuals of out-of-fold predictions."
    wrong, total = count_errors(files)
    how = " in most repeats" if files.predictions["repeat"].nunique() > 1 else ""
    return (
        f"The {n} most confident of the {wrong:,} mistakes{how} among {total:,} scans: the true class was given so "
        "little probability."
    )


WORST = SectionBuilder("worst", "Worst errors", order=100, build=_build, covers="worst errors", of=("scans",))
