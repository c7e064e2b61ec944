"""Curves over the number of training scans of the probe, and over the epochs of pretraining."""

from __future__ import annotations

import pandas as pd
from matplotlib.ticker import MaxNLocator, NullLocator, StrMethodFormatter

from neurocontrast.findings.folder import EvaluationFolder, Results
from neurocontrast.findings.learning.measure import LearningCurve
from neurocontrast.findings.prose import objective_text
from neurocontrast.page import style
from neurocontrast.page.blocks import Section, pictures
from neurocontrast.page.wording import Words, capitalise, leading_metrics, number_text

__all__ = ["draw_learning", "show_learning", "show_training"]

_MODELS = ("Embedding", "Covariates only", "Voxels", "Regional measures")


def show_learning(files: EvaluationFolder) -> Section | None:
    """Return the learning curves; None if none was asked for."""
    curve, words = files.summary.part(LearningCurve), files.words
    if curve is None or not curve.metrics:
        return None
    draws = f"{curve.n_draws} random draws" if curve.n_draws else "random draws"
    how = f"{draws} of each size from every training fold"
    shown = leading_metrics(files.kind, curve.metrics, words)[:2]
    drawn = [draw_learning(files, words, _tabulate(curve, metric), metric, how=how) for metric in shown]
    lead = (
        f"A curve that still gets better at its right end would gain from more labelled {words.items}; a flat one "
        "would not."
    )
    return Section("learning", "Learning curve", pictures(*drawn), lead=lead)


def _tabulate(curve: LearningCurve, metric: str) -> pd.DataFrame:
    """Return the means over draws and folds of every model: ``model, metric, n_train, mean, sd, n``."""
    parts = []
    for model, metrics in zip(_MODELS, (curve.metrics, curve.baseline, curve.voxels, curve.regional), strict=True):
        points = [vars(point) for point in metrics.get(metric, [])]
        table = pd.DataFrame(points, columns=["n_train", "mean", "sd", "n"])
        parts.append(table.astype(float).assign(model=model, metric=metric))
    return pd.concat(parts, ignore_index=True)


@style.styled
def draw_learning(files: Results, words: Words, rows: pd.DataFrame, metric: str, *, how: str) -> style.Picture | None:
    """Draw a metric of every model over the number of training scans; None without a learning curve.

    `rows` holds ``model, metric, n_train, mean, sd``; `how` says over what means and spreads are taken.
    """
    rows = rows[(rows["metric"] == metric) & rows["mean"].notna() & rows["n_train"].notna()]
    if rows.empty:
        return None
    figure, axes = style.new_figure(height=4.2)
    about, parts, chance = files.describe(metric), [], files.chance(metric)
    for place, (model, part) in enumerate(rows.groupby("model", sort=False)):
        part, look = part.sort_values("n_train"), style.look_of(place)
        low, high = (part["mean"] + sign * part["sd"].fillna(0.0) for sign in (-1, 1))
        axes.fill_between(part["n_train"], low, high, color=look["color"], alpha=0.12, linewidth=0)
        axes.plot(part["n_train"], part["mean"], linewidth=2, label=style.plain_label(model), **look)
        points = zip(part["n_train"], part["mean"], strict=True)
        parts.append(f"{model}: " + ", ".join(f"{n:.0f} {words.units} {number_text(m, digits=2)}" for n, m in points))
    axes.set_xscale("log")
    axes.set_xticks(sorted(rows["n_train"].unique()), minor=False)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    if chance is not None:
        axes.axhline(chance, color=style.CHANCE, linestyle=":", linewidth=1.3, label="Chance")
    axes.set(xlabel=f"Training {words.units} of the probe", ylabel=about.label)
    style.legend_below(figure, axes)
    what = f"{about.label} over the number of training {words.units}"
    return style.Picture(
        f"learning_{metric}",
        figure,
        alt=f"Learning curves: {what}. {'; '.join(parts)}.",
        caption=f"{what}: mean and one SD over {how} (a spread, not a confidence interval).",
        numbers=rows.reset_index(drop=True),
    )


def show_training(files: EvaluationFolder) -> Section | None:
    """Return the losses and ranks of pretraining by epoch; None if they are not known."""
    if files.training is None:
        return None
    drawn = pictures(*(_draw_training(files.training, ending) for ending in ("loss", "effective_rank")))
    lead = f"Objective: {objective_text(files.summary.objective)}. All that was logged is in training.tsv."
    return Section("training", "Pretraining", drawn, lead=lead) if drawn else None


@style.styled
def _draw_training(table: pd.DataFrame, ending: str) -> style.Picture | None:
    """Draw the logged quantities whose names end so over the epochs; None if none was logged."""
    table = table.dropna(axis="columns", how="all")
    columns = [name for name in map(str, table.select_dtypes("number").columns) if name.endswith(ending)]
    if not columns:
        return None
    # Several rows an epoch (one a step, one for validation) become one point.
    means, parts = table.groupby("epoch")[columns].mean() if "epoch" in table else table[columns], []
    figure, axes = style.new_figure(height=3.2)
    for place, name in enumerate(columns):
        values = means[name].dropna()
        axes.plot(values.index, values, markersize=4, label=style.plain_label(name), **style.look_of(place))
        parts.append(f"{name} from {values.iloc[0]:.3g} to {values.iloc[-1]:.3g}")
    axes.set(xlabel="Epoch", title=capitalise(ending.replace("_", " ")))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    style.legend_below(figure, axes)
    alt = f"{capitalise(ending.replace('_', ' '))} during pretraining: {'; '.join(parts)}."
    return style.Picture(f"training_{ending}", figure, alt=alt, caption="", numbers=means.reset_index())
