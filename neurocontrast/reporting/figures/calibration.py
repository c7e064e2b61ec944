"""Calibration: how often what was predicted with a probability came true."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from neurocontrast.reporting import style
from neurocontrast.reporting.folder import EvaluationFiles

__all__ = ["calibration_classes", "draw_calibration", "draw_reliability"]

_LOOKS = {
    "baseline": (
        "Covariates only",
        {"color": style.BASELINE, "marker": "D", "linestyle": "--", "markerfacecolor": "white"},
    ),
    "embedding": ("Embedding", {"color": style.MAIN, "marker": "o", "linestyle": "-"}),
}


def calibration_classes(files: EvaluationFiles) -> list[str]:
    """Return the classes that have a calibration curve; the positive one of a binary target."""
    if files.calibration is None:
        return []
    if "class" not in files.calibration:
        return [files.positive]
    known = set(files.calibration["class"].dropna())
    return [name for name in files.classes if name in known]


@style.styled
def draw_calibration(files: EvaluationFiles, name: str) -> style.Picture | None:
    """Draw observed shares over predicted probabilities of a class, bin by bin; None where there is no bin."""
    table = pd.DataFrame(columns=["mean_predicted", "observed"]) if files.calibration is None else files.calibration
    rows = table[table["class"] == name] if "class" in table else table
    rows = rows.dropna(subset=["mean_predicted", "observed"]).reset_index(drop=True)
    if rows.empty:
        return None
    label, suffix = (
        style.plain_label(name, length=20),
        f"_{files.classes.index(name) + 1}" if files.kind == "multiclass" else "",
    )
    return _draw_bins(
        rows.rename(columns={"mean_predicted": "x", "observed": "y", "observed_low": "low", "observed_high": "high"}),
        f"calibration{suffix}",
        labels=(f"Predicted probability of “{label}”", f"Observed share of “{label}”", "Scans"),
        alt=f"Calibration of the probability of {name}",
        caption=f"Observed share of “{name}” among scans of alike predicted probability, with {files.level:.0%} "
        "intervals; below, how many scans each bin holds.",
        numbers=rows,
    )


@style.styled
def draw_reliability(bins: pd.DataFrame, *, error: float) -> style.Picture:
    """Draw accuracy over confidence in bins (``confidence, accuracy, n``), with the expected calibration error."""
    rows = bins.rename(columns={"confidence": "x", "accuracy": "y"}).drop(columns=["low", "high"])
    return _draw_bins(
        rows.assign(model="embedding"),
        "reliability",
        labels=("Probability of the class that was given", "Share that is right", "Images"),
        alt=f"Confidence against accuracy, expected calibration error {error:.3f}",
        caption="Of the images given a class with so much probability, how many are of it. Bins of equal width; below, "
        f"how many images each holds. Expected calibration error: {error:.3f}.",
        numbers=bins,
    )


def _draw_bins(
    rows: pd.DataFrame, name: str, *, labels: tuple[str, str, str], alt: str, caption: str, numbers: pd.DataFrame
) -> style.Picture:
    """Draw ``x`` against ``y`` of each ``model`` with the ends ``low`` and ``high``, and below the sizes ``n``."""
    figure = style.blank_figure(height=style.WIDTH * 1.2)
    upper, lower = figure.subplots(2, 1, height_ratios=[4, 1], sharex=True)
    upper.plot([0, 1], [0, 1], color=style.CHANCE, linestyle=":", linewidth=1.3, label="Perfectly calibrated")
    parts = []
    for model, (label, look) in _LOOKS.items():
        part = rows[rows["model"] == model].sort_values("x")
        if part.empty:
            continue
        _draw_curve(upper, part, look, label)
        lower.vlines(part["x"], 0, part["n"], color=look["color"], linewidth=1.0)
        lower.plot(part["x"], part["n"], markersize=5, **(look | {"linestyle": "none"}))
        bins = zip(part["x"], part["y"], part["n"], strict=True)
        parts.append(
            f"{label}, predicted → observed: " + ", ".join(f"{x:.2f} → {y:.2f} (n = {n:.0f})" for x, y, n in bins)
        )
    upper.set(ylabel=labels[1], xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    lower.set(xlabel=labels[0], ylabel=labels[2], ylim=(0, None))
    style.legend_below(figure, upper, n_columns=1)
    return style.Picture(name, figure, alt=f"{alt}. {'. '.join(parts)}.", caption=caption, numbers=numbers)


def _draw_curve(axes: Axes, part: pd.DataFrame, look: dict, label: str) -> None:
    if {"low", "high"} <= set(part):
        axes.vlines(part["x"], part["low"], part["high"], color=look["color"], linewidth=1.4, alpha=0.75)
    axes.plot(part["x"], part["y"], markersize=6, linewidth=1.7, label=label, **look)
