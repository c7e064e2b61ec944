"""The figures of an experiment of several losses over several seeds, from the files of its runs and evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from neurocontrast.config.experiments import Experiment
from neurocontrast.evaluation.seeds import mean_interval
from neurocontrast.exceptions import DataError
from neurocontrast.reporting.figures.experiments import (
    draw_epochs,
    draw_series,
    draw_tradeoff_of_variants,
    draw_variants,
)
from neurocontrast.reporting.figures.similarity import cosine_range, draw_class_cosines, draw_nearest_cosines
from neurocontrast.reporting.reading import read_table
from neurocontrast.reporting.style import Picture

__all__ = ["draw_experiment", "read_metrics"]

_PROBE = "probe_label_balanced_accuracy"
_NOT_DRAWN_AS_SERIES = ("initial_loss", "final_loss", "minutes")


def draw_experiment(
    root: Path, experiment: Experiment, values: pd.DataFrame, summary: pd.DataFrame, *, level: float
) -> list[Picture]:
    """Return the figures that an experiment asks for.

    Parameters
    ----------
    root : Path
        Folder of the experiment.
    experiment : Experiment
        What was run; ``figures`` says what is drawn.
    values, summary : DataFrame
        One row a seed, and what they say together.
    level : float
        Of the intervals.
    """
    labels, asked = experiment.labels, experiment.figures
    places = pd.DataFrame(
        [(name, each.series, each.at) for name, each in experiment.variants.items()],
        columns=["variant", "series", "at"],
    )
    first = summary[summary["layer"].isin(["", experiment.layers[0]])]
    measured = [measure for measure in experiment.measures if (summary["measure"] == measure).any()]
    pictures: list[Picture | None] = []
    if "variants" in asked:
        pictures += _draw_measures(experiment, measured, summary, values, level)
    if "epochs" in asked:
        pictures.append(draw_epochs(_read_curves(root, experiment, level), labels=labels, level=level))
    if "series" in asked:
        drawn = [measure for measure in measured if measure not in _NOT_DRAWN_AS_SERIES]
        axis = experiment.series_label
        pictures += [
            draw_series(first, measure=measure, places=places, labels=labels, axis=axis, level=level)
            for measure in drawn
        ]
    if "tradeoff" in asked:
        x, y = "sensitive_mse", "accuracy"
        pictures.append(draw_tradeoff_of_variants(first, x=x, y=y, places=places, labels=labels, level=level))
    if "classes" in asked:
        pictures += _draw_classes(root, experiment)
    if "cosines" in asked:
        pictures += _draw_cosines(root, experiment)
    return [picture for picture in pictures if picture is not None]


def _draw_measures(
    experiment: Experiment, measured: Sequence[str], summary: pd.DataFrame, values: pd.DataFrame, level: float
) -> list[Picture]:
    pictures = []
    for measure in measured:
        for layer in [layer for layer in ("", *experiment.layers) if _has(summary, measure, layer)]:
            suffix = f"_{layer}" if layer and len(experiment.layers) > 1 else ""
            part = (table[table["layer"] == layer] for table in (summary, values))
            pictures.append(
                draw_variants(*part, measure=measure, labels=experiment.labels, reference=experiment.reference,
                              name=f"variants_{measure}{suffix}", level=level)
            )  # fmt: skip
    return pictures


def _has(summary: pd.DataFrame, measure: str, layer: str) -> bool:
    return bool(((summary["measure"] == measure) & (summary["layer"] == layer)).any())


def _read_curves(root: Path, experiment: Experiment, level: float) -> pd.DataFrame:
    """Return the linear probe while training: ``variant, epoch, n, mean, low, high``."""
    rows = []
    for variant in experiment.variants:
        runs = [read_metrics(root / variant / f"seed-{seed}" / "run" / "metrics.csv") for seed in experiment.seeds]
        known = pd.concat([run.reindex(columns=["epoch", _PROBE]).dropna() for run in runs])
        for epoch in sorted(known["epoch"].unique()):
            values = known.loc[known["epoch"] == epoch, _PROBE]
            rows.append((variant, int(epoch), len(values), *mean_interval(values, level=level)))
    return pd.DataFrame(rows, columns=["variant", "epoch", "n", "mean", "low", "high"])


def read_metrics(path: Path) -> pd.DataFrame:
    """Return ``metrics.csv`` of a run, checked."""
    if not path.is_file():
        raise DataError(f"{path}: missing; the run has no csv logger. Give training.loggers: [csv] and run it again.")
    metrics = pd.read_csv(path)
    if metrics.empty or not {"epoch", "train_loss", "seconds"} <= set(metrics.columns):
        raise DataError(
            f"{path}: must have rows with epoch, train_loss and seconds; it is damaged, or nothing was trained."
        )
    return metrics


def _draw_classes(root: Path, experiment: Experiment) -> list[Picture]:
    """Draw the mean over seeds of each variant's class cosines, in the same colours for all variants."""
    means: dict[str, pd.DataFrame] = {}
    for variant in experiment.variants:
        tables = _read_tables(root, experiment, variant, "similarity.tsv", ("class", "reference", "cosine"))
        means[variant] = (
            pd.concat(tables).groupby(["class", "reference"], sort=False, as_index=False)[["cosine"]].mean()
        )
    numbers = np.concatenate([table["cosine"].to_numpy(dtype=float) for table in means.values()])
    limits = (float(np.nanmin(numbers)), float(np.nanmax(numbers)))
    return [
        draw_class_cosines(
            table, name=f"classes_{variant}", title=experiment.labels[variant], items="images", limits=limits
        )
        for variant, table in means.items()
    ]


def _draw_cosines(root: Path, experiment: Experiment) -> list[Picture]:
    """Draw the nearest cosines of all seeds of each variant together, over the same range for all variants."""
    pooled: dict[str, pd.DataFrame] = {}
    for variant in experiment.variants:
        tables = _read_tables(root, experiment, variant, "cosines.tsv", ("neighbour", "low", "high", "n"))
        pooled[variant] = (
            pd.concat(tables).groupby(["neighbour", "low", "high"], sort=False, as_index=False)[["n"]].sum()
        )
    limits = cosine_range(pd.concat(pooled.values()))
    labels = experiment.labels
    return [
        draw_nearest_cosines(table, name=f"cosines_{variant}", title=labels[variant], items="images", limits=limits)
        for variant, table in pooled.items()
    ]


def _read_tables(
    root: Path, experiment: Experiment, variant: str, file: str, columns: tuple[str, ...]
) -> list[pd.DataFrame]:
    """Return a table of every seed, from the layer nearest to the loss."""
    layer = "head" if "head" in experiment.layers else experiment.layers[0]
    tables = []
    for seed in experiment.seeds:
        path = root / variant / f"seed-{seed}" / layer / file
        table = read_table(path, columns, continuous=False)
        if table is None:
            raise DataError(
                f"{path}: absent or empty. Set evaluation.similarity to true in the recipe, and evaluate again."
            )
        tables.append(table)
    return tables
