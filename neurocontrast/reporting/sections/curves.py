"""How well scores tell two classes apart: ROC and precision–recall curves."""

from typing import Any

import pandas as pd
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
    """Return the ROC and precision–recall curves."""
    shown = pictures(*(draw_curve(files, curve) for curve in _TITLES))
    why = note("No curve is defined: the predictions are of one class only.")
    return Section("curves", "Discrimination", shown or [why])


@style.styled
def draw_curve(files: ResultTables, curve: str) -> style.Picture | None:
    """Draw ``roc`` or ``precision_recall`` of baseline and embedding; None where undefined."""
    title, (metric, area), s, tested = (
        _TITLES[curve],
        _AREAS[curve],
        files.summary,
        tested_rows(files),
    )
    figure, axes = style.new_figure(height=style.WIDTH * 1.02)
    covariates = (
        f" ({style.plain_label(' + '.join(s.baseline_covariates))})"
        if s.baseline_covariates
        else ""
    )
    named = {"baseline": f"Baseline{covariates}", "embedding": "Embedding"}
    parts = []
    for model, column, found in (
        ("baseline", "baseline_score", s.baseline),
        ("embedding", "y_score", files.metrics),
    ):
        values = found.get(metric)
        drawn = _points(tested, column, files.positive, curve)
        label = f"{named[model]}: {area} {number_text(point_estimate(values), digits=2)}"
        label += (
            f" [{interval_text(values.interval, digits=2)}]" if values and values.interval else ""
        )
        for repeat, points in enumerate(drawn):
            look: dict[str, Any] = (
                {"linewidth": 2.1} if len(drawn) == 1 else {"linewidth": 1.0, "alpha": 0.6}
            )
            look |= {
                "drawstyle": "default" if curve == "roc" else "steps-pre",
                "label": None if repeat else label,
            }
            axes.plot(points["x"], points["y"], **style.MODEL_LINES[model], **look)
            parts.append(points.assign(curve=named[model], repeat=repeat))
    if not parts:
        return None
    share = float((tested["y_true"] == files.positive).mean())
    note = ""
    if curve == "roc":
        axes.plot([0, 1], [0, 1], label="Chance: 0.50", **style.CHANCE_LINE)
    else:
        axes.axhline(share, label=f"Chance: share of positives, {share:.2f}", **style.CHANCE_LINE)
        note = (
            f" Precision depends on how common “{files.positive}” is in this cohort ({share:.0%})."
        )
    found_class = f" (“{style.plain_label(files.positive, length=20)}” found)"
    labels = {"roc": ("1 − specificity", f"Sensitivity{found_class}")}
    xlabel, ylabel = labels.get(curve, (f"Recall{found_class}", "Precision"))
    axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    style.legend_below(figure, axes, n_columns=1)
    legend = "; ".join(
        str(label).replace("\\", "") for label in axes.get_legend_handles_labels()[1]
    )
    about = f"{title} curves of all tested {files.words.items} pooled"
    about += ", a line for each repeat" if tested["repeat"].nunique() > 1 else ""
    return style.Picture(
        f"{files.prefix}{curve}",
        figure,
        alt=f"{files.opening}{title} curves for {files.target}. {legend}.",
        caption=f"{files.opening}{about}. Brackets: {files.percent} intervals.{note}",
        numbers=pd.concat(parts, ignore_index=True),
    )


def _points(rows: pd.DataFrame, column: str, positive: str, curve: str) -> list[pd.DataFrame]:
    """Return the curve of all folds together, as ``x`` and ``y``, of each repeat that has one."""
    known = rows.dropna(subset=[column, "y_true"]) if column in rows else rows.iloc[:0]
    curves = []
    for _, part in known.groupby("repeat"):
        truth = part["y_true"] == positive
        if truth.nunique() > 1:
            if curve == "roc":
                x, y, _ = roc_curve(truth, part[column])
            else:
                y, x, _ = (
                    each[-2::-1]
                    for each in precision_recall_curve(truth, part[column], drop_intermediate=True)
                )
            curves.append(pd.DataFrame({"x": x, "y": y}))
    return curves


CURVES = Finding("curves", show_curves, kinds=("binary",))
