"""Confusion matrix: counts and row percentages, or, of many classes, a heat map of the shares."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import DASH
from neurocontrast.reporting.naming import threshold_text
from neurocontrast.reporting.pooling import tested_rows
from neurocontrast.reporting.style import WIDTH, Picture, distinct_labels, new_figure, styled

__all__ = ["THRESHOLD", "count_confusion", "count_text", "decisions", "draw_confusion", "name_rule"]

THRESHOLD = 0.5
"""Probability from which a scan is called positive, unless the evaluation decided otherwise."""

MAX_CELLS, MAX_NAMED = 12, 120
"""Classes up to which the matrix has figures in its cells, and up to which its axes have names."""


def count_confusion(files: EvaluationFiles) -> npt.NDArray[np.float64]:
    """Return the number of scans by true class (rows) and predicted class (columns), in the order of the classes.

    With repeats these are means over repeats, so that rates agree with the metrics.
    """
    tested = tested_rows(files)
    n_repeats = max(int(tested["repeat"].nunique()), 1)
    counts = pd.crosstab(tested["y_true"].to_numpy(dtype=object), decisions(files, tested))
    square = counts.reindex(index=files.classes, columns=files.classes, fill_value=0)
    return square.to_numpy(dtype=float) / n_repeats


def name_rule(files: EvaluationFiles) -> str:
    """Say by which rule a scan was given to a class: "at the threshold 0.5"."""
    tested = tested_rows(files)
    recorded = bool((files.summary.get("threshold") or {}).get("rule"))
    if not recorded and (decisions(files, tested) != _simple_decisions(files, tested)).any():
        return "at the threshold set in the evaluation"
    return threshold_text(files)


def decisions(files: EvaluationFiles, tested: pd.DataFrame) -> npt.NDArray[np.object_]:
    """Return the class that each tested scan was given."""
    if "y_pred" in tested:
        return tested["y_pred"].to_numpy(dtype=object)
    return _simple_decisions(files, tested)


def _simple_decisions(files: EvaluationFiles, tested: pd.DataFrame) -> npt.NDArray[np.object_]:
    names = np.array(files.classes, dtype=object)
    if files.kind == "binary":
        positive = (tested["y_score"] >= THRESHOLD).to_numpy()
        return np.where(positive, files.positive, files.negative).astype(object)
    scores = tested.reindex(columns=[f"score_{name}" for name in names]).to_numpy(dtype=float)
    return names[np.nan_to_num(scores, nan=-1.0).argmax(axis=1)]


@styled
def draw_confusion(files: EvaluationFiles) -> Picture:
    """Draw the confusion matrix; of more than a dozen classes as shares in colour, without figures in the cells."""
    numbers = count_confusion(files)
    n_classes = len(numbers)
    draw = _draw_cells if n_classes <= MAX_CELLS else _draw_heat
    figure = draw(files, numbers)
    rule = name_rule(files)
    n_repeats = tested_rows(files)["repeat"].nunique()
    means = f", means over {n_repeats} repeats" if n_repeats > 1 else ""
    what = f"counts of the test {files.words.items}" if files.fixed else f"out-of-fold counts{means}"
    if n_classes > MAX_CELLS:
        what = f"{what} as shares of each true class, darker by the square root; the counts are in confusion.tsv"
    else:
        what += ", and the share of each true class (a row is 100%)"
    named = pd.DataFrame(numbers, index=files.classes, columns=files.classes)
    caption = f"Confusion matrix {rule}: {what}."
    return Picture("confusion", figure, alt=_alt(named, rule), caption=caption, numbers=_long(named))


def _draw_cells(files: EvaluationFiles, numbers: npt.NDArray[np.float64]) -> Figure:
    totals = numbers.sum(axis=1)
    n_classes = len(numbers)
    figure, axes = new_figure(height=min(2.4 + 0.55 * n_classes, 6.5), width=WIDTH)
    axes.imshow(_shares(numbers), cmap="Blues", vmin=0, vmax=1.8, aspect="auto")
    size = 11 if n_classes <= 3 else (9 if n_classes <= 6 else (7 if n_classes <= 10 else 6))
    for row in range(n_classes):
        for column in range(n_classes):
            n = numbers[row, column]
            text = f"{count_text(n)}\n" + (f"{n / totals[row]:.0%}" if totals[row] else DASH)
            axes.text(column, row, text, ha="center", va="center", fontsize=size,
                      fontweight="bold" if row == column else "normal")  # fmt: skip
    length = 18 if n_classes <= 3 else 10
    labels = distinct_labels(files.classes, length=length)
    axes.set_xticks(
        range(n_classes), labels, rotation=0 if n_classes <= 4 else 45, ha="center" if n_classes <= 4 else "right"
    )
    axes.set_yticks(
        range(n_classes), [f"{label}\n(n={count_text(n)})" for label, n in zip(labels, totals, strict=True)]
    )
    _finish(axes)
    return figure


def _draw_heat(files: EvaluationFiles, numbers: npt.NDArray[np.float64]) -> Figure:
    """Draw the shares in colour: a square root, since the mistakes of each class are small beside its hits."""
    n_classes = len(numbers)
    side = float(np.clip(2.6 + 0.16 * n_classes, 6.0, 10.6))
    figure, axes = new_figure(height=side * 0.94, width=side)
    drawn = axes.imshow(_shares(numbers), cmap="Blues", norm=PowerNorm(0.5, vmin=0, vmax=1), interpolation="none")
    if n_classes <= MAX_NAMED:
        labels = distinct_labels(files.classes, length=16)
        size = float(np.clip(0.62 * 72 * side * 0.78 / n_classes, 4.5, 9))
        axes.set_xticks(range(n_classes), labels, rotation=90, fontsize=size)
        axes.set_yticks(range(n_classes), labels, fontsize=size)
    axes.tick_params(length=0)
    _finish(axes)
    bar = figure.colorbar(drawn, ax=axes, shrink=0.6, pad=0.02)
    bar.set_ticks([0, 0.01, 0.05, 0.1, 0.25, 0.5, 1], labels=["0", "1%", "5%", "10%", "25%", "50%", "100%"])
    bar.set_label("Share of the true class")
    return figure


def _shares(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    totals = numbers.sum(axis=1)
    return np.asarray(numbers / np.where(totals > 0, totals, 1)[:, None], dtype=float)


def _finish(axes: Axes) -> None:
    axes.set(xlabel="Predicted", ylabel="True")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def count_text(n: float) -> str:
    """Write a count, with one decimal where it is a mean over repeats."""
    return f"{n:.1f}".removesuffix(".0")


def _alt(counts: pd.DataFrame, rule: str) -> str:
    numbers = counts.to_numpy()
    order = np.argsort(-_shares(numbers).diagonal(), kind="stable") if len(counts) > MAX_CELLS else range(len(counts))
    rows = [(counts.index[row], numbers[row, row], numbers[row].sum()) for row in order]
    parts = [f"{count_text(n)} of {count_text(total)} {name}" for name, n, total in rows]
    if len(parts) > MAX_CELLS:
        best, worst = "; ".join(parts[:3]), "; ".join(parts[-3:])
        return f"Confusion matrix {rule}, {len(parts)} classes. Right most often: {best}. Least often: {worst}."
    return f"Confusion matrix {rule}: " + "; ".join(f"{part} right" for part in parts) + "."


def _long(counts: pd.DataFrame) -> pd.DataFrame:
    return counts.rename_axis("true").reset_index().melt(id_vars="true", var_name="predicted", value_name="n")
