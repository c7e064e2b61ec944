"""How well the site can be told, against how well the target can: one point a model, joined along a weight."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from neurocontrast.reporting.metrics import chance_level, describe_metric, interval_text, number_text
from neurocontrast.reporting.style import (
    CHANCE,
    INK,
    MAIN,
    MARKERS,
    MUTED,
    PALETTE,
    Picture,
    legend_below,
    new_figure,
    plain_label,
    styled,
)

__all__ = ["draw_tradeoff", "weight_label"]

_HEIGHT = 4.4
_TITLES = {"known": "Sites that were trained on", "unseen": "Sites that were left out"}
_PLACES = ((8, 5, "left"), (8, -13, "left"), (-8, 5, "right"), (-8, -13, "right"), (8, 17, "left"), (8, -25, "left"))
_BOX = (0.0125, 0.05)
"""Width of a letter and height of a line, as shares of the axes."""


def weight_label(row: dict[Any, Any]) -> str:
    """Return how a point of the curve is labelled: "fair = 0.3"."""
    return f"{str(row['weight_name']).split('.')[-1]} = {row['weight']:g}"


@styled
def draw_tradeoff(table: pd.DataFrame, where: str, *, n_classes: int, level: float) -> Picture | None:
    """Draw site against target at ``known`` or ``unseen`` sites; None with fewer than two models that have both."""
    rows = table.dropna(subset=["site_balanced_accuracy", where]).reset_index(drop=True)
    if len(rows) < 2:
        return None
    about = describe_metric(str(rows["metric"].iloc[0]))
    figure, axes = new_figure(height=_HEIGHT)
    on_curve = rows["weight"].notna()
    _draw_curve(axes, rows[on_curve], where)
    _draw_others(axes, rows[~on_curve], where)
    _draw_chance(axes, rows, where, chance_level(about.key, n_classes))
    axes.margins(0.09)
    _label_curve(axes, rows[on_curve], where)
    axes.set(xlabel="Balanced accuracy of the site, told from the embedding", ylabel=about.label)
    axes.set_title(_TITLES[where])
    corner = "upper left" if about.higher_is_better else "lower left"
    legend_below(figure, axes, n_columns=1)
    joined = (
        f" The line joins them in the order of {rows.loc[on_curve, 'weight_name'].iloc[0]}." if any(on_curve) else ""
    )
    return Picture(
        f"tradeoff_{where}",
        figure,
        alt=f"{about.label} at {where} sites against how well the site can be told. {_alt(rows, where)}",
        caption=(
            f"{_TITLES[where]}: {about.label} over how well the site is told from the embedding, one point a model, "
            f"with {level:.0%} intervals. Best is the {corner} corner.{joined}"
        ),
        numbers=rows[["model", "weight_name", "weight", "site_balanced_accuracy", "site_low", "site_high",
                      "site_chance", "metric", where, f"{where}_low", f"{where}_high"]],
    )  # fmt: skip


def _draw_point(axes: Axes, row: dict[Any, Any], where: str, color: str, marker: str, label: str | None) -> None:
    x, y = row["site_balanced_accuracy"], row[where]
    if row["site_high"] > row["site_low"]:
        axes.plot([row["site_low"], row["site_high"]], [y, y], color=color, linewidth=1.2, alpha=0.55)
    if row[f"{where}_high"] > row[f"{where}_low"]:
        axes.plot([x, x], [row[f"{where}_low"], row[f"{where}_high"]], color=color, linewidth=1.2, alpha=0.55)
    axes.plot(x, y, marker=marker, linestyle="none", color=color, markersize=7, label=label, zorder=3)


def _draw_curve(axes: Axes, rows: pd.DataFrame, where: str) -> None:
    """Draw the points of the weight; the line goes through the means of runs with the same weight."""
    if rows.empty:
        return
    means = rows.groupby("weight")[["site_balanced_accuracy", where]].mean().sort_index()
    axes.plot(means["site_balanced_accuracy"], means[where], color=MAIN, linewidth=1.8, zorder=2)
    for number, row in enumerate(rows.to_dict("records")):
        name = str(row["weight_name"])
        _draw_point(axes, row, where, MAIN, "o", f"By weight: {plain_label(name)}" if number == 0 else None)


def _draw_others(axes: Axes, rows: pd.DataFrame, where: str) -> None:
    for number, row in enumerate(rows.to_dict("records"), start=1):
        color, marker = PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)]
        _draw_point(axes, row, where, color, marker, plain_label(row["model"]))


def _draw_chance(axes: Axes, rows: pd.DataFrame, where: str, chance: float | None) -> None:
    known = rows["site_chance"].dropna()
    if len(known):
        axes.axvline(known.mean(), color=CHANCE, linestyle=":", linewidth=1.3, label="Chance: the site cannot be told")
    guess = rows["constant"].dropna() if where == "unseen" else pd.Series(dtype=float)
    value = chance if chance is not None else guess.mean() if len(guess) else None
    if value is not None:
        name = "Chance for the target" if chance is not None else "Constant guess of the target"
        axes.axhline(value, color=MUTED, linestyle=(0, (6, 3)), linewidth=1.1, label=name)


def _label_curve(axes: Axes, rows: pd.DataFrame, where: str) -> None:
    """Write each weight beside its point, where it hides no other label as far as can be told before layout."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    axes.set(xlim=(left, right), ylim=(low, high))
    taken: list[tuple[float, float, float, float]] = []
    for row in rows.sort_values("weight").to_dict("records"):
        text = weight_label(row)
        x = (row["site_balanced_accuracy"] - left) / (right - left)
        y = (row[where] - low) / (high - low)
        boxes = [(_box(x, y, place, len(text)), place) for place in _PLACES]
        box, (dx, dy, side) = next((each for each in boxes if _is_free(each[0], taken)), boxes[0])
        taken.append(box)
        axes.annotate(
            plain_label(text), (row["site_balanced_accuracy"], row[where]), (dx, dy), textcoords="offset points",
            fontsize=8.5, color=INK, ha=side, zorder=4,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8},
        )  # fmt: skip


def _box(x: float, y: float, place: tuple[int, int, str], length: int) -> tuple[float, float, float, float]:
    width, height = length * _BOX[0] * 1.3, _BOX[1]
    start = x + place[0] / 300 - (width if place[2] == "right" else 0)
    bottom = y + place[1] / 220
    return start, bottom, start + width, bottom + height


def _is_free(box: tuple[float, float, float, float], taken: list[tuple[float, float, float, float]]) -> bool:
    inside = box[0] >= 0 and box[2] <= 1 and box[1] >= 0 and box[3] <= 1
    return inside and not any(
        box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in taken
    )


def _alt(rows: pd.DataFrame, where: str) -> str:
    parts = []
    for row in rows.to_dict("records"):
        name = weight_label(row) if pd.notna(row["weight"]) else row["model"]
        site = f"{number_text(row['site_balanced_accuracy'], digits=2)}"
        value = number_text(row[where], digits=2)
        interval = interval_text((row[f"{where}_low"], row[f"{where}_high"]), digits=2)
        parts.append(f"{name}: site {site}, target {value} ({interval})")
    more = f"; and {len(parts) - 15} more in the table" if len(parts) > 15 else ""
    return "; ".join(parts[:15]) + more + "."
