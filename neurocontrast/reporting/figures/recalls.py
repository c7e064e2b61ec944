"""How many images of each class were recognised."""

from __future__ import annotations

import pandas as pd

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.style import CHANCE, MAIN, WIDTH, Picture, distinct_labels, new_figure, styled

__all__ = ["MAX_ROWS", "draw_recalls"]

MAX_ROWS = 24
"""Classes drawn one by one; of more, the lowest and the highest."""


@styled
def draw_recalls(files: EvaluationFiles) -> Picture | None:
    """Draw the recall of each class with its interval, the lowest first; None where it is not recorded."""
    if files.by_class is None:
        return None
    ordered = files.by_class[files.by_class["recall"].notna()].sort_values("recall", kind="stable")
    if ordered.empty:
        return None
    half = MAX_ROWS // 2
    rows = ordered if len(ordered) <= MAX_ROWS else pd.concat([ordered.head(half), ordered.tail(half)])
    rows = rows.reset_index(drop=True)
    figure, axes = new_figure(height=1.3 + 0.27 * len(rows), width=WIDTH)
    for place, row in enumerate(rows.to_dict("records")):
        if pd.notna(row.get("recall_low")):
            axes.plot([row["recall_low"], row["recall_high"]], [place, place], color=MAIN, linewidth=2)
        axes.plot(row["recall"], place, marker="o", linestyle="none", color=MAIN, markersize=6)
    mean = float(ordered["recall"].mean())
    axes.axvline(mean, color=CHANCE, linestyle="--", linewidth=1.2)
    axes.annotate(f"mean {mean:.1%}", (mean, 1.0), xycoords=("data", "axes fraction"), ha="center", va="bottom",
                  fontsize=8.5, color=CHANCE)  # fmt: skip
    if len(rows) < len(ordered):
        axes.axhline(half - 0.5, color=CHANCE, linewidth=0.8)
    axes.set_yticks(range(len(rows)), distinct_labels(rows["class"], length=22), fontsize=9 if len(rows) < 20 else 8)
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlabel="Recall (share of the class that is recognised)")
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.grid(axis="y", visible=False)
    which = "each class" if len(rows) == len(ordered) else f"the {half} lowest and {half} highest of {len(ordered)}"
    words = "; ".join(f"{row['class']} {row['recall']:.1%}" for row in rows.to_dict("records"))
    return Picture(
        "recall_by_class",
        figure,
        alt=f"Recall of {which}: {words}.",
        caption=f"Recall of {which}, the lowest first, with {files.level:.0%} Wilson intervals. Broken line: the mean.",
        numbers=ordered.reset_index(drop=True),
    )
