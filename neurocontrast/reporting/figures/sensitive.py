"""How far a sensitive variable can be read from the features: its error beside that of a constant."""

from __future__ import annotations

from typing import Any

import pandas as pd

from neurocontrast.reporting.metrics import interval_text, number_text
from neurocontrast.reporting.style import BASELINE, INK, MAIN, WIDTH, Picture, distinct_labels, new_figure, styled
from neurocontrast.reporting.style import legend_below as put_legend_below

__all__ = ["draw_sensitive", "tabulate_sensitive"]

MEAN = "mean of the columns"


def tabulate_sensitive(block: dict[str, Any]) -> pd.DataFrame:
    """Return errors, those of a constant, and R², with their ends: of each column, then of their mean."""
    rows = [{"column": str(name), **figures} for name, figures in (block.get("columns") or {}).items()]
    if len(rows) != 1:
        whole = block.get("mse") or {}
        ends = {"low": whole.get("low"), "high": whole.get("high")}
        r2 = block.get("r2") or {}
        told = {"r2": r2.get("value"), "r2_low": r2.get("low"), "r2_high": r2.get("high")}
        rows.append(
            {"column": MEAN, "mse": whole.get("value"), **ends, "constant_mse": block.get("constant_mse"), **told}
        )
    names = ["column", "mse", "low", "high", "constant_mse", "r2", "r2_low", "r2_high"]
    return pd.DataFrame(rows).reindex(columns=names).astype(dict.fromkeys(names[1:], "float64"))


@styled
def draw_sensitive(block: dict[str, Any], *, level: float) -> Picture | None:
    """Draw the mean squared error of each sensitive column with its interval, and that of the constant."""
    rows = tabulate_sensitive(block)
    rows = rows[rows["mse"].notna()].reset_index(drop=True)
    if rows.empty:
        return None
    figure, axes = new_figure(height=1.5 + 0.38 * len(rows), width=WIDTH)
    for place, row in enumerate(rows.to_dict("records")):
        color = INK if row["column"] == MEAN else MAIN
        if row["high"] > row["low"]:
            axes.plot([row["low"], row["high"]], [place, place], color=color, linewidth=2.2)
        axes.plot(row["mse"], place, marker="o", linestyle="none", color=color, markersize=7.5,
                  label="From the features" if place == 0 else None)  # fmt: skip
        axes.plot(row["constant_mse"], place, marker="|", linestyle="none", color=BASELINE, markersize=16,
                  markeredgewidth=2.4, label="Constant (mean of training images)" if place == 0 else None)  # fmt: skip
    axes.set_yticks(range(len(rows)), distinct_labels(rows["column"], length=24))
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, None), xlabel="Mean squared error (right: fairer)")
    axes.grid(axis="y", visible=False)
    put_legend_below(figure, axes, n_columns=1)
    words = "; ".join(
        f"{row['column']} {number_text(row['mse'], digits=4)} "
        f"({interval_text((row['low'], row['high']), digits=4)}), constant {number_text(row['constant_mse'], digits=4)}"
        for row in rows.to_dict("records")
    )
    return Picture(
        "sensitive",
        figure,
        alt=f"Mean squared error of the sensitive variable predicted from the features: {words}.",
        caption=(
            f"Mean squared error of the sensitive variable, predicted linearly from the frozen features, with "
            f"{level:.0%} bootstrap intervals; beside it, that of predicting the same value for every image."
        ),
        numbers=rows,
    )
