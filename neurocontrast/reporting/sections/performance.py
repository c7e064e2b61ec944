"""How the predictions do: curves, calibration, errors, folds, sizes of training."""

from __future__ import annotations

from neurocontrast.reporting.blocks import Block, Columns, Facts, Paragraph, Pictures, Section
from neurocontrast.reporting.figures.calibration import calibration_classes, draw_calibration
from neurocontrast.reporting.figures.curves import draw_curve
from neurocontrast.reporting.figures.matrices import MAX_CELLS, draw_confusion
from neurocontrast.reporting.figures.points import draw_predicted
from neurocontrast.reporting.figures.training import draw_learning, learning_metrics, tabulate_learning
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import DASH, describe_metric, interval_text, number_text, point_estimate
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.section import Input, SectionBuilder, missing_note
from neurocontrast.reporting.style import Picture
from neurocontrast.reporting.tables import table_folds
from neurocontrast.reporting.words import IMAGES

__all__ = ["CALIBRATION", "CURVES", "ERRORS", "FOLDS", "LEARNING", "list_curves"]

_CLASSES = ("binary", "multiclass")
_CALIBRATION = Input("calibration.tsv", "the calibration curve", "calibration", needed=True)
_LEARNING = Input(
    "learning_curve.tsv",
    "the learning curve",
    "learning",
    "Made with `neurocontrast evaluate … --train-sizes 100,200,…`.",
    needed=True,
)


def _build_curves(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build ROC and precision–recall curves of a categorical target."""
    del options
    if files.words is IMAGES and files.kind == "multiclass":
        return None
    pictures = list_curves(files)
    if not pictures:
        text = "No curve is defined: the out-of-fold predictions hold one class only."
        return Section("curves", "Discrimination", [Paragraph(text, role="note")])
    return Section("curves", "Discrimination", [Pictures(pictures)])


def list_curves(files: EvaluationFiles) -> list[Picture]:
    """Return the ROC and precision–recall curves that are defined."""
    drawn = [draw_curve(files, curve) for curve in ("roc", "precision_recall")]
    return [picture for picture in drawn if picture is not None]


def _build_calibration(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build the calibration curves of a categorical target."""
    del options
    drawn = [draw_calibration(files, name) for name in calibration_classes(files)]
    pictures = [picture for picture in drawn if picture is not None]
    if not pictures:
        return Section("calibration", "Calibration", [Paragraph(missing_note(_CALIBRATION), role="note")])
    lead = "Whether a predicted probability can be read as one: of scans given 0.8, do 8 of 10 belong to the class?"
    facts = []
    for key in ("calibration_slope", "calibration_intercept", "brier", "log_loss"):
        for model, metrics in (("embedding", files.metrics), ("covariates only", files.summary.baseline)):
            value = point_estimate(metrics.get(key))
            if value is not None:
                interval = interval_text(metrics[key].interval, digits=2)
                text = number_text(value, digits=2) + (f" [{interval}]" if interval != DASH else "")
                facts.append((f"{describe_metric(key).label}, {model}", text))
    note = "Slope 1 and intercept 0 are perfect; a slope below 1: probabilities are too extreme, above 1: too cautious."
    beside: list[Block] = [Facts(facts, title="In numbers"), Paragraph(note, role="note")] if facts else []
    blocks: list[Block] = [Pictures(pictures)]
    blocks = [Columns(blocks, beside)] if len(pictures) == 1 else [*blocks, *beside]
    return Section("calibration", "Calibration", blocks, lead=lead)


def _build_errors(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the confusion matrix, or predicted against true values."""
    del options
    if files.kind == "continuous":
        pictures = [draw_predicted(files), draw_predicted(files, residuals=True)]
        return Section("errors", "Predicted and true values", [Pictures(pictures)])
    wide = len(files.classes) > MAX_CELLS
    return Section("errors", "What is taken for what", [Pictures([draw_confusion(files)], wide=wide)])


def _build_folds(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build the table of folds; None where there is one test set."""
    del options
    table = None if files.fixed else table_folds(files)
    return Section("folds", "Fold by fold", [table]) if table else None


def _build_learning(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build the learning curves; None for images where none was asked for."""
    del options
    curve, words = files.summary.learning_curve, files.words
    draws = f"{curve.n_draws} random draws" if curve and curve.n_draws else "random draws"
    how = f"{draws} of each size from every training fold"
    drawn = [
        draw_learning(tabulate_learning(curve, metric), metric, how=how, n_classes=len(files.classes), words=words)
        for metric in learning_metrics(files)
    ]
    pictures = [picture for picture in drawn if picture is not None]
    if not pictures and words is IMAGES:
        return None
    if not pictures:
        return Section("learning", "Learning curve", [Paragraph(missing_note(_LEARNING), role="note")])
    lead = f"A curve that still gets better at its right end would gain from more labelled {words.items}; a flat one "
    return Section("learning", "Learning curve", [Pictures(pictures)], lead=f"{lead}would not.")


CURVES = SectionBuilder("curves", "Discrimination", order=70, build=_build_curves, covers="curves", kinds=_CLASSES)
CALIBRATION = SectionBuilder(
    "calibration",
    "Calibration",
    order=80,
    build=_build_calibration,
    inputs=(_CALIBRATION,),
    covers="calibration",
    kinds=_CLASSES,
    of=("scans",),
)
ERRORS = SectionBuilder("errors", "Errors", order=90, build=_build_errors, covers="errors")
LEARNING = SectionBuilder(
    "learning", "Learning curve", order=110, build=_build_learning, inputs=(_LEARNING,), covers="learning curve"
)
FOLDS = SectionBuilder("folds", "Fold by fold", order=180, build=_build_folds, covers="folds")
