"""Models side by side: their values, and their differences from the reference."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes

from neurocontrast.reporting.metrics import chance_level, describe_metric, interval_text, number_text
from neurocontrast.reporting.style import (
    CHANCE,
    INK,
    MAIN,
    MARKERS,
    MUTED,
    PALETTE,
    Picture,
    distinct_labels,
    legend_below,
    new_figure,
    styled,
)
from neurocontrast.reporting.words import IMAGES, SCANS, Words

__all__ = ["draw_differences", "draw_models"]


@styled
def draw_models(models: pd.DataFrame, metric: str, *, n_classes: int, words: Words = SCANS) -> Picture | None:
    """Draw a metric of every model with its interval; None where no model has it.

    Parameters
    ----------
    models : DataFrame
        ``model, metric, value, low, high``.
    metric : str
        Which one is drawn.
    n_classes : int
        Classes of the target, for the chance level.
    words : Words
        What was evaluated.
    """
    rows = models[(models["metric"] == metric) & models["value"].notna()].reset_index(drop=True)
    if rows.empty:
        return None
    figure, axes = new_figure(height=1.6 + 0.36 * len(rows))
    for position, row in enumerate(rows.to_dict("records")):
        color, marker = PALETTE[position % len(PALETTE)], MARKERS[position % len(MARKERS)]
        if row["high"] > row["low"]:
            axes.plot([row["low"], row["high"]], [position, position], color=color, linewidth=2.2)
        axes.plot(row["value"], position, marker=marker, linestyle="none", color=color, markersize=8)
    chance = chance_level(metric, n_classes, words)
    if chance is not None:
        axes.axvline(chance, color=CHANCE, linestyle=":", linewidth=1.3, label="Chance")
    about = describe_metric(metric, words)
    _finish(axes, rows["model"], about.label)
    legend_below(figure, axes)
    told = "; ".join(_words(row, "value") for row in rows.assign(name=rows["model"]).to_dict("records"))
    return Picture(
        f"models_{metric}",
        figure,
        alt=f"{about.label} of each model: {told}.",
        caption=f"{about.label} of each model{_pooled(words)}, with bootstrap intervals over the same resamples.",
        numbers=rows,
    )


@styled
def draw_differences(differences: pd.DataFrame, metric: str, *, words: Words = SCANS) -> Picture | None:
    """Draw the difference of every model from the reference with its interval; None where there is none.

    Parameters
    ----------
    differences : DataFrame
        ``metric, model, reference, difference, low, high, p_adjusted``.
    metric : str
        Which one is drawn.
    words : Words
        What was evaluated.
    """
    rows = differences[(differences["metric"] == metric) & differences["difference"].notna()].reset_index(drop=True)
    if rows.empty:
        return None
    figure, axes = new_figure(height=1.6 + 0.36 * len(rows))
    for position, row in enumerate(rows.to_dict("records")):
        settled = row["low"] > 0 or row["high"] < 0
        if row["high"] > row["low"]:
            axes.plot([row["low"], row["high"]], [position, position], color=MAIN, linewidth=2.2)
        axes.plot(row["difference"], position, marker="s", linestyle="none", color=MAIN, markersize=7.5,
                  markerfacecolor=MAIN if settled else "white", markeredgewidth=1.6)  # fmt: skip
    axes.axvline(0, color=CHANCE, linestyle=":", linewidth=1.3, label="No difference")
    about = describe_metric(metric, words)
    reference = distinct_labels([rows["reference"].iloc[0]], length=24)[0]
    _finish(axes, rows["model"], f"Difference in {about.name} from {reference}")
    _say_direction(axes, higher_is_better=about.higher_is_better)
    legend_below(figure, axes)
    told = "; ".join(_words(row, "difference") for row in rows.assign(name=rows["model"]).to_dict("records"))
    return Picture(
        f"differences_{metric}",
        figure,
        alt=f"Difference in {about.label} from {rows['reference'].iloc[0]}: {told}.",
        caption=(
            f"Paired differences in {about.name}, with bootstrap intervals. Filled squares: the interval leaves out "
            "zero; hollow ones: it does not."
        ),
        numbers=rows,
    )


def _pooled(words: Words) -> str:
    return "" if words is IMAGES else ", pooled out-of-fold"


def _finish(axes: Axes, names: Sequence[str] | pd.Series, label: str) -> None:
    axes.set_yticks(range(len(names)), distinct_labels(names, length=26))
    axes.set(ylim=(len(names) - 0.4, -0.6), xlabel=label)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.08)
    axes.tick_params(axis="y", colors=INK)


def _say_direction(axes: Axes, *, higher_is_better: bool) -> None:
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, -0.15 * high), max(high, -0.15 * low))
    words = ("worse ←", "→ better") if higher_is_better else ("better ←", "→ worse")
    for place, text, side in ((0.0, words[0], "left"), (1.0, words[1], "right")):
        axes.annotate(text, (place, 1.0), xycoords="axes fraction", ha=side, va="bottom", fontsize=8.5, color=MUTED)


def _words(row: dict, key: str) -> str:
    signed = key == "difference"
    value = number_text(row[key], digits=3, signed=signed)
    return f"{row['name']} {value} ({interval_text((row['low'], row['high']), digits=3, signed=signed)})"
