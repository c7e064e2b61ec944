"""Confusion matrix: counts and row percentages."""

from __future__ import annotations

import numpy as np
import pandas as pd

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import DASH
from neurocontrast.reporting.pooling import pool_repeats
from neurocontrast.reporting.style import WIDTH, Picture, distinct_labels, new_figure, styled

__all__ = ["THRESHOLD", "count_confusion", "draw_confusion"]

THRESHOLD = 0.5
"""Probability from which a scan is called positive."""


def count_confusion(files: EvaluationFiles) -> pd.DataFrame:
    """Return the number of scans by true class (rows) and predicted class (columns).

    One prediction a scan, its scores averaged over repeats: at the threshold 0.5 for two classes,
    the class of highest probability for more.
    """
    pooled = pool_repeats(files)
    names = files.classes
    if files.kind == "binary":
        predicted = np.where(pooled["y_score"] >= THRESHOLD, files.positive, files.negative)
    else:
        scores = pooled.reindex(columns=[f"score_{name}" for name in names]).to_numpy(dtype=float)
        predicted = np.array(names, dtype=object)[np.nan_to_num(scores, nan=-1.0).argmax(axis=1)]
    counts = pd.crosstab(pooled["y_true"].to_numpy(dtype=object), predicted)
    return counts.reindex(index=names, columns=names, fill_value=0)


@styled
def draw_confusion(files: EvaluationFiles) -> Picture:
    """Draw the confusion matrix."""
    counts = count_confusion(files)
    numbers = counts.to_numpy()
    totals = numbers.sum(axis=1)
    n_classes = len(counts)
    figure, axes = new_figure(height=min(2.4 + 0.55 * n_classes, 6.5), width=WIDTH)
    axes.imshow(numbers / np.maximum(totals, 1)[:, None], cmap="Blues", vmin=0, vmax=1.8, aspect="auto")
    size = 11 if n_classes <= 3 else (9 if n_classes <= 6 else 7)
    for row in range(n_classes):
        for column in range(n_classes):
            n = numbers[row, column]
            text = f"{n}\n{n / totals[row]:.0%}" if totals[row] else f"{n}\n{DASH}"
            axes.text(column, row, text, ha="center", va="center", fontsize=size,
                      fontweight="bold" if row == column else "normal")  # fmt: skip
    length = 18 if n_classes <= 3 else 10
    labels = distinct_labels(counts.index, length=length)
    axes.set_xticks(
        range(n_classes), labels, rotation=0 if n_classes <= 4 else 45, ha="center" if n_classes <= 4 else "right"
    )
    axes.set_yticks(range(n_classes), [f"{label}\n(n={n})" for label, n in zip(labels, totals, strict=True)])
    axes.set(xlabel="Predicted", ylabel="True")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    rule = f"at the threshold {THRESHOLD}" if files.kind == "binary" else "by the highest probability"
    return Picture("confusion", figure, alt=_alt(counts, rule), caption=_caption(rule), numbers=_long(counts))


def _caption(rule: str) -> str:
    return (
        f"Confusion matrix {rule}, one out-of-fold prediction a scan: counts, and the share of each true class "
        "(rows sum to 100%)."
    )


def _alt(counts: pd.DataFrame, rule: str) -> str:
    numbers = counts.to_numpy()
    parts = [f"{numbers[row, row]} of {numbers[row].sum()} {name} right" for row, name in enumerate(counts.index)]
    return f"Confusion matrix {rule}: " + "; ".join(parts) + "."


def _long(counts: pd.DataFrame) -> pd.DataFrame:
    return counts.rename_axis("true").reset_index().melt(id_vars="true", var_name="predicted", value_name="n")
