"""How far the scans of each site lie from those the model learned from: points and boxes of percentiles."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from neurocontrast.reporting.figures.groups import MAX_POINTS_AS_VECTORS, thin_rows, thinning_text
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.outlyingness import Score, count_outside, scores_to_draw
from neurocontrast.reporting.style import (
    CHANCE,
    INK,
    MAIN,
    PALETTE,
    Picture,
    distinct_labels,
    legend_below,
    new_figure,
    styled,
)

__all__ = ["draw_outlyingness"]

_MANY = 15


@styled
def draw_outlyingness(files: EvaluationFiles, score: Score) -> Picture | None:
    """Draw the percentiles of one score, site by site; None where no scan has it."""
    table, counted = files.outlyingness, count_outside(files)
    if table is None or counted is None or score not in scores_to_draw(table):
        return None
    column = score.column
    rows = table.assign(site=table["site"].fillna("not stated"), flag=table[score.flag]).dropna(subset=[column])
    sizes = rows.groupby("site").size()
    sites = sorted(sizes.index, key=lambda name: (-sizes[name], name))
    figure, axes = new_figure(height=2.3 + (0.42 if len(sites) <= _MANY else 0.3) * len(sites))
    axes.axvspan(25, 75, color="#eef1f4", zorder=0, label="Middle half, were nothing different")
    if counted.threshold is not None:
        axes.axvline(counted.threshold, color=CHANCE, linestyle=":", linewidth=1.3,
                     label=f"Threshold: percentile {counted.threshold:g}")  # fmt: skip
    _draw_boxes(axes, rows, column, sites)
    drawn = thin_rows(rows)
    _draw_points(axes, drawn, column, sites)
    names = distinct_labels(sites, length=24)
    axes.set_yticks(range(len(sites)), [f"{name} (n={sizes[site]})" for name, site in zip(names, sites, strict=True)])
    axes.set(ylim=(len(sites) - 0.4, -0.6), xlim=(-2, 102), xlabel=f"Percentile of {score.name}")
    axes.set_title(score.title)
    axes.grid(axis="y", visible=False)
    legend_below(figure, axes, n_columns=1)
    numbers = _summarise(rows, column, sites)
    against = "the scans of the other sites" if score.flag == "unseen_outside" else counted.reference
    return Picture(
        f"outlyingness_{column.removesuffix('_percentile')}",
        figure,
        alt=f"{score.title}: percentiles of {score.name} by site. {_alt(numbers)}",
        caption=(
            f"{score.title}: where its {score.name} falls among those of {against}. Points are scans, boxes the middle "
            "half and the median. Scans like the others spread evenly from 0 to 100."
            + thinning_text(len(drawn), len(rows))
        ),
        numbers=numbers,
    )


def _draw_boxes(axes: Axes, rows: pd.DataFrame, column: str, sites: list[str]) -> None:
    for position, site in enumerate(sites):
        values = rows.loc[rows["site"] == site, column]
        if len(values) < 5:  # quartiles of so few say nothing
            continue
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
        axes.fill_between([low, high], position - 0.3, position + 0.3, facecolor="none", edgecolor=INK, linewidth=1.1)
        axes.plot([middle, middle], [position - 0.3, position + 0.3], color=INK, linewidth=2.0)


def _draw_points(axes: Axes, rows: pd.DataFrame, column: str, sites: list[str]) -> None:
    place = {site: position for position, site in enumerate(sites)}
    heights = rows["site"].map(place).to_numpy(dtype=float)
    # The same spread every time; a drawing is no place for chance.
    heights = heights + 0.22 * (2 * ((np.arange(len(rows)) * 0.618034) % 1) - 1)
    outside = rows["flag"].to_numpy(dtype=bool)
    for chosen, marker, color, size, label in (
        (~outside, "o", MAIN, 9, "Inside"),
        (outside, "x", PALETTE[1], 26, "Outside (Mahalanobis distance)"),
    ):
        axes.scatter(
            rows[column].to_numpy()[chosen], heights[chosen], s=size, marker=marker, color=color, alpha=0.65,
            linewidths=1.3 if marker == "x" else 0, label=f"{label}: {int(chosen.sum()):,}",
            rasterized=len(rows) > MAX_POINTS_AS_VECTORS, zorder=3,
        )  # fmt: skip


def _summarise(rows: pd.DataFrame, column: str, sites: list[str]) -> pd.DataFrame:
    found = []
    for site in sites:
        part = rows[rows["site"] == site]
        low, middle, high = np.quantile(part[column], [0.25, 0.5, 0.75])
        found.append({"site": site, "n": len(part), "n_outside": int(part["flag"].sum()), "quartile_1": low,
                      "median": middle, "quartile_3": high})  # fmt: skip
    return pd.DataFrame(found)


def _alt(numbers: pd.DataFrame) -> str:
    parts = [
        f"{row['site']}: median {row['median']:.0f}, quartiles {row['quartile_1']:.0f} and {row['quartile_3']:.0f}, "
        f"{row['n_outside']} of {row['n']} outside"
        for row in numbers.to_dict("records")
    ]
    more = f"; and {len(parts) - 12} more sites in the table" if len(parts) > 12 else ""
    return "; ".join(parts[:12]) + more + "."
