"""Predicted against true values of a continuous target, and what is left over."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from neurocontrast.reporting.figures.groups import draw_groups, group_rows, marker_scale, thin_rows, thinning_text
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import number_text, point_estimate
from neurocontrast.reporting.pooling import pool_repeats
from neurocontrast.reporting.style import CHANCE, INK, WIDTH, Picture, legend_below, new_figure, plain_label, styled
from neurocontrast.reporting.words import IMAGES

__all__ = ["draw_predicted", "draw_residuals"]


@styled
def draw_predicted(files: EvaluationFiles) -> Picture:
    """Draw predicted against true values by site, with the line of perfect prediction."""
    everyone = _rows(files)
    rows = thin_rows(everyone)
    groups = group_rows(rows["site"])
    figure, axes = new_figure(height=WIDTH + 0.1 * len(groups))
    draw_groups(axes, rows["true"], rows["predicted"], groups)
    low = float(min(rows["true"].min(), rows["predicted"].min()))
    high = float(max(rows["true"].max(), rows["predicted"].max()))
    axes.plot([low, high], [low, high], color=CHANCE, linestyle="--", linewidth=1.4, label="Perfect prediction")
    axes.set(xlabel=f"True {plain_label(files.target)}", ylabel=f"Predicted {plain_label(files.target)}")
    legend_below(figure, axes, marker_scale=marker_scale(len(rows)))
    mae, r2 = (number_text(point_estimate(files.metrics.get(key)), digits=2) for key in ("mae", "r2"))
    return Picture(
        "predicted_true",
        figure,
        alt=(
            f"Scatter of predicted against true {files.target} for {_number(files, everyone)}. "
            f"Mean absolute error {mae}, R² {r2}."
        ),
        caption=(
            f"{'Prediction' if files.fixed else 'Out-of-fold prediction'} against the truth; one point "
            f"{_article(files)} (averaged over repeats, if any){_marker(files)}."
            f"{thinning_text(len(rows), len(everyone), files.words.items)}"
        ),
        numbers=everyone,
    )


@styled
def draw_residuals(files: EvaluationFiles) -> Picture:
    """Draw residuals (predicted − true) against true values, with their trend."""
    everyone = _rows(files)
    rows = thin_rows(everyone)
    groups = group_rows(rows["site"])
    figure, axes = new_figure(height=WIDTH + 0.1 * len(groups))
    draw_groups(axes, rows["true"], rows["residual"], groups)
    axes.axhline(0, color=CHANCE, linestyle="--", linewidth=1.4, label="No error")
    slope = _draw_trend(axes, everyone)
    axes.set(xlabel=f"True {plain_label(files.target)}", ylabel="Predicted − true")
    legend_below(figure, axes, marker_scale=marker_scale(len(rows)))
    text = "" if slope is None else f" The fitted trend has slope {number_text(slope, digits=2, signed=True)}."
    return Picture(
        "residual_true",
        figure,
        alt=f"Scatter of residuals against true {files.target} for {len(everyone)} {files.words.items}.{text}",
        caption=(
            f"Residual against the truth.{text} A negative slope means that low values are overestimated and high ones "
            "underestimated, as every shrunken prediction does; no residual is a “gap” before that is corrected."
            f"{thinning_text(len(rows), len(everyone), files.words.items)}"
        ),
        numbers=everyone,
    )


def _number(files: EvaluationFiles, rows: pd.DataFrame) -> str:
    sites = "" if files.words is IMAGES else f" at {rows['site'].nunique()} sites"
    return f"{len(rows)} {files.words.items}{sites}"


def _article(files: EvaluationFiles) -> str:
    return "an image" if files.words is IMAGES else "a scan"


def _marker(files: EvaluationFiles) -> str:
    return "" if files.words is IMAGES else ", its marker tells the site"


def _rows(files: EvaluationFiles) -> pd.DataFrame:
    pooled = pool_repeats(files)
    rows = pd.DataFrame({"site": pooled.get("site", "all")}, index=pooled.index)
    rows["true"], rows["predicted"] = pooled["y_true"].astype(float), pooled["y_score"].astype(float)
    rows["residual"] = rows["predicted"] - rows["true"]
    return rows.dropna(subset=["residual"]).reset_index(drop=True)


def _draw_trend(axes: Axes, rows: pd.DataFrame) -> float | None:
    if rows["true"].nunique() < 3:
        return None
    slope, intercept = np.polyfit(rows["true"], rows["residual"], 1)
    ends = np.array([rows["true"].min(), rows["true"].max()])
    label = f"Trend: slope {number_text(slope, digits=2, signed=True)}"
    axes.plot(ends, intercept + slope * ends, color=INK, linewidth=1.8, label=label)
    return float(slope)
