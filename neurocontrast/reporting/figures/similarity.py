"""How alike the classes are: a heat map of mean cosines, and histograms of the nearest neighbours' cosines."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes

from neurocontrast.reporting.metrics import number_text
from neurocontrast.reporting.style import (
    CHANCE,
    INK,
    MAIN,
    PALETTE,
    Picture,
    distinct_labels,
    legend_below,
    new_figure,
    styled,
)

__all__ = ["cosine_matrix", "draw_class_cosines", "draw_nearest_cosines"]

MAX_CELLS, MAX_NAMED = 12, 60
"""Classes up to which cells have figures, and up to which axes have names."""
MAX_BINS = 40
"""About as many bins are drawn."""


def cosine_matrix(table: pd.DataFrame) -> pd.DataFrame:
    """Return ``similarity.tsv`` as classes × classes, in the order of the table."""
    names = [str(name) for name in table["class"].drop_duplicates()]
    square = table.assign(**{"class": table["class"].astype(str), "reference": table["reference"].astype(str)})
    return square.pivot(index="class", columns="reference", values="cosine").reindex(index=names, columns=names)


@styled
def draw_class_cosines(table: pd.DataFrame, *, items: str = "scans") -> Picture:
    """Draw the mean cosine of each class (rows, tested) with each (columns, trained).

    Parameters
    ----------
    table : DataFrame
        ``class, reference, cosine``: ``similarity.tsv``.
    items : str
        What the rows are: scans or images.
    """
    square = cosine_matrix(table)
    numbers = square.to_numpy(dtype=float)
    n_classes = len(square)
    side = float(np.clip(2.4 + 0.34 * n_classes, 3.6, 8.0))
    figure, axes = new_figure(height=side * 0.9, width=side + 0.6)
    known = numbers[np.isfinite(numbers)]
    low, high = known.min(initial=1.0), known.max(initial=-1.0)
    drawn = axes.imshow(numbers, cmap="cividis", vmin=low, vmax=max(high, low + 1e-6), interpolation="none")
    _write_cells(axes, square, (low + high) / 2)
    axes.set(xlabel="Class in training", ylabel="Class in the test")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    figure.colorbar(drawn, ax=axes, shrink=0.7, pad=0.02).set_label("Mean cosine")
    return Picture(
        "similarity",
        figure,
        alt=f"Mean cosine of each class with each. {_alt(square)}",
        caption=f"Mean cosine of the features of each class's test {items} with each class's training {items}.",
        numbers=table[[column for column in ("class", "reference", "cosine", "n_pairs") if column in table]],
    )


def _write_cells(axes: Axes, square: pd.DataFrame, middle: float) -> None:
    """Write figures into the cells of few classes, and names beside the axes of not too many."""
    numbers, n_classes = square.to_numpy(dtype=float), len(square)
    if n_classes <= MAX_CELLS:
        for row, column in np.ndindex(n_classes, n_classes):
            dark = np.nan_to_num(numbers[row, column], nan=middle - 1) < middle
            axes.text(column, row, number_text(numbers[row, column], digits=2), ha="center", va="center",
                      fontsize=7 if n_classes <= 10 else 6, color="white" if dark else INK)  # fmt: skip
    if n_classes <= MAX_NAMED:
        labels = distinct_labels(square.index, length=14)
        size = float(np.clip(9 - 0.08 * n_classes, 4.5, 9))
        axes.set_xticks(range(n_classes), labels, rotation=90, fontsize=size)
        axes.set_yticks(range(n_classes), labels, fontsize=size)


@styled
def draw_nearest_cosines(table: pd.DataFrame, *, items: str = "scans") -> Picture:
    """Draw histograms of the nearest cosine within the own class (target) and outside of it (noise).

    Parameters
    ----------
    table : DataFrame
        ``neighbour, low, high, n``: ``cosines.tsv``.
    items : str
        What the rows are: scans or images.
    """
    figure, axes = new_figure(height=3.6)
    low, high = _cosine_range(table)
    n_bins = ((table["neighbour"] == "target") & (table["high"] > low) & (table["low"] < high)).sum()
    width = max(1, int(n_bins) // MAX_BINS)
    medians = {which: _median(table[table["neighbour"] == which]) for which in ("target", "noise")}
    for which, color, label in (
        ("noise", PALETTE[1], "Noise: nearest of another class"),
        ("target", MAIN, "Target: nearest of the own class"),
    ):
        part = _coarser(table[table["neighbour"] == which], width)
        share = part["n"] / max(part["n"].sum(), 1)
        edges = [*part["low"], part["high"].iloc[-1]]
        axes.stairs(share, edges, fill=True, color=color, alpha=0.35)
        axes.stairs(share, edges, color=color, linewidth=1.4, label=label)
        axes.axvline(medians[which], color=color, linestyle=":", linewidth=1.3)
    axes.set(xlabel=f"Cosine with the nearest of the training {items}", ylabel=f"Share of the test {items}")
    axes.set_xlim(low - 0.05 * (high - low), min(high + 0.05 * (high - low), 1.0 + 0.01 * (high - low)))
    axes.set_ylim(bottom=0)
    axes.axhline(0, color=CHANCE, linewidth=0.8)
    legend_below(figure, axes, n_columns=1)
    return Picture(
        "cosines",
        figure,
        alt=f"Histograms of nearest cosines: median {medians['target']:.2f} with the own class, "
        f"{medians['noise']:.2f} with another.",
        caption=f"Cosine of the test {items} with the nearest training {items} of their own class and of any other; "
        "dotted: medians of the bins. Where the two overlap, neighbours do not tell the classes.",
        numbers=table,
    )


def _cosine_range(table: pd.DataFrame) -> tuple[float, float]:
    """Return the ends of the bins that hold something; all bins' where none does."""
    used = table[table["n"] > 0] if (table["n"] > 0).any() else table
    return float(used["low"].min()), float(used["high"].max())


def _coarser(part: pd.DataFrame, width: int) -> pd.DataFrame:
    """Return a histogram with so many bins in one: of wide ranges fine bins would be a comb."""
    group = np.arange(len(part)) // width
    return part.groupby(group).agg({"low": "first", "high": "last", "n": "sum"})


def _median(part: pd.DataFrame) -> float:
    """Return the middle of the bin that holds the median."""
    below = part["n"].cumsum().to_numpy(dtype=float)
    row = int(np.searchsorted(below, below[-1] / 2)) if len(part) else 0
    return float((part["low"].iloc[row] + part["high"].iloc[row]) / 2)


def _alt(square: pd.DataFrame) -> str:
    numbers: npt.NDArray[np.float64] = square.to_numpy(dtype=float)
    same = np.eye(len(square), dtype=bool)
    if len(square) < 2 or np.isnan(numbers[~same]).all():
        return "There is one class only."
    between = np.where(same, np.nan, numbers)
    row, column = (int(place) for place in np.unravel_index(np.nanargmax(between), between.shape))
    return (
        f"Within classes {np.nanmean(numbers[same]):.2f} on average, between them {np.nanmean(between):.2f}; most "
        f"alike are {square.index[row]} and {square.columns[column]}, {between[row, column]:.2f}."
    )
