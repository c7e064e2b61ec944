"""ROC and precision–recall curves: folds thin, pooled thick, the baseline beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from sklearn.metrics import precision_recall_curve, roc_curve

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import interval_text, number_text, point_estimate
from neurocontrast.reporting.pooling import tested_rows
from neurocontrast.reporting.style import (
    BASELINE,
    CHANCE,
    LINES,
    MAIN,
    PALETTE,
    WIDTH,
    Picture,
    distinct_labels,
    legend_below,
    new_figure,
    plain_label,
    styled,
)

__all__ = ["draw_one_vs_rest", "draw_precision_recall", "draw_roc"]

_MAX_POINTS = 1000

Curve = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def _roc(truth: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    false_positive_rate, true_positive_rate, _ = roc_curve(truth, score)
    return false_positive_rate, true_positive_rate


def _precision_recall(truth: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    precision, recall, _ = precision_recall_curve(truth, score, drop_intermediate=True)
    return recall, precision


@styled
def draw_roc(files: EvaluationFiles) -> Picture | None:
    """Draw the ROC curves of a binary target; None where no curve is defined."""
    figure, axes = new_figure(height=WIDTH * 1.02)
    numbers, n_folds, n_undefined = _draw_curves(axes, files, _roc, metric="auc")
    if numbers.empty:
        return None
    axes.plot([0, 1], [0, 1], color=CHANCE, linestyle=":", linewidth=1.3, label="Chance")
    axes.set(
        xlabel=f"1 − specificity (“{plain_label(files.negative, length=20)}” called positive)",
        ylabel=f"Sensitivity (“{plain_label(files.positive, length=20)}” found)",
    )
    _square(axes)
    legend_below(figure, axes, n_columns=1)
    return Picture(
        "roc",
        figure,
        alt=f"ROC curves for {files.target}. {_auc_sentence(files)}",
        caption=f"ROC curves. {_fold_sentence(n_folds, n_undefined)} {_thick(files)}",
        numbers=numbers,
    )


@styled
def draw_precision_recall(files: EvaluationFiles) -> Picture | None:
    """Draw the precision–recall curves of a binary target; None where no curve is defined."""
    figure, axes = new_figure(height=WIDTH * 1.02)
    numbers, n_folds, n_undefined = _draw_curves(axes, files, _precision_recall, metric="average_precision")
    if numbers.empty:
        return None
    share = float((tested_rows(files)["y_true"] == files.positive).mean())
    axes.axhline(share, color=CHANCE, linestyle=":", linewidth=1.3, label=f"Chance: share of positives, {share:.2f}")
    axes.set(
        xlabel=f"Recall (“{plain_label(files.positive, length=20)}” found)",
        ylabel="Precision (called positive and right)",
    )
    _square(axes)
    legend_below(figure, axes, n_columns=1)
    value = number_text(point_estimate(files.metrics.get("average_precision")), digits=2)
    return Picture(
        "precision_recall",
        figure,
        alt=f"Precision–recall curves for {files.target}: average precision {value}; chance is {share:.2f}.",
        caption=(
            f"Precision and recall. {_fold_sentence(n_folds, n_undefined)} Precision depends on how common "
            f"“{files.positive}” is in this cohort ({share:.0%}); elsewhere it will differ."
        ),
        numbers=numbers,
    )


@styled
def draw_one_vs_rest(files: EvaluationFiles) -> Picture | None:
    """Draw one ROC curve a class against all the others; None where no curve is defined."""
    tested = tested_rows(files)
    figure, axes = new_figure(height=WIDTH * 1.02 + 0.17 * len(files.classes))
    parts = []
    labels = distinct_labels(files.classes)
    for index, name in enumerate(files.classes):
        points = _pooled_points(tested, f"score_{name}", name, _roc)
        if points is None:
            continue
        x, y = points
        n = round((tested["y_true"] == name).sum() / tested["repeat"].nunique())
        label = f"{labels[index]}: AUC {np.trapezoid(y, x):.2f} (n = {n})"
        axes.plot(
            x, y, color=PALETTE[index % len(PALETTE)], linestyle=LINES[index % len(LINES)], linewidth=1.9, label=label
        )
        parts.append(pd.DataFrame({"curve": name, "x": x, "y": y}))
    if not parts:
        return None
    axes.plot([0, 1], [0, 1], color=CHANCE, linestyle=":", linewidth=1.3, label="Chance")
    axes.set(xlabel="1 − specificity", ylabel="Sensitivity")
    _square(axes)
    legend_below(figure, axes, n_columns=1)
    legend = "; ".join(str(text) for text in axes.get_legend_handles_labels()[1])
    return Picture(
        "roc_one_vs_rest",
        figure,
        alt=f"ROC curves of each class of {files.target} against all others. {legend}.",
        caption=f"ROC curves, each class against all others. {_thick(files)}",
        numbers=pd.concat(parts, ignore_index=True),
    )


def _draw_curves(axes: Axes, files: EvaluationFiles, curve: Curve, *, metric: str) -> tuple[pd.DataFrame, int, int]:
    """Draw folds, pooled and baseline; return the points, the number of folds and of those without a curve."""
    parts: list[pd.DataFrame] = []
    folds = list(files.predictions.groupby(["repeat", "fold"]))
    n_undefined = 0
    for (repeat, fold), rows in folds:
        points = _points(rows, "y_score", files.positive, curve)
        if points is None:
            n_undefined += 1
            continue
        axes.plot(*points, color=MAIN, alpha=max(0.12, min(0.4, 4 / len(folds))), linewidth=0.9)
        parts.append(_as_table(f"repeat {repeat:g} fold {fold:g}", points))
    axes.plot([], [], color=MAIN, alpha=0.5, linewidth=0.9, label="One test fold each")
    tested = tested_rows(files)
    for column, name, values, color, line, width in (
        ("y_score", "Embedding, pooled", files.metrics, MAIN, "-", 2.6),
        ("baseline_score", "Baseline" + _covariates(files), files.baseline, BASELINE, "--", 2.0),
    ):
        points = _pooled_points(tested, column, files.positive, curve)
        if points is None:
            continue
        label = f"{name}: {_value(values.get(metric))}"
        axes.plot(*points, color=color, linestyle=line, linewidth=width, label=label)
        parts.append(_as_table(name, points))
    return (pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()), len(folds), n_undefined


def _points(rows: pd.DataFrame, column: str, positive: str, curve: Curve) -> tuple[np.ndarray, np.ndarray] | None:
    if column not in rows:
        return None
    rows = rows[rows[column].notna() & rows["y_true"].notna()]
    truth = (rows["y_true"] == positive).to_numpy()
    if truth.all() or not truth.any():
        return None
    return _thin(*curve(truth, rows[column].to_numpy(dtype=float)))


def _thin(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keep as many points of a curve as a reader can see, its ends among them."""
    if len(x) <= _MAX_POINTS:
        return x, y
    kept = np.unique(np.linspace(0, len(x) - 1, _MAX_POINTS).round().astype(int))
    return x[kept], y[kept]


def _pooled_points(
    tested: pd.DataFrame, column: str, positive: str, curve: Curve
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the curve of all folds together; with repeats the mean of their curves, whose area is the mean area."""
    curves = [_points(rows, column, positive, curve) for _, rows in tested.groupby("repeat")]
    defined = [points for points in curves if points is not None]
    if len(defined) < 2:
        return defined[0] if defined else None
    grid = np.linspace(0, 1, 401)
    heights = []
    for x, y in defined:
        order = np.argsort(x, kind="stable")
        heights.append(np.interp(grid, x[order], y[order]))
    start = np.mean([y[np.argmin(x)] if x[0] > x[-1] else y[0] for x, y in defined])
    return np.append(0.0, grid), np.append(start, np.mean(heights, axis=0))


def _as_table(name: str, points: Sequence[np.ndarray]) -> pd.DataFrame:
    return pd.DataFrame({"curve": name, "x": points[0], "y": points[1]})


def _square(axes: Axes) -> None:
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")


def _covariates(files: EvaluationFiles) -> str:
    return f" ({plain_label(' + '.join(files.covariates))})" if files.covariates else ""


def _value(values: dict | None) -> str:
    text = number_text(point_estimate(values), digits=2)
    interval = interval_text((values or {}).get("interval"), digits=2)
    return f"{text} [{interval}]" if values and values.get("interval") else text


def _auc_sentence(files: EvaluationFiles) -> str:
    text = f"The pooled curve of the embedding has AUC {_value(files.metrics.get('auc'))}"
    if files.baseline:
        text += f"; that of the covariates alone {_value(files.baseline.get('auc'))}"
    return text + "; chance is 0.50."


def _thick(files: EvaluationFiles) -> str:
    repeats = tested_rows(files)["repeat"].nunique()
    return "Thick: all folds pooled." if repeats < 2 else f"Thick: all folds pooled, mean over {repeats} repeats."


def _fold_sentence(n_folds: int, n_undefined: int) -> str:
    text = f"Thin: each of the {n_folds} test folds."
    if n_undefined:
        text += f" {n_undefined} of these, with one class only, cannot have a curve."
    return text
