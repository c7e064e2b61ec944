"""The figure of `new_site_causes.py`: error at the new site under every way of making the input."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import pandas as pd
from matplotlib import pyplot

__all__ = ["draw_factors"]

HOME, NEW, MEDIAN = "#6b7a89", "#b5452c", "#3d6b4f"


def draw_factors(scores: pd.DataFrame, path: Path) -> None:
    """Draw the new site's MAE with its interval, beside that of people as old at home, a row an input."""
    groups = list(dict.fromkeys(scores["group"]))
    places, labels, at = [], [], 0.0
    figure, axes = pyplot.subplots(figsize=(7.2, 0.155 * (len(scores) + 1.3 * len(groups)) + 0.7))
    for group in groups:
        axes.text(
            -0.01,
            at,
            group,
            transform=axes.get_yaxis_transform(),
            ha="right",
            va="center",
            fontsize=7,
            weight="bold",
        )
        at += 1
        for row in scores[scores["group"] == group].itertuples():
            axes.plot(
                [row.new_mae_low, row.new_mae_high], [at, at], color=NEW, linewidth=1.4, alpha=0.6
            )
            axes.plot(row.new_mae, at, "o", color=NEW, markersize=3.6)
            axes.plot(row.home_like_mae, at, "|", color=HOME, markersize=7, markeredgewidth=1.6)
            places.append(at)
            labels.append(row.input)
            at += 1
        at += 0.3
    axes.axvline(scores["median_mae"].iloc[0], color=MEDIAN, linestyle=":", linewidth=1.2)
    axes.set_yticks(places, labels, fontsize=6.5)
    axes.tick_params(axis="y", length=0)
    axes.set(ylim=(at, -0.7), xlim=(5, None))
    axes.set_xlabel("mean absolute error of age, years", fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
    axes.grid(axis="x", color="#e3e6ea", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    handles = [
        pyplot.Line2D(
            [], [], color=NEW, marker="o", markersize=3.6, label="novosibirsk, never seen (95 %)"
        ),
        pyplot.Line2D(
            [],
            [],
            color=HOME,
            marker="|",
            linestyle="",
            markeredgewidth=1.6,
            label="london, of the same ages",
        ),
        pyplot.Line2D([], [], color=MEDIAN, linestyle=":", label="median predictor at novosibirsk"),
    ]
    figure.legend(handles=handles, loc="upper center", ncols=3, fontsize=6.5, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.975))
    with pyplot.rc_context({"svg.hashsalt": "neurocontrast", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)
    pyplot.close(figure)
