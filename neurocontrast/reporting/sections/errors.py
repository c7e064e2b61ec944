"""Section of errors: the confusion matrix of classes, or predicted against true values."""

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.colors import PowerNorm
from sklearn.metrics import ConfusionMatrixDisplay

from neurocontrast.reporting import style
from neurocontrast.reporting.blocks import Section, pictures
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.naming import name_threshold
from neurocontrast.reporting.predictions import pool_repeats, tested_rows
from neurocontrast.reporting.privacy import OLDEST_SHOWN
from neurocontrast.reporting.result_tables import ResultTables
from neurocontrast.reporting.style import about_thinning, draw_groups, thin_rows
from neurocontrast.reporting.wording import number_text, point_estimate

_MAX_CELLS = 12
"""Most classes for which the confusion matrix has numbers in its cells."""
_MAX_NAMED = 120
"""Most classes for which the confusion matrix has names at its axes."""


def show_errors(files: EvaluationFolder) -> Section:
    """Return the section with the confusion matrix, or a plot of predicted against true values.

    The plot is for a continuous target.
    """
    if files.kind == "continuous":
        return Section("errors", "Predicted and true values", pictures(draw_predicted(files)))
    wide = len(files.classes) > _MAX_CELLS
    return Section("errors", "What is taken for what", pictures(draw_confusion(files), wide=wide))


def count_confusion(files: ResultTables) -> npt.NDArray[np.float64]:
    """Return counts of scans by true (rows) and predicted class (columns), means over repeats."""
    tested = tested_rows(files)
    counts = pd.crosstab(tested["y_true"], tested["y_pred"])
    square = counts.reindex(index=files.classes, columns=files.classes, fill_value=0)
    return square.to_numpy(dtype=float) / max(tested["repeat"].nunique(), 1)


def _count_text(n: float) -> str:
    """Return a count as text: "12", or "12.5" for a mean over repeats."""
    return f"{n:.1f}".removesuffix(".0")


@style.styled
def draw_confusion(files: ResultTables) -> style.Picture:
    """Return a figure of the confusion matrix of predicted and true classes.

    With many classes, cells have shares in colour and no numbers.
    """
    numbers = count_confusion(files)
    rule = name_threshold(files)
    n_classes = len(files.classes)
    totals = numbers.sum(axis=1)
    many = n_classes > _MAX_CELLS
    shares = numbers / np.where(totals > 0, totals, 1)[:, None]
    side = float(np.clip(2.6 + 0.55 * min(n_classes, 7) + 0.1 * n_classes, 3.8, 10.6))
    figure, axes = style.new_figure(height=side * 0.94, width=side)
    shown = ConfusionMatrixDisplay(
        shares, display_labels=style.distinct_labels(files.classes, length=16)
    )
    # A square root shows the mistakes of each class, which are small beside what is right.
    shown.plot(
        ax=axes,
        include_values=not many,
        values_format=".0%",
        cmap="Blues",
        colorbar=many,
        xticks_rotation="vertical" if n_classes > 4 else "horizontal",
        im_kw={"norm": PowerNorm(0.5 if many else 1.0, vmin=0, vmax=1)},
        text_kw={"fontsize": 10 if n_classes < 7 else 7},
    )
    axes.tick_params(length=0, labelsize=float(np.clip(40 * side / n_classes, 4.5, 9)))
    axes.set(xlabel="Predicted", ylabel="True")
    axes.grid(visible=False)
    if n_classes > _MAX_NAMED:
        axes.set(xticks=[], yticks=[])
    n_repeats = tested_rows(files)["repeat"].nunique()
    predicted = "test" if files.fixed else "out-of-fold"
    cells = f"shares of each true class of the {predicted} {files.words.items}"
    if n_repeats > 1:
        cells += f", means over {n_repeats} repeats"
    right = [
        f"{_count_text(numbers[row, row])} of {_count_text(totals[row])} {files.classes[row]} right"
        for row in np.argsort(-shares.diagonal(), kind="stable")
    ]
    alt = "; ".join(right)
    if many:
        cells += ", darker by the square root"
        alt = f"Right most often: {'; '.join(right[:3])}. Least often: {'; '.join(right[-3:])}"
    else:
        for label, n in zip(shown.text_.flat, numbers.flat, strict=True):
            label.set_text(f"{_count_text(n)}\n{label.get_text()}")
        cells += ", under their number"
    counts = (
        pd.DataFrame(numbers, index=files.classes, columns=files.classes)
        .rename_axis("true")
        .reset_index()
    )
    return style.Picture(
        f"{files.prefix}confusion",
        figure,
        alt=f"{files.opening}Confusion matrix {rule}, {n_classes} classes: {alt}.",
        caption=f"{files.opening}Confusion matrix {rule}: {cells}.",
        numbers=counts.melt(id_vars="true", var_name="predicted", value_name="n"),
    )


@style.styled
def draw_predicted(files: ResultTables) -> style.Picture:
    """Return a scatter plot of predicted against true values of the target, with the linear trend.

    Points are coloured by site.
    """
    pooled = pool_repeats(files)
    target = style.plain_label(files.target)
    items = files.words.items
    everyone = pd.DataFrame(
        {"site": pooled.get("site", "all"), "true": pooled["y_true"].astype(float)}
    )
    everyone = everyone.assign(predicted=pooled["y_score"].astype(float)).dropna(
        subset=["true", "predicted"]
    )
    everyone = everyone.reset_index(drop=True)
    true = everyone["true"]
    rough = files.target == "age" and not files.show_ids
    if rough:
        everyone = everyone.assign(true=true.round().clip(upper=OLDEST_SHOWN))
    rows = thin_rows(everyone)
    ends = np.quantile(everyone["true"], [0, 1])
    figure, axes = style.new_figure(height=style.WIDTH + 0.1 * min(rows["site"].nunique(), 12))
    axes.plot(
        ends, ends, label="Perfect prediction", color=style.CHANCE, linestyle="--", linewidth=1.4
    )
    prediction = "Prediction" if files.fixed else "Out-of-fold prediction"
    mae = number_text(point_estimate(files.metrics.get("mae")), digits=2)
    r2 = number_text(point_estimate(files.metrics.get("r2")), digits=2)
    summary = f"{prediction} of {files.target} against the truth."
    summary += f" Mean absolute error {mae}, R² {r2}."
    if true.nunique() > 2:
        slope, intercept = np.polyfit(true, everyone["predicted"], 1)
        shown = f"slope {number_text(slope, digits=2)}"
        axes.plot(
            ends, intercept + slope * ends, color=style.INK, linewidth=1.8, label=f"Trend: {shown}"
        )
        summary += f" The fitted trend has {shown}."
    draw_groups(axes, rows["true"], rows["predicted"], rows["site"])
    axes.set(xlabel=f"True {target}", ylabel=f"Predicted {target}")
    more = (
        f" One point for each of the {items} (averaged over repeats, if any). A slope below 1 "
        "means that low values are overestimated and high ones underestimated, as every shrunken "
        "prediction does; no residual is a “gap” before that is corrected."
    )
    if rough:
        more += f" True ages are drawn in whole years, {OLDEST_SHOWN} and more at {OLDEST_SHOWN}."
    return style.Picture(
        f"{files.prefix}predicted_true",
        figure,
        alt=f"{files.opening}{summary} Scatter of {len(everyone)} {items}.",
        caption=files.opening + summary + more + about_thinning(len(rows), len(everyone), items),
        numbers=everyone,
    )


ERRORS = Finding("errors", show_errors)
