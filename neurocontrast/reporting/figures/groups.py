"""Points in groups that a reader can tell apart without colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from neurocontrast.reporting.style import CHANCE, MARKERS, PALETTE, distinct_labels

__all__ = [
    "MAX_POINTS_AS_VECTORS",
    "Group",
    "draw_groups",
    "group_rows",
    "marker_scale",
    "point_size",
    "thin_rows",
    "thinning_text",
]

MAX_POINTS_AS_VECTORS = 1500
_MAX_POINTS = 3000


@dataclass(frozen=True)
class Group:
    """The rows that share a colour and a marker."""

    label: str
    rows: np.ndarray
    color: str
    marker: str


def group_rows(values: pd.Series, *, order: Sequence[str] | None = None, limit: int = 12) -> list[Group]:
    """Return the groups of a categorical column, the largest first.

    Beyond `limit` groups the small ones are drawn as one, since nobody tells thirty markers
    apart. Rows without a value are a group of their own.
    """
    counts = values.value_counts()
    names = [name for name in order if name in counts.index] if order else sorted(counts.index, key=str)
    if len(names) > limit:
        names = sorted(counts.index[: limit - 1], key=str)
    labels = distinct_labels(names, length=22)
    groups = [
        Group(
            f"{labels[index]} ({counts[name]})",
            np.flatnonzero((values == name).to_numpy()),
            PALETTE[index % len(PALETTE)],
            MARKERS[index % len(MARKERS)],
        )
        for index, name in enumerate(names)
    ]
    other = np.flatnonzero((values.notna() & ~values.isin(names)).to_numpy())
    if len(other):
        label = f"{len(counts) - len(names)} smaller ones ({len(other)})"
        groups.insert(0, Group(label, other, "#b0b7bf", "."))
    missing = np.flatnonzero(values.isna().to_numpy())
    if len(missing):
        groups.append(Group(f"not stated ({len(missing)})", missing, CHANCE, "x"))
    return groups


def thin_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return as many rows as a reader can tell apart as points: chosen at random, the same every time."""
    if len(table) <= _MAX_POINTS:
        return table.reset_index(drop=True)
    chosen = np.random.default_rng(0).choice(len(table), _MAX_POINTS, replace=False)
    return table.iloc[np.sort(chosen)].reset_index(drop=True)


def thinning_text(n_shown: int, n_all: int, items: str = "scans") -> str:
    """Say that not all points are drawn, where that is so."""
    return f" {n_shown:,} of the {n_all:,} {items} are drawn, chosen at random." if n_shown < n_all else ""


def draw_groups(axes: Axes, x: pd.Series, y: pd.Series, groups: Sequence[Group]) -> None:
    """Draw each group with its colour and marker; many points as an image, not as vectors."""
    n_points = len(x)
    for group in groups:
        filled = group.marker != "x"
        axes.scatter(
            x.iloc[group.rows],
            y.iloc[group.rows],
            s=point_size(n_points) * (2 if group.marker == "." else 1),
            marker=group.marker,
            facecolor=group.color,
            edgecolor="white" if filled else None,
            linewidth=(0.4 if n_points <= MAX_POINTS_AS_VECTORS else 0.0) if filled else 1.0,
            alpha=0.8,
            label=group.label,
            rasterized=n_points > MAX_POINTS_AS_VECTORS,
        )


def marker_scale(n_points: int) -> float:
    """Return how much larger than its points a legend's markers are drawn, to be seen."""
    return float(np.sqrt(34 / point_size(n_points)))


def point_size(n_points: int) -> float:
    """Return the area of a marker, smaller where there are many points."""
    return float(np.clip(9000 / max(n_points, 1), 8, 34))
