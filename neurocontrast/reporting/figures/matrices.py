"""Matrices of classes: the confusion matrix, how alike classes are; and histograms of nearest cosines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import PercentFormatter

from neurocontrast.reporting import style
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import DASH, number_text
from neurocontrast.reporting.predictions import count_confusion, count_text, name_rule, tested_rows

MAX_CELLS = 12
"""Classes up to which a matrix has figures in its cells."""

_MAX_NAMED, _MAX_BINS = 120, 40


def _draw_matrix(
    numbers: npt.NDArray[np.float64],
    names: Sequence[object],
    texts: Sequence[Sequence[str]],
    axis_names: tuple[str, str],
    **look: Any,
) -> tuple[Figure, AxesImage]:
    """Draw numbers as colours; with `texts` in the cells of few classes, and names beside not too many."""
    n_classes = len(numbers)
    side = float(np.clip(2.6 + 0.55 * min(n_classes, 7) + 0.1 * n_classes, 3.8, 10.6))
    figure, axes = style.new_figure(height=side * 0.94, width=side)
    drawn = axes.imshow(numbers, interpolation="none", **look)
    if n_classes <= MAX_CELLS:
        size = 10 if n_classes <= 3 else 8.5 if n_classes <= 6 else 6.5
        for row, column in np.ndindex(n_classes, n_classes):
            red, green, blue, _ = drawn.cmap(drawn.norm(np.nan_to_num(numbers[row, column])))
            dark = 0.3 * red + 0.6 * green + 0.1 * blue < 0.5
            axes.text(column, row, texts[row][column], ha="center", va="center", fontsize=size,
                      color="white" if dark else style.INK)  # fmt: skip
    labels = style.distinct_labels(names, length=16) if n_classes <= _MAX_NAMED else []
    size, turned = float(np.clip(40 * side / max(n_classes, 1), 4.5, 9)), n_classes > 4
    axes.set_xticks(range(len(labels)), labels, rotation=90 if turned else 0, fontsize=size)
    axes.set_yticks(range(len(labels)), labels, fontsize=size)
    axes.set(xlabel=axis_names[0], ylabel=axis_names[1])
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    return figure, drawn


@style.styled
def draw_confusion(files: EvaluationFiles) -> style.Picture:
    """Draw the confusion matrix; of many classes as shares in colour, without figures in the cells."""
    numbers, rule = count_confusion(files), name_rule(files)
    totals, many = numbers.sum(axis=1), len(numbers) > MAX_CELLS
    shares = numbers / np.where(totals > 0, totals, 1)[:, None]
    texts = [[f"{count_text(n)}\n{n / total:.0%}" if total else f"0\n{DASH}" for n in row]
             for row, total in zip(numbers, totals, strict=True)]  # fmt: skip
    # A square root shows the mistakes of each class, which are small beside what is right.
    look = {"norm": PowerNorm(0.5, vmin=0, vmax=1)} if many else {"vmin": 0, "vmax": 1.8}
    figure, drawn = _draw_matrix(shares, files.classes, texts, ("Predicted", "True"), cmap="Blues", **look)
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


def cosine_matrix(table: pd.DataFrame) -> pd.DataFrame:
    """Return ``similarity.tsv`` as classes × classes, in the order of the table."""
    names = [str(name) for name in table["class"].drop_duplicates()]
    square = table.assign(**{"class": table["class"].astype(str), "reference": table["reference"].astype(str)})
    return square.pivot(index="class", columns="reference", values="cosine").reindex(index=names, columns=names)


@style.styled
def draw_class_cosines(table: pd.DataFrame, *, items: str = "scans") -> style.Picture:
    """Draw the mean cosine of each class (rows, tested) with each (columns, trained): ``similarity.tsv``."""
    square = cosine_matrix(table)
    numbers, same = square.to_numpy(dtype=float), np.eye(len(square), dtype=bool)
    texts = [[number_text(value, digits=2) for value in row] for row in numbers]
    axis_names = ("Class in training", "Class in the test")
    figure, drawn = _draw_matrix(numbers, list(square.index), texts, axis_names, cmap="cividis")
    figure.colorbar(drawn, shrink=0.7, pad=0.02).set_label("Mean cosine")
    alt = "There is one class only."
    between = np.where(same, np.nan, numbers)
    if np.isfinite(between).any():
        row, column = (int(place) for place in np.unravel_index(np.nanargmax(between), between.shape))
        alt = (
            f"Within classes {np.nanmean(numbers[same]):.2f} on average, between them {np.nanmean(between):.2f}; most "
            f"alike are {square.index[row]} and {square.columns[column]}, {between[row, column]:.2f}."
        )
    return style.Picture(
        "similarity",
        figure,
        alt=f"Mean cosine of each class with each. {alt}",
        caption=f"Mean cosine of the features of each class's test {items} with each class's training {items}.",
        numbers=table,
    )


@style.styled
def draw_nearest_cosines(table: pd.DataFrame, *, items: str = "scans") -> style.Picture:
    """Draw histograms of the nearest cosine within the own class and outside: ``cosines.tsv``."""
    figure, axes = style.new_figure(height=3.6)
    used = table[table["n"] > 0] if (table["n"] > 0).any() else table
    width = max(1, len(used) // (2 * _MAX_BINS))  # of wide ranges fine bins would be a comb
    medians = {}
    for which, color, label in (
        ("noise", style.PALETTE[1], "Noise: nearest of another class"),
        ("target", style.MAIN, "Target: nearest of the own class"),
    ):
        part = table[table["neighbour"] == which].reset_index(drop=True)
        middle = int(np.searchsorted(part["n"].cumsum(), part["n"].sum() / 2))
        medians[which] = float(part["low"].iloc[middle] + part["high"].iloc[middle]) / 2
        bins = part.groupby(part.index // width).agg({"low": "first", "high": "last", "n": "sum"})
        edges = [*bins["low"], bins["high"].iloc[-1]]
        axes.stairs(bins["n"] / max(bins["n"].sum(), 1), edges, color=color, linewidth=1.4, label=label)
        axes.stairs(bins["n"] / max(bins["n"].sum(), 1), edges, fill=True, color=color, alpha=0.35)
        axes.axvline(medians[which], color=color, linestyle=":", linewidth=1.3)
    axes.set(xlabel=f"Cosine with the nearest of the training {items}", ylabel=f"Share of the test {items}")
    axes.set(xlim=(used["low"].min(), used["high"].max()), ylim=(0, None))
    style.legend_below(figure, axes, n_columns=1)
    return style.Picture(
        "cosines",
        figure,
        alt=f"Histograms of nearest cosines: median {medians['target']:.2f} with the own class, "
        f"{medians['noise']:.2f} with another.",
        caption=f"Cosine of the test {items} with the nearest training {items} of their own class and of any other; "
        "dotted: medians of the bins. Where the two overlap, neighbours do not tell the classes.",
        numbers=table,
    )
