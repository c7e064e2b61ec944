"""Section of calibration: do predicted probabilities agree with observed shares?"""

import pandas as pd

from neurocontrast.reporting import style
from neurocontrast.reporting.blocks import Section, pictures
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.texts import section


def show_calibration(files: EvaluationFolder) -> Section | None:
    """Return the section with each class's calibration plot; None without ``calibration.tsv``."""
    table = files.table("calibration", "model", "n", "mean_predicted", "observed")
    if table is None:
        return None
    calibrated = set(table["class"].dropna()) if "class" in table else {files.positive}
    shown = pictures(
        *(_draw_calibration(files, table, name) for name in files.classes if name in calibrated)
    )
    return section("calibration", shown) if shown else None


@style.styled
def _draw_calibration(
    files: EvaluationFolder, table: pd.DataFrame, name: str
) -> style.Picture | None:
    """Return a figure of the observed share of a class over its predicted probability.

    The shares are of bins of scans with similar probability. None for a class without bins.
    """
    rows = table[table["class"] == name] if "class" in table else table
    rows = rows.dropna(subset=["mean_predicted", "observed"]).reset_index(drop=True)
    if rows.empty:
        return None
    suffix = f"_{files.classes.index(name) + 1}" if files.kind == "multiclass" else ""
    label = style.plain_label(name, length=20)
    curves = []
    figure, axes = style.new_figure(height=style.WIDTH)
    axes.plot([0, 1], [0, 1], label="Perfectly calibrated", **style.CHANCE_LINE)
    for model, title, marker in (
        ("baseline", "Covariates only", "D"),
        ("embedding", "Embedding", "o"),
    ):
        bins = rows[rows["model"] == model].sort_values("mean_predicted")
        if bins.empty:
            continue
        x = bins["mean_predicted"]
        y = bins["observed"]
        look = style.MODEL_LINES[model]
        if {"observed_low", "observed_high"} <= set(bins):
            axes.vlines(
                x,
                bins["observed_low"],
                bins["observed_high"],
                color=look["color"],
                linewidth=1.4,
                alpha=0.75,
            )
        axes.plot(x, y, marker=marker, markersize=6, linewidth=1.7, label=title, **look)
        points = [
            f"{a:.2f} → {b:.2f} (n = {size:.0f})"
            for a, b, size in zip(x, y, bins["n"], strict=True)
        ]
        curves.append(f"{title}, predicted → observed: {', '.join(points)}")
    axes.set(xlabel=f"Predicted probability of “{label}”", ylabel=f"Observed share of “{label}”")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    style.legend_below(figure, axes, n_columns=1)
    return style.Picture(
        f"calibration{suffix}",
        figure,
        alt=f"Calibration of the probability of {name}. {'. '.join(curves)}.",
        caption=(
            f"Observed share of “{name}” among scans of alike predicted probability, with "
            f"{files.percent} intervals."
        ),
        numbers=rows,
    )


CALIBRATION = Finding(
    "calibration", show_calibration, kinds=("binary", "multiclass"), of=("scans",)
)
