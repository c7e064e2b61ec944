"""Calibration: how often what was predicted with a probability came true."""

from __future__ import annotations

import pandas as pd

from neurocontrast.reporting import style
from neurocontrast.reporting.page import Block, Columns, Facts, Input, Section, SectionBuilder, note, pictures
from neurocontrast.reporting.read import EvaluationFiles
from neurocontrast.reporting.wording import DASH, interval_text, number_text, point_estimate

__all__ = ["CALIBRATION"]

_HOLLOW = {"color": style.BASELINE, "marker": "D", "linestyle": "--", "markerfacecolor": "white"}
_LOOKS = {
    "baseline": ("Covariates only", _HOLLOW),
    "embedding": ("Embedding", {"color": style.MAIN, "marker": "o", "linestyle": "-"}),
}
_INPUT = Input("calibration.tsv", "the calibration curve", "calibration", needed=True)


def _build(files: EvaluationFiles) -> Section:
    """Build the calibration curves, and beside them slope, intercept and scores."""
    assert files.calibration is not None, "needed"
    known = set(files.calibration["class"].dropna()) if "class" in files.calibration else {files.positive}
    shown = pictures(*(_draw(files, files.calibration, name) for name in files.classes if name in known))
    if not shown:
        return Section("calibration", "Calibration", [_INPUT.missing()])
    facts = []
    for key in ("calibration_slope", "calibration_intercept", "brier", "log_loss"):
        for model, metrics in (("embedding", files.metrics), ("covariates only", files.summary.baseline)):
            value = point_estimate(metrics.get(key))
            if value is not None:
                interval = interval_text(metrics[key].interval, digits=2)
                text = number_text(value, digits=2) + (f" [{interval}]" if interval != DASH else "")
                facts.append((f"{files.describe(key).label}, {model}", text))
    about = (
        "Slope 1 and intercept 0 are perfect; a slope below 1: probabilities are too extreme, above 1: too cautious."
    )
    beside: list[Block] = [Facts(facts, title="In numbers"), note(about)] if facts else []
    blocks = [Columns(shown, beside)] if len(known) == 1 else [*shown, *beside]
    lead = "Whether a predicted probability can be read as one: of scans given 0.8, do 8 of 10 belong to the class?"
    return Section("calibration", "Calibration", blocks, lead=lead)


@style.styled
def _draw(files: EvaluationFiles, table: pd.DataFrame, name: str) -> style.Picture | None:
    """Draw observed shares over predicted probabilities of a class, bin by bin; None where there is no bin."""
    rows = table[table["class"] == name] if "class" in table else table
    rows = rows.dropna(subset=["mean_predicted", "observed"]).reset_index(drop=True)
    if rows.empty:
        return None
    suffix = f"_{files.classes.index(name) + 1}" if files.kind == "multiclass" else ""
    label = style.plain_label(name, length=20)
    figure = style.blank_figure(height=style.WIDTH * 1.2)
    upper, lower = figure.subplots(2, 1, height_ratios=[4, 1], sharex=True)
    upper.plot([0, 1], [0, 1], color=style.CHANCE, linestyle=":", linewidth=1.3, label="Perfectly calibrated")
    parts = []
    for model, (title, look) in _LOOKS.items():
        part = rows[rows["model"] == model].sort_values("mean_predicted")
        if part.empty:
            continue
        x, y, n = part["mean_predicted"], part["observed"], part["n"]
        if {"observed_low", "observed_high"} <= set(part):
            upper.vlines(x, part["observed_low"], part["observed_high"], color=look["color"], linewidth=1.4, alpha=0.75)
        upper.plot(x, y, markersize=6, linewidth=1.7, label=title, **look)
        lower.vlines(x, 0, n, color=look["color"], linewidth=1.0)
        lower.plot(x, n, markersize=5, **(look | {"linestyle": "none"}))
        bins = [f"{a:.2f} → {b:.2f} (n = {size:.0f})" for a, b, size in zip(x, y, n, strict=True)]
        parts.append(f"{title}, predicted → observed: {', '.join(bins)}")
    upper.set(ylabel=f"Observed share of “{label}”", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    lower.set(xlabel=f"Predicted probability of “{label}”", ylabel="Scans", ylim=(0, None))
    style.legend_below(figure, upper, n_columns=1)
    return style.Picture(
        f"calibration{suffix}",
        figure,
        alt=f"Calibration of the probability of {name}. {'. '.join(parts)}.",
        caption=f"Observed share of “{name}” among scans of alike predicted probability, with {files.level:.0%} "
        "intervals; below, how many scans each bin holds.",
        numbers=rows,
    )


CALIBRATION = SectionBuilder(
    "calibration",
    "Calibration",
    order=80,
    build=_build,
    inputs=(_INPUT,),
    covers="calibration",
    kinds=("binary", "multiclass"),
    of=("scans",),
)
