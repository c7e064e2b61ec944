"""Accuracy against the error of a sensitive variable: one point a model."""

from __future__ import annotations

import pandas as pd

from neurocontrast.reporting.metrics import number_text
from neurocontrast.reporting.style import (
    CHANCE,
    MARKERS,
    PALETTE,
    Picture,
    legend_below,
    new_figure,
    plain_label,
    styled,
)

__all__ = ["draw_fairness"]


@styled
def draw_fairness(rows: pd.DataFrame, *, label: str, level: float) -> Picture | None:
    """Draw the accuracy of each model over its error of the sensitive variable; None with fewer than two models.

    Parameters
    ----------
    rows : DataFrame
        ``model, value, low, high, mse, mse_low, mse_high, constant_mse``.
    label : str
        Name of the metric on the vertical axis.
    level : float
        Share that intervals hold.
    """
    rows = rows.dropna(subset=["value", "mse"]).reset_index(drop=True)
    if len(rows) < 2:
        return None
    figure, axes = new_figure(height=4.2 + 0.17 * len(rows))
    for place, row in enumerate(rows.to_dict("records")):
        color, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
        x, y = row["mse"], row["value"]
        if row["mse_high"] > row["mse_low"]:
            axes.plot([row["mse_low"], row["mse_high"]], [y, y], color=color, linewidth=1.3, alpha=0.6)
        if row["high"] > row["low"]:
            axes.plot([x, x], [row["low"], row["high"]], color=color, linewidth=1.3, alpha=0.6)
        axes.plot(x, y, marker=marker, linestyle="none", color=color, markersize=8,
                  label=plain_label(row["model"], length=40))  # fmt: skip
    constant = rows["constant_mse"].dropna()
    if len(constant):
        axes.axvline(constant.mean(), color=CHANCE, linestyle=":", linewidth=1.3, label="MSE of a constant")
    axes.margins(0.1)
    axes.set(xlabel="MSE of the sensitive variable (right: fairer)", ylabel=label)
    axes.yaxis.set_major_formatter(lambda share, _: f"{share * 100:.4g}%")
    legend_below(figure, axes, n_columns=1)
    words = "; ".join(
        f"{row['model']}: {row['value']:.1%} at an MSE of {number_text(row['mse'], digits=4)}"
        for row in rows.to_dict("records")
    )
    return Picture(
        "fairness",
        figure,
        alt=f"{label} against the error of the sensitive variable. {words}.",
        caption=(
            f"{label} over the mean squared error of the sensitive variable, with {level:.0%} bootstrap intervals over "
            "images. Best is the upper right corner: the class is known, the sensitive variable is not."
        ),
        numbers=rows,
    )
