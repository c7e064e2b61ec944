"""Calibration: how often what was predicted with a probability came true."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import DASH, interval_text, number_text, point_estimate
from neurocontrast.reporting.style import BASELINE, CHANCE, MAIN, WIDTH, Picture, legend_below, plain_label, styled

__all__ = ["calibration_classes", "draw_calibration"]

_LOOKS = {
    "embedding": ("Embedding", {"color": MAIN, "marker": "o", "linestyle": "-", "linewidth": 1.8}),
    "baseline": (
        "Covariates only",
        {"color": BASELINE, "marker": "D", "linestyle": "--", "linewidth": 1.4, "markerfacecolor": "white"},
    ),
}


def calibration_classes(files: EvaluationFiles) -> list[str]:
    """Return the classes that have a calibration curve; the positive one of a binary target."""
    if files.calibration is None:
        return []
    if "class" not in files.calibration:
        return [files.positive]
    there = set(files.calibration["class"].dropna())
    return [name for name in files.classes if name in there]


@styled
def draw_calibration(files: EvaluationFiles, name: str) -> Picture | None:
    """Draw observed shares over predicted probabilities of a class, bin by bin; None where there is no bin."""
    table = files.calibration
    if table is None:
        return None
    rows = table[table["class"] == name] if "class" in table else table
    rows = rows[rows["mean_predicted"].notna() & rows["observed"].notna()]
    if rows.empty:
        return None
    figure = Figure(figsize=(WIDTH, WIDTH * 1.25), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, height_ratios=[4, 1], sharex=True)
    upper.plot([0, 1], [0, 1], color=CHANCE, linestyle=":", linewidth=1.3, label="Perfectly calibrated")
    for model in ("baseline", "embedding"):
        part = rows[rows["model"] == model].sort_values("mean_predicted")
        if len(part):
            _draw_bins(upper, part, model)
            _draw_sizes(lower, part, model)
    upper.set(ylabel=f"Observed share of “{plain_label(name, length=20)}”", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    lower.set(xlabel=f"Predicted probability of “{plain_label(name, length=20)}”", ylabel="Scans", ylim=(0, None))
    legend_below(figure, upper, n_columns=1)
    suffix = f"_{files.classes.index(name) + 1}" if files.kind == "multiclass" else ""
    text = _slopes(files) if files.kind == "binary" else ""
    return Picture(
        f"calibration{suffix}",
        figure,
        alt=f"Calibration of the probability of {name}. {_alt(rows)}{text}",
        caption=(
            f"Observed share of “{name}” among scans of alike predicted probability, with {files.level:.0%} intervals; "
            f"below, how many scans each bin holds.{text}"
        ),
        numbers=rows.reset_index(drop=True),
    )


def _draw_bins(axes: Axes, part: pd.DataFrame, model: str) -> None:
    label, look = _LOOKS[model]
    if {"observed_low", "observed_high"} <= set(part.columns):
        low, high = part["observed_low"], part["observed_high"]
        axes.vlines(part["mean_predicted"], low, high, color=look["color"], linewidth=1.4, alpha=0.75)
    axes.plot(part["mean_predicted"], part["observed"], markersize=6, label=label, **look)  # type: ignore[arg-type]


def _draw_sizes(axes: Axes, part: pd.DataFrame, model: str) -> None:
    look = _LOOKS[model][1]
    axes.vlines(part["mean_predicted"], 0, part["n"], color=look["color"], linewidth=1.0)
    axes.plot(
        part["mean_predicted"], part["n"], linestyle="none", marker=look["marker"], color=look["color"], markersize=5,
        markerfacecolor=look.get("markerfacecolor", look["color"]),
    )  # fmt: skip


def _slopes(files: EvaluationFiles) -> str:
    """Say slope and intercept of the recalibration, and what a slope means."""
    values = files.metrics.get("calibration_slope")
    slope, intercept = point_estimate(values), point_estimate(files.metrics.get("calibration_intercept"))
    if slope is None or intercept is None:
        return ""
    texts = []
    for name, value in (("slope", slope), ("intercept", intercept)):
        interval = interval_text((files.metrics[f"calibration_{name}"] or {}).get("interval"), digits=2)
        texts.append(f"{name} {number_text(value, digits=2)}" + (f" [{interval}]" if interval != DASH else ""))
    return (
        f" Recalibration of the embedding: {texts[0]}, {texts[1]} (1 and 0 are perfect; a slope below 1: probabilities "
        "are too extreme, above 1: too cautious)."
    )


def _alt(rows: pd.DataFrame) -> str:
    parts = []
    for model, part in rows.groupby("model", sort=False):
        pairs = zip(part["mean_predicted"], part["observed"], part["n"], strict=True)
        bins = ", ".join(
            f"{predicted:.2f} → {seen:.2f} (n = {n:.0f})" for predicted, seen, n in pairs if np.isfinite(n)
        )
        parts.append(f"{_LOOKS.get(str(model), (str(model), {}))[0]}, predicted → observed: {bins}.")
    return " ".join(parts)
