"""Maps of the embedding: PCA and, where computed, UMAP, coloured by each column."""

from __future__ import annotations

import pandas as pd

from neurocontrast.reporting import style
from neurocontrast.reporting.page import Block, Input, Paragraph, Section, SectionBuilder, note, pictures
from neurocontrast.reporting.plots import MAX_VECTORS, about_thinning, draw_groups, point_size, thin_rows
from neurocontrast.reporting.read import EvaluationFiles
from neurocontrast.reporting.wording import IMAGES

__all__ = ["MAP"]

_TITLE = "Map of the embedding"
_MAPS = {"pca": ("pc1", "pc2", "Principal component"), "umap": ("umap1", "umap2", "UMAP dimension")}
"""Columns of map.tsv that hold each map, and the name of its axes."""
_ABOUT = {
    "pca": "The two directions of largest spread. Most of the embedding is not in this plane.",
    "umap": "Neighbours are kept together; distances between clusters, and their sizes, mean nothing.",
}


def _build(files: EvaluationFiles) -> Section:
    """Build the maps, one small multiple a column."""
    assert files.points is not None, "needed"
    names = [name for name in ("target", "age", "sex", "site") if name in files.points and name != files.target]
    names = [name for name in names if files.points[name].notna().any()]
    blocks: list[Block] = []
    for layout in _MAPS:
        drawn = pictures(*(_draw(files, files.points, layout, name) for name in names))
        blocks += [Paragraph(_ABOUT[layout], label=layout.upper() + "."), *drawn] if drawn else []
        if layout == "umap" and not drawn:
            blocks.append(note("No UMAP was computed; it is, where the package umap-learn is installed at evaluation."))
    lead = (
        "Each point is a scan; the same points are coloured several ways. Sites that lie apart mean that the scanner "
        "can be read off the embedding."
    )
    if files.words is IMAGES:
        lead = "Each point is an image. What lies apart here does so in the features; what overlaps here need not."
    return Section("map", _TITLE, blocks, lead=lead)


@style.styled
def _draw(files: EvaluationFiles, points: pd.DataFrame, layout: str, column: str) -> style.Picture | None:
    """Draw one map of the embedding coloured by one column; None where the map was not computed."""
    first, second, axis_name = _MAPS[layout]
    if not {first, second} <= set(points) or points[[first, second]].dropna().empty:
        return None
    placed = points.dropna(subset=[first, second])
    rows, items = thin_rows(placed), files.words.items
    name, values = files.target if column == "target" else column, rows[column]
    figure, axes = style.new_figure(height=style.WIDTH * 0.95)
    if pd.api.types.is_numeric_dtype(values):
        known, size = values.notna(), point_size(len(rows))
        axes.scatter(rows[first][~known], rows[second][~known], s=size, marker="x", color=style.CHANCE)
        drawn = axes.scatter(rows[first][known], rows[second][known], s=size, c=values[known], cmap="cividis",
                             edgecolor="white", linewidth=0.3, rasterized=len(rows) > MAX_VECTORS)  # fmt: skip
        figure.colorbar(drawn, ax=axes, shrink=0.9).set_label(style.plain_label(name))
        legend = "a colour scale"
    else:
        order = files.classes if column == "target" else ()
        legend = "; ".join(draw_groups(axes, rows[first], rows[second], values, order))
    axes.set(title=f"Coloured by {style.plain_label(name)}", xlabel=f"{axis_name} 1", ylabel=f"{axis_name} 2")
    axes.tick_params(labelbottom=False, labelleft=False)
    return style.Picture(
        f"map_{layout}_{column}",
        figure,
        alt=f"{layout.upper()} map of the embedding, {len(rows)} {items}, coloured by {name}: {legend}.",
        caption=about_thinning(len(rows), len(placed), items).strip(),
        numbers=rows[[first, second, column]].rename(columns={column: name}),
    )


MAP = SectionBuilder(
    "map",
    _TITLE,
    order=170,
    build=_build,
    inputs=(Input("map.tsv", "the map of the embedding", "points", needed=True),),
    covers="embedding map",
)
