"""Figures of an experiment, as PNG, SVG and the drawn numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from neurocontrast.exceptions import DataError
from neurocontrast.files import atomic_path, write_table
from pipelines.natural.experiment import MEASURES, Experiment
from pipelines.natural.pairs import draw_cosines, draw_histograms, draw_operator

__all__ = ["draw_experiment", "read_metrics"]

# Okabe and Ito's palette without its yellow, which is too light on white.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7A5195")
_LOOK = {
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "axes.prop_cycle": matplotlib.cycler(color=_COLORS), "grid.color": "#e4e7eb", "legend.frameon": False,
    "axes.titlesize": 10, "legend.fontsize": 9, "svg.fonttype": "none", "svg.hashsalt": "neurocontrast",
    "text.parse_math": False,
}  # fmt: skip
_NOT_OVER_A_NUMBER = ("initial_loss", "final_loss", "minutes")

Drawn = Iterator[tuple[str, Figure, pd.DataFrame]]


@dataclass(frozen=True)
class _Results:
    """Everything that figures are drawn from."""

    root: Path
    experiment: Experiment
    values: pd.DataFrame
    summary: pd.DataFrame
    curves: pd.DataFrame

    def rows(self, measure: str, layer: str = "") -> pd.DataFrame:
        """Return the means of a measure as shown, with label and place in the series, in the order of the variants.

        Without a layer, rows are those of the experiment's first layer.
        """
        names = ["variant", "label", "series", "at"]
        variants = [
            (name, each.label, each.series, each.at)
            for name, each in self.experiment.variants.items()
        ]
        chosen = self.summary["layer"].isin(["", layer or self.experiment.layers[0]])
        found = self.summary[chosen & (self.summary["measure"] == measure)]
        rows = pd.DataFrame(variants, columns=names).merge(found, on="variant")
        rows[["mean", "low", "high"]] *= MEASURES[measure].scale
        return rows[np.isfinite(rows["mean"])].reset_index(drop=True)


def draw_experiment(
    root: Path,
    experiment: Experiment,
    values: pd.DataFrame,
    summary: pd.DataFrame,
    *,
    curves: pd.DataFrame,
) -> None:
    """Write the figures of an experiment to ``figures/``.

    Parameters
    ----------
    root : Path
        Folder of the experiment.
    experiment : Experiment
        The experiment that was run; `figures` names what is drawn.
    values, summary : DataFrame
        One row a seed, and the means over seeds.
    curves : DataFrame
        ``variant, epoch, mean, low, high``: accuracy on test images after each milestone.
    """
    results = _Results(root, experiment, values, summary, curves)
    with matplotlib.rc_context(_LOOK):
        for kind in experiment.figures:
            drawn = _KINDS[kind](results) if kind in _KINDS else _OF_PAIRS[kind](root, experiment)
            for name, figure, numbers in drawn:
                for ending, metadata in (("png", {}), ("svg", {"Date": None})):
                    with atomic_path(root / "figures" / f"{name}.{ending}") as temporary:
                        figure.savefig(temporary, format=ending, dpi=150, metadata=metadata)
                write_table(root / "figures" / f"{name}.tsv", numbers)


def read_metrics(path: Path) -> pd.DataFrame:
    """Return ``metrics.csv`` of a run, checked."""
    if not path.is_file():
        raise DataError(f"{path}: missing. Copy the run again.")
    metrics = pd.read_csv(path)
    if metrics.empty or not {"epoch", "train_loss", "seconds"} <= set(metrics.columns):
        raise DataError(
            f"{path}: must have rows with epoch, train_loss and seconds; it is damaged, or nothing was trained."
        )
    return metrics


def _new(height: float = 4.4) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.2, height), layout="constrained")
    return figure, figure.add_subplot()


def _draw_variants(results: _Results) -> Drawn:
    """Draw the mean of each variant with its interval; strokes are seeds, the dotted line is the reference."""
    experiment, values = results.experiment, results.values
    pairs = results.summary[["measure", "layer"]].drop_duplicates().itertuples(index=False)
    for measure, layer in pairs:
        about, rows = MEASURES[measure], results.rows(measure, layer)
        figure, axes = _new(1.5 + 0.42 * len(rows))
        for place, row in rows.iterrows():
            of_row = (
                (values["variant"] == row["variant"])
                & (values["measure"] == measure)
                & (values["layer"] == layer)
            )
            seeds = about.scale * values.loc[of_row, "value"]
            axes.plot(
                [row["low"], row["high"]], [place, place], color=_COLORS[place % 8], linewidth=2.2
            )
            axes.plot(row["mean"], place, marker="o", color=_COLORS[place % 8], markersize=7)
            axes.plot(seeds, [place + 0.24] * len(seeds), "|", color="black", markersize=7)
        for mean in rows.loc[rows["variant"] == experiment.reference, "mean"]:
            axes.axvline(mean, color="gray", linestyle=":")
        axes.set_yticks(rows.index, rows["label"])
        axes.set(
            ylim=(len(rows) - 0.4, -0.6), xlabel=about.axis, xlim=_within(axes.get_xlim(), measure)
        )
        axes.set_title(experiment.estimates)
        suffix = f"_{layer}" if layer and len(experiment.layers) > 1 else ""
        yield f"variants_{measure}{suffix}", figure, rows


def _draw_epochs(results: _Results) -> Drawn:
    """Draw the accuracy on test images after each milestone."""
    figure, axes = _new()
    for variant, rows in results.curves.groupby("variant", sort=False):
        (line,) = axes.plot(
            rows["epoch"], 100 * rows["mean"], marker="o", label=results.experiment.labels[variant]
        )
        axes.fill_between(
            rows["epoch"], 100 * rows["low"], 100 * rows["high"], color=line.get_color(), alpha=0.13
        )
    axes.set(
        xlabel="Epochs of pretraining",
        ylabel=MEASURES["accuracy"].axis,
        title=results.experiment.estimates,
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(loc="outside lower center", ncols=2)
    yield "epochs", figure, results.curves


def _draw_series(results: _Results) -> Drawn:
    """Draw each measure over the number `at`: one line a series, a level for each variant without a series."""
    for measure in [each for each in results.experiment.measures if each not in _NOT_OVER_A_NUMBER]:
        rows = results.rows(measure)
        ticks = sorted(rows["at"].dropna().unique())
        if not ticks:
            continue
        figure, axes = _new()
        for name, part in rows.groupby("series", sort=False):
            part = part.sort_values("at")
            reach = [
                (part["mean"] - part["low"]).fillna(0),
                (part["high"] - part["mean"]).fillna(0),
            ]
            axes.errorbar(part["at"], part["mean"], yerr=reach, capsize=3, marker="o", label=name)
        for place, row in rows[rows["series"].isna()].reset_index().iterrows():
            axes.axhline(
                row["mean"], color=_COLORS[-1 - place % 8], linestyle="--", label=row["label"]
            )
        least = next((tick for tick in ticks if tick > 0), np.inf)
        if ticks[0] >= 0 and ticks[-1] / least >= 10:  # a first place at 0 has one of its own
            axes.set_xscale("symlog", linthresh=least) if ticks[0] == 0 else axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        label = results.experiment.series_label or "Place in the series"
        axes.set(
            xlabel=label,
            ylabel=MEASURES[measure].axis,
            ylim=_within(axes.get_ylim(), measure),
            title=results.experiment.estimates,
        )
        figure.legend(loc="outside lower center", ncols=2)
        yield f"series_{measure}", figure, rows


def _draw_tradeoff(results: _Results) -> Drawn:
    """Draw accuracy against R² of the sensitive variables: one point a variant, a line through each series."""
    x, y = "sensitive_r2", "accuracy"
    rows = results.rows(x).merge(
        results.rows(y), on=["variant", "label", "series", "at"], suffixes=("_x", "_y")
    )
    if len(rows) < 2:
        return
    figure, axes = _new()
    for name, part in rows.groupby(rows["series"].fillna(rows["label"]), sort=False):
        part = part.sort_values("at")
        (line,) = axes.plot(part["mean_x"], part["mean_y"], marker="o", linewidth=1, label=name)
        for _, row in part.iterrows():
            axes.plot(
                [row["low_x"], row["high_x"]],
                [row["mean_y"]] * 2,
                color=line.get_color(),
                alpha=0.5,
            )
            axes.plot(
                [row["mean_x"]] * 2,
                [row["low_y"], row["high_y"]],
                color=line.get_color(),
                alpha=0.5,
            )
            if pd.notna(row["at"]):
                axes.annotate(
                    f"{row['at']:g}",
                    (row["mean_x"], row["mean_y"]),
                    (6, 6),
                    textcoords="offset points",
                )
    axes.set(
        xlabel=MEASURES[x].axis,
        xlim=_within(axes.get_xlim(), x),
        title=results.experiment.estimates,
    )
    axes.set(ylabel=MEASURES[y].axis, ylim=_within(axes.get_ylim(), y))
    figure.legend(loc="outside lower center", ncols=2)
    yield "tradeoff", figure, rows


_KINDS = {
    "variants": _draw_variants, "epochs": _draw_epochs, "series": _draw_series, "tradeoff": _draw_tradeoff,
}  # fmt: skip
_OF_PAIRS = {"cosines": draw_cosines, "histograms": draw_histograms, "operator": draw_operator}


def _within(limits: tuple[float, float], measure: str) -> tuple[float, float]:
    """Return the ends of an axis, not beyond the smallest and largest possible value."""
    return max(limits[0], MEASURES[measure].lowest), min(limits[1], MEASURES[measure].highest)
