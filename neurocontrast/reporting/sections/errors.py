"""Where predictions go wrong: the confusion matrix or predicted against true values, and the worst of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import PowerNorm
from matplotlib.ticker import PercentFormatter

from neurocontrast.reporting import style
from neurocontrast.reporting.page import Section, SectionBuilder, note, pictures
from neurocontrast.reporting.plots import MAX_CELLS, about_thinning, draw_groups, draw_matrix, thin_rows
from neurocontrast.reporting.predictions import (
    count_confusion,
    count_errors,
    count_text,
    name_rule,
    pool_repeats,
    tested_rows,
    worst_errors,
)
from neurocontrast.reporting.read import EvaluationFiles
from neurocontrast.reporting.tables import Column, make_table
from neurocontrast.reporting.wording import DASH, number_text, point_estimate

__all__ = ["ERRORS", "WORST", "draw_confusion", "draw_predicted"]


def _build(files: EvaluationFiles) -> Section:
    if files.kind == "continuous":
        drawn = draw_predicted(files), draw_predicted(files, residuals=True)
        return Section("errors", "Predicted and true values", pictures(*drawn))
    wide = len(files.classes) > MAX_CELLS
    return Section("errors", "What is taken for what", pictures(draw_confusion(files), wide=wide))


@style.styled
def draw_confusion(files: EvaluationFiles) -> style.Picture:
    """Draw the confusion matrix; of many classes as shares in colour, without numbers in the cells."""
    numbers, rule = count_confusion(files), name_rule(files)
    totals, many = numbers.sum(axis=1), len(numbers) > MAX_CELLS
    shares = numbers / np.where(totals > 0, totals, 1)[:, None]
    texts = [[f"{count_text(n)}\n{n / total:.0%}" if total else f"0\n{DASH}" for n in row]
             for row, total in zip(numbers, totals, strict=True)]  # fmt: skip
    # A square root shows the mistakes of each class, which are small beside what is right.
    look = {"norm": PowerNorm(0.5, vmin=0, vmax=1)} if many else {"vmin": 0, "vmax": 1.8}
    figure, drawn = draw_matrix(shares, files.classes, texts, ("Predicted", "True"), cmap="Blues", **look)
    n_repeats = tested_rows(files)["repeat"].nunique()
    what = f"counts of the test {files.words.items}" if files.fixed else "out-of-fold counts"
    what += f", means over {n_repeats} repeats" if n_repeats > 1 else ""
    parts = [
        f"{count_text(numbers[row, row])} of {count_text(totals[row])} {files.classes[row]} right"
        for row in (np.argsort(-shares.diagonal(), kind="stable") if many else range(len(numbers)))
    ]
    alt = "; ".join(parts)
    if many:
        figure.colorbar(drawn, shrink=0.6, pad=0.02, format=PercentFormatter(1.0)).set_label("Share of the true class")
        what += " as shares of each true class, darker by the square root; the counts are in confusion.tsv"
        alt = f"Right most often: {'; '.join(parts[:3])}. Least often: {'; '.join(parts[-3:])}"
    else:
        labels = zip(style.distinct_labels(files.classes, length=18), totals, strict=True)
        figure.axes[0].set_yticks(range(len(numbers)), [f"{label}\n(n={count_text(n)})" for label, n in labels])
        what += ", and the share of each true class (a row is 100%)"
    counts = pd.DataFrame(numbers, index=files.classes, columns=files.classes).rename_axis("true").reset_index()
    return style.Picture(
        "confusion",
        figure,
        alt=f"Confusion matrix {rule}, {len(numbers)} classes: {alt}.",
        caption=f"Confusion matrix {rule}: {what}.",
        numbers=counts.melt(id_vars="true", var_name="predicted", value_name="n"),
    )


@style.styled
def draw_predicted(files: EvaluationFiles, *, residuals: bool = False) -> style.Picture:
    """Draw predicted values against true ones by site; or `residuals` (predicted − true), with their trend."""
    pooled, target, items = pool_repeats(files), style.plain_label(files.target), files.words.items
    everyone = pd.DataFrame({"site": pooled.get("site", "all"), "true": pooled["y_true"].astype(float)})
    everyone["predicted"] = pooled["y_score"].astype(float)
    everyone["residual"] = everyone["predicted"] - everyone["true"]
    everyone = everyone.dropna(subset=["residual"]).reset_index(drop=True)
    rows, ends = thin_rows(everyone), np.quantile(everyone["true"], [0, 1])
    figure, axes = style.new_figure(height=style.WIDTH + 0.1 * min(rows["site"].nunique(), 12))
    line: Any = {"color": style.CHANCE, "linestyle": "--", "linewidth": 1.4}
    if residuals:
        axes.axhline(0, label="No error", **line)
        about = "Residual against the truth."
        if everyone["true"].nunique() > 2:
            slope, intercept = np.polyfit(everyone["true"], everyone["residual"], 1)
            shown = f"slope {number_text(slope, digits=2, signed=True)}"
            axes.plot(ends, intercept + slope * ends, color=style.INK, linewidth=1.8, label=f"Trend: {shown}")
            about += f" The fitted trend has {shown}."
        more = (
            " A negative slope means that low values are overestimated and high ones underestimated, as every shrunken "
            "prediction does; no residual is a “gap” before that is corrected."
        )
    else:
        axes.plot(ends, ends, label="Perfect prediction", **line)
        about = f"{'Prediction' if files.fixed else 'Out-of-fold prediction'} of {files.target} against the truth."
        mae, r2 = (number_text(point_estimate(files.metrics.get(key)), digits=2) for key in ("mae", "r2"))
        more = f" One point for each of the {items} (averaged over repeats, if any)."
        about += f" Mean absolute error {mae}, R² {r2}."
    draw_groups(axes, rows["true"], rows["residual" if residuals else "predicted"], rows["site"])
    axes.set(xlabel=f"True {target}", ylabel="Predicted − true" if residuals else f"Predicted {target}")
    return style.Picture(
        "residual_true" if residuals else "predicted_true",
        figure,
        alt=f"{about} Scatter of {len(everyone)} {items}.",
        caption=about + more + about_thinning(len(rows), len(everyone), items),
        numbers=everyone,
    )


def _build_worst(files: EvaluationFiles) -> Section:
    """Build the table of most confident mistakes, or of largest residuals."""
    errors = worst_errors(files)
    if errors.empty:
        return Section("worst", "Worst errors", [note("No scan was given to a wrong class.")])
    continuous = files.kind == "continuous"
    number, score = ("number", "Predicted − true") if continuous else ("text", "P(true class)")
    columns = (
        Column("Scan", "scan", "heading"),
        Column("Age", "age", "number" if files.show_ids else "text", 1),
        Column("Sex", "sex", "text"),
        Column("Site", "site", "text"),
        Column("True", "y_true", number, 1 if files.show_ids else 0),
        Column("Predicted", "predicted", number, 1),
        Column(score, "score", digits=1 if continuous else 2, signed=continuous),
    )
    hidden = "Scans stand under pseudonyms and ages are rounded; with the evaluation folder, `--show-ids` names them."
    about = "Scans stand under their identifiers." if files.show_ids else hidden
    lead = (
        "Look at these scans first: a wrong label, a failed registration and a truly hard case look alike here. The "
        "list is no estimate of anything."
    )
    table = make_table(_caption(files, len(errors)), errors, columns, note=about)
    return Section("worst", "Worst errors", [table], lead=lead)


def _caption(files: EvaluationFiles, n: int) -> str:
    if files.kind == "continuous":
        return f"The {n} largest residuals of out-of-fold predictions."
    wrong, total = count_errors(files)
    how = " in most repeats" if files.predictions["repeat"].nunique() > 1 else ""
    return (
        f"The {n} most confident of the {wrong:,} mistakes{how} among {total:,} scans: the true class was given so "
        "little probability."
    )


ERRORS = SectionBuilder("errors", "Errors", order=90, build=_build, covers="errors")
WORST = SectionBuilder("worst", "Worst errors", order=100, build=_build_worst, covers="worst errors", of=("scans",))
