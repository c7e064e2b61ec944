"""How far the scans of each site lie from those the model learned from: points and boxes of percentiles."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from neurocontrast.reporting import style
from neurocontrast.reporting.figures.points import MAX_VECTORS, about_thinning, thin_rows
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.outlyingness import Score, reference_text, scores_to_draw

__all__ = ["draw_outlyingness"]


@style.styled
def draw_outlyingness(files: EvaluationFiles, score: Score) -> style.Picture | None:
    """Draw the percentiles of one score, site by site; None where no scan has the score."""
    table, counted = files.outlyingness, files.summary.outlyingness
    if table is None or counted is None or score not in scores_to_draw(table):
        return None
    rows = table.assign(site=table["site"].fillna("not stated"), flag=table[score.flag], percentile=table[score.column])
    rows = rows.dropna(subset=["percentile"])
    numbers = rows.groupby("site")["percentile"].describe()[["count", "25%", "50%", "75%"]].reset_index()
    numbers.columns = pd.Index(["site", "n", "quartile_1", "median", "quartile_3"])
    numbers["n_outside"] = numbers["site"].map(rows.groupby("site")["flag"].sum())
    numbers = numbers.astype({"n": int}).sort_values(["n", "site"], ascending=[False, True], ignore_index=True)
    shown = thin_rows(rows)
    figure, axes = style.new_figure(height=2.3 + (0.42 if len(numbers) < 16 else 0.3) * len(numbers))
    axes.axvspan(25, 75, color="#eef1f4", zorder=0, label="Middle half, were nothing different")
    if counted.threshold_percentile is not None:
        axes.axvline(counted.threshold_percentile, color=style.CHANCE, linestyle=":", linewidth=1.3,
                     label=f"Threshold: percentile {counted.threshold_percentile:g}")  # fmt: skip
    _draw_sites(axes, shown, numbers)
    names = zip(style.distinct_labels(numbers["site"], length=24), numbers["n"], strict=True)
    axes.set_yticks(range(len(numbers)), [f"{name} (n={n})" for name, n in names])
    axes.set(ylim=(len(numbers) - 0.4, -0.6), xlim=(-2, 102), xlabel=f"Percentile of {score.name}", title=score.title)
    axes.grid(axis="y", visible=False)
    style.legend_below(figure, axes, n_columns=1)
    against = "the scans of the other sites" if score.flag == "unseen_outside" else reference_text(counted)
    parts = [
        f"{row['site']}: median {row['median']:.0f}, quartiles {row['quartile_1']:.0f} and {row['quartile_3']:.0f}, "
        f"{row['n_outside']} of {row['n']} outside"
        for row in numbers.to_dict("records")
    ]
    more = f"; and {len(parts) - 12} more sites in the table" if len(parts) > 12 else ""
    return style.Picture(
        f"outlyingness_{score.column.removesuffix('_percentile')}",
        figure,
        alt=f"{score.title}: percentiles of {score.name} by site. {'; '.join(parts[:12])}{more}.",
        caption=(
            f"{score.title}: where its {score.name} falls among those of {against}. Points are scans, boxes the middle "
            "half and the median. Scans like the others spread evenly from 0 to 100."
            + about_thinning(len(shown), len(rows), "scans")
        ),
        numbers=numbers,
    )


def _draw_sites(axes: Axes, rows: pd.DataFrame, numbers: pd.DataFrame) -> None:
    """Draw the box of each site, and the scans over the boxes."""
    boxes = [
        {"q1": row["quartile_1"], "med": row["median"], "q3": row["quartile_3"], "whislo": row["quartile_1"],
         "whishi": row["quartile_3"]}
        for row in numbers.to_dict("records")
    ]  # fmt: skip
    large = np.flatnonzero(numbers["n"] >= 5)  # quartiles of fewer scans say nothing
    axes.bxp([boxes[place] for place in large], positions=large, orientation="horizontal", widths=0.6, showcaps=False,
             showfliers=False, medianprops={"color": style.INK, "linewidth": 2}, manage_ticks=False)  # fmt: skip
    heights = rows["site"].map(dict(zip(numbers["site"], numbers.index, strict=True))).to_numpy(float)
    # The same spread every time; a drawing is no place for chance.
    heights = heights + 0.22 * (2 * ((np.arange(len(rows)) * 0.618034) % 1) - 1)
    for flag, marker, color, label in ((False, ".", style.MAIN, "Inside"), (True, "x", style.PALETTE[1], "Outside")):
        here = rows["flag"].to_numpy(bool) == flag
        axes.scatter(rows["percentile"][here], heights[here], s=30, marker=marker, color=color, alpha=0.65, zorder=3,
                     label=f"{label}: {here.sum():,}", rasterized=len(rows) > MAX_VECTORS)  # fmt: skip
