"""Class by class: recall, what is taken for what, and how sure the predictions were."""

from __future__ import annotations

import pandas as pd

from neurocontrast.reporting.blocks import Block, Cell, Columns, Facts, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.figures.calibration import draw_reliability
from neurocontrast.reporting.figures.matrices import MAX_CELLS, draw_confusion
from neurocontrast.reporting.figures.points import draw_predicted, draw_residuals
from neurocontrast.reporting.figures.scores import draw_recalls
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.images.classes import confused_pairs, given_answers, measure_reliability
from neurocontrast.reporting.inputs import missing_note
from neurocontrast.reporting.metrics import DASH
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.predictions import count_text
from neurocontrast.reporting.sections.performance import list_curves
from neurocontrast.reporting.tables import count_cell

__all__ = ["build_classes", "build_confidence", "build_confusion"]

_OPEN_ROWS = 20


def build_classes(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build the recall of each class, as a figure and as a table."""
    del options
    if files.kind == "continuous":
        return None
    if files.by_class is None:
        return Section("classes", "Class by class", [Paragraph(missing_note("by_class"), role="note")])
    picture = draw_recalls(files)
    table = _class_table(files.by_class)
    blocks: list[Block] = [Pictures([picture])] if picture else []
    blocks.append(table)
    return Section("classes", "Class by class", blocks)


def _class_table(by_class: pd.DataFrame) -> Table:
    ordered = by_class.sort_values("recall", kind="stable", na_position="last")
    trained = [name for name in ("n_train", "n_validation") if name in ordered and ordered[name].notna().any()]
    names = {"n_train": "Training", "n_validation": "Validation"}
    rows = [
        (
            Cell(str(row["class"]), heading=True),
            *(count_cell(row[name]) for name in trained),
            count_cell(row["n"]),
            _share(row, "recall", "no such image was tested"),
            _share(row, "precision", "nothing was given this class"),
            _commonest(row),
        )
        for row in ordered.to_dict("records")
    ]
    header = ("Class", *(names[name] for name in trained), "Tested", "Recall", "Precision", "Most often taken for")
    return Table(
        "Each class, the lowest recall first (classes.tsv).",
        header,
        rows,
        text_columns=(0, len(header) - 1),
        folded=len(rows) > _OPEN_ROWS,
        note="Recall: share of the class that is given it. Precision: share of what is given it that is of it.",
    )


def _share(row: dict, name: str, reason: str) -> Cell:
    if row.get(name) is None or pd.isna(row[name]):
        return Cell(DASH, reason=reason)
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    detail = f"{low:.1%} to {high:.1%}" if pd.notna(low) and pd.notna(high) else ""
    return Cell(f"{row[name]:.1%}", detail=detail)


def _commonest(row: dict) -> Cell:
    name, n = row.get("confused_with"), row.get("n_confused")
    if name is None or pd.isna(name) or pd.isna(n):
        return Cell(DASH, reason="every image of it was given it")
    return Cell(f"{name} ({n:,.0f})")


def build_confusion(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the confusion matrix, and the pairs that are confused most."""
    del options
    if files.kind == "continuous":
        return Section(
            "errors", "Predicted and true values", [Pictures([draw_predicted(files), draw_residuals(files)])]
        )
    picture, table = draw_confusion(files), _pair_table(files)
    if files.kind == "binary":
        return Section("errors", "What is taken for what", [Pictures([picture, *list_curves(files)])])
    wide = len(files.classes) > MAX_CELLS
    blocks: list[Block] = [Pictures([picture], wide=True), table] if wide else [Columns([Pictures([picture])], [table])]
    return Section("errors", "What is taken for what", blocks)


def _pair_table(files: EvaluationFiles) -> Table | Paragraph:
    rows = [
        (
            Cell(str(row["true"]), heading=True),
            Cell(str(row["given"])),
            Cell(count_text(row["n"]), detail=f"{row['share']:.1%} of the class"),
            Cell(count_text(row["n_back"])),
        )
        for row in confused_pairs(files).to_dict("records")
    ]
    if not rows:
        return Paragraph("No image was given a wrong class.", role="note")
    header = ("Of class", "given", "Images", "The other way")
    return Table("The commonest mistakes.", header, rows, text_columns=(0, 1))


def build_confidence(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build confidence against accuracy."""
    del options
    measured = None if files.kind == "continuous" else measure_reliability(given_answers(files))
    if measured is None:
        return None
    lead = "Whether the probability of the given class can be read as one: of images given 0.8, are 8 of 10 right?"
    gap = measured.confidence - measured.accuracy
    facts = [
        ("Expected calibration error", f"{measured.error:.3f}"),
        ("Mean confidence", f"{measured.confidence:.1%}"),
        ("Share that is right", f"{measured.accuracy:.1%}"),
        ("On the whole", f"{'too sure' if gap > 0 else 'not sure enough'} by {abs(gap) * 100:.1f} points"),
    ]
    blocks = [
        Columns([Pictures([draw_reliability(measured.bins, error=measured.error)])], [Facts(facts, title="In numbers")])
    ]
    return Section("confidence", "Confidence", blocks, lead=lead)
