"""Warnings, then the result in one figure and two sentences."""

from __future__ import annotations

from neurocontrast.reporting.blocks import Block, Card, Cards, Columns, Items, Paragraph, Pictures, Section
from neurocontrast.reporting.cautions import list_warnings
from neurocontrast.reporting.figures.scores import draw_headline
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import (
    DASH,
    choose_headline,
    describe_metric,
    interval_text,
    number_text,
    point_estimate,
)
from neurocontrast.reporting.naming import capitalise, covariates_text
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.sentences import say_for_clinician, say_for_reviewer
from neurocontrast.reporting.tables import table_metrics

__all__ = ["build_result", "build_warnings", "warnings_section"]


def build_warnings(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the warnings, each with what it means; the reader is told too when there is none."""
    none = "The evaluation raised no warning about sites, group sizes, confounding or overlap with pretraining."
    return warnings_section(list_warnings(files, show_ids=options.show_ids), none)


def warnings_section(warnings: list[tuple[str, str]], none: str) -> Section:
    """Return the section of warnings; `none` stands there where there are none."""
    if not warnings:
        return Section("warnings", "Read this first", [Paragraph(none, role="note")])
    return Section("warnings", f"Read this first: {_count(len(warnings))}", [Items(warnings, role="warnings")])


def _count(n: int) -> str:
    return "1 warning" if n == 1 else f"{n} warnings"


def build_result(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the headline: figures in large print, the plain sentences, the intervals, all metrics."""
    del options
    blocks: list[Block] = []
    key = choose_headline(files.kind, files.metrics)
    if key is not None:
        blocks.append(Cards(_cards(files, key)))
    words = [
        Paragraph(say_for_clinician(files), label="In plain words.", role="quote"),
        Paragraph(say_for_reviewer(files), label="For a methods reviewer.", role="quote"),
    ]
    picture = draw_headline(files)
    blocks.append(Columns(words, [Pictures([picture])] if picture else []))
    if files.metrics:
        blocks.append(table_metrics(files))
    return Section("result", "Result", blocks)


def _cards(files: EvaluationFiles, key: str) -> list[Card]:
    metric = describe_metric(key)
    digits = 2
    values, baseline, increment = (part.get(key) or {} for part in (files.metrics, files.baseline, files.increment))
    better = "higher is better" if metric.higher_is_better else "lower is better"
    return [
        Card(
            capitalise(f"{metric.name} of the embedding"),
            number_text(point_estimate(values), digits=digits),
            f"{_detail(values.get('interval'), files, digits=digits)}; {better}",
            strong=True,
        ),
        Card(
            capitalise(f"{metric.name} of {covariates_text(files)} only") if files.baseline else "Baseline",
            number_text(point_estimate(baseline), digits=digits),
            _detail(baseline.get("interval"), files, digits=digits) if baseline else "no baseline was computed",
        ),
        Card(
            "Difference",
            number_text(increment.get("difference"), digits=digits, signed=True),
            _detail(increment.get("interval"), files, digits=digits, signed=True)
            + ("" if metric.higher_is_better else "; negative is better")
            if increment
            else "not computed",
        ),
        *_voxels_card(files, key),
    ]


def _voxels_card(files: EvaluationFiles, key: str) -> list[Card]:
    voxels = files.voxels.get(key)
    if not voxels:
        return []
    heading = f"{describe_metric(key).name} of the voxels' principal components"
    return [
        Card(
            capitalise(heading),
            number_text(point_estimate(voxels), digits=2),
            _detail(voxels.get("interval"), files, digits=2),
        )
    ]


def _detail(interval: list[float] | None, files: EvaluationFiles, *, digits: int, signed: bool = False) -> str:
    text = interval_text(interval, digits=digits, signed=signed)
    if text == DASH:
        return "no interval"
    level = float((files.summary.get("bootstrap") or {}).get("level") or 0.95)
    return f"{level * 100:g}% interval {text}"
