"""The result: figures in large print, two sentences, the intervals, and all metrics."""

from __future__ import annotations

from typing import Any

from neurocontrast.reporting.blocks import Block, Card, Cards, Columns, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.figures.scores import draw_accuracies, draw_headline
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import (
    chance_level,
    choose_headline,
    describe_metric,
    interval_text,
    leading_metrics,
    metric_range,
    metric_text,
    number_text,
    point_estimate,
)
from neurocontrast.reporting.naming import capitalise, covariates_text, interval_phrase
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.prose import write
from neurocontrast.reporting.section import SectionBuilder
from neurocontrast.reporting.tables import Column, make_table, table_metrics
from neurocontrast.reporting.testing import permutation_result
from neurocontrast.reporting.words import IMAGES

__all__ = ["RESULT", "say_result"]


def _build(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the headline: figures in large print, the plain sentences, the intervals, all metrics."""
    del options
    images = files.words is IMAGES
    cards = _image_cards(files) if images else _cards(files)
    blocks: list[Block] = [Cards(cards)] if cards else []
    words = [
        Paragraph(say_result(files, "plain"), label="In plain words.", role="quote"),
        Paragraph(say_result(files, "reviewer"), label="For a methods reviewer.", role="quote"),
    ]
    picture = draw_accuracies(files) if images else draw_headline(files)
    blocks.append(Columns(words, [Pictures([picture])] if picture else []))
    if files.metrics:
        blocks.append(_image_table(files) if images else table_metrics(files))
    return Section("result", "Result", blocks)


def say_result(files: EvaluationFiles, what: str, key: str | None = None) -> str:
    """Say what the headline metric means.

    Parameters
    ----------
    files : EvaluationFiles
        What was read.
    what : {"plain", "reviewer", "increment", "voxels"}
        The whole without a technical term; the whole with what a reviewer asks for first; whether the embedding adds
        to the covariates; whether it adds to the voxels.
    key : str, optional
        The metric; the headline by default.
    """
    key = key or choose_headline(files.kind, files.metrics, files.words)
    permutation = permutation_result(files, key) if key else None
    return write("result.j2", files, what=what, key=key, permutation=permutation)


def _cards(files: EvaluationFiles) -> list[Card]:
    key = choose_headline(files.kind, files.metrics)
    if key is None:
        return []
    about = describe_metric(key)
    s = files.summary
    values, baseline, increment = s.metrics[key], s.baseline.get(key), s.increment.get(key)
    better = "higher is better" if about.higher_is_better else "lower is better"
    name = f"{about.name} of {covariates_text(files)} only" if s.baseline else "Baseline"
    difference = _interval(files, increment, signed=True) + ("" if about.higher_is_better else "; negative is better")
    cards = [
        _card(f"{about.name} of the embedding", values, f"{_interval(files, values)}; {better}", strong=True),
        _card(name, baseline, _interval(files, baseline) if baseline else "no baseline was computed"),
        Card(
            "Difference",
            number_text(increment.difference if increment else None, digits=2, signed=True),
            difference if increment else "not computed",
        ),
    ]
    if key in s.voxels:
        name = f"{about.name} of the voxels' principal components"
        cards.append(_card(name, s.voxels[key], _interval(files, s.voxels[key])))
    return cards


def _card(name: str, values: Any, detail: str, *, strong: bool = False) -> Card:
    return Card(capitalise(name), number_text(point_estimate(values), digits=2), detail, strong)


def _interval(files: EvaluationFiles, values: Any, *, signed: bool = False) -> str:
    return interval_phrase(files, interval_text(values.interval if values else None, digits=2, signed=signed))


def _image_cards(files: EvaluationFiles) -> list[Card]:
    cards = []
    for place, key in enumerate(leading_metrics(files.kind, files.metrics, files.words)[:2]):
        values, chance = files.metrics[key], chance_level(key, len(files.classes), files.words)
        detail = interval_phrase(files, metric_range(key, values.interval))
        detail += f"; chance {metric_text(key, chance)}" if chance is not None else ""
        name = capitalise(describe_metric(key, files.words).name)
        cards.append(Card(name, metric_text(key, point_estimate(values)), detail, place == 0))
    block = files.summary.sensitive
    if block is not None and block.mse.value is not None:
        interval = interval_phrase(files, interval_text((block.mse.low, block.mse.high), digits=4))
        detail = f"{interval}; of a constant {number_text(block.constant_mse, digits=4)}; higher is fairer"
        cards.append(Card("Error of the sensitive variable (MSE)", number_text(block.mse.value, digits=4), detail))
    return cards


def _image_table(files: EvaluationFiles) -> Table:
    """Return all metrics beside chance, the leading ones first."""
    order = dict.fromkeys([*leading_metrics(files.kind, files.metrics, files.words), *files.metrics])
    abouts = {key: describe_metric(key, files.words) for key in order}
    rows = []
    for key, about in abouts.items():
        found = files.metrics[key]
        low, high = found.interval or (None, None)
        row = {"metric": about.label, "value": found.pooled, "value_low": low, "value_high": high, "mean": found.mean}
        rows.append(row | {"sd": found.sd, "chance": chance_level(key, len(files.classes), files.words)})
    columns = [Column("Metric", "metric", "heading"), Column("Value", "value", reason="not defined for these images")]
    columns.append(Column("Interval", "value", "interval", reason="not computed"))
    if any(row["sd"] is not None for row in rows):
        columns += [Column("Mean of folds", "mean"), Column("SD", "sd")]
    columns.append(Column("Chance", "chance", reason="depends on the data"))
    caption = "All metrics, from the out-of-fold predictions of all folds. SD: spread between folds, not an interval."
    caption = "All metrics of the test images." if files.fixed else caption
    meanings = " ".join(f"{about.short}: {about.meaning}" for about in abouts.values() if about.meaning)
    note = f"{meanings} Chance: naming classes at random, whatever their sizes."
    return make_table(caption, rows, columns, note=note)


RESULT = SectionBuilder("result", "Result", order=10, build=_build, covers="result")
