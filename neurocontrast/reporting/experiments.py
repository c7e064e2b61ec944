"""The table of an experiment of several losses over several seeds, as Markdown; and what its measures are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import pandas as pd

from neurocontrast.reporting.metrics import DASH, number_text

__all__ = ["MEASURES", "MeasureName", "format_estimate", "render_results", "say_difference"]


@dataclass(frozen=True)
class MeasureName:
    """What a measure is called, and how it is read.

    Attributes
    ----------
    name, short : str
        In figures, and at the head of a column.
    digits : int
        Decimals.
    percent : bool
        Whether it is written as a percentage.
    lowest : float
        Smallest value that it can have: an interval of Student's t over few seeds may reach beyond.
    """

    name: str
    short: str
    digits: int = 3
    percent: bool = False
    lowest: float = 0.0

    @property
    def highest(self) -> float:
        """Largest value that it can have, as it is shown."""
        return 100.0 if self.percent else inf

    @property
    def scale(self) -> float:
        """What a value is multiplied by where it is shown."""
        return 100.0 if self.percent else 1.0

    @property
    def axis(self) -> str:
        """Its name beside an axis, with the unit."""
        return f"{self.name} (%)" if self.percent else self.name


MEASURES = {
    "accuracy": MeasureName("Top-1 accuracy on test images", "Top-1", 1, percent=True),
    "top5_accuracy": MeasureName("Top-5 accuracy on test images", "Top-5", 1, percent=True),
    "balanced_accuracy": MeasureName("Balanced accuracy on test images", "Balanced accuracy", 1, percent=True),
    "sensitive_mse": MeasureName("Squared error of the sensitive variable", "Sensitive MSE", 4),
    "target_cosine": MeasureName("Nearest cosine within the class", "Target cosine", lowest=-inf),
    "noise_cosine": MeasureName("Nearest cosine outside the class", "Noise cosine", lowest=-inf),
    "cosine_difference": MeasureName("Target − noise cosine", "Target − noise", 4, lowest=-inf),
    "class_separation": MeasureName("Mean cosine within − between classes", "Within − between", lowest=-inf),
    "own_class_nearest": MeasureName("Nearest neighbour of the own class", "1-NN", 1, percent=True),
    "initial_loss": MeasureName("Loss of the first epoch", "Initial loss", lowest=-inf),
    "final_loss": MeasureName("Loss of the last epoch", "Final loss", lowest=-inf),
    "minutes": MeasureName("Minutes of pretraining, by the clock", "Minutes", 1),
}

_TOLD = ("accuracy", "sensitive_mse", "cosine_difference", "class_separation")
"""Measures whose differences are put into words."""


def format_estimate(mean: float, low: float, high: float, name: MeasureName, *, signed: bool = False) -> str:
    """Return ``"61.2 [59.8, 62.6]"``; a dash where there is no mean, and no brackets where there is no interval."""
    if pd.isna(mean):
        return DASH
    texts = [number_text(name.scale * value, digits=name.digits, signed=signed) for value in (mean, low, high)]
    return texts[0] if pd.isna(low) else f"{texts[0]} [{texts[1]}, {texts[2]}]"


def say_difference(row: Mapping[str, float]) -> str:
    """Say what the differences to the reference settle: all their interval on one side of zero, or not."""
    n, above = row["n_pairs"], row["n_above"]
    if pd.isna(n) or n < 2 or pd.isna(row["difference_low"]):
        return "too few seeds to tell"
    if row["difference_low"] > 0:
        return f"higher, in {above:.0f} of {n:.0f} seeds"
    if row["difference_high"] < 0:
        return f"lower, in {n - above:.0f} of {n:.0f} seeds"
    return f"not settled; higher in {above:.0f} of {n:.0f} seeds"


def render_results(
    summary: pd.DataFrame, *, title: str, question: str, labels: Mapping[str, str], reference: str,
    facts: Sequence[str] = (), published: Mapping[str, float] | None = None, level: float = 0.95,
) -> str:  # fmt: skip
    """Return the results as a Markdown page: a table of means, one of differences, and what the intervals settle.

    Parameters
    ----------
    summary : DataFrame
        As `neurocontrast.evaluation.seeds.summarise_seeds` returns it.
    title, question : str
        Head of the page.
    labels : mapping
        Variant → what it is called.
    reference : str
        Variant that the others are compared with.
    facts : sequence of str
        Lines that say what was done.
    published : mapping, optional
        Variant → the accuracy that its paper reports.
    level : float
        Of the intervals.
    """
    columns = list(dict.fromkeys(zip(summary["layer"], summary["measure"], strict=True)))
    many = summary["layer"].replace("", pd.NA).nunique() > 1
    heads = [_head(layer, measure, many) for layer, measure in columns]
    known = published or {}
    lines = [f"# {title}", "", question, "", *(f"- {fact}" for fact in facts), ""]
    lines += _table(["Loss", *heads, *(["Published top-1"] if known else [])], [
        [labels[variant], *(_cell(summary, variant, *column) for column in columns),
         *([f"{100 * known[variant]:.1f}" if variant in known else DASH] if known else [])]
        for variant in labels
    ])  # fmt: skip
    lines += [
        "",
        f"Means over seeds and {level:.0%} intervals of Student's t; percentages where a column is an accuracy.",
        "",
    ]
    others = [variant for variant in labels if variant != reference]
    if others:
        lines += [f"Differences to {labels[reference]}, paired by seed:", ""]
        lines += _table(["Loss", *heads], [
            [labels[variant], *(_cell(summary, variant, *column, difference=True) for column in columns)]
            for variant in others
        ])  # fmt: skip
        lines += ["", *_say_all(summary, others, dict(zip(columns, heads, strict=True)), labels, reference)]
    return "\n".join(lines).rstrip() + "\n"


def _head(layer: str, measure: str, many: bool) -> str:
    short = MEASURES[measure].short
    return f"{short} ({layer})" if many and layer else short


def _row(summary: pd.DataFrame, variant: str, layer: str, measure: str) -> dict[str, float] | None:
    found = summary[(summary["variant"] == variant) & (summary["layer"] == layer) & (summary["measure"] == measure)]
    return None if found.empty else {str(key): value for key, value in found.iloc[0].items()}


def _cell(summary: pd.DataFrame, variant: str, layer: str, measure: str, *, difference: bool = False) -> str:
    row = _row(summary, variant, layer, measure)
    if row is None:
        return DASH
    mean, low, high = ("difference", "difference_low", "difference_high") if difference else ("mean", "low", "high")
    return format_estimate(row[mean], row[low], row[high], MEASURES[measure], signed=difference)


def _say_all(
    summary: pd.DataFrame, others: Sequence[str], heads: Mapping[tuple[str, str], str], labels: Mapping[str, str],
    reference: str,
) -> list[str]:  # fmt: skip
    """Say of each variant what is settled, in the measures that an ordering is about."""
    told = {column: head for column, head in heads.items() if column[1] in _TOLD} or dict(list(heads.items())[:1])
    said = []
    for variant in others:
        rows = {head: _row(summary, variant, *column) for column, head in told.items()}
        parts = [f"{head} {say_difference(row)}" for head, row in rows.items() if row is not None]
        if parts:
            said.append(f"- {labels[variant]}: {'. '.join(parts)}.")
    return [f"Against {labels[reference]}, by whether the interval of the difference holds zero:", "", *said]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (header, *rows)]
    ruler = ["---", *("---:" for _ in header[1:])]
    return [f"| {' | '.join(row)} |" for row in (cells[0], ruler, *cells[1:])]
