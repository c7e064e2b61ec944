"""Points in groups that a reader can tell apart without colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from neurocontrast.reporting.style import CHANCE, MARKERS, PALETTE, distinct_labels

__all__ = ["Group", "draw_groups", "group_rows"]

_MAX_POINTS_AS_VECTORS = 1500


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
            linewidth=0.4 if filled else 1.0,
            alpha=0.8,
            label=group.label,
            rasterized=n_points > _MAX_POINTS_AS_VECTORS,
        )


def point_size(n_points: int) -> float:
    """Return the area of a marker, smaller where there are many points."""
    return float(np.clip(5000 / max(n_points, 1), 8, 34))
