"""Learning curves: what more training scans would bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import chance_level, describe_metric, leading_metrics, number_text
from neurocontrast.reporting.style import (
    BASELINE,
    CHANCE,
    LINES,
    MAIN,
    MARKERS,
    PALETTE,
    Picture,
    legend_below,
    new_figure,
    plain_label,
    styled,
)
from neurocontrast.reporting.words import SCANS, Words

__all__ = ["draw_learning", "draw_learning_of_models", "learning_metrics", "tabulate_learning"]

_LOG_SPAN = 5.0


def learning_metrics(files: EvaluationFiles) -> list[str]:
    """Return the metrics that have a learning curve, the leading ones first, two of them at most."""
    curve = files.summary.get("learning_curve") or {}
    return leading_metrics(files.kind, curve.get("metrics") or {}, files.words)[:2]


def tabulate_learning(curve: Mapping[str, Any], metric: str) -> pd.DataFrame:
    """Return the means over draws and folds of embedding and baseline: ``model, n_train, mean, sd, n``."""
    parts = []
    for model, section in (("Embedding", "metrics"), ("Covariates only", "baseline")):
        points = (curve.get(section) or {}).get(metric) or []
        table = pd.DataFrame(points, columns=["n_train", "mean", "sd", "n"])
        parts.append(table.astype(float).assign(model=model))
    return pd.concat(parts, ignore_index=True).dropna(subset=["n_train", "mean"])


@styled
def draw_learning(files: EvaluationFiles, metric: str) -> Picture | None:
    """Draw a metric over the number of training scans; None where it was not computed."""
    rows = tabulate_learning(files.summary.get("learning_curve") or {}, metric)
    if rows.empty:
        return None
    figure, axes = new_figure(height=4.2)
    looks = {"Covariates only": (BASELINE, "D", "--", "////"), "Embedding": (MAIN, "o", "-", None)}
    for model, look in looks.items():
        _draw_curve(axes, rows[rows["model"] == model], model, *look)
    _finish(axes, rows, metric, len(files.classes), files.words)
    legend_below(figure, axes)
    about, units = describe_metric(metric, files.words), files.words.units
    draws = (files.summary.get("learning_curve") or {}).get("n_draws")
    how = f"{draws:g} random draws of each size from every training fold" if draws else "random draws of each size"
    return Picture(
        f"learning_{metric}",
        figure,
        alt=f"Learning curve: {about.label} over the number of training {units}. {_alt(rows, units)}",
        caption=(
            f"{about.label} {_where(files)} after training on so many {units} only: mean and one "
            f"SD over {how} (a spread, not a confidence interval)."
        ),
        numbers=rows[["model", "n_train", "mean", "sd", "n"]],
    )


@styled
def draw_learning_of_models(
    rows: pd.DataFrame, metric: str, *, names: Sequence[str], n_classes: int, words: Words = SCANS
) -> Picture | None:
    """Draw the learning curves of several models over each other.

    Parameters
    ----------
    rows : DataFrame
        ``model, metric, n_train, mean, sd``.
    metric : str
        Which one is drawn.
    names : sequence of str
        The models, the reference first.
    n_classes : int
        Classes of the target, for the chance level.
    words : Words
        What was evaluated.
    """
    rows = rows[(rows["metric"] == metric) & rows["mean"].notna()]
    if rows["model"].nunique() < 2:
        return None
    figure, axes = new_figure(height=4.6, width=7.2)
    for index, name in enumerate(names):
        part = rows[rows["model"] == name]
        color, marker = PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)]
        _draw_curve(axes, part, plain_label(name), color, marker, LINES[index % len(LINES)], None)
    _finish(axes, rows, metric, n_classes, words)
    label = describe_metric(metric, words).label
    legend_below(figure, axes)
    return Picture(
        f"learning_{metric}",
        figure,
        alt=f"Learning curves of {rows['model'].nunique()} models: {label}. {_alt(rows, words.units)}",
        caption=(
            f"{label} over the number of training {words.units}, in the same folds. Mean, "
            "and one SD over draws and folds (a spread, not a confidence interval)."
        ),
        numbers=rows.reset_index(drop=True),
    )


def _where(files: EvaluationFiles) -> str:
    return f"of the test {files.words.items}" if files.fixed else "in the test folds"


def _draw_curve(
    axes: Axes, rows: pd.DataFrame, label: str, color: str, marker: str, line: Any, hatch: str | None
) -> None:
    if rows.empty:
        return
    rows = rows.sort_values("n_train")
    spread = rows["sd"].fillna(0.0)
    look = {"facecolor": "none", "edgecolor": color, "hatch": hatch, "alpha": 0.28} if hatch else {"color": color}
    axes.fill_between(
        rows["n_train"], rows["mean"] - spread, rows["mean"] + spread, linewidth=0, **({"alpha": 0.15} | look)
    )
    axes.plot(
        rows["n_train"], rows["mean"], color=color, marker=marker, markersize=6, linestyle=line, linewidth=2,
        markerfacecolor="white" if hatch else color, label=label,
    )  # fmt: skip


def _finish(axes: Axes, rows: pd.DataFrame, metric: str, n_classes: int, words: Words) -> None:
    sizes = sorted(rows["n_train"].unique())
    if len(sizes) > 1 and sizes[-1] / max(sizes[0], 1) >= _LOG_SPAN:
        axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sizes if len(sizes) <= 8 else sizes[:: len(sizes) // 6]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    chance = chance_level(metric, n_classes, words)
    if chance is not None:
        axes.axhline(chance, color=CHANCE, linestyle=":", linewidth=1.3, label="Chance")
    axes.set(xlabel=f"Training {words.units} of the probe", ylabel=describe_metric(metric, words).label)


def _alt(rows: pd.DataFrame, units: str) -> str:
    parts = []
    for model, part in rows.groupby("model", sort=False):
        points = zip(part["n_train"], part["mean"], strict=True)
        parts.append(f"{model}: " + ", ".join(f"{n:.0f} {units} {number_text(mean, digits=2)}" for n, mean in points))
    return "; ".join(parts) + "."
