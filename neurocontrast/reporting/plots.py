"""Plots that several sections share: values with intervals beside a reference, and groups of points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from neurocontrast.evaluation.schema import Metric
from neurocontrast.reporting import style
from neurocontrast.reporting.wording import DASH, interval_text, number_text, point_estimate

MAX_VECTORS = 1500
"""More points than this are drawn as an image inside the figure."""

_MAX_LISTED, _MAX_POINTS, _MAX_GROUPS = 12, 3000, 12


@dataclass(frozen=True)
class Series:
    """Points of one look; the index of `rows` is the row of the plot of each point."""

    rows: pd.DataFrame
    label: str | None = None
    value: str = "value"
    color: str = style.MAIN
    marker: str = "o"
    filled: bool = True
    shift: float = 0.0

    @property
    def values(self) -> pd.Series:
        """The values."""
        return self.rows[self.value].astype(float)

    @property
    def ends(self) -> tuple[pd.Series, pd.Series]:
        """The ends of the intervals; NaN where there are none, and for ticks."""
        names = ("low", "high") if self.value == "value" else (f"{self.value}_low", f"{self.value}_high")
        ends = self.rows.reindex(columns=names).astype(float)
        return (ends[names[0]], ends[names[1]]) if self.marker != "|" else (ends[names[0]] * np.nan,) * 2


def tabulate_estimates(named: Iterable[tuple[str, Metric | None]]) -> pd.DataFrame:
    """Return the metrics that have a value as rows: their name, value, low and high."""
    rows = []
    for label, values in named:
        value = point_estimate(values)
        if value is not None:
            low, high = (values.interval if values else None) or (np.nan, np.nan)
            rows.append({"model": label, "value": value, "low": low, "high": high})
    return pd.DataFrame(rows, columns=["model", "value", "low", "high"]).astype({"low": float, "high": float})


def draw_rows(
    axes: Axes,
    series: Sequence[Series],
    labels: Sequence[str],
    *,
    xlabel: str,
    reference: tuple[float | None, str | None] = (None, None),
    limits: tuple[float | None, float | None] = (None, None),
    total: bool = False,
) -> None:
    """Draw values with intervals, a labelled row each; with `total`, a line sets the last row apart."""
    for one in series:
        (low, high), place = one.ends, one.rows.index + one.shift
        bounded = (high > low).to_numpy()
        axes.hlines(place[bounded], low[bounded], high[bounded], color=one.color, linewidth=2)
        tick = one.marker == "|"
        axes.plot(
            one.values, place, marker=one.marker, linestyle="none", color=one.color, label=one.label,
            markersize=15 if tick else 6.5, markeredgewidth=2 if tick else 1.5,
            markerfacecolor=one.color if one.filled else "white",
        )  # fmt: skip
    if reference[0] is not None:
        axes.axvline(reference[0], color=style.CHANCE, linestyle=":", linewidth=1.3, label=reference[1])
    defined = {row for one in series for row in one.rows.index[one.values.notna()]}
    for row in set(range(len(labels))) - defined:
        axes.annotate(
            "not defined (see table)", (0.02, row), xycoords=("axes fraction", "data"), va="center", fontsize=8.5,
            color=style.MUTED, style="italic", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip
    if total:
        axes.axhline(len(labels) - 1.5, color="#9aa5b1", linewidth=0.8)
    axes.set_yticks(range(len(labels)), labels)
    axes.set(ylim=(len(labels) - 0.4, -0.6), xlabel=xlabel)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.08)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    _bound(axes, series, [] if reference[0] is None else [reference[0]], limits)


def _bound(
    axes: Axes, series: Sequence[Series], marked: list[float], limits: tuple[float | None, float | None]
) -> None:
    """Keep the axis inside a metric's limits, and one far-out interval from squeezing all the others."""
    values = np.concatenate([marked, *(one.values for one in series)])
    widths = pd.concat([one.ends[1] - one.ends[0] for one in series]).dropna()
    values, typical = values[np.isfinite(values)], float(widths.median()) if len(widths) else 0.0
    low, high = axes.get_xlim()
    room = 1.5 * max(float(np.ptp(values)), typical) if len(values) else 0.0
    if room > 0:
        low, high = max(low, values.min() - room), min(high, values.max() + room)
    margin = 0.02 * (high - low)
    low = low if limits[0] is None else max(low, limits[0] - margin)
    high = high if limits[1] is None else min(high, limits[1] + margin)
    axes.set_xlim(low, high)


@style.styled
def draw_intervals(
    name: str,
    series: Sequence[Series],
    labels: Sequence[str],
    about: str,
    *,
    note: str = "",
    numbers: pd.DataFrame,
    sides: tuple[str, str] = ("", ""),
    **look: Any,
) -> style.Picture | None:
    """Return a figure of rows of values; None where there is no value.

    `about` begins the alternative text, which lists the values, and the caption, which `note` ends; `sides` are words
    above the left and the right end, and `look` is for `draw_rows`.
    """
    drawn = [one for one in series if one.values.notna().any()]
    if not drawn:
        return None
    figure, axes = style.new_figure(height=1.6 + (0.36 if len(labels) < 16 else 0.28) * len(labels))
    draw_rows(axes, drawn, labels, **look)
    for place, text, side in ((0.0, sides[0], "left"), (1.0, sides[1], "right")):
        axes.annotate(text, (place, 1.0), xycoords="axes fraction", ha=side, va="bottom", size=8.5, color=style.MUTED)
    style.legend_below(figure, axes, n_columns=1 if len(drawn) > 2 else 2)
    alt = f"{about} {_list_values(drawn, labels)}"
    return style.Picture(name, figure, alt=alt, caption=f"{about} {note}".strip(), numbers=numbers)


def _list_values(series: Sequence[Series], labels: Sequence[str]) -> str:
    """Return "site-01 (n=40): embedding 0.71 (0.60 to 0.80), chance 0.5; …" for an alternative text."""
    parts = []
    for place, label in enumerate(labels):
        values = []
        for one in series:
            if place in one.rows.index and pd.notna(one.values[place]):
                ends = interval_text((one.ends[0][place], one.ends[1][place]))
                text = f"{(one.label or '').lower()} {number_text(one.values[place])}".strip()
                values.append(text + ("" if ends == DASH else f" ({ends})"))
        parts.append(f"{label}: {', '.join(values) or 'not defined'}".replace("\\", ""))
    more = f"; and {len(parts) - _MAX_LISTED} more in the table" if len(parts) > _MAX_LISTED else ""
    return "; ".join(parts[:_MAX_LISTED]) + more + "."


def thin_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return as many rows as a reader can tell apart as points: chosen at random, the same every time."""
    if len(table) <= _MAX_POINTS:
        return table.reset_index(drop=True)
    chosen = np.random.default_rng(0).choice(len(table), _MAX_POINTS, replace=False)
    return table.iloc[np.sort(chosen)].reset_index(drop=True)


def about_thinning(n_shown: int, n_all: int, items: str) -> str:
    """Say that not all points are drawn, where that is so."""
    return f" {n_shown:,} of the {n_all:,} {items} are drawn, chosen at random." if n_shown < n_all else ""


def point_size(n_points: int) -> float:
    """Return the area of a marker: the more points, the smaller."""
    return float(np.clip(9000 / max(n_points, 1), 8, 34))


def draw_groups(axes: Axes, x: pd.Series, y: pd.Series, values: pd.Series, order: Sequence[str] = ()) -> list[str]:
    """Draw the rows of each value with its own colour and marker, the rare values together; return the labels."""
    counts = values.value_counts()
    names = [name for name in order if name in counts.index] or sorted(counts.index, key=str)
    if len(names) > _MAX_GROUPS:
        names = sorted(counts.index[: _MAX_GROUPS - 1], key=str)
    other = values.notna() & ~values.isin(names)
    groups = [(f"{len(counts) - len(names)} smaller ones", other, "#b0b7bf", "o")]
    for place, (name, label) in enumerate(zip(names, style.distinct_labels(names, length=22), strict=True)):
        look = style.look_of(place)
        groups.append((label, values == name, look["color"], look["marker"]))
    groups.append(("not stated", values.isna(), style.CHANCE, "x"))
    groups = [(f"{label} ({here.sum()})", here, color, marker) for label, here, color, marker in groups if here.any()]
    for label, here, color, marker in groups:
        edge: Any = {} if marker == "x" else {"edgecolor": "white"}
        axes.scatter(
            x[here], y[here], s=point_size(len(x)), marker=marker, facecolor=color, alpha=0.8, label=label,
            linewidth=1.0 if marker == "x" else 0.4 if len(x) <= MAX_VECTORS else 0.0,
            rasterized=len(x) > MAX_VECTORS, **edge,
        )  # fmt: skip
    # Markers of the legend are large enough to be seen, whatever the number of points.
    figure: Any = axes.figure
    style.legend_below(figure, axes, marker_scale=float(np.sqrt(34 / point_size(len(x)))))
    return [label for label, *_ in groups]
