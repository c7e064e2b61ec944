"""Models of a comparison by two scores at once: one point a model, joined along a weight."""

from __future__ import annotations

import pandas as pd

from neurocontrast.reporting.style import (
    CHANCE,
    MAIN,
    MARKERS,
    MUTED,
    PALETTE,
    Picture,
    legend_below,
    new_figure,
    plain_label,
    styled,
)

__all__ = ["draw_tradeoff"]


@styled
def draw_tradeoff(
    rows: pd.DataFrame,
    name: str,
    *,
    labels: tuple[str, str],
    references: tuple[tuple[float, str] | None, tuple[float, str] | None],
    alt: str,
    caption: str,
    numbers: pd.DataFrame,
    title: str = "",
    line: str = "",
) -> Picture:
    """Draw one point a model with its intervals both ways; models of a varied weight are joined by a line.

    `rows` holds ``model, label, weight, x, x_low, x_high, y, y_low, y_high``; `references` are lines across the axes,
    `line` names the weight.
    """
    figure, axes = new_figure(height=4.2 + 0.17 * rows["weight"].isna().sum())
    means = rows[rows["weight"].notna()].groupby("weight")[["x", "y"]].mean().sort_index()
    if len(means):
        axes.plot(
            means["x"], means["y"], color=MAIN, linewidth=1.8, marker="o", label=f"By weight: {plain_label(line)}"
        )
    for place, row in enumerate(rows.to_dict("records")):
        on_curve = pd.notna(row["weight"])
        color, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
        color, marker = (MAIN, "o") if on_curve else (color, marker)
        axes.plot([row["x_low"], row["x_high"]], [row["y"]] * 2, color=color, linewidth=1.2, alpha=0.55)
        axes.plot([row["x"]] * 2, [row["y_low"], row["y_high"]], color=color, linewidth=1.2, alpha=0.55)
        axes.plot(row["x"], row["y"], marker=marker, linestyle="none", color=color, markersize=7, zorder=3,
                  label=None if on_curve else plain_label(row["model"], length=40))  # fmt: skip
        if on_curve:
            axes.annotate(plain_label(row["label"]), (row["x"], row["y"]), (8, 5), textcoords="offset points", size=8.5)
    if references[0] is not None:
        axes.axvline(references[0][0], color=CHANCE, linestyle=":", linewidth=1.3, label=references[0][1])
    if references[1] is not None:
        axes.axhline(references[1][0], color=MUTED, linestyle="--", linewidth=1.1, label=references[1][1])
    axes.margins(0.09)
    axes.set(xlabel=labels[0], ylabel=labels[1], title=title)
    legend_below(figure, axes, n_columns=1)
    return Picture(name, figure, alt=alt, caption=caption, numbers=numbers)
