"""The scans that the model got most wrong, for somebody to look at."""

from __future__ import annotations

import pandas as pd

from neurocontrast.reporting.blocks import Cell, Paragraph, Section, Table
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import DASH
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.predictions import count_errors, worst_errors
from neurocontrast.reporting.section import SectionBuilder
from neurocontrast.reporting.tables import cell

__all__ = ["WORST"]


def _build(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the table of most confident mistakes, or of largest residuals."""
    errors = worst_errors(files, show_ids=options.show_ids)
    if errors.empty:
        return Section("worst", "Worst errors", [Paragraph("No scan was given to a wrong class.", role="note")])
    continuous = files.kind == "continuous"
    header = ("Scan", "Age", "Sex", "Site", "True", "Predicted", "Predicted − true" if continuous else "P(true class)")
    rows = [_row(row, continuous=continuous, exact=options.show_ids) for row in errors.to_dict("records")]
    ids = (
        "Scans stand under their identifiers."
        if options.show_ids
        else "Scans stand under pseudonyms and ages are rounded; with the evaluation folder, `--show-ids` names them."
    )
    table = Table(_caption(files, len(errors)), header, rows, text_columns=(0, 2, 3, 4, 5), note=ids)
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


def _row(row: dict, *, continuous: bool, exact: bool) -> tuple[Cell, ...]:
    age = cell(row["age"], digits=1) if exact else _text(row["age"])
    if continuous:
        truth = (cell(row["y_true"], digits=1 if exact else 0), cell(row["predicted"], digits=1))
    else:
        truth = (_text(row["y_true"]), _text(row["predicted"]))
    score = cell(row["score"], digits=1 if continuous else 2, signed=continuous)
    return (Cell(str(row["scan"]), heading=True), age, _text(row["sex"]), _text(row["site"]), *truth, score)


def _text(value: object) -> Cell:
    if value is None or pd.isna(value):  # type: ignore[call-overload]
        return Cell(DASH, reason="not recorded")
    return Cell(str(value))


WORST = SectionBuilder("worst", "Worst errors", order=100, build=_build, covers="worst errors", of=("scans",))
