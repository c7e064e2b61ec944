"""Forest plots: one row a site or a group of people, with its interval and its number of scans."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import chance_level, describe_metric, interval_text, number_text, point_estimate
from neurocontrast.reporting.strata import Strata
from neurocontrast.reporting.style import (
    BASELINE,
    CHANCE,
    INK,
    MAIN,
    MUTED,
    Picture,
    distinct_labels,
    legend_below,
    new_figure,
    styled,
)

__all__ = ["draw_forest"]


@styled
def draw_forest(files: EvaluationFiles, strata: Strata, metric: str) -> Picture | None:
    """Draw a metric by site or group; None where it is defined nowhere."""
    if metric not in strata.table or strata.table[metric].notna().sum() == 0:
        return None
    rows = _rows(strata, metric)
    figure, axes = new_figure(height=1.9 + 0.27 * (len(rows) + 1))
    _draw_parts(axes, rows)
    _draw_total(axes, files, metric, position=len(rows))
    about = describe_metric(metric)
    chance = chance_level(metric, len(files.classes))
    if chance is not None:
        axes.axvline(chance, color=CHANCE, linestyle=":", linewidth=1.3, label="Chance")
    names = distinct_labels(rows[strata.column], length=24)
    labels = [f"{name} (n={n:.0f})" for name, n in zip(names, rows["n"], strict=True)]
    axes.set_yticks(range(len(rows) + 1), [*labels, strata.total])
    axes.set(ylim=(len(rows) + 0.6, -0.6), xlabel=about.label)
    axes.axhline(len(rows) - 0.5, color="#9aa5b1", linewidth=0.8)
    axes.grid(axis="y", visible=False)
    _bound(axes, rows, about.limits)
    legend_below(figure, axes)
    return Picture(
        f"{strata.name}_{metric}",
        figure,
        alt=_alt(rows, metric, strata),
        caption=(
            f"{about.label} {strata.where}, with {files.level:.0%} bootstrap intervals. "
            "Small groups scatter widely by chance alone: read the interval, not the point."
        ),
        numbers=rows,
    )


def _rows(strata: Strata, metric: str) -> pd.DataFrame:
    table, column = strata.table, strata.column
    rows = pd.DataFrame({column: table[column].fillna("not stated"), "n": table["n"]})
    for name, source in (
        ("value", metric), ("low", f"{metric}_low"), ("high", f"{metric}_high"), ("baseline", f"baseline_{metric}"),
    ):  # fmt: skip
        rows[name] = table[source].astype(float) if source in table else float("nan")
    rows["note"] = table["note"].fillna("") if "note" in table else ""
    if not strata.by_size:
        return rows.reset_index(drop=True)
    # Largest first: the rows with the narrowest intervals are met first.
    return rows.sort_values(["n", column], ascending=[False, True], ignore_index=True)


def _draw_parts(axes: Axes, rows: pd.DataFrame) -> None:
    there = rows[rows["value"].notna()]
    bounded = there[there["high"] > there["low"]]
    axes.hlines(bounded.index, bounded["low"], bounded["high"], color=MAIN, linewidth=1.8)
    axes.plot(there["value"], there.index, marker="o", linestyle="none", color=MAIN, markersize=6, label="Embedding")
    beside = rows[rows["baseline"].notna()]
    if len(beside):
        axes.plot(
            beside["baseline"], beside.index, marker="D", linestyle="none", markerfacecolor="none",
            markeredgecolor=BASELINE, markersize=6, markeredgewidth=1.4, label="Covariates only",
        )  # fmt: skip
    for position in rows.index[rows["value"].isna()]:
        axes.annotate(
            "not defined (see table)", (0.02, position), xycoords=("axes fraction", "data"), va="center", fontsize=8.5,
            color=MUTED, style="italic", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip


def _draw_total(axes: Axes, files: EvaluationFiles, metric: str, *, position: int) -> None:
    values = files.metrics.get(metric) or {}
    value, interval = point_estimate(values), values.get("interval")
    if value is None:
        return
    if interval:
        axes.plot(interval, [position, position], color=INK, linewidth=2.4)
    axes.plot(value, position, marker="s", linestyle="none", color=INK, markersize=7)
    baseline = point_estimate(files.baseline.get(metric))
    if baseline is not None:
        axes.plot(
            baseline, position, marker="D", linestyle="none", markerfacecolor="none", markeredgecolor=BASELINE,
            markersize=6, markeredgewidth=1.4,
        )  # fmt: skip


def _bound(axes: Axes, rows: pd.DataFrame, limits: tuple[float | None, float | None]) -> None:
    """Keep a ratio's axis inside its limits, and one far-out interval from squeezing all the others."""
    low, high = axes.get_xlim()
    if limits[0] is not None:
        low = max(low, limits[0] - 0.02 * (high - low))
    if limits[1] is not None:
        high = min(high, limits[1] + 0.02 * (high - low))
    values = pd.concat([rows["value"], rows["baseline"]]).dropna()
    if limits[0] is None and len(values) > 2:
        low = max(low, float(values.quantile(0.1)) - 4 * max(high - float(values.quantile(0.1)), 0.1))
    axes.set_xlim(low, high)


def _alt(rows: pd.DataFrame, metric: str, strata: Strata) -> str:
    parts = []
    for row in rows.to_dict("records"):
        value = number_text(row["value"], digits=2)
        interval = interval_text((row["low"], row["high"]), digits=2)
        parts.append(f"{row[strata.column]}: {value} ({interval}), n = {row['n']:.0f}")
    shown = "; ".join(parts[:12]) + (f"; and {len(parts) - 12} more in the table" if len(parts) > 12 else "")
    return f"{describe_metric(metric).label} {strata.where}. {shown}."
