"""The leading metrics of images with their intervals, beside chance."""

from __future__ import annotations

import pandas as pd

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import chance_level, describe_metric, leading_metrics, point_estimate
from neurocontrast.reporting.style import CHANCE, MAIN, Picture, legend_below, new_figure, styled

__all__ = ["draw_accuracies"]


@styled
def draw_accuracies(files: EvaluationFiles) -> Picture | None:
    """Draw the leading metrics with their intervals and chance levels; None where none is defined."""
    rows = [
        {
            "metric": describe_metric(key, files.words).label,
            "value": point_estimate(values),
            "low": (values.get("interval") or (None, None))[0],
            "high": (values.get("interval") or (None, None))[1],
            "chance": chance_level(key, len(files.classes), files.words),
        }
        for key in leading_metrics(files.kind, files.metrics, files.words)
        if point_estimate(values := files.metrics[key]) is not None
    ]
    if not rows or files.kind == "continuous":
        return None
    table = pd.DataFrame(rows).astype(dict.fromkeys(("value", "low", "high", "chance"), "float64"))
    figure, axes = new_figure(height=1.5 + 0.36 * len(table))
    what = "Test images" if files.fixed else "Out of fold"
    for place, row in enumerate(table.to_dict("records")):
        if row["high"] > row["low"]:
            axes.plot([row["low"], row["high"]], [place, place], color=MAIN, linewidth=2.4)
        axes.plot(row["value"], place, marker="o", markersize=8, color=MAIN, linestyle="none",
                  label=what if place == 0 else None)  # fmt: skip
        axes.plot(row["chance"], place, marker="|", markersize=16, markeredgewidth=2.2, color=CHANCE, linestyle="none",
                  label="Chance" if place == 0 else None)  # fmt: skip
    axes.set_yticks(range(len(table)), table["metric"])
    axes.set(ylim=(len(table) - 0.4, -0.6), xlim=(0, 1.02))
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.grid(axis="y", visible=False)
    legend_below(figure, axes)
    words = "; ".join(
        f"{row['metric']} {row['value']:.1%} ({row['low']:.1%} to {row['high']:.1%}), chance {row['chance']:.1%}"
        for row in table.to_dict("records")
    ).replace("nan%", "not known")
    draws = (files.summary.get("bootstrap") or {}).get("n")
    how = f"Bars: {files.level:.0%} bootstrap intervals over images ({draws:,} draws)." if draws else "No intervals."
    return Picture("headline", figure, alt=f"{words}.", caption=how, numbers=table)
