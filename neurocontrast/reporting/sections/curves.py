"""Section of discrimination: ROC and precision–recall curves of a binary target."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from sklearn.metrics import precision_recall_curve, roc_curve

from neurocontrast.reporting import style
from neurocontrast.reporting.blocks import Section, note, pictures
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.predictions import tested_rows
from neurocontrast.reporting.result_tables import ResultTables
from neurocontrast.reporting.wording import interval_text, number_text, point_estimate

_TITLES = {"roc": "ROC", "precision_recall": "Precision–recall"}
_AREAS = {"roc": ("auc", "AUC"), "precision_recall": ("average_precision", "average precision")}


def show_curves(files: EvaluationFolder) -> Section:
    """Return the section with ROC and precision–recall curves, or with a remark if none exists."""
    shown = pictures(*(draw_curve(files, curve) for curve in _TITLES))
    why = note("No curve is defined: the predictions are of one class only.")
    return Section("curves", "Discrimination", shown or [why])


@style.styled
def draw_curve(files: ResultTables, curve: str) -> style.Picture | None:
    """Return a figure of the ROC or precision-recall curves of embedding and covariates.

    The covariates are those of the baseline. `curve` is ``roc`` or ``precision_recall``. None if
    the scans of every repeat are of one class.
    """
    tested = tested_rows(files)
    figure, axes = style.new_figure(height=style.WIDTH * 1.02)
    points = [
        *_draw_model(axes, files, tested, curve, model="baseline"),
        *_draw_model(axes, files, tested, curve, model="embedding"),
    ]
    if not points:
        return None
    remark = _draw_chance(axes, files, tested, curve)
    positive = f" (“{style.plain_label(files.positive, length=20)}” found)"
    xlabel = f"Recall{positive}"
    ylabel = "Precision"
    if curve == "roc":
        xlabel = "1 − specificity"
        ylabel = f"Sensitivity{positive}"
    axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    style.legend_below(figure, axes, n_columns=1)
    legend = "; ".join(axes.get_legend_handles_labels()[1]).replace("\\", "")
    title = _TITLES[curve]
    pooled = f"{title} curves of all tested {files.words.items} pooled"
    if tested["repeat"].nunique() > 1:
        pooled += ", a line for each repeat"
    return style.Picture(
        f"{files.prefix}{curve}",
        figure,
        alt=f"{files.opening}{title} curves for {files.target}. {legend}.",
        caption=f"{files.opening}{pooled}. Brackets: {files.percent} intervals.{remark}",
        numbers=pd.concat(points, ignore_index=True),
    )


def _draw_model(
    axes: Axes, files: ResultTables, tested: pd.DataFrame, curve: str, *, model: str
) -> list[pd.DataFrame]:
    """Draw a model's curve of each repeat on `axes`, and list the points: a table for each repeat.

    `model` is ``embedding``, or ``baseline`` for the covariates. The legend has one label for all
    repeats, with the evaluation's area under the curve and its interval.
    """
    covariates = files.summary.baseline_covariates
    column = "y_score"
    name = "Embedding"
    figures = files.metrics
    if model == "baseline":
        column = "baseline_score"
        name = f"Baseline ({style.plain_label(' + '.join(covariates))})"
        if not covariates:
            name = "Baseline"
        figures = files.summary.baseline
    metric, area = _AREAS[curve]
    values = figures.get(metric)
    label = f"{name}: {area} {number_text(point_estimate(values), digits=2)}"
    if values and values.interval:
        label += f" [{interval_text(values.interval, digits=2)}]"
    repeats = _points(tested, column, files.positive, curve)
    look = dict[str, Any](linewidth=2.1)
    if len(repeats) > 1:
        look = {"linewidth": 1.0, "alpha": 0.6}
    if curve != "roc":
        look["drawstyle"] = "steps-pre"
    look |= style.MODEL_LINES[model]
    drawn = []
    for repeat, points in enumerate(repeats):
        axes.plot(points["x"], points["y"], label=None if repeat else label, **look)
        drawn.append(points.assign(curve=name, repeat=repeat))
    return drawn


def _draw_chance(axes: Axes, files: ResultTables, tested: pd.DataFrame, curve: str) -> str:
    """Draw the level of chance on `axes`; return a remark for the caption, empty for ROC curves."""
    if curve == "roc":
        axes.plot([0, 1], [0, 1], label="Chance: 0.50", **style.CHANCE_LINE)
        return ""
    share = float((tested["y_true"] == files.positive).mean())
    axes.axhline(share, label=f"Chance: share of positives, {share:.2f}", **style.CHANCE_LINE)
    return f" Precision depends on how common “{files.positive}” is in this cohort ({share:.0%})."


def _points(rows: pd.DataFrame, column: str, positive: str, curve: str) -> list[pd.DataFrame]:
    """Return the points of a model's ROC or precision–recall curve, a table for each repeat.

    `curve` is ``roc``, with 1 − specificity as column ``x`` and sensitivity as ``y``, or
    ``precision_recall``, with recall and precision. A table is of the scans of all folds together.
    `rows` are predictions, of which `column` holds the model's scores. A repeat whose tested scans
    are of one class has no curve.
    """
    scored = rows.dropna(subset=[column, "y_true"]) if column in rows else rows.iloc[:0]
    curves = []
    for _, of_repeat in scored.groupby("repeat"):
        truth = of_repeat["y_true"] == positive
        scores = of_repeat[column]
        if truth.nunique() < 2:
            continue
        if curve == "roc":
            x, y, _ = roc_curve(truth, scores)
        else:
            precision, recall, _ = precision_recall_curve(truth, scores, drop_intermediate=True)
            # scikit-learn appends a recall of 0, which no threshold reaches.
            x = recall[-2::-1]
            y = precision[-2::-1]
        curves.append(pd.DataFrame({"x": x, "y": y}))
    return curves


CURVES = Finding("curves", show_curves, kinds=("binary",))
