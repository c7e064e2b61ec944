"""How the predictions do: curves, calibration, errors, folds, sizes of training."""

from __future__ import annotations

from neurocontrast.reporting.blocks import Block, Columns, Facts, Paragraph, Pictures, Section
from neurocontrast.reporting.figures import (
    calibration_classes,
    count_confusion,
    count_text,
    draw_calibration,
    draw_confusion,
    draw_learning,
    draw_one_vs_rest,
    draw_precision_recall,
    draw_predicted,
    draw_residuals,
    draw_roc,
    learning_metrics,
    name_rule,
)
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.inputs import missing_note
from neurocontrast.reporting.metrics import DASH, describe_metric, interval_text, number_text, point_estimate
from neurocontrast.reporting.naming import capitalise
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.style import Picture
from neurocontrast.reporting.tables import table_folds

__all__ = ["build_calibration", "build_curves", "build_errors", "build_folds", "build_learning", "list_curves"]


def build_curves(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build ROC and precision–recall curves of a categorical target."""
    del options
    if files.kind == "continuous":
        return None
    pictures = list_curves(files)
    if not pictures:
        text = "No curve is defined: the out-of-fold predictions hold one class only."
        return Section("curves", "Discrimination", [Paragraph(text, role="note")])
    return Section("curves", "Discrimination", [Pictures(pictures)])


def list_curves(files: EvaluationFiles) -> list[Picture]:
    """Return the ROC and precision–recall curves that are defined."""
    drawn: list[Picture | None]
    if files.kind == "binary":
        drawn = [draw_roc(files), draw_precision_recall(files)]
    else:
        drawn = [draw_one_vs_rest(files, "roc"), draw_one_vs_rest(files, "precision_recall")]
    return [picture for picture in drawn if picture is not None]


def build_calibration(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build the calibration curves of a categorical target."""
    del options
    if files.kind == "continuous":
        return None
    drawn = [draw_calibration(files, name) for name in calibration_classes(files)]
    pictures = [picture for picture in drawn if picture is not None]
    if not pictures:
        return Section("calibration", "Calibration", [Paragraph(missing_note("calibration"), role="note")])
    lead = "Whether a predicted probability can be read as one: of scans given 0.8, do 8 of 10 belong to the class?"
    facts = _calibration_facts(files)
    blocks: list[Block] = [Pictures(pictures)]
    if facts:
        blocks = [Columns(blocks, [facts])] if len(pictures) == 1 else [*blocks, facts]
    return Section("calibration", "Calibration", blocks, lead=lead)


def _calibration_facts(files: EvaluationFiles) -> Facts | None:
    facts = []
    for key in ("calibration_slope", "calibration_intercept", "brier", "log_loss"):
        for model, metrics in (("embedding", files.metrics), ("covariates only", files.baseline)):
            value = point_estimate(metrics.get(key))
            if value is not None:
                interval = interval_text(metrics[key].get("interval"), digits=2)
                text = number_text(value, digits=2) + (f" [{interval}]" if interval != DASH else "")
                facts.append((f"{describe_metric(key).label}, {model}", text))
    return Facts(facts, title="In numbers") if facts else None


def build_errors(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the confusion matrix, or predicted against true values."""
    del options
    if files.kind == "continuous":
        return Section(
            "errors", "Predicted and true values", [Pictures([draw_predicted(files), draw_residuals(files)])]
        )
    blocks = Columns([Pictures([draw_confusion(files)])], [Facts(_rates(files), title=capitalise(name_rule(files)))])
    return Section("errors", "Right and wrong classifications", [blocks])


def _rates(files: EvaluationFiles) -> list[tuple[str, str]]:
    """Return what the confusion matrix says, as counts that a reader can check."""
    counts = count_confusion(files)
    rows = [
        (f"Of the scans labelled “{name}”, called so", counts[row, row], counts[row].sum())
        for row, name in enumerate(files.classes)
    ]
    if files.kind == "binary":
        column = files.classes.index(files.positive)
        label = f"Of the scans called “{files.positive}”, rightly"
        rows.append((label, counts[column, column], counts[:, column].sum()))
    return [
        (label, f"{count_text(n)} of {count_text(total)} ({n / total:.0%})" if total else f"{DASH} (no such scan)")
        for label, n, total in rows
    ]


def build_folds(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build the table of folds."""
    del options
    table = table_folds(files)
    return Section("folds", "Fold by fold", [table]) if table else None


def build_learning(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the learning curves."""
    del options
    drawn = [draw_learning(files, metric) for metric in learning_metrics(files)]
    pictures = [picture for picture in drawn if picture is not None]
    if not pictures:
        return Section("learning", "Learning curve", [Paragraph(missing_note("learning"), role="note")])
    blocks: list[Block] = [Pictures(pictures)]
    lead = "A curve that still gets better at its right end would gain from more labelled scans; a flat one would not."
    return Section("learning", "Learning curve", blocks, lead=lead)
