"""Maps of the embedding: PCA and, where computed, UMAP, coloured by each column."""

from __future__ import annotations

from neurocontrast.reporting.blocks import Block, Paragraph, Pictures, Section
from neurocontrast.reporting.figures.points import MAPS, draw_map, list_map_columns
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.predictions import tested_rows
from neurocontrast.reporting.section import Input, SectionBuilder
from neurocontrast.reporting.words import IMAGES

__all__ = ["MAP"]

_TITLE = "Map of the embedding"
_ABOUT = {
    "pca": "The two directions of largest spread. Most of the embedding is not in this plane.",
    "umap": "Neighbours are kept together; distances between clusters, and their sizes, mean nothing.",
}


def _build(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the maps, one small multiple a column."""
    del options
    assert files.points is not None, "needed"
    blocks: list[Block] = []
    for layout in MAPS:
        drawn = (draw_map(files, layout=layout, column=column) for column in list_map_columns(files))
        pictures = [picture for picture in drawn if picture is not None]
        if pictures:
            blocks += [Paragraph(_ABOUT[layout], label=layout.upper() + "."), Pictures(pictures)]
    if not any(isinstance(block, Paragraph) and block.label == "UMAP." for block in blocks):
        text = "No UMAP was computed; it is, where the package umap-learn is installed at evaluation."
        blocks.append(Paragraph(text, role="note"))
    lead = (
        "Each point is a scan; the same points are coloured several ways. Sites that lie apart mean that the scanner "
        "can be read off the embedding."
    )
    if files.words is IMAGES:
        tested = tested_rows(files)
        n, placed = int((tested["repeat"] == tested["repeat"].min()).sum()), len(files.points)
        some = f" {placed:,} of the {n:,} tested images have a place in it." if placed < n else ""
        lead = "Each point is an image. What lies apart here does so in the features; what overlaps here need not."
        lead += some
    return Section("map", _TITLE, blocks, lead=lead)


MAP = SectionBuilder(
    "map",
    _TITLE,
    order=170,
    build=_build,
    inputs=(Input("map.tsv", "the map of the embedding", "points", needed=True),),
    covers="embedding map",
)
