"""Scatter plots: predictions against the truth, and maps of the embedding, in groups told apart without colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from neurocontrast.reporting import style
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import number_text, point_estimate
from neurocontrast.reporting.predictions import pool_repeats

MAPS = {"pca": ("pc1", "pc2", "Principal component"), "umap": ("umap1", "umap2", "UMAP dimension")}
"""Columns of map.tsv that hold each map, and the name of its axes."""

MAX_VECTORS = 1500
"""More points than this are drawn as an image inside the figure."""

_MAX_POINTS, _MAX_GROUPS = 3000, 12


def thin_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return as many rows as a reader can tell apart as points: chosen at random, the same every time."""
    if len(table) <= _MAX_POINTS:
        return table.reset_index(drop=True)
    chosen = np.random.default_rng(0).choice(len(table), _MAX_POINTS, replace=False)
    return table.iloc[np.sort(chosen)].reset_index(drop=True)


def about_thinning(n_shown: int, n_all: int, items: str) -> str:
    """Say that not all points are drawn, where that is so."""
    return f" {n_shown:,} of the {n_all:,} {items} are drawn, chosen at random." if n_shown < n_all else ""


def _point_size(n_points: int) -> float:
    return float(np.clip(9000 / max(n_points, 1), 8, 34))


def _draw_groups(axes: Axes, x: pd.Series, y: pd.Series, values: pd.Series, order: Sequence[str] = ()) -> list[str]:
    """Draw the rows of each value with its own colour and marker, the rare values together; return the labels."""
    counts = values.value_counts()
    names = [name for name in order if name in counts.index] or sorted(counts.index, key=str)
    if len(names) > _MAX_GROUPS:
        names = sorted(counts.index[: _MAX_GROUPS - 1], key=str)
    other, missing = values.notna() & ~values.isin(names), values.isna()
    groups = [
        (f"{len(counts) - len(names)} smaller ones", other, "#b0b7bf", "o"),
        *((label, values == name, style.look_of(place)["color"], style.look_of(place)["marker"])
          for place, (name, label) in enumerate(zip(names, style.distinct_labels(names, length=22), strict=True))),
        ("not stated", missing, style.CHANCE, "x"),
    ]  # fmt: skip
    groups = [(f"{label} ({here.sum()})", here, color, marker) for label, here, color, marker in groups if here.any()]
    for label, here, color, marker in groups:
        edge: Any = {} if marker == "x" else {"edgecolor": "white"}
        axes.scatter(
            x[here], y[here], s=_point_size(len(x)), marker=marker, facecolor=color, alpha=0.8, label=label,
            linewidth=1.0 if marker == "x" else 0.4 if len(x) <= MAX_VECTORS else 0.0,
            rasterized=len(x) > MAX_VECTORS, **edge,
        )  # fmt: skip
    return [label for label, *_ in groups]


def _marker_scale(n_points: int) -> float:
    """Return how much larger than the points a legend's markers are drawn, to be seen."""
    return float(np.sqrt(34 / _point_size(n_points)))


@style.styled
def draw_predicted(files: EvaluationFiles, *, residuals: bool = False) -> style.Picture:
    """Draw predicted values against true ones by site; or `residuals` (predicted − true), with their trend."""
    pooled, target, items = pool_repeats(files), style.plain_label(files.target), files.words.items
    everyone = pd.DataFrame({"site": pooled.get("site", "all"), "true": pooled["y_true"].astype(float)})
    everyone["predicted"] = pooled["y_score"].astype(float)
    everyone["residual"] = everyone["predicted"] - everyone["true"]
    everyone = everyone.dropna(subset=["residual"]).reset_index(drop=True)
    rows, ends = thin_rows(everyone), np.quantile(everyone["true"], [0, 1])
    figure, axes = style.new_figure(height=style.WIDTH + 0.1 * min(rows["site"].nunique(), _MAX_GROUPS))
    _draw_groups(axes, rows["true"], rows["residual" if residuals else "predicted"], rows["site"])
    line: Any = {"color": style.CHANCE, "linestyle": "--", "linewidth": 1.4}
    if residuals:
        axes.axhline(0, label="No error", **line)
        about = "Residual against the truth."
        if everyone["true"].nunique() > 2:
            slope, intercept = np.polyfit(everyone["true"], everyone["residual"], 1)
            shown = f"slope {number_text(slope, digits=2, signed=True)}"
            axes.plot(ends, intercept + slope * ends, color=style.INK, linewidth=1.8, label=f"Trend: {shown}")
            about += f" The fitted trend has {shown}."
        note = (
            " A negative slope means that low values are overestimated and high ones underestimated, as every shrunken "
            "prediction does; no residual is a “gap” before that is corrected."
        )
    else:
        axes.plot(ends, ends, label="Perfect prediction", **line)
        about = f"{'Prediction' if files.fixed else 'Out-of-fold prediction'} of {files.target} against the truth."
        mae, r2 = (number_text(point_estimate(files.metrics.get(key)), digits=2) for key in ("mae", "r2"))
        note = f" One point for each of the {items} (averaged over repeats, if any)."
        about += f" Mean absolute error {mae}, R² {r2}."
    axes.set(xlabel=f"True {target}", ylabel="Predicted − true" if residuals else f"Predicted {target}")
    style.legend_below(figure, axes, marker_scale=_marker_scale(len(rows)))
    return style.Picture(
        "residual_true" if residuals else "predicted_true",
        figure,
        alt=f"{about} Scatter of {len(everyone)} {items}.",
        caption=about + note + about_thinning(len(rows), len(everyone), items),
        numbers=everyone,
    )


def list_map_columns(files: EvaluationFiles) -> list[str]:
    """Return the columns of map.tsv to colour by, the target once."""
    points = pd.DataFrame() if files.points is None else files.points
    names = [name for name in ("target", "age", "sex", "site") if name in points and name != files.target]
    return [name for name in names if points[name].notna().any()]


@style.styled
def draw_map(files: EvaluationFiles, *, layout: str, column: str) -> style.Picture | None:
    """Draw one map of the embedding coloured by one column; None where the map was not computed."""
    first, second, axis_name = MAPS[layout]
    if files.points is None or not {first, second} <= set(files.points):
        return None
    placed = files.points.dropna(subset=[first, second])
    rows, items = thin_rows(placed), files.words.items
    if rows.empty:
        return None
    name, values = files.target if column == "target" else column, rows[column]
    figure, axes = style.new_figure(height=style.WIDTH * 0.95)
    if pd.api.types.is_numeric_dtype(values):
        known = values.notna()
        size, plain = _point_size(len(rows)), rows[known]
        axes.scatter(rows[first][~known], rows[second][~known], s=size, marker="x", color=style.CHANCE)
        drawn = axes.scatter(plain[first], plain[second], s=size, c=values[known], cmap="cividis", edgecolor="white",
                             alpha=0.9, linewidth=0.3, rasterized=len(rows) > MAX_VECTORS)  # fmt: skip
        figure.colorbar(drawn, ax=axes, shrink=0.9).set_label(style.plain_label(name))
        legend = "a colour scale"
    else:
        order = files.classes if column == "target" else ()
        legend = "; ".join(_draw_groups(axes, rows[first], rows[second], values, order))
        style.legend_below(figure, axes, marker_scale=_marker_scale(len(rows)))
    axes.set(title=f"Coloured by {style.plain_label(name)}", xlabel=f"{axis_name} 1", ylabel=f"{axis_name} 2")
    axes.tick_params(labelbottom=False, labelleft=False)
    return style.Picture(
        f"map_{layout}_{column}",
        figure,
        alt=f"{layout.upper()} map of the embedding, {len(rows)} {items}, coloured by {name}: {legend}.",
        caption=about_thinning(len(rows), len(placed), items).strip(),
        numbers=rows[[first, second, column]].rename(columns={column: name}),
    )
