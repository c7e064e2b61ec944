"""Figures of an experiment of several losses over several seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from neurocontrast.reporting.experiments import MEASURES, MeasureName, format_estimate
from neurocontrast.reporting.style import (
    CHANCE,
    INK,
    LINES,
    MARKERS,
    MUTED,
    PALETTE,
    Picture,
    legend_below,
    new_figure,
    plain_label,
    styled,
)

__all__ = ["draw_epochs", "draw_series", "draw_tradeoff_of_variants", "draw_variants"]

Row = dict[Any, Any]


@styled
def draw_variants(
    summary: pd.DataFrame, values: pd.DataFrame, *, measure: str, labels: Mapping[str, str], reference: str,
    name: str, level: float,
) -> Picture:  # fmt: skip
    """Draw the mean of each variant with its interval, and each seed as a stroke.

    Parameters
    ----------
    summary, values : DataFrame
        Of one layer: rows of `summarise_seeds`, and one row a seed.
    measure : str
        Which one is drawn.
    labels : mapping
        Variant → what it is called, in the order from above.
    reference : str
        Variant whose mean is a line through the figure.
    name : str
        Of the figure's files.
    level : float
        Of the intervals.
    """
    about, rows = MEASURES[measure], _ordered(summary, measure, labels)
    figure, axes = new_figure(height=1.5 + 0.42 * len(rows), width=6.4)
    for place, row in enumerate(rows):
        seeds = values.loc[(values["variant"] == row["variant"]) & (values["measure"] == measure), "value"]
        _draw_estimate(axes, row, place, about.scale, seeds.to_numpy(dtype=float))
        if row["variant"] == reference:
            axes.axvline(about.scale * row["mean"], color=CHANCE, linestyle=":", linewidth=1.3)
    axes.set_yticks(range(len(rows)), [_label(labels[row["variant"]]) for row in rows])
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlabel=about.axis, xlim=_within(axes.get_xlim(), about))
    axes.grid(axis="y", visible=False)
    return Picture(
        name,
        figure,
        alt=f"{about.name}: {_say(rows, labels, measure)}.",
        caption=f"{about.name}: mean over seeds and {level:.0%} interval of Student's t; strokes are seeds, the dotted "
        f"line is the mean of {labels[reference]}.",
        numbers=pd.DataFrame(rows),
    )


def _draw_estimate(axes: Axes, row: Row, place: int, scale: float, seeds: np.ndarray) -> None:
    color = PALETTE[place % len(PALETTE)]
    if np.isfinite(row["low"]):
        axes.plot([scale * row["low"], scale * row["high"]], [place, place], color=color, linewidth=2.2)
    axes.plot(scale * row["mean"], place, marker="o", color=color, markersize=7, zorder=3)
    below = np.full(len(seeds), place + 0.24)
    axes.plot(scale * seeds, below, marker="|", linestyle="none", color=INK, markersize=7)


@styled
def draw_epochs(curves: pd.DataFrame, *, labels: Mapping[str, str], level: float) -> Picture | None:
    """Draw the linear probe's accuracy while training; None where fewer than two epochs have one.

    Parameters
    ----------
    curves : DataFrame
        ``variant, epoch, mean, low, high``, over seeds.
    labels : mapping
        Variant → what it is called.
    level : float
        Of the bands.
    """
    if curves.empty or curves["epoch"].nunique() < 2:
        return None
    figure, axes = new_figure(height=4.2, width=6.0)
    last = []
    for place, variant in enumerate(each for each in labels if (curves["variant"] == each).any()):
        rows = curves[curves["variant"] == variant].sort_values("epoch")
        low, middle, high = (100 * rows[column] for column in ("low", "mean", "high"))
        color, marker, line = PALETTE[place % 8], MARKERS[place % len(MARKERS)], LINES[place % len(LINES)]
        axes.fill_between(rows["epoch"], low, high, color=color, alpha=0.13, linewidth=0)
        axes.plot(rows["epoch"], middle, color=color, marker=marker, markersize=5, linestyle=line, linewidth=1.8,
                  label=_label(labels[variant]))  # fmt: skip
        last.append(f"{labels[variant]} {middle.iloc[-1]:.1f}")
    axes.set(xlabel="Epochs of pretraining", ylabel="Balanced accuracy of the probe (%)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_below(figure, axes)
    return Picture(
        "epochs",
        figure,
        alt=f"Accuracy of the linear probe over epochs, at the last in percent: {'; '.join(last)}.",
        caption="Linear probe while training: fitted on the training images' features, scored on those that were held "
        f"back to measure. Mean over seeds and {level:.0%} interval of Student's t.",
        numbers=curves,
    )


@styled
def draw_series(
    summary: pd.DataFrame, *, measure: str, places: pd.DataFrame, labels: Mapping[str, str], axis: str, level: float
) -> Picture | None:
    """Draw a measure over a number, one line a series, and variants of no series as levels; None without a series.

    Parameters
    ----------
    summary : DataFrame
        Rows of `summarise_seeds`, of one layer.
    measure : str
        Which one is drawn.
    places : DataFrame
        ``variant, series, at``.
    labels : mapping
        Variant → what it is called.
    axis : str
        What the number is.
    level : float
        Of the intervals.
    """
    rows = pd.DataFrame(_ordered(summary, measure, labels)).merge(places, on="variant", how="left")
    joined, alone = rows[rows["series"].notna()], rows[rows["series"].isna()].to_dict("records")
    if joined.empty:
        return None
    about = MEASURES[measure]
    figure, axes = new_figure(height=4.4, width=6.0)
    n_series = _draw_lines(axes, joined, about.scale)
    for place, row in enumerate(alone, start=n_series):
        line = LINES[1 + place % (len(LINES) - 1)]
        axes.axhline(about.scale * row["mean"], color=PALETTE[place % 8], linestyle=line, linewidth=1.5,
                     label=_label(labels[row["variant"]]))  # fmt: skip
    axes.set(xlabel=axis or "Place in the series", ylabel=about.axis, ylim=_within(axes.get_ylim(), about))
    legend_below(figure, axes)
    return Picture(
        f"series_{measure}",
        figure,
        alt=f"{about.name} over a number: {_say(rows.to_dict('records'), labels, measure)}.",
        caption=f"{about.name}: means over seeds with {level:.0%} intervals of Student's t; flat lines are means of "
        "losses without that number.",
        numbers=rows,
    )


def _draw_lines(axes: Axes, joined: pd.DataFrame, scale: float) -> int:
    names = list(joined["series"].drop_duplicates())
    for place, name in enumerate(names):
        part = joined[joined["series"] == name].sort_values("at")
        reach = [scale * (part["mean"] - part["low"]).fillna(0.0), scale * (part["high"] - part["mean"]).fillna(0.0)]
        axes.errorbar(part["at"], scale * part["mean"], yerr=reach, color=PALETTE[place % 8], capsize=3, linewidth=1.8,
                      marker=MARKERS[place % len(MARKERS)], label=_label(name))  # fmt: skip
    ticks = sorted(joined["at"].unique())
    if ticks[0] > 0 and ticks[-1] / ticks[0] >= 10:
        axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    return len(names)


@styled
def draw_tradeoff_of_variants(
    summary: pd.DataFrame, *, x: str, y: str, places: pd.DataFrame, labels: Mapping[str, str], level: float
) -> Picture | None:
    """Draw one measure against another, one point a variant with both intervals; None with fewer than two.

    Parameters
    ----------
    summary : DataFrame
        Rows of `summarise_seeds`, of one layer.
    x, y : str
        Measures of the two axes.
    places : DataFrame
        ``variant, series, at``: a series has one colour and a line.
    labels : mapping
        Variant → what it is called.
    level : float
        Of the intervals.
    """
    rows = _both(summary, x, y, labels).merge(places, on="variant", how="left")
    if len(rows) < 2:
        return None
    figure, axes = new_figure(height=4.6, width=6.0)
    names = [row["variant"] if pd.isna(row["series"]) else row["series"] for row in rows.to_dict("records")]
    for place, name in enumerate(dict.fromkeys(names)):
        part = rows[[each == name for each in names]].sort_values("at")
        color, marker = PALETTE[place % 8], MARKERS[place % len(MARKERS)]
        axes.plot(part["x"], part["y"], color=color, marker=marker, markersize=7, linewidth=1.0, zorder=3,
                  label=_label(labels.get(name, name)))  # fmt: skip
        for row in part.to_dict("records"):
            _draw_reach(axes, row, color)
    axes.margins(0.08)
    axes.set(xlabel=MEASURES[x].axis, xlim=_within(axes.get_xlim(), MEASURES[x]))
    axes.set(ylabel=MEASURES[y].axis, ylim=_within(axes.get_ylim(), MEASURES[y]))
    legend_below(figure, axes)
    said = (f"{labels[row['variant']]}: {row['said_x']} and {row['said_y']}" for row in rows.to_dict("records"))
    return Picture(
        "tradeoff",
        figure,
        alt=f"{MEASURES[x].name}, and {MEASURES[y].name}. {'; '.join(said)}.",
        caption=f"{MEASURES[y].name} against {MEASURES[x].name.lower()}: means over seeds with {level:.0%} intervals "
        "of Student's t. Further right, the features tell less of the sensitive variable.",
        numbers=rows.drop(columns=["said_x", "said_y"]),
    )


def _both(summary: pd.DataFrame, x: str, y: str, labels: Mapping[str, str]) -> pd.DataFrame:
    """Return ``variant, x, x_low, x_high, said_x`` and the same of y, scaled as the axes are."""
    parts = []
    for axis, measure in (("x", x), ("y", y)):
        about = MEASURES[measure]
        parts.append(pd.DataFrame([
            {"variant": row["variant"], axis: about.scale * row["mean"], f"{axis}_low": about.scale * row["low"],
             f"{axis}_high": about.scale * row["high"], f"said_{axis}": _text(row, measure)}
            for row in _ordered(summary, measure, labels)
        ], columns=["variant", axis, f"{axis}_low", f"{axis}_high", f"said_{axis}"]))  # fmt: skip
    return parts[0].merge(parts[1], on="variant", how="inner")


def _draw_reach(axes: Axes, row: Row, color: str) -> None:
    """Draw the intervals of a point, and write its place in the series beside it."""
    if np.isfinite(row["x_low"]):
        axes.plot([row["x_low"], row["x_high"]], [row["y"], row["y"]], color=color, linewidth=1.1, alpha=0.5)
    if np.isfinite(row["y_low"]):
        axes.plot([row["x"], row["x"]], [row["y_low"], row["y_high"]], color=color, linewidth=1.1, alpha=0.5)
    if pd.notna(row["at"]):
        axes.annotate(f"{row['at']:g}", (row["x"], row["y"]), (6, 6), textcoords="offset points", fontsize=8.5,
                      color=MUTED)  # fmt: skip


def _within(limits: tuple[float, float], about: MeasureName) -> tuple[float, float]:
    """Return the ends of an axis, not beyond what the measure can be."""
    return max(limits[0], about.lowest), min(limits[1], about.highest)


def _ordered(summary: pd.DataFrame, measure: str, labels: Mapping[str, str]) -> list[Row]:
    """Return the rows of one measure that have a mean, in the order of the labels."""
    rows = {row["variant"]: row for row in summary[summary["measure"] == measure].to_dict("records")}
    return [rows[name] for name in labels if name in rows and np.isfinite(rows[name]["mean"])]


def _say(rows: list[Row], labels: Mapping[str, str], measure: str) -> str:
    return "; ".join(f"{labels[row['variant']]} {_text(row, measure)}" for row in rows)


def _text(row: Row, measure: str) -> str:
    return format_estimate(row["mean"], row["low"], row["high"], MEASURES[measure])


def _label(text: object) -> str:
    return plain_label(text, length=32)
