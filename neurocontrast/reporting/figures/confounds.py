"""What else can be read off the embedding: site, age and sex, beside chance."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import describe_metric, interval_text, number_text
from neurocontrast.reporting.style import CHANCE, INK, MAIN, Picture, distinct_labels, legend_below, new_figure, styled

__all__ = ["confound_metrics", "draw_confounds", "draw_dependence"]

_ORDER = ("balanced_accuracy", "auc", "r2", "mae")


def confound_metrics(files: EvaluationFiles) -> list[str]:
    """Return the metrics of confounds.tsv that have a value, those of classes first."""
    if files.confounds is None:
        return []
    there = list(dict.fromkeys(files.confounds.loc[files.confounds["value"].notna(), "metric"]))
    return sorted(there, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))


@styled
def draw_confounds(files: EvaluationFiles, metric: str) -> Picture | None:
    """Draw how well each column is predicted from the embedding, over all scans and within classes."""
    if files.confounds is None:
        return None
    rows = files.confounds[(files.confounds["metric"] == metric) & files.confounds["value"].notna()]
    if rows.empty:
        return None
    rows = rows.reindex(columns=list(dict.fromkeys([*rows.columns, "within", "low", "high", "chance"])))
    rows = rows.assign(within=rows["within"].fillna("all"))
    place = {name: number for number, name in enumerate(dict.fromkeys(rows["column"]))}
    rows = rows.sort_values("column", key=lambda names: names.map(place), kind="stable", ignore_index=True)
    names = [_label(row) for row in rows.to_dict("records")]
    figure, axes = new_figure(height=1.5 + 0.34 * len(rows))
    _draw_rows(axes, rows)
    about = describe_metric(metric)
    axes.set_yticks(range(len(rows)), distinct_labels(names, length=30))
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlabel=about.label)
    axes.grid(axis="y", visible=False)
    legend_below(figure, axes)
    better = "Right" if about.higher_is_better else "Left"
    return Picture(
        f"confounds_{metric}",
        figure,
        alt=f"{about.label} of columns predicted from the embedding. {_alt(rows, names)}",
        caption=(
            f"{about.label} with which each column is predicted from the embedding, over all scans and within each "
            f"class. {better} of the chance mark: the embedding holds the column."
        ),
        numbers=rows,
    )


def _label(row: dict) -> str:
    return str(row["column"]) + (", all scans" if row["within"] == "all" else f", within {row['within']}")


def _draw_rows(axes: Axes, rows: pd.DataFrame) -> None:
    bounded = rows[rows["high"] > rows["low"]]
    axes.hlines(bounded.index, bounded["low"], bounded["high"], color=MAIN, linewidth=1.8)
    for inner, marker, label in ((False, "o", "All scans"), (True, "s", "Within one class")):
        part = rows[(rows["within"] != "all") == inner]
        if len(part):
            axes.plot(
                part["value"], part.index, marker=marker, linestyle="none", color=MAIN, markersize=6.5,
                markerfacecolor="white" if inner else MAIN, markeredgewidth=1.5, label=label,
            )  # fmt: skip
    known = rows[rows["chance"].notna()]
    if len(known):
        axes.plot(
            known["chance"], known.index, marker="|", linestyle="none", color=CHANCE, markersize=15, markeredgewidth=2,
            label="Chance",
        )  # fmt: skip


def _alt(rows: pd.DataFrame, names: list[str]) -> str:
    parts = []
    for name, row in zip(names, rows.to_dict("records"), strict=True):
        chance = f", chance {number_text(row['chance'], digits=2)}" if pd.notna(row["chance"]) else ""
        interval = interval_text((row["low"], row["high"]), digits=2)
        parts.append(f"{name}: {number_text(row['value'], digits=2)} ({interval}){chance}")
    return "; ".join(parts) + "."


@styled
def draw_dependence(files: EvaluationFiles) -> Picture | None:
    """Draw the normalised HSIC of the embedding with each column; None where it was not computed."""
    table = files.dependence
    if table is None or table["hsic"].notna().sum() == 0:
        return None
    rows = table[table["hsic"].notna()].sort_values("hsic", ascending=False, ignore_index=True)
    figure, axes = new_figure(height=1.3 + 0.34 * len(rows))
    axes.barh(rows.index, rows["hsic"], color="#cfe3f1", edgecolor=INK, height=0.62, linewidth=0.8)
    for position, row in enumerate(rows.to_dict("records")):
        p, end = (f" (p = {row['p']:.3g})" if pd.notna(row.get("p")) else ""), max(row["hsic"], 0.0)
        axes.annotate(
            f"{row['hsic']:.3f}{p}", (end, position), (4, 0), textcoords="offset points", va="center", size=9
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), distinct_labels(rows["column"], length=30))
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlabel="Normalised HSIC (0: independent, 1: one is the other)")
    axes.set_xlim(min(0.0, float(rows["hsic"].min())), max(float(rows["hsic"].max()) * 1.45, 0.01))
    axes.grid(axis="y", visible=False)
    words = "; ".join(f"{row['column']} {row['hsic']:.3f}" for row in rows.to_dict("records"))
    return Picture(
        "hsic",
        figure,
        alt=f"Normalised HSIC between the embedding and each column: {words}.",
        caption=(
            "Dependence of any form between the embedding and each column (HSIC, normalised as in centred kernel "
            "alignment), with the p-value of permuting the column."
        ),
        numbers=rows,
    )
