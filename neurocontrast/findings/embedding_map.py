"""Maps of the embedding: two principal components, coloured by each column."""

from __future__ import annotations

import pandas as pd

from neurocontrast.findings.finding import Finding
from neurocontrast.findings.folder import EvaluationFolder
from neurocontrast.page import style
from neurocontrast.page.blocks import Block, Paragraph, Section, pictures
from neurocontrast.page.style import MAX_VECTORS, about_thinning, draw_groups, point_size, thin_rows

_TITLE = "Map of the embedding"
_AXES = ["pc1", "pc2"]
_ABOUT = "The two directions of largest spread. Most of the embedding is not in this plane."


def show_map(files: EvaluationFolder) -> Section | None:
    """Return the maps, one small multiple a column; None without points."""
    points = files.table("map", *_AXES)
    if points is None:
        return None
    names = [name for name in ("target", "age", "sex", "site") if name in points and name != files.target]
    names = [name for name in names if points[name].notna().any()]
    drawn = pictures(*(_draw(files, points, name) for name in names))
    blocks: list[Block] = [Paragraph(_ABOUT, label="PCA."), *drawn] if drawn else []
    lead = f"Each point is one {files.words.item}. What lies apart here differs; what overlaps may differ too."
    if "site" in names:
        lead += " Sites that lie apart mean that the scanner can be read off the embedding."
    return Section("map", _TITLE, blocks, lead=lead)


@style.styled
def _draw(files: EvaluationFolder, points: pd.DataFrame, column: str) -> style.Picture | None:
    """Draw the map coloured by one column; None where no point has coordinates."""
    if not set(_AXES) <= set(points) or points[_AXES].dropna().empty:
        return None
    placed = points.dropna(subset=_AXES)
    rows, items = thin_rows(placed), files.words.items
    name, values = files.target if column == "target" else column, rows[column]
    figure, axes = style.new_figure(height=style.WIDTH * 0.95)
    if pd.api.types.is_numeric_dtype(values):
        known, size = values.notna(), point_size(len(rows))
        axes.scatter(rows["pc1"][~known], rows["pc2"][~known], s=size, marker="x", color=style.CHANCE)
        drawn = axes.scatter(rows["pc1"][known], rows["pc2"][known], s=size, c=values[known], cmap="cividis",
                             edgecolor="white", linewidth=0.3, rasterized=len(rows) > MAX_VECTORS)  # fmt: skip
        figure.colorbar(drawn, ax=axes, shrink=0.9).set_label(style.plain_label(name))
        legend = "a colour scale"
    else:
        order = files.classes if column == "target" else ()
        legend = "; ".join(draw_groups(axes, rows["pc1"], rows["pc2"], values, order))
    axes.set(
        title=f"Coloured by {style.plain_label(name)}", xlabel="Principal component 1", ylabel="Principal component 2"
    )
    axes.tick_params(labelbottom=False, labelleft=False)
    return style.Picture(
        f"map_pca_{column}",
        figure,
        alt=f"PCA map of the embedding, {len(rows)} {items}, coloured by {name}: {legend}.",
        caption=about_thinning(len(rows), len(placed), items).strip(),
        numbers=rows[[*_AXES, column]].rename(columns={column: name}),
    )


EMBEDDING_MAP = Finding("map", show_map)
