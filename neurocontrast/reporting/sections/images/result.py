"""The result of an evaluation of images: accuracy with its interval, beside chance."""

from __future__ import annotations

from neurocontrast.reporting.blocks import Block, Card, Cards, Cell, Columns, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.cautions import list_warnings
from neurocontrast.reporting.figures.scores import draw_accuracies
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.images.sentences import say_for_reviewer, say_plainly, say_sensitive
from neurocontrast.reporting.metrics import (
    DASH,
    chance_level,
    describe_metric,
    interval_text,
    leading_metrics,
    metric_range,
    metric_text,
    number_text,
    point_estimate,
)
from neurocontrast.reporting.naming import capitalise
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.sections.result import warnings_section
from neurocontrast.reporting.tables import cell

__all__ = ["build_result", "build_warnings"]


def build_warnings(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the warnings, each with what it means."""
    none = "The evaluation raised no warning about the size of classes, copies of images or overlap with pretraining."
    return warnings_section(list_warnings(files, show_ids=options.show_ids), none)


def build_result(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the headline: figures in large print, the plain sentences, all metrics."""
    del options
    blocks: list[Block] = [Cards(cards)] if (cards := _cards(files)) else []
    words = [
        Paragraph(say_plainly(files), label="In plain words.", role="quote"),
        Paragraph(say_for_reviewer(files), label="For a reviewer.", role="quote"),
    ]
    if files.summary.get("sensitive"):
        words.append(Paragraph(say_sensitive(files), label="Fairness.", role="quote"))
    picture = draw_accuracies(files)
    blocks.append(Columns(words, [Pictures([picture])] if picture else []))
    if files.metrics:
        blocks.append(_table(files))
    return Section("result", "Result", blocks)


def _cards(files: EvaluationFiles) -> list[Card]:
    cards = []
    for place, key in enumerate(leading_metrics(files.kind, files.metrics, files.words)[:2]):
        values = files.metrics[key]
        chance = chance_level(key, len(files.classes), files.words)
        beside = f"; chance {metric_text(key, chance)}" if chance is not None else ""
        name = capitalise(describe_metric(key, files.words).name)
        value = metric_text(key, point_estimate(values))
        cards.append(Card(name, value, _detail(files, metric_range(key, values.get("interval"))) + beside, place == 0))
    block = files.summary.get("sensitive") or {}
    whole = block.get("mse") or {}
    if whole.get("value") is not None:
        interval = interval_text((whole.get("low"), whole.get("high")), digits=4)
        constant = number_text(block.get("constant_mse"), digits=4)
        detail = f"{_detail(files, interval)}; of a constant {constant}; higher is fairer"
        cards.append(Card("Error of the sensitive variable (MSE)", number_text(whole["value"], digits=4), detail))
    return cards


def _detail(files: EvaluationFiles, interval: str) -> str:
    return "no interval" if interval == DASH else f"{files.level:.0%} interval {interval}"


def _table(files: EvaluationFiles) -> Table:
    folds = any(values.get("sd") is not None for values in files.metrics.values())
    rows = []
    leading = leading_metrics(files.kind, files.metrics, files.words)
    order = [*leading, *(key for key in files.metrics if key not in leading)]
    for key in order:
        values = files.metrics[key]
        about = describe_metric(key, files.words)
        interval = interval_text(values.get("interval"))
        why = str(values.get("reason") or "not defined for these images")
        spread = (cell(values.get("mean"), reason=why), cell(values.get("sd"), reason=why)) if folds else ()
        rows.append(
            (
                Cell(about.label, heading=True),
                cell(values.get("pooled"), reason=why),
                Cell(interval, reason="not computed" if interval == DASH else ""),
                *spread,
                cell(chance_level(key, len(files.classes), files.words), reason="depends on the data"),
            )
        )
    header = ("Metric", "Value", "Interval", *(("Mean of folds", "SD") if folds else ()), "Chance")
    caption = "All metrics of the test images." if files.fixed else (
        "All metrics, from the out-of-fold predictions of all folds. SD: spread between folds, not an interval."
    )  # fmt: skip
    told = [describe_metric(key, files.words) for key in order]
    meanings = " ".join(f"{about.short}: {about.meaning}" for about in told if about.meaning)
    note = f"{meanings} Chance: naming classes at random, whatever their sizes."
    return Table(caption, header, rows, note=note)
