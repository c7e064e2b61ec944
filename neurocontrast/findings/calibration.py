"""Curves of predicted probabilities: ROC, precision–recall and calibration."""

from __future__ import annotations

from typing import Any

import pandas as pd
from sklearn.metrics import precision_recall_curve, roc_curve

from neurocontrast.findings.errors import tested_rows
from neurocontrast.findings.finding import Finding
from neurocontrast.findings.folder import EvaluationFolder
from neurocontrast.page import style
from neurocontrast.page.blocks import Section, note, pictures
from neurocontrast.page.wording import interval_text, number_text, point_estimate

_TITLES = {"roc": "ROC", "precision_recall": "Precision–recall"}
_AREAS = {"roc": ("auc", "AUC"), "precision_recall": ("average_precision", "average precision")}
_LOOKS: dict[str, dict[str, Any]] = {
    "baseline": {"color": style.BASELINE, "linestyle": "--"},
    "embedding": {"color": style.MAIN, "linestyle": "-"},
}
_CHANCE: dict[str, Any] = {"color": style.CHANCE, "linestyle": ":", "linewidth": 1.3}


def show_curves(files: EvaluationFolder) -> Section:
    """Return the ROC and precision–recall curves."""
    shown = pictures(*(draw_curve(files, curve) for curve in _TITLES))
    why = note("No curve is defined: the out-of-fold predictions hold one class only.")
    return Section("curves", "Discrimination", shown or [why])


@style.styled
def draw_curve(files: EvaluationFolder, curve: str) -> style.Picture | None:
    """Draw ``roc`` or ``precision_recall`` of the baseline, and of the embedding over it; None where undefined."""
    title, (metric, area), s, tested = _TITLES[curve], _AREAS[curve], files.summary, tested_rows(files)
    figure, axes = style.new_figure(height=style.WIDTH * 1.02)
    covariates = f" ({style.plain_label(' + '.join(s.baseline_covariates))})" if s.baseline_covariates else ""
    named = {"baseline": f"Baseline{covariates}", "embedding": "Embedding"}
    parts = []
    for model, column, found in (("baseline", "baseline_score", s.baseline), ("embedding", "y_score", files.metrics)):
        values, drawn = found.get(metric), _points(tested, column, files.positive, curve)
        label = f"{named[model]}: {area} {number_text(point_estimate(values), digits=2)}"
        label += f" [{interval_text(values.interval, digits=2)}]" if values and values.interval else ""
        for repeat, points in enumerate(drawn):
            look: dict[str, Any] = {"linewidth": 2.1} if len(drawn) == 1 else {"linewidth": 1.0, "alpha": 0.6}
            look |= {"drawstyle": "default" if curve == "roc" else "steps-pre", "label": None if repeat else label}
            axes.plot(points["x"], points["y"], **_LOOKS[model], **look)
            parts.append(points.assign(curve=named[model], repeat=repeat))
    if not parts:
        return None
    share, note = float((tested["y_true"] == files.positive).mean()), ""
    if curve == "roc":
        axes.plot([0, 1], [0, 1], label="Chance: 0.50", **_CHANCE)
    else:
        axes.axhline(share, label=f"Chance: share of positives, {share:.2f}", **_CHANCE)
        note = f" Precision depends on how common “{files.positive}” is in this cohort ({share:.0%})."
    found_class = f" (“{style.plain_label(files.positive, length=20)}” found)"
    labels = {"roc": ("1 − specificity", f"Sensitivity{found_class}")}
    xlabel, ylabel = labels.get(curve, (f"Recall{found_class}", "Precision"))
    axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    style.legend_below(figure, axes, n_columns=1)
    legend = "; ".join(str(label).replace("\\", "") for label in axes.get_legend_handles_labels()[1])
    about = f"{title} curves of all tested {files.words.items} pooled"
    about += ", a line for each repeat" if tested["repeat"].nunique() > 1 else ""
    return style.Picture(
        curve,
        figure,
        alt=f"{title} curves for {files.target}. {legend}.",
        caption=f"{about}. Brackets: {files.level:.0%} intervals.{note}",
        numbers=pd.concat(parts, ignore_index=True),
    )


def _points(rows: pd.DataFrame, column: str, positive: str, curve: str) -> list[pd.DataFrame]:
    """Return the curve of all folds together, as ``x`` and ``y``, of each repeat in which it is defined."""
    known = rows.dropna(subset=[column, "y_true"]) if column in rows else rows.iloc[:0]
    curves = []
    for _, part in known.groupby("repeat"):
        truth = (part["y_true"] == positive).to_numpy()
        if truth.any() and not truth.all():
            if curve == "roc":
                x, y, _ = roc_curve(truth, part[column])
            else:
                precision, recall, _ = precision_recall_curve(truth, part[column], drop_intermediate=True)
                x, y = recall[-2::-1], precision[-2::-1]
            curves.append(pd.DataFrame({"x": x, "y": y}))
    return curves


def show_calibration(files: EvaluationFolder) -> Section | None:
    """Return the calibration of each class; None without a table of it."""
    table = files.table("calibration", "model", "n", "mean_predicted", "observed")
    if table is None:
        return None
    known = set(table["class"].dropna()) if "class" in table else {files.positive}
    shown = pictures(*(_draw_calibration(files, table, name) for name in files.classes if name in known))
    lead = (
        "Whether a predicted probability can be read as one: of scans given 0.8, do 8 of 10 belong to the class? "
        "Slope, intercept and scores are in the table of all metrics."
    )
    return Section("calibration", "Calibration", shown, lead=lead) if shown else None


@style.styled
def _draw_calibration(files: EvaluationFolder, table: pd.DataFrame, name: str) -> style.Picture | None:
    """Draw observed shares over predicted probabilities of a class, bin by bin; None where there is no bin."""
    rows = table[table["class"] == name] if "class" in table else table
    rows = rows.dropna(subset=["mean_predicted", "observed"]).reset_index(drop=True)
    if rows.empty:
        return None
    suffix = f"_{files.classes.index(name) + 1}" if files.kind == "multiclass" else ""
    label, parts = style.plain_label(name, length=20), []
    figure, axes = style.new_figure(height=style.WIDTH)
    axes.plot([0, 1], [0, 1], label="Perfectly calibrated", **_CHANCE)
    for model, title, marker in (("baseline", "Covariates only", "D"), ("embedding", "Embedding", "o")):
        part = rows[rows["model"] == model].sort_values("mean_predicted")
        if part.empty:
            continue
        x, y, look = part["mean_predicted"], part["observed"], _LOOKS[model]
        if {"observed_low", "observed_high"} <= set(part):
            axes.vlines(x, part["observed_low"], part["observed_high"], color=look["color"], linewidth=1.4, alpha=0.75)
        axes.plot(x, y, marker=marker, markersize=6, linewidth=1.7, label=title, **look)
        bins = [f"{a:.2f} → {b:.2f} (n = {size:.0f})" for a, b, size in zip(x, y, part["n"], strict=True)]
        parts.append(f"{title}, predicted → observed: {', '.join(bins)}")
    axes.set(xlabel=f"Predicted probability of “{label}”", ylabel=f"Observed share of “{label}”")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    style.legend_below(figure, axes, n_columns=1)
    return style.Picture(
        f"calibration{suffix}",
        figure,
        alt=f"Calibration of the probability of {name}. {'. '.join(parts)}.",
        caption=f"Observed share of “{name}” among scans of alike predicted probability, with {files.level:.0%} "
        "intervals.",
        numbers=rows,
    )


CURVES = Finding("curves", show_curves, kinds=("binary",))
CALIBRATION = Finding("calibration", show_calibration, kinds=("binary", "multiclass"), of=("scans",))
