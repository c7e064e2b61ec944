"""Values with intervals, one row each, beside a reference: the plot that most sections share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from neurocontrast.reporting.metrics import interval_text, number_text
from neurocontrast.reporting.style import CHANCE, MAIN, MUTED, Picture, legend_below, new_figure

__all__ = ["Series", "draw_intervals", "draw_rows", "list_values"]

_MAX_LISTED = 12


@dataclass(frozen=True)
class Series:
    """Points of one look; the index of `rows` says in which row of the plot each point stands."""

    rows: pd.DataFrame
    label: str | None = None
    value: str = "value"
    color: str = MAIN
    marker: str = "o"
    filled: bool = True
    shift: float = 0.0

    @property
    def values(self) -> pd.Series:
        """The values."""
        return self.rows[self.value].astype(float)

    @property
    def ends(self) -> tuple[pd.Series, pd.Series]:
        """The ends of the intervals; NaN where there are none."""
        names = ("low", "high") if self.value == "value" else (f"{self.value}_low", f"{self.value}_high")
        absent = pd.Series(np.nan, self.rows.index)
        return self.rows.get(names[0], absent).astype(float), self.rows.get(names[1], absent).astype(float)


def draw_rows(
    axes: Axes,
    series: Sequence[Series],
    labels: Sequence[str],
    *,
    xlabel: str,
    reference: tuple[float, str | None] | None = None,
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
    if reference is not None:
        axes.axvline(reference[0], color=CHANCE, linestyle=":", linewidth=1.3, label=reference[1])
    defined = {row for one in series for row in one.rows.index[one.values.notna()]}
    for row in set(range(len(labels))) - defined:
        axes.annotate(
            "not defined (see table)", (0.02, row), xycoords=("axes fraction", "data"), va="center", fontsize=8.5,
            color=MUTED, style="italic", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip
    if total:
        axes.axhline(len(labels) - 1.5, color="#9aa5b1", linewidth=0.8)
    axes.set_yticks(range(len(labels)), labels)
    axes.set(ylim=(len(labels) - 0.4, -0.6), xlabel=xlabel)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.08)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    _bound(axes, series, [] if reference is None else [reference[0]], limits)


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


def draw_intervals(
    name: str,
    series: Sequence[Series],
    labels: Sequence[str],
    *,
    alt: str,
    caption: str,
    numbers: pd.DataFrame,
    percent: bool = False,
    sides: tuple[str, str] = ("", ""),
    **look: Any,
) -> Picture:
    """Return a figure of rows of values; `sides` are words above its left and right end, `look` is for `draw_rows`."""
    figure, axes = new_figure(height=1.6 + (0.36 if len(labels) < 16 else 0.28) * len(labels))
    draw_rows(axes, series, labels, **look)
    if percent:
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    for place, text, side in ((0.0, sides[0], "left"), (1.0, sides[1], "right")):
        axes.annotate(text, (place, 1.0), xycoords="axes fraction", ha=side, va="bottom", fontsize=8.5, color=MUTED)
    legend_below(figure, axes, n_columns=1 if len(series) > 2 else 2)
    return Picture(name, figure, alt=alt, caption=caption, numbers=numbers)


def list_values(
    names: Iterable[object], rows: pd.DataFrame, *, value: str = "value", digits: int = 2, signed: bool = False
) -> str:
    """Return "name: 0.71 (0.60 to 0.80), n = 40; …" for an alternative text."""
    parts = []
    for name, row in zip(names, rows.to_dict("records"), strict=True):
        interval = interval_text((row.get("low"), row.get("high")), digits=digits, signed=signed)
        text = f"{name}: {number_text(row[value], digits=digits, signed=signed)} ({interval})"
        text += f", n = {row['n']:,.0f}" if pd.notna(row.get("n")) else ""
        text += f", chance {number_text(row['chance'], digits=digits)}" if pd.notna(row.get("chance")) else ""
        parts.append(text.replace("(–)", "(no interval)"))
    more = f"; and {len(parts) - _MAX_LISTED} more in the table" if len(parts) > _MAX_LISTED else ""
    return "; ".join(parts[:_MAX_LISTED]) + more + "."
