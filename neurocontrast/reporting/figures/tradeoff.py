"""Models of a comparison by two scores at once: one point a model, joined along a weight."""

from __future__ import annotations

import pandas as pd

from neurocontrast.reporting import style
from neurocontrast.reporting.metrics import interval_text, number_text


@style.styled
def draw_tradeoff(
    rows: pd.DataFrame,
    name: str,
    *,
    x: str,
    y: str,
    labels: tuple[str, str],
    references: tuple[tuple[float, str] | None, tuple[float, str] | None],
    caption: str,
    title: str = "",
) -> style.Picture:
    """Draw one point a model with its intervals both ways; models of a varied weight are joined by a line.

    `rows` holds ``model, weight, weight_name`` and the columns `x` and `y` with their ends; `references` are lines
    across the axes with their labels.
    """
    figure, axes = style.new_figure(height=4.2 + 0.17 * rows["weight"].isna().sum())
    curve, parts = rows[rows["weight"].notna()], []
    if len(curve):
        means, weight = curve.groupby("weight")[[x, y]].mean().sort_index(), curve["weight_name"].iloc[0]
        axes.plot(means[x], means[y], color=style.MAIN, linewidth=1.8, marker="o",
                  label=f"By weight: {style.plain_label(weight)}")  # fmt: skip
        caption += f" The line joins them in the order of {weight}."
    for place, row in enumerate(rows.to_dict("records")):
        color, marker, label = style.MAIN, "o", str(row["model"])
        if pd.notna(row["weight"]):
            label = f"{str(row['weight_name']).split('.')[-1]} = {row['weight']:g}"
            axes.annotate(style.plain_label(label), (row[x], row[y]), (8, 5), textcoords="offset points", size=8.5)
        else:
            color, marker = style.look_of(place)["color"], style.look_of(place)["marker"]
        axes.plot([row[f"{x}_low"], row[f"{x}_high"]], [row[y]] * 2, color=color, linewidth=1.2, alpha=0.6)
        axes.plot([row[x]] * 2, [row[f"{y}_low"], row[f"{y}_high"]], color=color, linewidth=1.2, alpha=0.6)
        shown = None if pd.notna(row["weight"]) else style.plain_label(label, length=40)
        axes.plot(row[x], row[y], marker=marker, linestyle="none", color=color, markersize=7, label=shown)
        digits = 4 if x == "mse" else 2
        ends = interval_text((row[f"{y}_low"], row[f"{y}_high"]), digits=2)
        parts.append(f"{label}: {number_text(row[x], digits=digits)} and {number_text(row[y], digits=2)} ({ends})")
    for draw, reference, line in ((axes.axvline, references[0], ":"), (axes.axhline, references[1], "--")):
        if reference is not None:
            draw(reference[0], color=style.CHANCE, linestyle=line, linewidth=1.2, label=reference[1])
    axes.margins(0.09)
    axes.set(xlabel=labels[0], ylabel=labels[1], title=title)
    style.legend_below(figure, axes, n_columns=1)
    alt = f"{labels[1]} against {labels[0]}. Each model, across and up: {'; '.join(parts)}."
    return style.Picture(name, figure, alt=f"{title}: {alt}" if title else alt, caption=caption, numbers=rows)
