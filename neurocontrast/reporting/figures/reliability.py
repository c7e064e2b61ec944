"""How sure the predictions were against how often they were right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from neurocontrast.reporting.style import CHANCE, MAIN, WIDTH, Picture, legend_below, styled

if TYPE_CHECKING:
    from neurocontrast.reporting.images.classes import Reliability

__all__ = ["draw_reliability"]


@styled
def draw_reliability(measured: Reliability) -> Picture:
    """Draw accuracy over confidence in bins, and below how many images each bin holds."""
    bins = measured.bins
    figure = Figure(figsize=(WIDTH, WIDTH * 1.05), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, height_ratios=[4, 1], sharex=True)
    upper.plot([0, 1], [0, 1], color=CHANCE, linestyle=":", linewidth=1.3, label="As often right as sure")
    upper.plot(bins["confidence"], bins["accuracy"], color=MAIN, marker="o", linewidth=1.8, label="Embedding")
    middle, width = (bins["low"] + bins["high"]) / 2, bins["high"] - bins["low"]
    lower.bar(middle, bins["n"], width=width * 0.9, color=MAIN, alpha=0.6)
    upper.set(ylabel="Share that is right", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    lower.set(xlabel="Probability of the class that was given", ylabel="Images")
    legend_below(figure, upper)
    words = "; ".join(
        f"{row.confidence:.2f} → {row.accuracy:.2f} (n = {row.n})" for row in bins.itertuples(index=False)
    )
    return Picture(
        "reliability",
        figure,
        alt=f"Confidence against accuracy in bins: {words}. Expected calibration error {measured.error:.3f}.",
        caption=(
            f"Of the images given a class with so much probability, how many are of it. Bins of equal width; below, "
            f"how many images each holds. Expected calibration error: {measured.error:.3f}."
        ),
        numbers=bins,
    )
