"""Small multiples of a two-dimensional map of the embedding, each coloured by one column."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neurocontrast.reporting.figures.groups import (
    MAX_POINTS_AS_VECTORS,
    draw_groups,
    group_rows,
    marker_scale,
    point_size,
    thin_rows,
    thinning_text,
)
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.style import CHANCE, WIDTH, Picture, legend_below, new_figure, plain_label, styled

__all__ = ["MAPS", "draw_map", "list_map_columns"]

MAPS = {"pca": ("pc1", "pc2", "Principal component"), "umap": ("umap1", "umap2", "UMAP dimension")}
"""Columns of map.tsv that hold each map, and the name of its axes."""


def list_map_columns(files: EvaluationFiles) -> list[str]:
    """Return the columns of map.tsv to colour by, the target once."""
    if files.points is None:
        return []
    names = [name for name in ("target", "age", "sex", "site") if name in files.points]
    if files.target in names[1:]:
        names.remove(files.target)
    return [name for name in names if files.points[name].notna().any()]


@styled
def draw_map(files: EvaluationFiles, *, layout: str, column: str) -> Picture | None:
    """Draw one map coloured by one column; None where the map was not computed."""
    first, second, axis_name = MAPS[layout]
    if files.points is None or first not in files.points or second not in files.points:
        return None
    placed = files.points[files.points[first].notna() & files.points[second].notna()]
    rows = thin_rows(placed)
    if rows.empty:
        return None
    name = files.target if column == "target" else column
    values = rows[column]
    continuous = pd.api.types.is_numeric_dtype(values)
    groups = [] if continuous else group_rows(values, order=files.classes if column == "target" else None)
    figure, axes = new_figure(height=WIDTH * 0.86 + (0 if continuous else 0.11 * (len(groups) + 1)))
    if continuous:
        _draw_continuous(figure, axes, rows[first], rows[second], values, name)
    else:
        draw_groups(axes, rows[first], rows[second], groups)
        legend_below(figure, axes, marker_scale=marker_scale(len(rows)))
    axes.set(title=f"Coloured by {plain_label(name)}", xlabel=f"{axis_name} 1", ylabel=f"{axis_name} 2")
    axes.set_xticklabels([])
    axes.set_yticklabels([])
    legend = "a colour scale" if continuous else "; ".join(group.label for group in groups)
    return Picture(
        f"map_{layout}_{column}",
        figure,
        alt=f"{layout.upper()} map of the embedding, {len(rows)} {files.words.items}, coloured by {name}: {legend}.",
        caption=thinning_text(len(rows), len(placed), files.words.items).strip(),
        numbers=rows[[first, second, column]].rename(columns={column: name}),
    )


def _draw_continuous(figure: Figure, axes: Axes, x: pd.Series, y: pd.Series, values: pd.Series, name: str) -> None:
    there = values.notna()
    many = len(x) > MAX_POINTS_AS_VECTORS
    size = point_size(len(x))
    axes.scatter(x[~there], y[~there], s=size, marker="x", color=CHANCE, linewidth=1.0)
    points = axes.scatter(
        x[there], y[there], s=size, c=values[there], cmap="cividis", edgecolor="white", alpha=0.9,
        linewidth=0.0 if many else 0.3, rasterized=many,
    )  # fmt: skip
    colorbar = figure.colorbar(points, ax=axes, shrink=0.9)
    colorbar.set_label(plain_label(name))
